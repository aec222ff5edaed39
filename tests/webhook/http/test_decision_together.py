"""Policies judged together, in the service: fused after the first review, counted and annotated each by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from support.builders import FACTS, WORKLOADS, pod
from support.patience import PATIENCE, until
from support.policies.policydocuments import documents
from support.service.reviews import Fixed, answer_of, body, rule, violation
from support.service.servers import Serve

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS
from policies.admissionpolicy.rules import validatingrule
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.engine.violation import Violation
from webhook import heavy
from webhook.http.decision import Served

_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "object.metadata.?labels[?'NAME'].orValue('') != 'no'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
---
"""


def _policies() -> list[Rule]:
    loaded = read(documents("".join(_POLICY.replace("NAME", name) for name in ("first", "second"))))
    return validatingrule.rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)


class _Slow(Fixed):
    """Refuses objects with a label `slow`, after more time than the event loop has for a review."""

    def validate(self, request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
        """Refuse in the end."""
        if "slow" not in (request.object or {})["metadata"].get("labels", {}):
            return ()
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return [violation()]


async def test_reviews_before_and_after_policies_are_fused(serve: Serve) -> None:
    """Answers, annotations and metrics are the same; a refusal names the one policy that refuses."""
    rules = RuleSet(_policies())
    (screener,) = rules.screeners
    running = await serve(Served(rules, FACTS))
    admitted, refused = body(pod()), body(pod(labels={"second": "no"}))

    before = [answer_of((await running.post(sent)).body) for sent in (admitted, refused)]
    await until(lambda: not screener.is_waiting)
    after = [answer_of((await running.post(sent)).body) for sent in (admitted, refused)]

    assert before == after
    assert [answer["allowed"] for answer in after] == [True, False]
    assert after[0]["auditAnnotations"] == {"first": "admit", "second": "admit"}
    assert after[1]["auditAnnotations"]["first"] == "admit"
    exposed = (await running.get("/metrics")).text
    labels = 'phase="validate",rule="{}",verdict="{}"'
    counts = {
        (name, verdict): count
        for name in ("first", "second")
        for verdict in ("admit", "deny")
        if (count := _count(exposed, 'operation="CREATE",' + labels.format(name, verdict)))
    }
    assert counts == {("first", "admit"): 4.0, ("second", "admit"): 2.0, ("second", "deny"): 2.0}
    assert 'cks_admission_rule_evaluations_total{rule="first"} 4.0\n' in exposed
    assert 'cks_admission_rule_evaluations_total{rule="second"} 6.0\n' in exposed


async def test_policies_are_fused_after_a_review_that_took_too_long(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the event loop tries again what it has given up: it may have been the first use of many policies."""
    monkeypatch.setattr(heavy, "REMEMBERED", 3600.0)
    rules = RuleSet([rule(_Slow()), *_policies()])
    (screener,) = rules.screeners
    running = await serve(Served(rules, FACTS))

    async def judged_elsewhere() -> float:
        await running.post(body(pod()))
        return _value((await running.get("/metrics")).text, 'cks_admission_child_reviews_total{outcome="answered"}')

    assert answer_of((await running.post(body(pod(labels={"slow": "yes"})))).body)["allowed"] is False
    await until(lambda: not screener.is_waiting)
    async with asyncio.timeout(PATIENCE):
        while await judged_elsewhere() != await judged_elsewhere():
            pass


def _value(exposed: str, series: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in exposed.splitlines() if line.startswith(series))


def _count(exposed: str, labels: str) -> float:
    """The value of a series of decisions; 0 if there is none."""
    start = f"cks_admission_decisions_total{{{labels}}} "
    return sum(float(line.removeprefix(start)) for line in exposed.splitlines() if line.startswith(start))
