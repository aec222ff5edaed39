"""Answers encoded: the whole review that goes back, a few KiB long, for everything that rules may have decided."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import FACTS, TODAY, WORKLOADS, Json, request, resource
from support.service.reviews import CPU_TOLERATION, UID, answer_of, violation

from policies.engine.engine import ADMITTED, Answer, Decision, RuleFailure, validate
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Note, PolicyException, Rule, RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import FORBIDDEN, Status, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, USE_OWN_PREFIX, LabelGuard
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


_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL), Exemptions())
_HOOK = Hook("validate", "labels", (ResourceRule(("*",), ("*",), ("*/*",)),), "Fail")
_LARGEST = 20_000
"""Bytes of the longest answer: 8 KiB of message, in causes once more, warnings and audit annotations."""


def _guarded(obj: Json) -> tuple[Answer, bytes]:
    rule = Rule("labels", (_HOOK,), "deny", _GUARD.reads, validate=_GUARD.validate)
    answer = validate(request(obj), RuleSet([rule]), FACTS)
    return answer, encode(UID, answer)


def _job_set(templates: list[Json]) -> Json:
    spec = {"replicatedJobs": [{"template": {"spec": {"template": template}}} for template in templates]}
    return resource("jobset.x-k8s.io/v1alpha2", "JobSet", {"spec": spec})


def test_a_refusal_shows_the_first_violations_and_counts_the_others() -> None:
    """Of 80,000 reserved labels the refusal shows the first 20 in their order, then how many more there are."""
    labels = {f"k{number:05}.coreweave.cloud/x": "1" for number in reversed(range(80_000))}

    answer, reply = _guarded(resource("v1", "ConfigMap", labels=labels))

    assert answer_of(reply)["status"]["message"] == "\n".join(
        [
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.",
            *(f'  metadata.labels: k{number:05}.coreweave.cloud/x="1"' for number in range(20)),
            "  and 79980 more",
            USE_OWN_PREFIX,
        ]
    )
    ((shown, more),) = [(len(decision.violations), decision.more) for decision in answer.decisions]
    assert (shown, more) == (20, 79_980)
    assert answer_of(reply)["auditAnnotations"] == {"labels": "deny: metadata.labels and 79980 more"}


_RESERVED = "a.coreweave.cloud/b"


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(resource("v1", "ConfigMap", labels={f"{_RESERVED}{'k' * 10**6}": "v" * 10**6}), id="key"),
        pytest.param(
            resource("v1", "Node", labels={f"{n}.coreweave.com/{'k' * 9000}": "" for n in range(50)}), id="keys"
        ),
        pytest.param(_job_set([{"metadata": {"labels": {_RESERVED: str(n)}}} for n in range(2000)]), id="places"),
        pytest.param(resource("v1", "ConfigMap", labels="x" * 10**6), id="no-map"),
    ],
)
def test_a_refusal_is_short_whatever_the_object_holds(obj: Json) -> None:
    """No key, value, path or number of places makes the answer long."""
    answer, reply = _guarded(obj)

    assert not answer.allowed
    assert len(reply) < _LARGEST


@pytest.mark.parametrize("status", [FORBIDDEN, Status("Invalid", 422)], ids=lambda status: status.reason)
@pytest.mark.parametrize("verdict", ["deny", "warn", "audit", "excepted"])
def test_answers_of_many_rules_are_bounded_together(verdict: Any, status: Status) -> None:
    """Eighty rules with long messages answer in as little as one."""

    def found(rule: str) -> tuple[Violation, ...]:
        return tuple(
            Violation(rule, f"spec.{number}", "7" * 500, "is odd", f"{rule} says no.", "Do not. " * 60, "", status)
            for number in range(20)
        )

    answer = Answer(tuple(Decision(f"r{n}", verdict, found(f"r{n}"), more=1000) for n in range(80)))

    reply = encode(UID, answer)

    annotations = sum(map(len, answer_of(reply).get("auditAnnotations", {}).values()))
    assert len(reply) - annotations < _LARGEST
    assert annotations <= 80 * 1024
    if (verdict, status.reason) == ("deny", "Invalid"):
        causes = answer_of(reply)["status"]["details"]["causes"]
        assert causes[-1] == {"message": f"and {80 * 1020 - (len(causes) - 1)} more"}


def test_the_text_of_a_failure_is_bounded() -> None:
    """A rule that fails with a long text is told in a short one."""
    failure = RuleFailure(ValueError("x" * 10**6), "Fail")

    reply = encode(UID, Answer((Decision("r", "error", failure=failure),)))

    assert len(reply) < _LARGEST


def test_what_policies_publish_is_bounded() -> None:
    """Values of audit annotations past 64 KiB in all are left out, and say so."""
    notes = tuple(Note(f"p/{number}", "x" * 30_000) for number in range(4))

    published = answer_of(encode(UID, Answer((Decision("p", "admit", notes=notes),))))["auditAnnotations"]

    left_out = "left out: the audit annotations of one review have 65536 characters at most"
    assert published == {"p": "admit", "p.0": "x" * 30_000, "p.1": "x" * 30_000, "p.2": left_out, "p.3": left_out}


class _Counted(str):
    """A label value that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [100, 200, 400])
def test_copies_of_a_label_are_found_with_linear_work(count: int) -> None:
    """Whether a workload's label is a copy of a template's is found with a few comparisons for each template."""
    key = "qos.coreweave.cloud/interruptable"
    templates = [{"metadata": {"labels": {key: _Counted(number)}}} for number in range(count)]
    obj = _job_set(templates)
    for job in obj["spec"]["replicatedJobs"]:
        job["template"]["metadata"] = {"labels": {key: "true"}}
    _Counted.compared = 0

    _guarded(obj)

    assert _Counted.compared <= 4 * count
