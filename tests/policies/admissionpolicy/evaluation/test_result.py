"""What a policy found can be told in the API server's words, and put together over bindings."""

from __future__ import annotations

import json

from support.policies.nativeanswers import FAILURE_ANNOTATION, annotation, audit_annotations, forbidden, warning

from policies.admissionpolicy.evaluation.result import NOTHING_FOUND, Finding, Result, combined, result_of

AUDITED = Finding(policy="p", binding="b", kind="violation", message="no", actions=frozenset({"Audit"}), index=1)
DENIED = Finding(
    policy="p", binding="c", kind="violation", message="never", reason="Forbidden", actions=frozenset({"Deny", "Audit"})
)
IGNORED = Finding(policy="p", binding="b", kind="error", message="broken")


def test_findings_without_consequences_stand_apart() -> None:
    """They are for logs and counters."""
    assert result_of([AUDITED, IGNORED, DENIED]) == Result(findings=(AUDITED, DENIED), ignored=(IGNORED,))
    assert result_of([]) is NOTHING_FOUND


def test_the_first_denial_and_the_first_audited_failure_are_shown() -> None:
    """As the API server does, which keeps the first value of an audit annotation."""
    result = combined(
        [Result(findings=(AUDITED,), published={"p/k": ("x",)}), result_of([DENIED], {"p/k": ("y", "x")})]
    )
    assert result.denial == DENIED
    assert audit_annotations(result) == {
        "p/k": "x, y",
        FAILURE_ANNOTATION: (
            '[{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}]'
        ),
    }


def test_the_status_of_a_finding_follows_from_its_reason() -> None:
    """Except that a mutating policy always answers 403, and 500 where its result is unfit."""
    refused = Finding(policy_kind="MutatingAdmissionPolicy", policy="p", binding="b", kind="error", message="no")
    unfit = Finding(
        policy_kind="MutatingAdmissionPolicy",
        policy="p",
        binding="b",
        kind="internal",
        message="Internal error occurred: x",
        reason="InternalError",
    )
    assert [((each.status.code, each.status.reason), each.native) for each in (DENIED, AUDITED, refused, unfit)] == [
        ((403, "Forbidden"), "ValidatingAdmissionPolicy 'p' with binding 'c' denied request: never"),
        ((422, "Invalid"), "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
        ((403, "Invalid"), "policy 'p' with binding 'b' denied request: no"),
        ((500, "InternalError"), "Internal error occurred: x"),
    ]


def test_the_annotation_of_a_failure_is_json_as_go_writes_it() -> None:
    """The fields stand in Go's order, what HTML knows is escaped, and the actions have one order."""
    failure = Finding(
        policy="p",
        binding="b",
        kind="violation",
        message="a < b & \u00fc",
        index=2,
        actions=frozenset({"Audit", "Deny"}),
    )
    assert annotation(failure) == (
        '[{"message":"a \\u003c b \\u0026 \u00fc","policy":"p","binding":"b","expressionIndex":2,'
        '"validationActions":["Deny","Audit"]}]'
    )
    assert json.loads(annotation(failure))[0]["message"] == "a < b & \u00fc"


def test_the_words_around_a_message() -> None:
    """A warning names policy and binding, a refusal the object."""
    assert (
        warning(AUDITED),
        forbidden("apps", "deployments", "x", "no"),
        forbidden("", "pods", 'a"b', "no"),
    ) == (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no",
        'deployments.apps "x" is forbidden: no',
        'pods "a\\"b" is forbidden: no',
    )
