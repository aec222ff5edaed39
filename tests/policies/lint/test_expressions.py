"""Expressions that decide nothing or stop the server, names that nobody reads, messages that help nobody."""

import pytest
from support.policies.lintpolicies import MESSAGE, policy, reviewed, said

_FIRST = "object.spec.replicas < 5"
_PATH = "spec.validations[{}].expression"


@pytest.mark.parametrize("expression", ["true", "1 < 2", "[1, 2].all(x, x > 0)", "'a' in {'a': 1}"])
def test_constant_is_unreachable(expression: str) -> None:
    """A validation that reads nothing and is true refuses nothing."""
    assert said(policy(expression)) == [("unreachable-validation", _PATH.format(0), "this is always true")]


def test_constant_that_is_false_is_meant() -> None:
    """A policy may refuse all that it matches."""
    assert said(policy("false")) == []


@pytest.mark.parametrize(
    ("earlier", "later", "repeated"),
    [
        (_FIRST, "object.spec.replicas   <\n 5", True),
        (f"{_FIRST} && object.spec.replicas > 1", _FIRST, True),
        (_FIRST, f"{_FIRST} && object.spec.replicas > 1", False),
        (f"{_FIRST} || object.spec.replicas > 9", _FIRST, False),
    ],
    ids=["copy", "part", "more", "alternative"],
)
def test_copy_is_unreachable(earlier: str, later: str, repeated: bool) -> None:  # noqa: FBT001 - a column of the table
    """What an earlier validation demands already is never the reason of a refusal."""
    message = f"{_PATH.format(0)} already requires the same"

    expected = [("unreachable-validation", _PATH.format(1), message)] if repeated else []
    assert said(policy(earlier, later)) == expected


def test_false_condition_makes_all_unreachable() -> None:
    """A condition that is never met turns the policy off."""
    message = "the match condition off is always false, so nothing is ever validated"

    assert said(policy(_FIRST, conditions={"off": "1 > 2"})) == [
        ("unreachable-validation", "spec.matchConditions[0].expression", message)
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("no-remedy", _PATH.format(0), "there is no message, so users see the expression")]),
        (
            {"message": "bad replicas"},
            [("no-remedy", "spec.validations[0].message", "the message 'bad replicas' does not say what to do")],
        ),
        ({"message": MESSAGE}, []),
        ({"messageExpression": "'a' + object.metadata.name"}, []),
    ],
    ids=["none", "short", "long", "computed"],
)
def test_message_tells_what_to_do(fields: dict[str, str], expected: list[tuple[str, str, str]]) -> None:
    """No message, or one of less than twenty characters, is a finding."""
    assert said(policy({"expression": _FIRST, **fields})) == expected


@pytest.mark.parametrize(
    ("expression", "panics"),
    [
        ("[?object[?'spec']].size() == 1", True),
        ("{?'k': object.metadata.?labels.orValue({})[?'a']}.size() == 1", True),
        ("[?object.?spec].size() == 1", False),
        ("[?object.metadata.?labels[?'a']].size() == 1", False),
        ("object[?'spec'].hasValue()", False),
    ],
    ids=["element", "entry", "field", "index of an optional", "alone"],
)
def test_optional_element_of_no_known_type_panics(expression: str, panics: bool) -> None:  # noqa: FBT001
    """Only what Kubernetes' library takes for an optional without looking is named."""
    found = [finding.id for finding in reviewed(policy(expression)) if finding.id == "native-panic"]

    assert found == (["native-panic"] if panics else [])


def test_unused_variables_and_params() -> None:
    """A variable is used by any later expression in any way of reading it; a policy with a paramKind reads params."""
    variables = {"a": "1", "b": "variables.a", "c": "2", "d": "3", "e": "4"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}

    assert said(policy("variables.b < 2 && variables.?c.hasValue()", variables=variables, paramKind=kind)) == [
        (
            "unused-params",
            "spec.paramKind",
            "no expression reads params, but without a ConfigMap the policy may have no effect",
        ),
        ("unused-variable", "spec.variables[3].name", "no expression reads variables.d"),
        ("unused-variable", "spec.variables[4].name", "no expression reads variables.e"),
    ]
