"""NVL Domains, which no label of Nodes names: several cliques have the same ClusterUUID before the dot.

A Node in a clique counts as one with a further label, by which domains are chosen like those of other levels. What is
written for a Pod names the cliques that there are. Source: Topograph's "Choosing between accelerator and
nvidia.com/gpu.clique for scheduling".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from policies.engine.match import SelectorRequirement
from policies.vocabulary import CLIQUE

NVL_DOMAIN = "nvidia.com/nvl-domain"
"""The label that is not there: the ClusterUUID of a clique."""

Cliques = Mapping[str, Sequence[str]]
"""The cliques of each NVL Domain."""


def domain(clique: str) -> str:
    """The NVL Domain of a clique; empty for a value of another form."""
    return clique.rpartition(".")[0]


def labelled(labels: dict[str, str]) -> dict[str, str]:
    """The labels of a Node, with its NVL Domain if it is in a clique."""
    clique = labels.get(CLIQUE)
    return labels if clique is None or not domain(clique) else {**labels, NVL_DOMAIN: domain(clique)}


def cliques(nodes: Iterable[Mapping[str, str]]) -> Cliques:
    """The cliques of each NVL Domain, by the labels of Nodes."""
    found: dict[str, set[str]] = {}
    for labels in nodes:
        if NVL_DOMAIN in labels:
            found.setdefault(labels[NVL_DOMAIN], set()).add(labels[CLIQUE])
    return {name: sorted(members) for name, members in found.items()}


def written(requirement: SelectorRequirement, known: Cliques) -> SelectorRequirement:
    """A requirement as Nodes can meet it. A domain of which no clique is known stays, and is met by none."""
    if requirement.key != NVL_DOMAIN:
        return requirement
    values = (clique for value in requirement.values for clique in known.get(value, (value,)))
    return replace(requirement, key=CLIQUE, values=tuple(dict.fromkeys(values)))
