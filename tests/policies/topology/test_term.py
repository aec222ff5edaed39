"""Terms: the alternatives that a placement comes to, preferences, and what becomes of a user's affinity beside them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.topology.placement import Domain, parse
from policies.topology.term import (
    Term,
    alternatives,
    combined,
    old_names,
    preferred_terms,
    selector_terms,
    to_json,
    weights,
    with_peers,
    with_terms,
)
from policies.topology.topology import BUILT_IN, NVLINK, level

_B, _I = "backend.coreweave.cloud", "ib.coreweave.cloud"
_CLIQUE, _ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"


def _in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "In", values)


def _not_in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "NotIn", values)


def _there(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "Exists")


def _absent(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "DoesNotExist")


_SUPERPOD, _FABRIC = Domain(level(f"{_B}/superpod"), ("3",)), Domain(level(f"{_B}/fabric"), ("f",))
_RACK = Domain(level("rack"), ("1",))
_INFINIBAND, _ROCE = (LabelSelector((_in(f"{_B}/flavor", name),)) for name in ("infiniband", "roce"))


@pytest.mark.parametrize(
    ("domains", "requirement", "terms"),
    [
        pytest.param([], EVERYTHING, (), id="nothing"),
        pytest.param([_RACK], EVERYTHING, ((_in("rack", "1"),),), id="one-name"),
        pytest.param([Domain(level("rack"))], EVERYTHING, ((_there("rack"),),), id="no-domain"),
        pytest.param(
            [_SUPERPOD], EVERYTHING, ((_in(f"{_B}/superpod", "3"),), (_in(f"{_I}/superpod", "3"),)), id="two-names"
        ),
        pytest.param(
            [_FABRIC, _SUPERPOD, _RACK],
            EVERYTHING,
            (
                (_in(f"{_B}/fabric", "f"), _in(f"{_B}/superpod", "3"), _in("rack", "1")),
                (_in(f"{_I}/fabric", "f"), _in(f"{_I}/superpod", "3"), _in("rack", "1")),
            ),
            id="names-are-not-mixed",
        ),
        pytest.param(
            [_RACK],
            _INFINIBAND,
            ((_in("rack", "1"), _in(f"{_B}/flavor", "infiniband")), (_in("rack", "1"), _there(f"{_I}/fabric"))),
            id="infiniband",
        ),
        pytest.param(
            [], _INFINIBAND, ((_in(f"{_B}/flavor", "infiniband"),), (_there(f"{_I}/fabric"),)), id="infiniband-only"
        ),
        pytest.param([_SUPERPOD], _ROCE, ((_in(f"{_B}/superpod", "3"), _in(f"{_B}/flavor", "roce")),), id="roce"),
        pytest.param(
            [_RACK],
            LabelSelector((_in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce"))),
            (
                (_in("rack", "1"), _in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce")),
                (_in("rack", "1"), _in("disk", "ssd"), _there(f"{_I}/fabric")),
            ),
            id="requirement-that-infiniband-meets",
        ),
        pytest.param(
            [Domain(NVLINK, ("n",))],
            EVERYTHING,
            ((_in(_CLIQUE, "n"),), (_in(_ACCELERATOR, "n"), _absent(_CLIQUE))),
            id="nvlink",
        ),
        pytest.param(
            [Domain(level(_ACCELERATOR), ("a",)), Domain(NVLINK)],
            EVERYTHING,
            (
                (_in(_ACCELERATOR, "a"), _there(_CLIQUE)),
                (_in(_ACCELERATOR, "a"), _absent(_CLIQUE)),
            ),
            id="nvlink-in-an-accelerator",
        ),
    ],
)
def test_alternatives(domains: list[Domain], requirement: LabelSelector, terms: tuple[Term, ...]) -> None:
    """There is a term for each way in which Nodes may be labelled, without what it says already."""
    assert alternatives(domains, requirement) == terms


def test_alternatives_of_which_a_node_meets_one() -> None:
    """The older way is for Nodes without the newer name of the nearest level that has two."""
    found = alternatives([_FABRIC, _SUPERPOD, _RACK], EVERYTHING, disjoint=True)

    assert found == (
        (_in(f"{_B}/fabric", "f"), _in(f"{_B}/superpod", "3"), _in("rack", "1")),
        (_in(f"{_I}/fabric", "f"), _in(f"{_I}/superpod", "3"), _in("rack", "1"), _absent(f"{_B}/superpod")),
    )


@pytest.mark.parametrize(
    ("selector", "old"),
    [
        pytest.param(EVERYTHING, EVERYTHING, id="nothing"),
        pytest.param(_INFINIBAND, LabelSelector((_there(f"{_I}/fabric"),)), id="infiniband"),
        pytest.param(_ROCE, None, id="roce"),
        pytest.param(
            LabelSelector((_in(f"{_B}/flavor", "roce", "infiniband"),)),
            LabelSelector((_there(f"{_I}/fabric"),)),
            id="either",
        ),
        pytest.param(LabelSelector((_not_in(f"{_B}/flavor", "infiniband"),)), None, id="not-infiniband"),
        pytest.param(LabelSelector((_absent(f"{_B}/flavor"),)), None, id="no-flavor"),
        pytest.param(
            LabelSelector((_there(f"{_B}/flavor"), _in(f"{_B}/speed.current", "400G"))),
            LabelSelector((_there(f"{_I}/fabric"), _in(f"{_I}/speed.current", "400G"))),
            id="another-renamed-label",
        ),
    ],
)
def test_requirements_in_older_names(selector: LabelSelector, old: LabelSelector | None) -> None:
    """A flavor is a fabric there, if InfiniBand meets it; what it does not meet has no older form."""
    assert old_names(selector) == old


def _json(*requirements: SelectorRequirement) -> dict[str, Any]:
    return {"matchExpressions": to_json(requirements)}


_FIELDS = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
_GT = {"key": "a", "operator": "Gt", "values": ["3"]}


@pytest.mark.parametrize(
    ("written", "terms", "expected"),
    [
        pytest.param(_json(_there("x")), [(_in("a", "1"),)], [_json(_there("x"), _in("a", "1"))], id="and"),
        pytest.param(
            _json(_there("x")),
            [(_in("a", "1"),), (_in("b", "1"),)],
            [_json(_there("x"), _in("a", "1")), _json(_there("x"), _in("b", "1"))],
            id="one-for-each-alternative",
        ),
        pytest.param(_FIELDS, [(_there("a"),)], [{**_FIELDS, **_json(_there("a"))}], id="fields"),
        pytest.param(
            {**_FIELDS, "more": 1}, [(_there("a"),)], [{**_FIELDS, "more": 1, **_json(_there("a"))}], id="anything-else"
        ),
        pytest.param(_json(_in("a", "1")), [(_in("a", "1"),)], [_json(_in("a", "1"))], id="there"),
        pytest.param(
            _json(_in("a", "1")), [(_there("b"),), (_in("a", "1"),)], [_json(_in("a", "1"))], id="one-is-there"
        ),
        pytest.param(
            _json(_there("x")),
            [(_there("a"),), (_there("a"), _there("b"))],
            [_json(_there("x"), _there("a"))],
            id="narrower-alternative",
        ),
        pytest.param(
            _json(_there("b")),
            [(_there("a"), _there("b")), (_there("a"), _there("c"))],
            [_json(_there("b"), _there("a"))],
            id="narrower-beside-what-is-there",
        ),
        pytest.param(_json(_there("x")), [], [_json(_there("x"))], id="no-alternatives"),
        *(
            pytest.param(term, [(_there("a"),)], [term], id=f"no-node-meets-{name}")
            for name, term in {
                "an-empty-one": {},
                "null-lists": {"matchExpressions": None, "matchFields": None},
                "empty-lists": {"matchExpressions": [], "matchFields": []},
                "null": None,
                "a-text": "x",
                "a-map-of-expressions": {"matchExpressions": {"key": "a"}},
                "odd-fields": {"matchExpressions": [_GT], "matchFields": "x"},
            }.items()
        ),
    ],
)
def test_a_term_of_the_users(written: Any, terms: list[Term], expected: list[Any]) -> None:
    """It is combined with each alternative; where it says one already, or no Node meets it, it stays as it is."""
    assert combined(written, terms) == expected


def test_what_is_excluded_is_excluded_under_every_name() -> None:
    """A Node that a requirement excludes by one name of a label does not pass by the absence of the other."""
    selector = LabelSelector((SelectorRequirement(f"{_B}/superpod", "NotIn", ("3",)),))
    both = tuple(SelectorRequirement(f"{prefix}/superpod", "NotIn", ("3",)) for prefix in (_B, _I))

    assert alternatives((), selector) == (both,)
    assert alternatives((), LabelSelector((SelectorRequirement(f"{_B}/flavor", "NotIn", ("infiniband",)),))) == (
        (
            SelectorRequirement(f"{_B}/flavor", "NotIn", ("infiniband",)),
            SelectorRequirement(f"{_I}/fabric", "DoesNotExist"),
        ),
    )


_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_SHOULD = "preferredDuringSchedulingIgnoredDuringExecution"
_1 = (SelectorRequirement("rack", "In", ("1",)),)
_HALL = (SelectorRequirement("hall", "In", ("1",)),)
_IN_RACK, _IN_HALL = ({"key": key, "operator": "In", "values": ["1"]} for key in ("rack", "hall"))
_DISK = {"key": "disk", "operator": "Exists"}
_WISH = {"weight": 1, "preference": {"matchExpressions": [_DISK]}}


def _node(*terms: Any, **more: Any) -> Any:
    return {"nodeAffinity": {_MUST: {"nodeSelectorTerms": list(terms)}, **more}}


@pytest.mark.parametrize(
    ("affinity", "required", "preferred", "expected"),
    [
        pytest.param(None, [_1], [], _node({"matchExpressions": [_IN_RACK]}), id="nothing-there"),
        pytest.param(
            {"podAffinity": {}},
            [_1, _HALL],
            [],
            {"podAffinity": {}, **_node({"matchExpressions": [_IN_RACK]}, {"matchExpressions": [_IN_HALL]})},
            id="alternatives-beside-other-affinity",
        ),
        pytest.param(
            _node({"matchExpressions": [_DISK]}),
            [_1, _HALL],
            [],
            _node({"matchExpressions": [_DISK, _IN_RACK]}, {"matchExpressions": [_DISK, _IN_HALL]}),
            id="each-of-the-authors-with-each",
        ),
        pytest.param(
            _node({"matchExpressions": [_IN_RACK]}),
            [_1],
            [],
            _node({"matchExpressions": [_IN_RACK]}),
            id="there",
        ),
        pytest.param(_node({}), [_1], [], _node({}), id="a-term-that-matches-nothing"),
        pytest.param(None, [], [_WISH], {"nodeAffinity": {_SHOULD: [_WISH]}}, id="a-preference"),
        pytest.param(
            {"nodeAffinity": {_SHOULD: [_WISH]}},
            [],
            [_WISH],
            {"nodeAffinity": {_SHOULD: [_WISH]}},
            id="one-that-is-there",
        ),
        pytest.param({"nodeAffinity": "x"}, [_1], [_WISH], {"nodeAffinity": "x"}, id="malformed"),
        pytest.param({"nodeAffinity": {_MUST: "x"}}, [_1], [], {"nodeAffinity": {_MUST: "x"}}, id="malformed-terms"),
        pytest.param(None, [], [], None, id="nothing-to-add"),
    ],
)
def test_node_affinity(affinity: Any, required: Any, preferred: Any, expected: Any) -> None:
    """Each of the author's terms is combined with each alternative, and nothing is added that is there already."""
    sent = deepcopy(affinity)

    once = with_terms(affinity, required, preferred)

    assert (once, affinity) == (expected, sent)
    assert with_terms(once, required, preferred) == once


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(None, {"podAffinity": {_MUST: [{"topologyKey": "rack"}]}}, id="nothing-there"),
        pytest.param(
            {"podAffinity": {_MUST: [{"topologyKey": "zone"}]}, "nodeAffinity": {}},
            {"podAffinity": {_MUST: [{"topologyKey": "zone"}, {"topologyKey": "rack"}]}, "nodeAffinity": {}},
            id="behind-the-authors",
        ),
        pytest.param({"podAffinity": []}, {"podAffinity": []}, id="malformed"),
        pytest.param({"podAffinity": {_MUST: "x"}}, {"podAffinity": {_MUST: "x"}}, id="malformed-terms"),
    ],
)
def test_pod_affinity(affinity: Any, expected: Any) -> None:
    """Terms are added to those that are there, once."""
    once = with_peers(affinity, [{"topologyKey": "rack"}], [])

    assert once == expected
    assert with_peers(once, [{"topologyKey": "rack"}], []) == once


