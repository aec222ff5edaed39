"""The record of what was written into node affinity, so that it can be taken out again.

It is an annotation of the object whose templates were translated: JSON by the template's path, with each term that was
written and the user's term that it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject
from policies.topology.annotation import RECORD, annotations_of

Created = Literal["", "nodeAffinity", "affinity"]


class RecordError(Exception):
    """A record that cannot be read."""


class Written(
    Struct, frozen=True, omit_defaults=True, rename={"origin": "from", "terms": "to"}, forbid_unknown_fields=True
):
    """Terms that stand for one of the user's, or for none of his."""

    terms: tuple[Any, ...]
    origin: Any = None


class Entry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What was written into one template. created: the outermost map that was made for it.

    earlier: what was written for earlier placements, the latest first: a rollback brings the template of then.
    """

    required: tuple[Written, ...] = ()
    preferred: tuple[Any, ...] = ()
    created: Created = ""
    earlier: tuple[Entry, ...] = ()


NOTHING = Entry()
# As many revisions as Kubernetes keeps of a workload's template (revisionHistoryLimit).
REMEMBERED = 10
Record = Mapping[str, Entry]
_DECODER = msgspec.json.Decoder(dict[str, Entry])
_ENCODER = msgspec.json.Encoder()


def read(obj: JsonObject) -> Record:
    """The record that an object carries, empty where it carries none. Raises RecordError."""
    text = annotations_of(obj).get(RECORD)
    if text is None:
        return {}
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def readable(obj: JsonObject) -> Record:
    """The record that an object carries, empty where it carries none that can be read."""
    try:
        return read(obj)
    except RecordError:
        return {}


def remembering(entry: Entry, last: Entry) -> Entry:
    """An entry that knows what was written before it."""
    alone = replace(last, earlier=())
    earlier = tuple(each for each in (alone, *last.earlier) if each not in (entry, NOTHING))
    return replace(entry, earlier=earlier[:REMEMBERED])


def write(record: Record) -> str:
    """The annotation's value; empty for a record of nothing."""
    entries = {path: entry for path, entry in record.items() if entry != NOTHING}
    return _ENCODER.encode(entries).decode() if entries else ""
