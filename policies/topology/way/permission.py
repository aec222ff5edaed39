"""The ways that an operator permits, by topology and Namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from policies.engine.match import EVERYTHING, LabelSelector
from policies.glob import matches

Way = Literal["kueue", "workload", "domain", "affinity", "labels"]
"""Who keeps the Pods of a gang together: Kueue; Kubernetes' own workload scheduling; a domain that is chosen and
written as node affinity; Pod affinity of the gang to itself; nobody, as labels alone keep no two Pods together."""

USUAL: tuple[Way, ...] = ("kueue", "workload", "domain", "affinity")


class Permission(Struct, frozen=True):
    """The ways for placements in some topologies (globs of names) and Namespaces."""

    topologies: tuple[str, ...] = ("*",)
    namespaces: LabelSelector = EVERYTHING
    ways: tuple[Way, ...] = USUAL


def permitted(
    permissions: Sequence[Permission], topology: str, labels: Callable[[], Mapping[str, str]]
) -> tuple[Way, ...]:
    """The ways of the first permission for a topology and Namespace; the usual ones if there is none.

    labels: those of the Namespace, asked for only if a permission depends on them.
    """
    for permission in permissions:
        if matches(topology, permission.topologies) and (
            not permission.namespaces.requirements or permission.namespaces.matches(labels())
        ):
            return permission.ways
    return USUAL
