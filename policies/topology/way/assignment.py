"""What templates get so that their gangs stay together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject
from policies.engine.rule import Note
from policies.objects.fieldpath import Location
from policies.topology.constraint import Constraint
from policies.topology.gang.address import Address
from policies.topology.term import Term
from policies.topology.way.permission import Way
from policies.topology.way.podaffinity import APART, Together

Edit = tuple[Location, Any]
"""A location and its new value; UNSET removes the value there."""


class Assignment(Struct, frozen=True):
    """What is written into one template. way: who keeps its Pods together; empty if nobody has to, or not yet.

    terms, preferences: for the node affinity. domain: the chosen one that they stand for. together: Pod affinity.
    scheduling: the node label key of a constraint for Kubernetes' own scheduling. annotations: for
    the template itself, with their values. is_makeshift: whether no way could keep the Pods together.
    """

    way: Way | Literal[""] = ""
    terms: Sequence[Term] = ()
    preferences: Sequence[JsonObject] = ()
    domain: Address = ()
    together: Together = APART
    scheduling: str = ""
    annotations: tuple[tuple[str, str], ...] = ()
    is_makeshift: bool = False


class Plan(Struct, frozen=True):
    """The assignments of templates by their paths, and what is told about them.

    reasons: why the ways that were tried cannot keep the Pods of other templates together. warnings: for the requester.
    decisions: in a sentence each, for the object's annotation. edits: of the object outside of its affinity.
    """

    assignments: Mapping[str, Assignment] = {}
    reasons: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def ways(self) -> tuple[str, ...]:
        """Who keeps the Pods of each template together, `none` if nobody can; without those that are placed later."""
        made = ("none" if assignment.is_makeshift else assignment.way for assignment in self.assignments.values())
        return tuple(way for way in made if way)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was chosen, for the audit log."""
        return (Note("placement", "; ".join(self.decisions)),) if self.decisions else ()

    def joined(self, other: Plan) -> Plan:
        """Both plans as one."""
        return Plan(
            {**self.assignments, **other.assignments},
            {**self.reasons, **other.reasons},
            self.warnings + other.warnings,
            self.decisions + other.decisions,
            self.edits + other.edits,
        )


NO_PLAN = Plan()


def named(way: Way | Literal[""], constraints: Iterable[Constraint], *, is_makeshift: bool = False) -> Plan:
    """The plan for templates that get no more than the domains which their placements name."""
    return Plan(
        {c.template.path: Assignment(way, c.terms, c.own_preferences, is_makeshift=is_makeshift) for c in constraints}
    )
