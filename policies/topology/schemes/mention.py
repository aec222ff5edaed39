"""A level of a topology that an object names in a way of its own, outside of KAI's annotations."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from policies.objects.fieldpath import Location, render

Sort = Literal["required", "preferred", "slice", "unconstrained", "exclusive"]
"""What is asked of the domains: all Pods in one, as near together as can be, a part of the Pods in one, room on any
Nodes, or one for each group of Pods that no other such group shares."""


class Mention(Struct, frozen=True):
    """What is named, and where.

    location, value: of the annotation or field. reader: who acts on it. topology: the name of the topology whose level
    is meant; None where the value is the key of a node label. problem: why nobody acts on it, or will not as it is
    written, with what to do; empty if only the level has to be looked at. groups: how many groups of Pods need a domain
    each; None if it is not known.
    """

    location: Location
    value: Any
    reader: str
    sort: Sort
    topology: Any = None
    problem: str = ""
    groups: int | None = None

    @property
    def path(self) -> str:
        """The location as Kubernetes writes field paths."""
        return render(self.location)
