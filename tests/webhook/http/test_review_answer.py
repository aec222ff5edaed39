"""Answers encoded: the whole review that goes back, for everything that rules may have decided."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import TODAY, Json
from support.service.reviews import CPU_TOLERATION, UID, answer_of, violation

from policies.engine.engine import ADMITTED, Answer, Decision, RuleFailure
from policies.engine.rule import PolicyException
from policies.engine.violation import Status
from webhook.http.review import encode

_ADD = {"op": "add", "path": "/spec/tolerations", "value": [CPU_TOLERATION]}
_TIDY = 'Tidiness is required.\n  metadata.name: "x" is untidy\nTidy up.'
_MOVING = PolicyException("moving", ("tidy",), "new\nhouse", TODAY)
_INVALID, _UNAUTHORIZED = Status("Invalid", 422), Status("Unauthorized", 401)
_ENDED = 'The exception "moving" from tidy ended on 2026-03-01 (new house).'
_CAUSE = 'Tidiness is required.\nmetadata.name: "x" is untidy\nTidy up.'
_LOST = FileNotFoundError("no map")
_BROKEN = (
    "Rule 'lost' could not be evaluated (FileNotFoundError: no map).\n"
    "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."
)


def _refusal(message: str, code: int = 403, reason: str = "Forbidden") -> Json:
    return {"message": message, "reason": reason, "code": code, "status": "Failure"}


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        pytest.param(ADMITTED, {"allowed": True}, id="no-rule-ran"),
        pytest.param(
            Answer((Decision("labels", "admit"), Decision("tidy", "admit"))),
            {"allowed": True, "auditAnnotations": {"labels": "admit", "tidy": "admit"}},
            id="admitted",
        ),
        pytest.param(
            Answer((Decision("tidy", "audit", (violation(path=""), violation(path="spec.x"))),)),
            {"allowed": True, "auditAnnotations": {"tidy": "audit: Tidiness is required., spec.x"}},
            id="audited-without-a-place",
        ),
        pytest.param(
            Answer((Decision("tolerations", "patch"),), (_ADD,), ("one", "two")),
            {
                "allowed": True,
                "patch": [_ADD],
                "patchType": "JSONPatch",
                "auditAnnotations": {"tolerations": "patch"},
                "warnings": ["one", "two"],
            },
            id="patched-with-warnings",
        ),
        pytest.param(
            Answer((Decision("tidy", "deny", (violation(), violation(path="spec.x", value="3"))),)),
            {
                "allowed": False,
                "status": _refusal(
                    'Tidiness is required.\n  metadata.name: "x" is untidy\n  spec.x: 3 is untidy\nTidy up.'
                ),
                "auditAnnotations": {"tidy": "deny: metadata.name, spec.x"},
            },
            id="refused",
        ),
        pytest.param(
            Answer((Decision("tidy", "deny", (violation(), violation(value='"y"'))),)),
            {
                "allowed": False,
                "status": _refusal(
                    'Tidiness is required.\n  metadata.name: "x" is untidy\n  metadata.name: "y" is untidy\nTidy up.'
                ),
                "auditAnnotations": {"tidy": "deny: metadata.name"},
            },
            id="refused-twice-at-one-path",
        ),
        pytest.param(
            Answer((Decision("tidy", "warn", (violation(),)),), (), ('metadata.name: "x" is untidy',)),
            {
                "allowed": True,
                "auditAnnotations": {"tidy": "warn: metadata.name"},
                "warnings": ['metadata.name: "x" is untidy'],
            },
            id="warned",
        ),
        pytest.param(
            Answer((Decision("tidy", "audit", (violation(),)),)),
            {"allowed": True, "auditAnnotations": {"tidy": "audit: metadata.name"}},
            id="audited",
        ),
        pytest.param(
            Answer((Decision("tidy", "excepted", (violation(),), exception=_MOVING),)),
            {"allowed": True, "auditAnnotations": {"tidy": "excepted: moving until 2026-03-01: new house"}},
            id="excepted",
        ),
        pytest.param(
            Answer((Decision("tidy", "deny", (violation(),), exception=_MOVING),)),
            {
                "allowed": False,
                "status": _refusal(f"{_TIDY}\n{_ENDED}"),
                "auditAnnotations": {"tidy": "deny: metadata.name"},
            },
            id="refused-since-an-exception-ended",
        ),
        pytest.param(
            Answer((Decision("tidy", "deny", (replace(violation(), status=_INVALID),), exception=_MOVING),)),
            {
                "allowed": False,
                "status": _refusal(f"{_TIDY}\n{_ENDED}", 422, "Invalid")
                | {"details": {"causes": [{"message": _CAUSE, "field": "metadata.name"}, {"message": _ENDED}]}},
                "auditAnnotations": {"tidy": "deny: metadata.name"},
            },
            id="kubectl-shows-only-causes",
        ),
        pytest.param(
            Answer(
                (
                    Decision("tidy", "deny", (replace(violation(path="a"), status=_INVALID, position=1),)),
                    Decision("tidy", "deny", (replace(violation(path="b"), status=_UNAUTHORIZED),)),
                )
            ),
            {
                "allowed": False,
                "status": _refusal(
                    'Tidiness is required.\n  b: "x" is untidy\n  a: "x" is untidy\nTidy up.', 401, "Unauthorized"
                ),
                "auditAnnotations": {"tidy": "deny: a; deny: b"},
            },
            id="refused-as-the-first-validation-says",
        ),
        pytest.param(
            Answer((Decision("lost", "error", failure=RuleFailure(_LOST, "Fail")),)),
            {
                "allowed": False,
                "status": _refusal(_BROKEN, 500, "InternalError"),
                "auditAnnotations": {"lost": "error: FileNotFoundError"},
            },
            id="failed-with-fail",
        ),
        pytest.param(
            Answer(
                (Decision("lost", "error", failure=RuleFailure(_LOST, "Ignore")),), (), ("rule 'lost' was skipped",)
            ),
            {
                "allowed": True,
                "auditAnnotations": {"lost": "error: FileNotFoundError"},
                "warnings": ["rule 'lost' was skipped"],
            },
            id="failed-with-ignore",
        ),
        pytest.param(
            Answer(
                (
                    Decision("lost", "error", failure=RuleFailure(_LOST, "Fail")),
                    Decision("tidy", "deny", (violation(),)),
                )
            ),
            {
                "allowed": False,
                "status": _refusal(f"{_TIDY}\n{_BROKEN}"),
                "auditAnnotations": {"lost": "error: FileNotFoundError", "tidy": "deny: metadata.name"},
            },
            id="refused-and-failed",
        ),
        pytest.param(
            Answer(
                (Decision("tolerations", "patch"), Decision("lost", "error", failure=RuleFailure(_LOST, "Fail"))),
                (_ADD,),
            ),
            {
                "allowed": False,
                "status": _refusal(_BROKEN, 500, "InternalError"),
                "auditAnnotations": {"tolerations": "patch", "lost": "error: FileNotFoundError"},
            },
            id="a-refusal-drops-the-patch",
        ),
    ],
)
def test_an_answer_is_encoded(answer: Answer, response: Json) -> None:
    """The whole answering review is as the API expects it, its patch in base64."""
    found = answer_of(encode(UID, answer))
    if "patch" in found:
        found["patch"] = json.loads(base64.b64decode(found["patch"], validate=True))

    assert found == {"uid": UID, **response}


def test_a_long_audit_annotation_is_cut() -> None:
    """The audit log gets the first 1024 characters of the paths."""
    violations = tuple(violation(path=f"spec.containers[{index}].name") for index in range(200))

    found = answer_of(encode(UID, Answer((Decision("tidy", "deny", violations),))))

    whole = "deny: " + ", ".join(violation.path for violation in violations)
    assert found["auditAnnotations"] == {"tidy": whole[:1024]}


_DECISIONS = st.builds(
    Decision,
    st.sampled_from(["labels", "tidy", "lost"]),
    st.sampled_from(["admit", "patch", "warn", "audit", "excepted", "deny", "error"]),
    st.sampled_from([(), (violation(),)]),
    st.sampled_from([None, RuleFailure(_LOST, "Fail"), RuleFailure(_LOST, "Ignore")]),
    st.sampled_from([None, _MOVING]),
)
_ANSWERS = st.builds(
    Answer,
    st.lists(_DECISIONS, max_size=3).map(tuple),
    st.lists(st.just(_ADD), max_size=2).map(tuple),
    st.lists(st.text(max_size=10), max_size=2).map(tuple),
)


@settings(max_examples=200)
@given(uid=st.text(min_size=1, max_size=40), answer=_ANSWERS)
def test_every_answer_keeps_the_response_contract(uid: str, answer: Answer) -> None:
    """The uid comes back, patch and patchType come both or not at all and never empty, a refusal has its status."""
    found: Any = answer_of(encode(uid, answer))

    assert found["uid"] == uid
    assert found["allowed"] is answer.allowed
    assert ("patch" in found) == ("patchType" in found) == (answer.allowed and bool(answer.operations))
    if "patch" in found:
        assert found["patchType"] == "JSONPatch"
        assert json.loads(base64.b64decode(found["patch"])) == list(answer.operations)
    assert ("status" in found) == (not answer.allowed)
    if "status" in found:
        assert (found["status"]["code"], found["status"]["reason"]) in {(403, "Forbidden"), (500, "InternalError")}
