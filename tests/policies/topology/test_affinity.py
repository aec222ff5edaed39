"""Terms into node affinity and out of it: what the user wrote is there before, after, and between."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.engine.match import SelectorRequirement
from policies.topology.affinity import (
    NOTHING,
    RecordEntry,
    Replacement,
    node_affinity,
    requires,
    selector_terms,
    with_terms,
    without_terms,
)

_HARD, _SOFT = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
_A, _B = (SelectorRequirement(key, "Exists") for key in "ab")
_TERM_A, _TERM_B, _TERM_X = ({"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "abx")
_PREFER = {"weight": 100, "preference": _TERM_A}
_OWN = {"weight": 1, "preference": _TERM_X}
_PODS: dict[str, Any] = {"podAffinity": {_HARD: []}}


def _node(required: Any = None, preferred: Any = None, **others: Any) -> dict[str, Any]:
    node = {} if required is None else {_HARD: {"nodeSelectorTerms": required}}
    return {**others, "nodeAffinity": {**node, **({} if preferred is None else {_SOFT: preferred})}}


def _and(*keys: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


@pytest.mark.parametrize(
    ("affinity", "required", "preferred", "result", "entry"),
    [
        pytest.param(None, [], [], None, NOTHING, id="nothing"),
        pytest.param(
            None,
            [(_A,), (_B,)],
            [],
            _node([_TERM_A, _TERM_B]),
            RecordEntry((Replacement((_TERM_A, _TERM_B)),), created="affinity"),
            id="no-affinity",
        ),
        pytest.param(
            _PODS,
            [(_A,)],
            [],
            _node([_TERM_A], **_PODS),
            RecordEntry((Replacement((_TERM_A,)),), created="nodeAffinity"),
            id="other-affinity",
        ),
        pytest.param(
            {"nodeAffinity": None},
            [(_A,)],
            [],
            _node([_TERM_A]),
            RecordEntry((Replacement((_TERM_A,)),), created="nodeAffinity"),
            id="null-node-affinity",
        ),
        pytest.param(
            _node(), [(_A,)], [], _node([_TERM_A]), RecordEntry((Replacement((_TERM_A,)),)), id="empty-node-affinity"
        ),
        pytest.param(
            _node([_TERM_X, {}]),
            [(_A,), (_B,)],
            [],
            _node([_and("x", "a"), _and("x", "b"), {}]),
            RecordEntry((Replacement((_and("x", "a"), _and("x", "b")), _TERM_X),)),
            id="terms",
        ),
        pytest.param(_node([_TERM_A]), [(_A,)], [], _node([_TERM_A]), NOTHING, id="said-already"),
        pytest.param(_node([]), [(_A,)], [], _node([]), NOTHING, id="no-terms"),
        pytest.param(
            _node(None, [_OWN]),
            [],
            [_PREFER],
            _node(None, [_OWN, _PREFER]),
            RecordEntry((), (_PREFER,)),
            id="preferred",
        ),
        pytest.param(_node(None, [_PREFER]), [], [_PREFER], _node(None, [_PREFER]), NOTHING, id="preferred-already"),
        pytest.param(
            None, [], [_PREFER], _node(None, [_PREFER]), RecordEntry((), (_PREFER,), "affinity"), id="preferred-only"
        ),
    ],
)
def test_there_and_back(affinity: Any, required: Any, preferred: Any, result: Any, entry: RecordEntry) -> None:
    """Terms are added as the entry says, and taken out again by it; the affinity itself is not changed."""
    sent = deepcopy(affinity)

    assert with_terms(affinity, required, preferred) == (result, entry)
    if affinity != {"nodeAffinity": None}:  # null is no map either, and need not come back
        assert without_terms(result, entry) == affinity
    assert affinity == sent


@pytest.mark.parametrize(
    "affinity",
    [
        *("x", [], 1, {"nodeAffinity": "x"}, {"nodeAffinity": []}, {"nodeAffinity": {_HARD: "x"}}),
        *({"nodeAffinity": {_HARD: {}}}, {"nodeAffinity": {_HARD: {"nodeSelectorTerms": "x"}}}),
    ],
)
def test_malformed_affinity(affinity: Any) -> None:
    """It stays as it is, and is left for the API server to refuse; no Node meets it, so it requires everything."""
    entry = RecordEntry((Replacement((_TERM_A,)),), (_PREFER,), "affinity")

    assert with_terms(affinity, [(_A,)], []) == (affinity, NOTHING)
    assert without_terms(affinity, entry) == affinity
    assert requires(affinity, [(_A,)]) is (node_affinity(affinity) is not None)


@pytest.mark.parametrize(
    ("affinity", "entry", "result"),
    [
        pytest.param(
            _node([_and("x", "a"), _TERM_B]),
            RecordEntry((Replacement((_and("x", "a"), _and("x", "b")), _TERM_X),)),
            _node([_TERM_X, _TERM_B]),
            id="half-of-what-was-written",
        ),
        pytest.param(
            _node([_TERM_B, _and("x", "a"), _TERM_X]),
            RecordEntry((Replacement((_and("x", "a"),), _TERM_X),)),
            _node([_TERM_B, _TERM_X, _TERM_X]),
            id="among-others",
        ),
        pytest.param(
            _node([_TERM_A, _TERM_A]),
            RecordEntry((Replacement((_TERM_A,)),)),
            _node([_TERM_A]),
            id="recorded-once-goes-once",
        ),
        pytest.param(
            _node([_TERM_X]), RecordEntry((Replacement((_TERM_A,)),)), _node([_TERM_X]), id="nothing-of-it-is-there"
        ),
        pytest.param(
            _node([{**_TERM_A, "matchFields": []}]),
            RecordEntry((Replacement((_TERM_A,)),), created="affinity"),
            None,
            id="written-with-an-empty-list",
        ),
        pytest.param(
            _node([{**_TERM_A, "matchFields": None}], **_PODS),
            RecordEntry((Replacement((_TERM_A,)),), created="affinity"),
            _PODS,
            id="other-affinity-since",
        ),
        pytest.param(
            _node([_TERM_A]),
            RecordEntry((Replacement((_TERM_A,)),), created="nodeAffinity"),
            {},
            id="affinity-was-empty",
        ),
        pytest.param(_node([_TERM_A]), RecordEntry((Replacement((_TERM_A,)),)), _node(), id="node-affinity-was-empty"),
        pytest.param(_node(None, [_PREFER, _OWN]), RecordEntry((), (_PREFER,)), _node(None, [_OWN]), id="preferred"),
        pytest.param(None, RecordEntry((Replacement((_TERM_A,)),)), None, id="all-gone"),
        pytest.param({}, RecordEntry((Replacement((_TERM_A,)),), created="affinity"), {}, id="nothing-left"),
    ],
)
def test_taking_out(affinity: Any, entry: RecordEntry, result: Any) -> None:
    """Recorded terms give their place to what they were made of, once; everything else stays."""
    assert without_terms(affinity, entry) == result


_FIRST = RecordEntry((Replacement((_TERM_A,)),), (_PREFER,), "affinity")
_LAST = RecordEntry((Replacement((_TERM_A,)),), created="affinity", earlier=(_FIRST,))


@pytest.mark.parametrize(
    ("affinity", "result"),
    [
        pytest.param(_node([_TERM_A]), None, id="written-last"),
        pytest.param(_node([_TERM_A], [_PREFER]), None, id="written-earlier-and-shared-in-part"),
        pytest.param(_node([_TERM_A], [_OWN]), _node(None, [_OWN]), id="beside-the-users-own"),
        pytest.param(_node([_TERM_B], [_PREFER]), _node([_TERM_B], [_PREFER]), id="only-half-of-what-was-earlier"),
    ],
)
def test_taking_out_what_was_written_earlier(affinity: Any, result: Any) -> None:
    """A template that is rolled back loses all that was written into it then, though the last time shares some."""
    assert without_terms(affinity, _LAST) == result


@pytest.mark.parametrize(
    ("affinity", "holds"),
    [
        pytest.param(None, False, id="none"),
        pytest.param(_node([_TERM_A]), True, id="one-of-two"),
        pytest.param(_node([_and("x", "b"), _TERM_A]), True, id="every-term"),
        pytest.param(_node([_TERM_A, _TERM_X]), False, id="a-term-without"),
        pytest.param(_node([{}]), True, id="no-node-at-all"),
        pytest.param(_node(None, [_PREFER]), False, id="preferred"),
    ],
)
def test_what_is_required_already(affinity: Any, holds: bool) -> None:  # noqa: FBT001
    """A placement is applied where every term that a Node can meet says one of the alternatives."""
    assert requires(affinity, [(_A,), (_B,)]) is holds


def test_terms_of_an_affinity() -> None:
    """The list of terms where there is one."""
    assert [selector_terms(each) for each in (_node([_TERM_A]), None, {"nodeAffinity": 1}, _node())] == [
        [_TERM_A],
        *([], [], []),
    ]
