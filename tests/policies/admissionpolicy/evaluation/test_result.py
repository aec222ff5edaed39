"""What a policy found can be told in the API server's words, and put together over bindings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.policies.admissionpolicies import OBJECT, binding, inputs, validating
from support.policies.nativeanswers import FAILURE_ANNOTATION, audit_annotations

from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.evaluation.validator import (
    NOTHING_FOUND,
    Finding,
    Result,
    combined,
    evaluate_policy,
    result_of,
)
from policies.kubernetes.release import RELEASES, Release

AUDITED = Finding(policy="p", binding="b", kind="violation", message="no", actions=frozenset({"Audit"}), index=1)
DENIED = Finding(
    policy="p", binding="c", kind="violation", message="never", reason="Forbidden", actions=frozenset({"Deny", "Audit"})
)
IGNORED = Finding(policy="p", binding="b", kind="error", message="broken")


def test_findings_without_consequences_stand_apart() -> None:
    """They are for logs and counters."""
    assert result_of([AUDITED, IGNORED, DENIED]) == Result(findings=(AUDITED, DENIED), ignored=(IGNORED,))
    assert result_of([]) is NOTHING_FOUND


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
