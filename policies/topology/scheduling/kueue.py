"""Kueue's annotations for topology-aware scheduling. Kueue does not read those of KAI.

Kueue chooses the domain when it admits a workload, and accepts one of these annotations on a pod template. Source: the
page "Topology Aware Scheduling" of Kueue's documentation, and the validation in pkg/controller/jobframework.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from policies.engine.lookup import FactUnavailable, Key
from policies.engine.request import JsonObject, mapping
from policies.engine.violation import Violation, quote
from policies.topology.constraint import Constraint
from policies.topology.refusal import as_warning
from policies.topology.topology import Topology

QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of a workload that Kueue manages."""

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"

Annotation = tuple[str, str]
"""The name and the value of an annotation."""


def is_queued(obj: JsonObject | None) -> bool:
    """Whether Kueue manages a workload."""
    return bool(mapping(mapping(obj, "metadata"), "labels").get(QUEUE))


class FlavorsKey(Key[frozenset[str] | None], Struct, frozen=True):
    """The key of the topologies that ResourceFlavors name; None if they are not known."""

    @property
    def missing(self) -> str:
        """The message that they are not known."""
        return "the ResourceFlavors of Kueue are not known yet"

    def failure(self, reason: str) -> frozenset[str] | FactUnavailable | None:
        """Nothing is known of them, and nothing said."""
        del reason
        return None


def annotation(constraint: Constraint) -> Annotation | None:
    """The annotation that a template gets for its placement; None if it has one of its own, or no key to name.

    A required level comes before a preferred one. A union of levels has no key of its own.
    """
    topology = constraint.topology
    if topology is None or has_own(constraint):
        return None
    for name, placement in ((REQUIRED, constraint.required), (PREFERRED, constraint.preferred)):
        if placement is not None:
            return None if placement.level in topology.unions else (name, placement.level.name)
    return None


def has_own(constraint: Constraint) -> bool:
    """Whether a template has an annotation of Kueue's that was not written for its placement."""
    template = constraint.template
    present = mapping(mapping(template.value, "metadata"), "annotations")
    return any(
        name in present and (name, present[name]) not in template.entry.annotations
        for name in (REQUIRED, PREFERRED, _UNCONSTRAINED)
    )


def warnings(constraint: Constraint, flavored: Collection[str] | None) -> Iterator[Violation]:
    """What Kueue will not do. flavored: the topologies that ResourceFlavors name; None if that is not known."""
    topology = constraint.topology
    if topology is None:
        return
    if constraint.required is not None and constraint.preferred is not None:
        yield as_warning(
            f"Kueue takes one level: required {quote(topology.called(constraint.required.level))} counts, "
            f"preferred {quote(topology.called(constraint.preferred.level))} does not"
        )
    yield from _about_topology(constraint, topology, flavored)


def _about_topology(
    constraint: Constraint, topology: Topology, flavored: Collection[str] | None
) -> Iterator[Violation]:
    for _, placement in constraint.placements:
        if placement.level in topology.unions:
            name, keys = topology.called(placement.level), placement.level.beside or ", ".join(placement.level.keys)
            yield as_warning(f"Kueue does not know {quote(name)}: name one of its levels, {keys}")
    if flavored is not None and topology.name not in flavored:
        yield as_warning(
            f"no ResourceFlavor of Kueue names topology {quote(topology.name)}, so Kueue admits nothing that needs it"
        )
