"""Answers are a few KiB long, whatever the object holds, and say how much they leave out."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, request, resource
from support.service.reviews import UID, answer_of

from policies.engine.engine import Answer, Decision, RuleFailure, validate
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Note, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import FORBIDDEN, Status, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, USE_OWN_PREFIX, LabelGuard
from webhook.http.review import encode

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
