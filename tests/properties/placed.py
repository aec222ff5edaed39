"""Placements as people may write them, with what they mean, and node affinity that stands there already."""

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

_COREWEAVE_KEYS = {
    "region": REGION,
    "zone": ZONE,
    **{name: f"{BACKEND}/{name}" for name in RENAMED},
    "rack": RACK,
    "hostname": HOSTNAME,
}
_NVLINK_KEYS = {
    **{tier: f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf")},
    "accelerator": ACCELERATOR,
    "gpu.clique": CLIQUE,
    "hostname": HOSTNAME,
}
TOPOLOGIES: Mapping[str, Mapping[str, str]] = {
    "coreweave": _COREWEAVE_KEYS,
    "coreweave-infiniband": _COREWEAVE_KEYS,
    "coreweave-roce": _COREWEAVE_KEYS,
    "topograph-nvlink": _NVLINK_KEYS,
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
    operator, values = requirement.get("operator"), requirement.get("values") or []
    found = labels.get(str(requirement.get("key")))
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return False
    if operator in ("Exists", "DoesNotExist"):
        return not values and (found is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return bool(values) and (found in values) == (operator == "In")
    return operator in ("Gt", "Lt") and len(values) == 1 and _compares(operator, found, values[0])


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
_LABEL_KEYS = (
    *(ZONE, RACK, CLIQUE, ACCELERATOR, f"{IB}/fabric", f"{IB}/superpod", f"{IB}/leafgroup"),
    *(f"{BACKEND}/{name}" for name in RENAMED),
    *(key for name, key in _NVLINK_KEYS.items() if name in ("core", "spine", "leaf")),
)
_ODD_LABELS = st.fixed_dictionaries(
    {HOSTNAME: _DOMAINS},
    optional={
        **dict.fromkeys(_LABEL_KEYS, _DOMAINS),
        FLAVOR: st.sampled_from(["infiniband", "roce"]),
        "disk": _DOMAINS,
    },
)


@st.composite
def _labels(draw: st.DrawFn) -> Json:
    """Labels as a cluster writes them: a Node has what it has under the older names, the newer ones, or both."""
    plain: Json = {HOSTNAME: draw(_DOMAINS)}
    for key in (REGION, ZONE, RACK, CLIQUE, ACCELERATOR, *(_NVLINK_KEYS[tier] for tier in ("core", "spine", "leaf"))):
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


TOPOLOGY = "kai.scheduler/topology"
HARD, SOFT = f"{TOPOLOGY}-required-placement", f"{TOPOLOGY}-preferred-placement"
# Few levels, so that placements, terms and Nodes meet often; the names of all are tried elsewhere.
_COREWEAVE = ["zone", "fabric", "superpod", "leafgroup", "rack"]
_LEVELS = {
    **{name: _COREWEAVE for name in TOPOLOGIES if name.startswith("coreweave")},
    "topograph-nvlink": ["accelerator", "gpu.clique", "hostname"],
    "kubernetes": ["region", "zone", "hostname"],
}
_DOMAIN_NAMES = st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=2, unique=True)


class Placed(NamedTuple):
    """What annotations ask for, farthest level first; nothing required or preferred where there is none."""

    topology: str
    required: tuple[Wanted, ...]
    preferred: tuple[Wanted, ...]
    annotations: Json


@st.composite
def _wanted(draw: st.DrawFn, levels: list[str], above: list[str]) -> tuple[Wanted, ...]:
    """One of the levels, and domains of some that are farther. above: those that are farther than all of them."""
    nearest = draw(st.sampled_from(levels))
    farther = [*above, *levels[: levels.index(nearest)]]
    chosen = draw(st.lists(st.sampled_from(farther), max_size=3, unique=True)) if farther else []
    ancestors = [Wanted(each, tuple(draw(_DOMAIN_NAMES))) for each in farther if each in chosen]
    domains = draw(_DOMAIN_NAMES) if draw(st.integers(0, 2)) else []
    return (*ancestors, Wanted(nearest, tuple(domains)))


@st.composite
def _text(draw: st.DrawFn, topology: str, wanted: tuple[Wanted, ...]) -> str:
    """A placement in one of the ways to write it, in any order."""
    parts = []
    for level, values in draw(st.permutations(wanted)):
        key = TOPOLOGIES[topology].get(level, level)
        names = [level, key, *([key.replace(BACKEND, IB)] if level in RENAMED else [])]
        name = draw(st.sampled_from(names))
        if not values:
            parts.append(name)
        elif len(values) == 1 and draw(st.booleans()):
            parts.append(f"{name}{draw(st.sampled_from(['=', '==', ' = ']))}{values[0]}")
        else:
            parts.append(f"{name} in ({draw(st.sampled_from([',', ', '])).join(values)})")
    return draw(st.sampled_from([",", ", "])).join(parts)


@st.composite
def placements(draw: st.DrawFn, names: tuple[str, ...] = tuple(TOPOLOGIES)) -> Placed:
    """Annotations that are valid, and what they mean."""
    topology = draw(st.sampled_from(names))
    levels = _LEVELS[topology]
    required = draw(_wanted(levels, [])) if draw(st.integers(0, 3)) else ()
    floor = levels.index(required[-1].level) + 1 if required else 0
    preferred: tuple[Wanted, ...] = ()
    if floor < len(levels) and draw(st.booleans()):
        preferred = draw(_wanted(levels[floor:], levels[:floor]))
    if topology == "topograph-nvlink":
        required = _with_clique(required, draw(st.sampled_from(["nvlink", "nvlink", "gpu.clique"])))
        preferred = _with_clique(preferred, draw(st.sampled_from(["nvlink", "gpu.clique"])))
    annotations = {TOPOLOGY: topology}
    if required:
        annotations[HARD] = draw(_text(topology, required))
    if preferred:
        annotations[SOFT] = draw(_text(topology, preferred))
    return Placed(topology, required, preferred, annotations)


def _with_clique(wanted: tuple[Wanted, ...], name: str) -> tuple[Wanted, ...]:
    """The same with another name where the clique was: it stands where the NVLink domain does."""
    return tuple(Wanted(name, each.values) if each.level == "gpu.clique" else each for each in wanted)


_KEYS = st.sampled_from(
    [
        *(f"{family}/{name}" for family in (BACKEND, IB) for name in ("fabric", "superpod")),
        *(FLAVOR, RACK, ZONE, CLIQUE, ACCELERATOR, HOSTNAME, "disk", "disk"),
    ]
)
_VALUES = st.sampled_from(["1", "1", "2", "2", "infiniband", "roce"])
_SOME_VALUES = st.lists(_VALUES, min_size=1, max_size=3, unique=True)


def _listed(key: str, operator: str, values: list[str]) -> Json:
    return {"key": key, "operator": operator, "values": values}


def _named(key: str, operator: str) -> Json:
    return {"key": key, "operator": operator}


_expressions = st.one_of(
    st.builds(_listed, _KEYS, st.sampled_from(["In", "In", "NotIn"]), _SOME_VALUES),
    st.builds(_named, _KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(_listed, _KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from([["0"], ["1"], ["2"]])),
)
_fields = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1"]),
)
_terms = st.one_of(
    _expressions.map(lambda expression: {"matchExpressions": [expression]}),
    st.fixed_dictionaries(
        {},
        optional={"matchExpressions": st.lists(_expressions, max_size=2), "matchFields": st.lists(_fields, max_size=1)},
    ),
)
_ODD_EXPRESSIONS: list[Any] = [
    *(None, "x", {}, {"key": "disk"}, {"operator": "Exists"}),
    {"key": RACK, "operator": "In"},
    {"key": RACK, "operator": "In", "values": None},
    {"key": RACK, "operator": "NotIn", "values": []},
    {"key": RACK, "operator": "Exists", "values": ["1"]},
    {"key": f"{BACKEND}/superpod", "operator": "In", "values": "3"},
    {"key": f"{BACKEND}/superpod", "operator": "In", "values": [3]},
    {"key": f"{BACKEND}/superpod", "operator": "In", "values": {"3": 1}},
    {"key": f"{BACKEND}/superpod", "operator": "Gt", "values": ["x"]},
    {"key": f"{BACKEND}/superpod", "operator": "Gt", "values": ["1", "2"]},
    {"key": f"{BACKEND}/superpod", "operator": "Near", "values": ["1"]},
    {"key": ["x"], "operator": "Exists"},
]
_ODD_TERMS: list[Any] = [
    *({}, None, "x", [], {"matchExpressions": None}, {"matchExpressions": [], "matchFields": []}),
    *({"matchExpressions": "x"}, {"matchExpressions": {"key": "disk"}}, {"matchFields": {}}),
    {"matchExpressions": "x", "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
    *({"matchExpressions": [each]} for each in _ODD_EXPRESSIONS),
]
dead_terms = st.sampled_from(_ODD_TERMS)
"""Terms that no Node meets."""


_any_terms = st.one_of(
    *(_terms, _terms, dead_terms),
    st.builds(
        lambda term, odd: {**term, "matchExpressions": [*term.get("matchExpressions", []), odd]},
        _terms,
        st.sampled_from(_ODD_EXPRESSIONS),
    ),
)
_preferred = st.builds(
    lambda weight, preference: {"weight": weight, "preference": preference}, st.sampled_from([1, 33, 100]), _terms
)


def affinities(terms: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    """`spec.affinity` with required terms such as these, or without; None for none."""
    required = st.lists(terms, min_size=least, max_size=3).map(lambda found: {"nodeSelectorTerms": found})
    preferred = st.lists(_preferred, min_size=1, max_size=2)
    node = st.one_of(
        st.fixed_dictionaries({REQUIRED: required}, optional={PREFERRED: preferred}),
        st.fixed_dictionaries({}, optional={PREFERRED: preferred}),
    )
    pods: Json = {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": ZONE}}]}
    return st.one_of(
        st.none(),
        st.fixed_dictionaries({"nodeAffinity": node}),
        st.fixed_dictionaries({}, optional={"nodeAffinity": node, "podAffinity": st.just(pods)}),
    )


valid_affinities = affinities(_terms, least=1)
"""What the API server takes: it takes terms without requirements, too."""

any_affinities = affinities(_any_terms)


def affinities_about(placed: Placed) -> st.SearchStrategy[Any]:
    """Required terms that are mostly about the labels that the placement is about."""
    keys = [CLIQUE if each.level == "nvlink" else TOPOLOGIES[placed.topology][each.level] for each in placed.required]
    about = st.sampled_from([name for key in keys or [FLAVOR] for name in (key, key.replace(BACKEND, IB))])
    chosen = st.one_of(st.just(["1", "2"]), st.lists(_VALUES, min_size=1, max_size=2, unique=True))
    listed = st.builds(_listed, about, st.sampled_from(["In", "NotIn"]), chosen)
    there = st.builds(_named, about, st.sampled_from(["Exists", "DoesNotExist"]))
    near = st.lists(st.one_of(listed, there), min_size=1, max_size=2).map(lambda found: {"matchExpressions": found})
    terms = st.lists(st.one_of(near, near, near, _any_terms), min_size=1, max_size=2)
    return terms.map(lambda found: {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": found}}})


dead_affinities = st.lists(dead_terms, max_size=3).map(
    lambda terms: {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
)
