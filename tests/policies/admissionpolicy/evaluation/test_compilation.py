"""A policy is compiled once, each expression in the environment and for the type that kube-apiserver demands."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.policies.admissionpolicies import mutating, policy, validating

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.model import (
    AuditAnnotation,
    Expression,
    NamedExpression,
    ParamKind,
    Validation,
)


def _compiled(texts: Mapping[str, str], param_kind: ParamKind | None = None) -> CompiledPolicy:
    """A policy with an expression in each place that is named; a validation that says nothing is true."""
    at = {name: Expression(text=text, path=name) for name, text in texts.items()}
    true = Expression(text="true", path="validation")
    return compile_policy(
        policy(
            param_kind=param_kind,
            match_conditions=tuple(NamedExpression(name="c", expression=at[k]) for k in ("condition",) if k in at),
            variables=tuple(NamedExpression(name="v", expression=at[k]) for k in ("variable",) if k in at),
            validations=(Validation(expression=at.get("validation", true), message_expression=at.get("message")),),
            audit_annotations=tuple(AuditAnnotation(key="k", value_expression=at[k]) for k in ("note",) if k in at),
        )
    )


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        ("condition", "1", "must evaluate to bool but got int"),
        ("validation", "object.data", "must evaluate to bool but got dyn"),
        ("message", "1", "must evaluate to string but got int"),
        ("note", "[1]", "must evaluate to one of [string null_type] but got list(int)"),
        (
            "validation",
            "params.a == 1",
            (
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n"
                " | params.a == 1\n | ^"
            ),
        ),
        (
            "message",
            "string(authorizer.path('/').check('get').allowed())",
            (
                "compilation failed: ERROR: <input>:1:8: undeclared reference to 'authorizer' (in container '')\n"
                " | string(authorizer.path('/').check('get').allowed())\n | .......^"
            ),
        ),
    ],
)
def test_what_does_not_compile_is_kept_in_its_place(place: str, text: str, words: str) -> None:
    """The error has Kubernetes' words; the other expressions of the policy are compiled all the same."""
    assert [(where.path, error.full_reference()) for where, error in _compiled({place: text}).errors] == [
        (place, words)
    ]


def test_errors_are_listed_in_the_order_of_the_document() -> None:
    """Conditions, variables, validations with their messages, annotations."""
    places = ["condition", "variable", "validation", "message", "note"]

    assert [where.path for where, _ in _compiled(dict.fromkeys(places, "1 +")).errors] == places


def test_everything_may_use_the_variables_and_parameters() -> None:
    """Each kind of expression knows them by their types."""
    texts = {
        "variable": "string(params.data.a)",
        "validation": "variables.v == 'x'",
        "message": "variables.v + 'x'",
        "note": "variables.v",
    }

    assert _compiled(texts, ParamKind(api_version="v1", kind="ConfigMap")).errors == ()


def test_only_mutations_know_the_types_of_patches() -> None:
    """A validation does not, and a mutation has to be of its own type."""
    assert mutating("Object{spec: Object.spec{x: 1}}", "[JSONPatch{op: 'remove', path: '/a'}]").errors == ()
    compiled = mutating("[JSONPatch{op: 'remove', path: '/a'}]")
    assert [str(unit.expression.text) for unit in compiled.mutations] == ["[JSONPatch{op: 'remove', path: '/a'}]"]
    wrong = _compiled({"validation": "Object{} == Object{}"})
    assert "undeclared reference to 'Object'" in wrong.errors[0][1].full_reference()


def test_the_namespace_is_read_only_where_it_is_named() -> None:
    """In any expression."""
    assert not validating("true").reads_namespace
    assert validating("true", "namespaceObject == null").reads_namespace
    assert validating("true", variables=[{"name": "v", "expression": "namespaceObject == null"}]).reads_namespace
