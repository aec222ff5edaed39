"""Fields in which a level of a named topology stands: of Grove's and Dynamo's objects, and of KAI's PodGroups.

Sources: operator/api/core/v1alpha1/podcliqueset.go of Grove (`packDomain` before `pack`), the topology types of the
operator of Dynamo, pkg/apis/scheduling/v2alpha2/podgroup_types.go of KAI Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from policies.engine.request import JsonObject, mapping
from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse
from policies.topology.schemes.mention import Mention, Sort

POD_GROUP: Final = ("scheduling.run.ai", "PodGroup")
GROVE, KAI = "Grove", "KAI"
_NAMES = ("topologyName", "clusterTopologyName", "topologyProfile", "topology")
_PLACES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("grove.io", "PodCliqueSet"): (
        *("spec.template", "spec.template.podCliqueScalingGroups[*]", "spec.template.cliques[*]"),
    ),
    ("nvidia.com", "DynamoGraphDeployment"): ("spec", "spec.components[*]", "spec.services.*"),
    POD_GROUP: ("spec", "spec.subGroups[*]"),
}
PLACES: Final[Mapping[tuple[str, str], tuple[Pattern, ...]]] = {
    kind: tuple(parse(f"{place}.topologyConstraint") for place in places) for kind, places in _PLACES.items()
}
"""Where objects of a kind have their constraints, the one that the others inherit the topology from first."""

_LEVELS: Final[tuple[tuple[tuple[str, ...], Sort], ...]] = (
    (("packDomain",), "required"),
    (("pack", "required"), "required"),
    (("requiredTopologyLevel",), "required"),
    (("pack", "preferred"), "preferred"),
    (("preferredTopologyLevel",), "preferred"),
)


def mentions(obj: JsonObject | None, kind: tuple[str, str]) -> Iterator[Mention]:
    """What the constraints in an object name. kind: its group and kind."""
    patterns = PLACES.get(kind, ())
    reader = KAI if kind == POD_GROUP else GROVE
    inherited = _name(mapping({"": lookup(obj, tuple(map(str, patterns[0])))}, "")) if patterns else None
    for pattern in patterns:
        for place, constraint in locate(obj, pattern):
            if isinstance(constraint, dict):
                yield from _levels(place, constraint, reader, inherited)


def _levels(place: Location, constraint: JsonObject, reader: str, inherited: object) -> Iterator[Mention]:
    name = _name(constraint) or inherited
    for steps, sort in _LEVELS:
        value = lookup(constraint, steps)
        if value in (None, ""):
            continue
        at, problem = (*place, *steps), ""
        if not name:
            field = "topology" if reader == KAI else "topologyName"
            problem = f"is a level of no topology. Name one in {field}."
        yield Mention(at, value, reader, sort, name or "", problem)


def _name(constraint: JsonObject) -> object:
    return next((constraint[field] for field in _NAMES if constraint.get(field)), None)
