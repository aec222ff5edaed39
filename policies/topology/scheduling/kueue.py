"""Kueue's annotations for topology-aware scheduling. Kueue does not read those of KAI.

Kueue chooses the domain when it admits a workload, and accepts one of these annotations on a pod template. Source: the
page "Topology Aware Scheduling" of Kueue's documentation, and the validation in pkg/controller/jobframework.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from policies.engine.interruption import FactUnavailable, Key
from policies.engine.request import mapping
from policies.engine.violation import Violation, quote
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint
from policies.topology.refusal import as_warning

PREFIX: Final = "kueue.x-k8s.io/"
REQUIRED: Final = f"{PREFIX}podset-required-topology"
PREFERRED: Final = f"{PREFIX}podset-preferred-topology"
OWN: Final = (REQUIRED, PREFERRED)
"""The annotations that are written for a placement."""

UNKNOWN: Final = "Kueue does not know the level, and its Pods get no gate"
"""Why nobody keeps a placement of what Kueue manages."""

_UNCONSTRAINED = f"{PREFIX}podset-unconstrained-topology"


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


def annotation(constraint: Constraint) -> tuple[str, str] | None:
    """The annotation, as name and value, that says a placement; None if there is no key to name.

    A required level comes before a preferred one. A union of levels has no key of its own.
    """
    topology = constraint.topology
    for name, placement in ((REQUIRED, constraint.required), (PREFERRED, constraint.preferred)):
        if placement is not None and topology is not None:
            return None if placement.level in topology.unions else (name, placement.level.name)
    return None


def has(template: Template) -> bool:
    """Whether a template has one of Kueue's annotations for all of its Pods."""
    return any(template.annotation(name) is not None for name in (*OWN, _UNCONSTRAINED))


def manages(template: Template) -> bool:
    """Whether a Pod is Kueue's: it has a gate, a label or an annotation of Kueue's."""
    held = (*mapping(template.metadata, "labels"), *mapping(template.metadata, "annotations"), *template.gates)
    return any(key.startswith(PREFIX) for key in held)


def warnings(constraint: Constraint, flavored: Collection[str] | None) -> Iterator[Violation]:
    """What Kueue will not do. flavored: the topologies that ResourceFlavors name; None if that is not known."""
    topology, required, preferred = constraint.topology, constraint.required, constraint.preferred
    if topology is None:
        return
    if required is not None and preferred is not None:
        yield as_warning(
            f"Kueue takes one level: required {quote(topology.called(required.level))} counts, "
            f"preferred {quote(topology.called(preferred.level))} does not"
        )
    for _, placement in constraint.placements:
        name = topology.called(placement.level)
        if placement.is_named:
            yield as_warning(
                f"Kueue takes levels only: of {quote(placement.called(topology))} it is told {quote(name)}; choose the "
                "domain by a node selector"
            )
        if placement.level in topology.unions:
            keys = placement.level.beside or ", ".join(placement.level.keys)
            yield as_warning(f"Kueue does not know {quote(name)}: name one of its levels, {keys}")
    if flavored is not None and topology.name not in flavored:
        yield as_warning(
            f"no ResourceFlavor of Kueue names topology {quote(topology.name)}, so Kueue admits nothing that needs it"
        )
