"""Where the value of an expression comes from: places in the Pod, lists made of them, constants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from policies.cel.syntax.ast import Node
from policies.objects.fieldpath import Pattern, Wildcard

ROOTS: Final = ("object", "oldObject")


@dataclass(frozen=True, slots=True)
class Origin:
    """The places, each with `object` or `oldObject` first, from which a value may come.

    items: of the elements of a list that is made in the expression. texts: the constants that the value may be; None if
    it may be another. optional: whether it is an optional value.
    """

    at: frozenset[Pattern] = frozenset()
    items: Origin | None = None
    texts: frozenset[str] | None = None
    optional: bool = False

    def __or__(self, other: Origin) -> Origin:
        """The origin of a value that has one of two."""
        either = self.items or other.items
        both = self.items | other.items if self.items and other.items else either
        texts = None if self.texts is None or other.texts is None else self.texts | other.texts
        return Origin(self.at | other.at, both, texts, self.optional or other.optional)

    @property
    def elements(self) -> Origin:
        """The origin of the elements of a list, or of the values of a map."""
        of_places = Origin(frozenset((*place, Wildcard.ITEMS) for place in self.at))
        if self.items is None:
            return of_places
        return of_places | self.items if of_places.at else self.items

    def below(self, key: str) -> Origin:
        """The origin of the value of a key. A list that was made here has none."""
        return Origin(frozenset((*place, key) for place in self.at), optional=self.optional)

    @property
    def plain(self) -> Origin:
        """The origin of the value in an optional one."""
        return replace(self, optional=False)

    @property
    def perhaps(self) -> Origin:
        """The origin of an optional one of this value."""
        return replace(self, optional=True)


COMPUTED: Final = Origin()


@dataclass(frozen=True, slots=True)
class Part:
    """A rewritten expression and where its value comes from.

    soft: if the Pod has an empty map where the template may have nothing, the optional value of the template.
    whole: the expression for the value as a whole, if that is another one.
    """

    node: Node
    origin: Origin = field(default=COMPUTED)
    soft: Node | None = None
    whole: Node | None = None
