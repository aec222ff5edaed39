"""What Kubernetes makes of a Pod's node affinity, and when a Node is where a placement wants it.

Written from the API reference of NodeSelectorTerm and from the documentation of the levels, and sharing nothing with
the service, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from support.builders import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BACKEND, IB = "backend.coreweave.cloud", "ib.coreweave.cloud"
FLAVOR = f"{BACKEND}/flavor"
RACK, ZONE, HOSTNAME = "node.coreweave.cloud/rack", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REGION = "topology.kubernetes.io/region"
CLIQUE, ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"
RENAMED = ("fabric", "superpod", "leafgroup")

_COREWEAVE = {
    "region": REGION,
    "zone": ZONE,
    **{name: f"{BACKEND}/{name}" for name in RENAMED},
    "rack": RACK,
    "hostname": HOSTNAME,
}
_NVLINK = {
    **{tier: f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf")},
    "accelerator": ACCELERATOR,
    "gpu.clique": CLIQUE,
    "hostname": HOSTNAME,
}
TOPOLOGIES: Mapping[str, Mapping[str, str]] = {
    "coreweave": _COREWEAVE,
    "coreweave-infiniband": _COREWEAVE,
    "coreweave-roce": _COREWEAVE,
    "topograph-nvlink": _NVLINK,
    "kubernetes": {"region": REGION, "zone": ZONE, "hostname": HOSTNAME},
}
"""Levels, farthest first: their short names and their keys."""


class Node(NamedTuple):
    """A Node."""

    name: str
    labels: Mapping[str, str]


class Wanted(NamedTuple):
    """A level by its short name, and the domains that are meant; all of them if there are none."""

    level: str
    values: tuple[str, ...] = ()


def lands(affinity: Any, node: Node) -> bool:
    """Whether the required node affinity of a Pod lets it onto a Node."""
    required = (((affinity or {}).get("nodeAffinity")) or {}).get(REQUIRED)
    if required is None:
        return True
    return any(matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def score(affinity: Any, node: Node) -> int:
    """The sum of the weights of the preferred terms that a Node meets."""
    preferred = (((affinity or {}).get("nodeAffinity")) or {}).get(PREFERRED) or []
    return sum(each["weight"] for each in preferred if matches(each["preference"], node))


def matches(term: Any, node: Node) -> bool:
    """Whether a Node meets a term: one without requirements, or with one that is malformed, none does."""
    if not isinstance(term, dict):
        return False
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    if not isinstance(expressions or [], list) or not isinstance(fields or [], list):
        return False
    return all(_holds(each, node.labels) for each in expressions or []) and all(
        _holds(each, {"metadata.name": node.name}) for each in fields or []
    )


def _holds(requirement: Any, labels: Mapping[str, str]) -> bool:
    if not isinstance(requirement, dict):
        return False
    operator, values, found = (
        requirement.get("operator"),
        requirement.get("values") or [],
        labels.get(_key(requirement)),
    )
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return False
    if operator in ("Exists", "DoesNotExist"):
        return not values and (found is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return bool(values) and (found in values) == (operator == "In")
    return operator in ("Gt", "Lt") and len(values) == 1 and _compares(operator, found, values[0])


def _key(requirement: Json) -> str:
    return str(requirement.get("key"))


def _compares(operator: str, found: str | None, value: str) -> bool:
    try:
        label, bound = int(found or ""), int(value)
    except ValueError:
        return False
    return label > bound if operator == "Gt" else label < bound


def is_placed(node: Node, topology: str, wanted: Sequence[Wanted]) -> bool:
    """Whether a Node is in all the domains and is of the topology's kind, by the newer names or by the older ones."""
    return any(_is_of_kind(node, topology, old) and _is_in(node, topology, wanted, old=old) for old in (False, True))


def is_in(node: Node, topology: str, wanted: Sequence[Wanted]) -> bool:
    """Whether a Node is in all the domains, by the newer names or by the older ones."""
    return any(_is_in(node, topology, wanted, old=old) for old in (False, True))


def _is_of_kind(node: Node, topology: str, old: bool) -> bool:  # noqa: FBT001
    if topology == "coreweave-infiniband":
        return f"{IB}/fabric" in node.labels if old else node.labels.get(FLAVOR) == "infiniband"
    if topology == "coreweave-roce":
        return not old and node.labels.get(FLAVOR) == "roce"
    return True


def _is_in(node: Node, topology: str, wanted: Sequence[Wanted], *, old: bool) -> bool:
    for level, values in wanted:
        if level == "nvlink":
            found = node.labels.get(CLIQUE, node.labels.get(ACCELERATOR))
        else:
            key = TOPOLOGIES[topology][level]
            found = node.labels.get(key.replace(BACKEND, IB) if old and level in RENAMED else key)
        if found is None or (values and found not in values):
            return False
    return True


_DOMAINS = st.sampled_from(["1", "2"])
_KEYS = (
    *(ZONE, RACK, CLIQUE, ACCELERATOR, f"{IB}/fabric", f"{IB}/superpod", f"{IB}/leafgroup"),
    *(f"{BACKEND}/{name}" for name in RENAMED),
    *(key for name, key in _NVLINK.items() if name in ("core", "spine", "leaf")),
)
_ODD_LABELS = st.fixed_dictionaries(
    {HOSTNAME: _DOMAINS},
    optional={**dict.fromkeys(_KEYS, _DOMAINS), FLAVOR: st.sampled_from(["infiniband", "roce"]), "disk": _DOMAINS},
)


@st.composite
def _labels(draw: st.DrawFn) -> Json:
    """Labels as a cluster writes them: a Node has what it has under the older names, the newer ones, or both."""
    plain: Json = {HOSTNAME: draw(_DOMAINS)}
    for key in (REGION, ZONE, RACK, CLIQUE, ACCELERATOR, *(_NVLINK[tier] for tier in ("core", "spine", "leaf"))):
        if draw(st.integers(0, 4)):
            plain[key] = draw(_DOMAINS)
    families = draw(st.sampled_from([(), (BACKEND,), (IB,), (BACKEND, IB), (BACKEND,)]))
    for name in RENAMED:
        if draw(st.integers(0, 5)):
            domain = draw(_DOMAINS)
            plain |= {f"{family}/{name}": domain for family in families}
    if BACKEND in families:
        plain[FLAVOR] = "infiniband" if IB in families else draw(st.sampled_from(["infiniband", "roce"]))
    return plain


def _wanted_labels(topology: str, wanted: Sequence[Wanted], *, old: bool) -> Json:
    """Labels by which a Node is where a placement wants it."""
    found = {f"{IB}/fabric": "1"} if old else {FLAVOR: "roce" if topology.endswith("roce") else "infiniband"}
    for level, values in wanted:
        nvlink = ACCELERATOR if old else CLIQUE
        key = nvlink if level == "nvlink" else TOPOLOGIES[topology][level]
        found[key.replace(BACKEND, IB) if old else key] = (values or ("1",))[0]
    return found


@st.composite
def nodes_for(draw: st.DrawFn, topology: str, wanted: Sequence[Wanted], *, real: bool = False) -> list[Node]:
    """Nodes of which some are where a placement wants them, but for a label at times. real: only as clusters do it."""
    found = []
    for index in range(draw(st.integers(1, 6))):
        labels = dict(draw(_labels() if real else st.one_of(_labels(), _ODD_LABELS)))
        if not real and draw(st.booleans()):
            labels |= _wanted_labels(topology, wanted, old=draw(st.booleans()))
            if draw(st.booleans()):
                del labels[draw(st.sampled_from(sorted(labels)))]
        found.append(Node(f"n{index}", labels))
    return found
