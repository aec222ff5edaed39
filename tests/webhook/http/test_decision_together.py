"""Policies judged together, in the service: fused after the first review, counted and annotated each by itself."""

from __future__ import annotations

import asyncio

import pytest
from support.builders import FACTS, WORKLOADS, pod
from support.patience import PATIENCE, until
from support.policies.policydocuments import documents, policy
from support.service.reviews import answer_of, body, rule, spinning
from support.service.servers import Serve

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS
from policies.admissionpolicy.rules import validatingrule
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from webhook import heavy
from webhook.http.decision import Served


def _policies() -> list[Rule]:
    texts = (policy(name, f"object.metadata.?labels[?'{name}'].orValue('') != 'no'") for name in ("first", "second"))
    loaded = read(documents("".join(texts)))
    return validatingrule.rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)


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
    exposed = (await running.get("/metrics")).text.splitlines()
    counted = 'cks_admission_decisions_total{operation="CREATE",phase="validate",'
    assert sorted(line.removeprefix(counted) for line in exposed if line.startswith(counted)) == [
        'rule="first",verdict="admit"} 4.0',
        'rule="second",verdict="admit"} 2.0',
        'rule="second",verdict="deny"} 2.0',
    ]
    assert 'cks_admission_rule_evaluations_total{rule="first"} 4.0' in exposed
    assert 'cks_admission_rule_evaluations_total{rule="second"} 6.0' in exposed


async def test_policies_are_fused_after_a_review_that_took_too_long(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the event loop tries again what it has given up: it may have been the first use of many policies."""
    monkeypatch.setattr(heavy, "REMEMBERED", 3600.0)
    rules = RuleSet([rule(spinning(0.2, heedless=True)), *_policies()])
    (screener,) = rules.screeners
    running = await serve(Served(rules, FACTS))

    async def judged_elsewhere() -> float | None:
        await running.post(body(pod()))
        registry = running.metrics.registry
        return registry.get_sample_value("cks_admission_child_reviews_total", {"outcome": "answered"})

    assert answer_of((await running.post(body(pod(labels={"slow": "yes"})))).body)["allowed"] is False
    await until(lambda: not screener.is_waiting)
    async with asyncio.timeout(PATIENCE):
        while await judged_elsewhere() != await judged_elsewhere():
            pass
