"""Answers encoded: the whole review that goes back, for everything that rules may have decided."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
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
_MOVING = PolicyException("moving", ("tidy",), "new\nhouse", TODAY)
_INVALID, _UNAUTHORIZED = Status("Invalid", 422), Status("Unauthorized", 401)
_LOST = FileNotFoundError("no map")


_LOST_RULE = Decision("lost", "error", failure=RuleFailure(_LOST, "Fail"))
_ANSWERS_BY_CASE: dict[str, Answer] = {
    "no-rule-ran": ADMITTED,
    "admitted": Answer((Decision("labels", "admit"), Decision("tidy", "admit"))),
    "audited-without-a-place": Answer((Decision("tidy", "audit", (violation(path=""), violation(path="spec.x"))),)),
    "patched-with-warnings": Answer((Decision("tolerations", "patch"),), (_ADD,), ("one", "two")),
    "refused": Answer((Decision("tidy", "deny", (violation(), violation(path="spec.x", value="3"))),)),
    "refused-twice-at-one-path": Answer((Decision("tidy", "deny", (violation(), violation(value='"y"'))),)),
    "warned": Answer((Decision("tidy", "warn", (violation(),)),), (), ('metadata.name: "x" is untidy',)),
    "audited": Answer((Decision("tidy", "audit", (violation(),)),)),
    "excepted": Answer((Decision("tidy", "excepted", (violation(),), exception=_MOVING),)),
    "refused-since-an-exception-ended": Answer((Decision("tidy", "deny", (violation(),), exception=_MOVING),)),
    "kubectl-shows-only-causes": Answer(
        (Decision("tidy", "deny", (replace(violation(), status=_INVALID),), exception=_MOVING),)
    ),
    "refused-as-the-first-validation-says": Answer(
        (
            Decision("tidy", "deny", (replace(violation(path="a"), status=_INVALID, position=1),)),
            Decision("tidy", "deny", (replace(violation(path="b"), status=_UNAUTHORIZED),)),
        )
    ),
    "failed-with-fail": Answer((_LOST_RULE,)),
    "failed-with-ignore": Answer(
        (Decision("lost", "error", failure=RuleFailure(_LOST, "Ignore")),), (), ("rule 'lost' was skipped",)
    ),
    "refused-and-failed": Answer((_LOST_RULE, Decision("tidy", "deny", (violation(),)))),
    "a-refusal-drops-the-patch": Answer((Decision("tolerations", "patch"), _LOST_RULE), (_ADD,)),
}
_RESPONSES: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", _ANSWERS_BY_CASE)
def test_an_answer_is_encoded(case: str) -> None:
    """The whole answering review is as the API expects it, its patch in base64; answers.yaml has all of them."""
    found = answer_of(encode(UID, _ANSWERS_BY_CASE[case]))
    if "patch" in found:
        found["patch"] = json.loads(base64.b64decode(found["patch"], validate=True))

    assert found == {"uid": UID, **_RESPONSES[case]}


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
