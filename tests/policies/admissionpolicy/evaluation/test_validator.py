"""A ValidatingAdmissionPolicy with its bindings says what kube-apiserver's would; test_policy_differential proves it.

Here stands what that proof cannot show: what the finding keeps besides, and what the API server never lets happen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.cel.answers import Table
from support.policies.admissionpolicies import OBJECT, binding, inputs, mutating, parameters, policy, validating
from support.policies.nativeanswers import FAILURE_ANNOTATION, audit_annotations

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.evaluation.validator import (
    OUT_OF_BUDGET,
    Finding,
    Result,
    combined,
    evaluate_policy,
    result_of,
)
from policies.admissionpolicy.model import AuditAnnotation, Expression, NamedExpression, ParamKind, ParamRef, Validation
from policies.cel.library.authorizer import CheckAnswer
from policies.engine.interruption import Missing, TimeLimitError
from policies.kubernetes.release import RELEASES, Release

CHECK = "authorizer.requestResource.check('frob').allowed()"
BAD = Expression(text="object.", path="spec")
INT = Expression(text="1 + 1", path="spec")
FALSE = Expression(text="false", path="spec")
FAILED = "compilation failed: ERROR: <input>:1:8"
SYNTAX = f"compilation error: {FAILED}"


def said(compiled: CompiledPolicy, *actions: Any, **fields: Any) -> list[tuple[str, str, int, list[str]]]:
    """Kind, words, index and actions of each finding."""
    result = evaluate_policy(compiled, [binding(*actions)], NO_PARAMETERS, inputs(**fields))
    return [(each.kind, each.message, each.index, sorted(each.actions)) for each in result.findings]


def lines(finding: Finding) -> tuple[str, ...]:
    """The reasons of a finding."""
    return tuple(map(str, finding.reasons))


def test_every_violation_is_found_with_its_place_and_reason() -> None:
    """Not only the first: each has the words of the API server, and apart from them what decided, and where."""
    compiled = validating("object.data.a == '2'", "true", {"expression": "size(object.data) > 3", "message": "few"})
    found = evaluate_policy(compiled, [binding()], NO_PARAMETERS, inputs()).findings
    assert [(each.message, each.index, lines(each)) for each in found] == [
        (
            "failed expression: object.data.a == '2'",
            0,
            ("data.a: object.data.a == '2' is false (object.data.a is \"1\")",),
        ),
        ("few", 2, ("data: size(object.data) > 3 is false (size(object.data) is 1)",)),
    ]
    assert found[0].native == (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.data.a == '2'"
    )
    assert found[0].expression is not None
    assert found[0].expression.path == "spec.validations[0].expression"
    assert found[0].reasons[0].place == ("object", "data", "a")


def test_an_error_is_explained_too_and_an_ignored_one_is_not() -> None:
    """A finding without consequences is kept for logs and counters, without the cost of an explanation."""
    words = "expression 'object.data.x == '1'' resulted in error: no such key: x"
    fails, passes = (
        evaluate_policy(validating("object.data.x == '1'", failurePolicy=each), [binding()], NO_PARAMETERS, inputs())
        for each in ("Fail", "Ignore")
    )
    assert [(each.message, lines(each)) for each in fails.findings] == [
        (words, ("data.x: object.data.x failed: no such key: x",))
    ]
    assert [(each.message, lines(each), each.denies) for each in passes.ignored] == [(words, (), False)]
    assert passes.findings == ()


@pytest.mark.parametrize("action", ["Deny", "Warn", "Audit"])
def test_a_missing_parameter_denies_whatever_the_actions_are(action: str) -> None:
    """The configuration is wrong, and only the failurePolicy has a say in that."""
    wrong = binding(action, param_ref=ParamRef(name="none", parameter_not_found_action="Deny"))
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    words = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    fails, ignores = (
        evaluate_policy(validating("true", paramKind=kind, failurePolicy=policy_), [wrong], parameters(), inputs())
        for policy_ in ("Fail", "Ignore")
    )
    expected = Finding(policy="p", binding="b", kind="misconfigured", message=words, actions=frozenset({"Deny"}))
    assert (fails.findings, fails.ignored) == ((expected,), ())
    assert (ignores.findings, ignores.ignored) == ((), (replace(expected, actions=frozenset()),))


def test_an_unknown_kind_of_parameters_is_the_policy_s_own_fault() -> None:
    """No binding is named, and none is evaluated."""
    compiled = validating("false", paramKind={"apiVersion": "a.example/v1", "kind": "No"})
    result = evaluate_policy(compiled, [binding(), binding(name="c")], parameters(), inputs())
    assert [each.native for each in result.findings] == [
        (
            "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
            "failed to find resource referenced by paramKind: 'a.example/v1, Kind=No'"
        )
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"validations": (Validation(expression=BAD), Validation(expression=FALSE))},
            [SYNTAX, "failed expression: false"],
        ),
        (
            {"audit_annotations": (AuditAnnotation(key="k", value_expression=INT),)},
            ["compilation error: must evaluate to one of [string null_type] but got int"],
        ),
        (
            {
                "match_conditions": (NamedExpression(name="c", expression=INT),),
                "validations": (Validation(expression=FALSE),),
            },
            ["compilation error: must evaluate to bool but got int"],
        ),
        (
            {
                "variables": (NamedExpression(name="v", expression=BAD),),
                "validations": (Validation(expression=Expression(text="variables.v == 1", path="spec")),),
            },
            [f"expression 'variables.v == 1' resulted in error: composited variable \"v\" fails to compile: {FAILED}"],
        ),
    ],
    ids=["validation", "annotation", "condition", "variable"],
)
def test_what_does_not_compile_fails_when_it_is_evaluated(fields: dict[str, Any], words: list[str]) -> None:
    """The API server would not have stored it; loaded all the same, each place fails by its own words."""
    compiled = compile_policy(policy(**fields))
    assert [text.partition(": Syntax error")[0] for _, text, *_ in said(compiled)] == words
    assert len(compiled.errors) == 1


def test_an_unanswered_check_passes_through() -> None:
    """Whoever evaluates finds the answer and evaluates again; nothing is refused for want of it."""
    compiled = validating({"expression": CHECK, "message": "may not"})
    with pytest.raises(Missing) as asked:
        evaluate_policy(compiled, [binding()], NO_PARAMETERS, inputs())
    may_not = Table({asked.value.key: CheckAnswer(allowed=False)})
    may = Table({asked.value.key: CheckAnswer(allowed=True)})
    assert [words for _, words, *_ in said(compiled, decisions=may_not)] == ["may not"]
    assert said(compiled, decisions=may) == []


def test_the_budget_is_for_all_validations_of_one_evaluation() -> None:
    """What is over it is one decision, in place of those of all validations."""
    compiled = validating("object.data.a == '2'", "object.data.a == '1'")
    cost = 5  # of each: two selections, a comparison
    over, within = (
        evaluate_policy(compiled, [binding("Warn")], NO_PARAMETERS, inputs(), budget=budget).findings
        for budget in (cost, 100)
    )
    assert [(each.kind, each.message, each.index, {*each.actions}) for each in over] == [
        ("error", OUT_OF_BUDGET, 0, {"Warn"})
    ]
    assert [each.index for each in within] == [0]


def test_the_namespace_is_looked_up_only_where_an_expression_reads_it() -> None:
    """And not at all for what is in none, or for a Namespace itself."""
    asked: list[str] = []

    def namespace() -> dict[str, Any]:
        asked.append("team")
        return {"metadata": {"name": "team", "labels": {"a": "b"}}, "spec": {}, "status": {}}

    reads = validating("namespaceObject.metadata.labels['a'] == 'b'")
    variable = {"name": "v", "expression": "namespaceObject == null"}
    assert said(validating("object.data.a == '1'"), whole=namespace) == []
    assert asked == []
    assert said(reads, whole=namespace) == said(validating("!variables.v", variables=[variable]), whole=namespace) == []
    assert asked == ["team", "team"]
    for request in ({"namespace": ""}, {"kind": {"group": "", "version": "v1", "kind": "Namespace"}}):
        assert "no such key: metadata" in said(reads, whole=namespace, request=request)[0][1]
    assert asked == ["team", "team"]


def test_the_end_of_the_time_is_absorbed_by_nothing() -> None:
    """Neither the policy's failurePolicy nor a fall-back for messages turns it into an answer: the engine does."""
    text = "object.data.l.all(a, object.data.l.all(b, a < b || a >= b))"
    long = {**OBJECT, "data": {"l": list(range(100))}}
    for each in (
        validating(text),
        validating({"expression": "object == null", "messageExpression": f"{text} ? 'a' : 'b'"}),
        validating("object == null", matchConditions=[{"name": "all", "expression": text}]),
    ):
        with pytest.raises(TimeLimitError):
            said(each, obj=long, expired=lambda: True)