@pytest.mark.parametrize("affinity", [None, "x", {}, {"nodeAffinity": None}, {"nodeAffinity": {_MUST: []}}])
def test_terms_that_are_none(affinity: Any) -> None:
    """Absent and malformed affinity holds no terms."""
    assert selector_terms(affinity) == []


_TOPOLOGIES = {each.name: each for each in BUILT_IN}
_WEIGHTS = {0: [], 1: [100], 2: [67, 33], 3: [51, 33, 16], 7: [28, 21, 17, 14, 10, 7, 3]}


@pytest.mark.parametrize(("steps", "expected"), _WEIGHTS.items())
def test_weights_of_few_steps(steps: int, expected: list[int]) -> None:
    """As n to … 1, rounded down, and the nearest step gets what is left of 100."""
    assert weights(steps) == expected


def _preferred(topology: str, preferred: str, required: str = "") -> list[Any]:
    known = _TOPOLOGIES[topology]
    floor = parse(required, known) if required else None
    return [
        (each["weight"], [(e["key"].rpartition("/")[2], e["operator"]) for e in each["preference"]["matchExpressions"]])
        for each in preferred_terms(known, floor, parse(preferred, known))
    ]


@pytest.mark.parametrize(
    ("topology", "preferred", "required", "expected"),
    [
        pytest.param("kubernetes", "zone", "", [], id="level"),
        pytest.param("kubernetes", "zone=z", "region", [(100, [("zone", "In")])], id="domain"),
        pytest.param(
            "kubernetes",
            "region=r,zone",
            "",
            [(100, [("region", "In")])],
            id="level-in-a-domain",
        ),
        pytest.param(
            "kubernetes", "region=r,zone=z", "region", [(100, [("region", "In"), ("zone", "In")])], id="one-step-below"
        ),
        pytest.param(
            "coreweave",
            "superpod=3,rack=1",
            "",
            [
                (67, [("superpod", "In"), ("rack", "In")]),
                (67, [("superpod", "In"), ("rack", "In"), ("superpod", "DoesNotExist")]),
                (33, [("superpod", "In")]),
                (33, [("superpod", "In"), ("superpod", "DoesNotExist")]),
            ],
            id="twins",
        ),
        pytest.param("coreweave-roce", "superpod=3", "", [(100, [("superpod", "In")])], id="no-twin-for-roce"),
        pytest.param(
            "topograph-nvlink",
            "nvlink=n",
            "",
            [(100, [("gpu.clique", "In")]), (100, [("accelerator", "In"), ("gpu.clique", "DoesNotExist")])],
            id="nvlink",
        ),
    ],
)
def test_steps(topology: str, preferred: str, required: str, expected: list[Any]) -> None:
    """A term for each domain below the required level, in all those above it, and its twin for the older names."""
    assert _preferred(topology, preferred, required) == expected
