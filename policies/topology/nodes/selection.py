"""Whether a single Node meets what a Pod requires of its labels, and whether the Pod tolerates its taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from policies.engine.facts import Taint
from policies.engine.match import holds
from policies.topology.gang.gang import Requirement, Toleration


def meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement."""
    return holds(requirement.operator, labels.get(requirement.key), requirement.values)


def tolerates_all(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether tolerations tolerate all of these taints."""
    return all(any(taint.is_tolerated(t.key, t.operator, t.value, t.effect) for t in tolerations) for taint in taints)
