import math
from typing import Any

import pytest

from policies.cel import types
from policies.cel.cases import CaseError, CelCase, Outcome, authorizer_rules, cases, difference, encode
from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.values import NONE, Duration, Optional, Timestamp, Uint


def test_a_case_has_the_inputs_of_its_file_and_its_own() -> None:
    """A null of its own counts as one."""
    document = {
        "fixtures": {"object": {"a": 1}, "params": {"b": 2}},
        "cases": [
            {"id": "x", "expression": "1", "params": None, "variables": [{"name": "v", "expression": "2"}]},
        ],
    }
    (case,) = cases(document)
    assert (case.mode, case.variables, case.expect) == ("any", (("v", "2"),), None)
    assert (case.inputs["object"], case.inputs["params"], case.inputs["request"]) == ({"a": 1}, None, None)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "cases: a list"),
        ({"cases": [{}]}, "cases[0].expression"),
        ({"cases": [{"expression": "1", "mode": "x"}]}, "cases[0].mode: 'x' is none of any, bool"),
        ({"cases": [{"expression": "1", "variables": [1]}]}, "cases[0].variables"),
        ({"cases": [], "fixtures": [1]}, "fixtures"),
        (
            {"cases": [{"expression": "1", "authorizer": [{"users": "a"}]}]},
            "cases[0]: authorizer: Object contains unknown field",
        ),
    ],
)
def test_what_is_wrong_with_a_document_is_said(document: Any, text: str) -> None:
    """With the place in the document."""
    with pytest.raises(CaseError) as caught:
        cases(document)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ([None, True, 1, "a"], [None, True, 1, "a"]),
        (Uint(1), {"$uint": 1}),
        (1.5, {"$double": 1.5}),
        (math.inf, {"$double": "+Inf"}),
        (-math.inf, {"$double": "-Inf"}),
        (math.nan, {"$double": "NaN"}),
        (b"a", {"$bytes": "YQ=="}),
        ({1: 2, "b": 3}, {"1": 2, "b": 3}),
        ({None: 1, False: 2}, {"null": 1, "false": 2}),
        (Duration(5_400_000_000_000), {"$duration": "1h30m0s"}),
        (Timestamp(1_500_000_000), {"$timestamp": "1970-01-01T00:00:01.5Z"}),
        (NONE, {"$optional": None}),
        (Optional(Uint(1)), {"$optional": {"$uint": 1}}),
        (types.INT, {"$type": "int"}),
        (JSONPatch(op="move", path="/a", from_="/b"), {"op": "move", "path": "/a", "from": "/b"}),
        (JSONPatch(op="add", path="/a", value=None), {"op": "add", "path": "/a", "value": None}),
        (
            ObjectValue("Object", {"spec": ObjectValue("Object.spec", {"n": 1, "d": 0.5, "b": b"x", "o": NONE})}),
            {"$object": {"spec": {"n": 1, "d": 0.5, "b": [120], "o": None}}},
        ),
    ],
)
def test_a_value_as_json(value: Any, encoded: Any) -> None:
    """Each class of values."""
    assert encode(value) == encoded


@pytest.mark.parametrize(
    ("expect", "outcome", "text"),
    [
        (None, Outcome(), None),
        ({"value": 1, "type": "int", "cost": 3}, Outcome(value=1, type="int", cost=3), None),
        (
            {"value": 1, "type": "int", "cost": 3},
            Outcome(value=True, type="int", cost=3),
            "value: expected 1, found True",
        ),
        ({"value": {"$double": 3}, "cost": 0}, Outcome(value={"$double": 3.0}), None),
        ({"value": {"$double": 0.0}, "cost": 0}, Outcome(value={"$double": -0.0}), "value: "),
        ({"value": {"$double": "NaN"}, "cost": 0}, Outcome(value={"$double": "NaN"}), None),
        ({"value": [1, {"a": "x"}], "cost": 0}, Outcome(value=[1, {"a": "y"}]), "value: "),
        ({"value": None, "cost": {"oneOf": [1, 2]}}, Outcome(cost=2), None),
        ({"value": None, "cost": {"oneOf": [1, 2]}}, Outcome(cost=3), "cost: "),
        (
            {"stage": "eval", "error": "x", "cost": 1},
            Outcome(stage="eval", error="y", cost=1),
            "error: expected 'x', found 'y'",
        ),
        ({"stage": "eval", "error": "x", "cost": 1}, Outcome(value=1, type="int", cost=1), "stage: "),
        (
            {"stage": "compile", "error": "ERROR: <input>:1:3: Syntax error: extraneous input", "cost": 0},
            Outcome(stage="compile", error="ERROR: <input>:1:3: Syntax error: unexpected `b`"),
            None,
        ),
        (
            {"stage": "compile", "error": "ERROR: <input>:1:3: Syntax error: extraneous input", "cost": 0},
            Outcome(stage="compile", error="ERROR: <input>:1:4: Syntax error: unexpected `b`"),
            "error: ",
        ),
        (
            {"stage": "eval", "error": "Illegal regex: error parsing regexp: missing closing ): `(`", "cost": 0},
            Outcome(stage="eval", error="Illegal regex: error parsing regexp: missing ): ("),
            None,
        ),
    ],
)
def test_the_difference_is_named(expect: dict[str, Any] | None, outcome: Outcome, text: str | None) -> None:
    """The first one, in the order of stage, error, type, value, cost."""
    found = difference(CelCase(id="x", expression="1", expect=expect), outcome)
    assert found == text or (text is not None and found is not None and found.startswith(text))


RULES = [
    {"user": "alice", "namespace": "team-a", "allowed": True, "reason": "alice owns team-a"},
    {"verb": "get", "resource": "configmaps", "path": "", "allowed": True, "reason": "open"},
    {"verb": "fail", "path": "", "allowed": False, "error": "authorizer is down"},
    {"verb": "get", "path": "/healthz", "allowed": True, "reason": "health"},
]


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (
            Check(user=User("alice"), verb="get", resource="x", namespace="team-a"),
            CheckAnswer(allowed=True, reason="alice owns team-a"),
        ),
        (Check(user=User("bob"), verb="get", resource="configmaps"), CheckAnswer(allowed=True, reason="open")),
        (Check(user=User("bob"), verb="fail", resource="pods"), CheckAnswer(allowed=False, error="authorizer is down")),
        (Check(user=User("bob"), verb="get", path="/healthz"), CheckAnswer(allowed=True, reason="health")),
        (Check(user=User("bob"), verb="fail", path="/x"), CheckAnswer(allowed=False, reason="no rule")),
    ],
)
def test_the_authorizer_of_a_file_answers(check: Check, answer: CheckAnswer) -> None:
    """The first rule that matches answers; what none matches is denied."""
    (case,) = cases({"fixtures": {"authorizer": RULES}, "cases": [{"expression": "1"}]})
    assert authorizer_rules(case.inputs).answer(check) == answer
