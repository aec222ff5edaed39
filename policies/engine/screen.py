"""Rules that are judged together, because one look at a request shows that nearly all of them have nothing to say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest


class Names(tuple[str, ...]):
    """The names of the rules for one kind of request. It is equal only to itself, so that it is a quick key."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class Screen(Protocol):
    """Rules that are judged together. names: theirs, in their order."""

    @property
    def names(self) -> Names:
        """The names of the rules."""
        ...

    def asked(self, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """The rules that have to be asked one by one; all others have no violations and nothing else to say.

        Raises TimeLimitError, which names the rule under evaluation as its policy.
        """
        ...


class Screener(Protocol):
    """What several rules have in common. Rules with the same one can be judged together."""

    def screen(self, names: Sequence[str]) -> Screen:
        """The screen of some of its rules."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether `prepare` would make screens faster that have been used."""
        ...

    def prepare(self) -> None:
        """Make them faster. This may take tenths of a second."""
        ...
