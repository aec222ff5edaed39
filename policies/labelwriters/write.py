"""A write that a mutation may make, with what is known of its place before any object is there."""

from __future__ import annotations

from typing import NamedTuple

from policies.objects.fieldpath import Pattern, Step


class Key(NamedTuple):
    """A key on the way to a place. whole: False if `text` is only its beginning, and the rest is computed."""

    text: str
    whole: bool = True


ANY = Key("", whole=False)

Place = tuple[Key, ...]


class Write(NamedTuple):
    """A write at a place. below: whether it may write anything below. removes: whether it may remove what is there."""

    place: Place
    below: bool = False
    removes: bool = False


EVERYTHING = Write((), below=True, removes=True)


def key_written(write: Write, labels: Pattern, *, kept: bool) -> Key | None:
    """The key that a write affects in a map of labels; None if it affects none.

    kept: whether a removal counts.
    """
    if not all(_may_be(key, step) for key, step in zip(write.place, labels, strict=False)):
        return None
    if write.removes and not write.below and not kept:
        return None
    if len(write.place) > len(labels):
        return write.place[len(labels)]
    return ANY if write.below or write.removes else None


def _may_be(key: Key, step: Step) -> bool:
    if not isinstance(step, str):
        return True
    return key.text == step if key.whole else step.startswith(key.text)
