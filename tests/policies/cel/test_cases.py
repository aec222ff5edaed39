import math
from typing import Any

import pytest

from policies.cel.cases import CaseError, CelCase, Outcome, authorizer_rules, cases, difference, encode
from policies.cel.library.authorizer import Check, User
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.values import NONE


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
        ({None: 1, False: -math.inf}, {"null": 1, "false": {"$double": "-Inf"}}),
        (JSONPatch(op="move", path="/a", from_="/b"), {"op": "move", "path": "/a", "from": "/b"}),
        (JSONPatch(op="add", path="/a", value=None), {"op": "add", "path": "/a", "value": None}),
        (
            ObjectValue("Object", {"spec": ObjectValue("Object.spec", {"n": 1, "d": 0.5, "b": b"x", "o": NONE})}),
            {"$object": {"spec": {"n": 1, "d": 0.5, "b": [120], "o": None}}},
        ),
    ],
)
def test_a_value_as_json(value: Any, encoded: Any) -> None:
    """Classes of values that are rare in the recorded cases."""
    assert encode(value) == encoded


@pytest.mark.parametrize(
    ("expect", "outcome", "text"),
    [
        (None, Outcome(), None),
        ({"value": 1, "type": "int", "cost": 3}, Outcome(value=1, type="int", cost=3), None),
        ({"value": 1, "cost": 3}, Outcome(value=True, cost=3), "value: expected 1, found True"),
        ({"value": {"$double": 3}, "cost": 0}, Outcome(value={"$double": 3.0}), None),
        ({"value": {"$double": 0.0}, "cost": 0}, Outcome(value={"$double": -0.0}), "value: "),
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


def test_the_first_rule_that_matches_answers_a_check() -> None:
    """What none matches is denied."""
    rules = [{"verb": "get", "allowed": True, "reason": "first"}, {"user": "bob", "allowed": True, "reason": "second"}]
    (case,) = cases({"fixtures": {"authorizer": rules}, "cases": [{"expression": "1"}]})
    checks = [Check(user=User(name), verb=verb) for name, verb in (("bob", "get"), ("bob", "list"), ("eve", "list"))]

    assert [authorizer_rules(case.inputs).answer(check).reason for check in checks] == ["first", "second", "no rule"]
