"""Placements as people may write them, with what they mean, and node affinity that stands there already."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st
from support.builders import Json

from properties.nodes import (
    ACCELERATOR,
    BACKEND,
    CLIQUE,
    FLAVOR,
    HOSTNAME,
    IB,
    PREFERRED,
    RACK,
    RENAMED,
    REQUIRED,
    TOPOLOGIES,
    ZONE,
    Wanted,
)

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
        names = (
            draw(st.sampled_from(["nvlink", "nvlink", "gpu.clique"])),
            draw(st.sampled_from(["nvlink", "gpu.clique"])),
        )
        required, preferred = _with_clique(required, names[0]), _with_clique(preferred, names[1])
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
        optional={
            "matchExpressions": st.lists(_expressions, max_size=2),
            "matchFields": st.lists(_fields, max_size=1),
        },
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


def _mixed(term: Json, odd: Any) -> Json:
    return {**term, "matchExpressions": [*term.get("matchExpressions", []), odd]}


_any_terms = st.one_of(
    _terms,
    _terms,
    dead_terms,
    st.builds(_mixed, _terms, st.sampled_from(_ODD_EXPRESSIONS)),
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