AUDITED = Finding(policy="p", binding="b", kind="violation", message="no", actions=frozenset({"Audit"}), index=1)
DENIED = Finding(
    policy="p", binding="c", kind="violation", message="never", reason="Forbidden", actions=frozenset({"Deny", "Audit"})
)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_the_first_denial_and_the_audited_failures_are_shown(release: Release) -> None:
    """As the API server does: 1.36 keeps the first failure in the audit annotation, later releases up to 50."""
    result = combined(
        [Result(findings=(AUDITED,), published={"p/k": ("x",)}), result_of([DENIED], {"p/k": ("y", "x")})]
    )
    assert result.denial == DENIED
    first = '{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}'
    second = '{"message":"never","policy":"p","binding":"c","expressionIndex":0,"validationActions":["Deny","Audit"]}'
    expected = first if release == RELEASES[0] else f"{first},{second}"
    assert audit_annotations(result, release) == {"p/k": "x, y", FAILURE_ANNOTATION: f"[{expected}]"}
    many = result_of([AUDITED] * 60)
    assert len(json.loads(audit_annotations(many, release)[FAILURE_ANNOTATION])) == (1 if expected == first else 50)


def test_the_status_of_a_finding_follows_from_its_reason() -> None:
    """Except that a mutating policy always answers 403, and 500 where its result is unfit; one may have no binding."""
    refused = Finding(policy_kind="MutatingAdmissionPolicy", policy="p", binding="b", kind="error", message="no")
    unfit = Finding(
        policy_kind="MutatingAdmissionPolicy",
        policy="p",
        binding="b",
        kind="internal",
        message="Internal error occurred: x",
        reason="InternalError",
    )
    unbound = [replace(each, binding="") for each in (DENIED, refused)]
    findings = (DENIED, AUDITED, refused, unfit, *unbound)
    assert [((each.status.code, each.status.reason), each.native) for each in findings] == [
        ((403, "Forbidden"), "ValidatingAdmissionPolicy 'p' with binding 'c' denied request: never"),
        ((422, "Invalid"), "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
        ((403, "Invalid"), "policy 'p' with binding 'b' denied request: no"),
        ((500, "InternalError"), "Internal error occurred: x"),
        ((403, "Forbidden"), "ValidatingAdmissionPolicy 'p' denied request: never"),
        ((403, "Invalid"), 'policy "p" denied request: no'),
    ]


def test_the_value_of_an_annotation_is_cut_by_bytes() -> None:
    """10 KiB stay; half a character is replaced."""
    compiled = validating(auditAnnotations=[{"key": "k", "valueExpression": "string(object.data.x)"}])
    texts = ("x" * 10240, "x" * 10239 + "\u00fc")
    given = (inputs(obj={**OBJECT, "data": {"x": text}}) for text in texts)
    results = [evaluate_policy(compiled, [binding()], NO_PARAMETERS, each) for each in given]
    assert [result.published["p/k"] for result in results] == [(texts[0],), ("x" * 10239 + "\ufffd",)]


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
