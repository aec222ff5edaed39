"""Terms in `spec.affinity`: what is added to those that are there, and what stays as it is."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.engine.match import SelectorRequirement
from policies.topology.term import selector_terms, with_peers, with_terms

_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_SHOULD = "preferredDuringSchedulingIgnoredDuringExecution"
_RACK = (SelectorRequirement("rack", "In", ("1",)),)
_HALL = (SelectorRequirement("hall", "In", ("1",)),)
_IN_RACK, _IN_HALL = ({"key": key, "operator": "In", "values": ["1"]} for key in ("rack", "hall"))
_DISK = {"key": "disk", "operator": "Exists"}
_WISH = {"weight": 1, "preference": {"matchExpressions": [_DISK]}}


def _node(*terms: Any, **more: Any) -> Any:
    return {"nodeAffinity": {_MUST: {"nodeSelectorTerms": list(terms)}, **more}}


@pytest.mark.parametrize(
    ("affinity", "required", "preferred", "expected"),
    [
        pytest.param(None, [_RACK], [], _node({"matchExpressions": [_IN_RACK]}), id="nothing-there"),
        pytest.param(
            {"podAffinity": {}},
            [_RACK, _HALL],
            [],
            {"podAffinity": {}, **_node({"matchExpressions": [_IN_RACK]}, {"matchExpressions": [_IN_HALL]})},
            id="alternatives-beside-other-affinity",
        ),
        pytest.param(
            _node({"matchExpressions": [_DISK]}),
            [_RACK, _HALL],
            [],
            _node({"matchExpressions": [_DISK, _IN_RACK]}, {"matchExpressions": [_DISK, _IN_HALL]}),
            id="each-of-the-authors-with-each",
        ),
        pytest.param(
            _node({"matchExpressions": [_IN_RACK]}), [_RACK], [], _node({"matchExpressions": [_IN_RACK]}), id="there"
        ),
        pytest.param(_node({}), [_RACK], [], _node({}), id="a-term-that-matches-nothing"),
        pytest.param(None, [], [_WISH], {"nodeAffinity": {_SHOULD: [_WISH]}}, id="a-preference"),
        pytest.param(
            {"nodeAffinity": {_SHOULD: [_WISH]}},
            [],
            [_WISH],
            {"nodeAffinity": {_SHOULD: [_WISH]}},
            id="one-that-is-there",
        ),
        pytest.param({"nodeAffinity": "x"}, [_RACK], [_WISH], {"nodeAffinity": "x"}, id="malformed"),
        pytest.param({"nodeAffinity": {_MUST: "x"}}, [_RACK], [], {"nodeAffinity": {_MUST: "x"}}, id="malformed-terms"),
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
