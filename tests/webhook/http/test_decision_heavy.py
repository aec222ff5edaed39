"""Reviews that take long, judged in a child process with the same answers, and policies that are judged together."""

import asyncio

import pytest
from support.builders import FACTS, WORKLOADS, pod
from support.patience import PATIENCE, until
from support.policies.policydocuments import documents, policy
from support.service.reviews import UID, NeedsNamespaces, answer_of, body, rule, served, spinning
from support.service.servers import Directory, Serve

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.rules import policyrule
from policies.engine.rule import Rule, RuleSet
from webhook import child, heavy
from webhook.http import decision
from webhook.http.decision import LARGE, Served

_ANSWERED = 'cks_admission_child_reviews_total{outcome="answered"}'
_ENDED = 'cks_admission_child_reviews_total{outcome="ended"}'
_POSTPONED = "cks_admission_postponed_reviews_total"


_SLOW = body(pod(labels={"slow": "yes"}))


def _large(size: int = LARGE) -> bytes:
    return body(pod(labels={"slow": "yes"}, annotations={"long": "x" * size}))


@pytest.mark.parametrize("heedless", [False, True], ids=["heeds-the-clock", "heeds-nothing"])
async def test_what_takes_too_long_here_is_judged_elsewhere(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, *, heedless: bool
) -> None:
    """The event loop gives up, a child says what it would have said, and the next such review is not tried again."""
    monkeypatch.setattr(heavy, "REMEMBERED", 3600.0)
    running = await serve(served(rule(spinning(0.2, heedless=heedless))))
    replies = [answer_of((await running.post(_SLOW)).body) for _ in range(3)]
    quick = await running.post(body(pod()))
    exposed = (await running.get("/metrics")).text

    assert replies == [replies[0]] * 3
    assert replies[0]["auditAnnotations"] == {"tidy": "deny: metadata.name"}
    assert answer_of(quick.body)["allowed"] is True
    assert f"{_POSTPONED} 1.0\n" in exposed
    assert f"{_ANSWERED} 4.0\n" in exposed  # for some seconds all reviews of this namespace for this rule
    assert (
        'cks_admission_decisions_total{operation="CREATE",phase="validate",rule="tidy",verdict="deny"} 3.0' in exposed
    )


async def test_a_large_body_is_not_read_in_the_event_loop(serve: Serve) -> None:
    """A child decodes it, finds what is wrong with it, and says so as usual."""
    running = await serve(served(rule(spinning(0))))
    good = await running.post(_large())
    broken = (_large()[:-1], b"[" * 2 * LARGE, b'{"kind": "Other"}' + b" " * LARGE, b'{"request": 1' + b" " * LARGE)
    bad = [await running.post(sent) for sent in broken]

    assert answer_of(good.body)["allowed"] is False
    assert [(reply.status, reply.text.partition(".")[0][:24]) for reply in bad] == [
        (400, "The body is not JSON: In"),
        (400, "The body is JSON but no "),
        (400, "Expected apiVersion admi"),
        (400, "The body is not JSON: In"),
    ]
    assert f"{_ANSWERED} 5.0\n" in (await running.get("/metrics")).text


async def test_facts_that_a_child_misses(serve: Serve) -> None:
    """A child asks for what is not at hand; this process looks it up, and another child goes on."""
    directory = Directory({"default": {}, "team": {}})
    rules = RuleSet([rule(NeedsNamespaces("team", "default"))])
    running = await serve(Served(rules, directory.facts(), directory))
    answer = answer_of((await running.post(_large())).body)

    assert answer["auditAnnotations"] == {"tidy": "admit"}
    assert [name for name, _ in directory.asked] == ["team", "default"]


@pytest.mark.parametrize("heedless", [False, True], ids=["heeds-the-clock", "heeds-nothing"])
async def test_the_time_of_the_caller(serve: Serve, monkeypatch: pytest.MonkeyPatch, *, heedless: bool) -> None:
    """At the caller's deadline rules that were not evaluated to their end have failed: Fail refuses, Ignore warns."""
    if not heedless:  # the child must get to its answer also where the machine stands still for seconds
        for module in (child, decision):
            monkeypatch.setattr(module, "LAST_WORDS", 20.0)
    dear = rule(spinning(3600, heedless=heedless), name="dear")
    running = await serve(served(dear, rule(spinning(0), name="open", policy="Ignore")))
    # What heeds nothing would keep the event loop, so it is made to go to a child at once.
    review, seconds = (_large(), 1) if heedless else (_SLOW, 21)
    answer = answer_of((await running.post(review, f"/validate?timeout={seconds}s")).body)
    exposed = (await running.get("/metrics")).text

    assert (answer["allowed"], answer["status"]["reason"]) == (False, "InternalError")
    assert answer["auditAnnotations"] == dict.fromkeys(["dear", "open"], "error: OvertimeError")
    assert answer["status"]["message"].startswith("Rule 'dear' could not be evaluated (OvertimeError: ")
    assert answer["warnings"][0].startswith("rule 'open' was skipped, it could not be evaluated: OvertimeError: ")
    assert f"{_ENDED if heedless else _ANSWERED} 1.0\n" in exposed
    assert ('cks_admission_policy_overtime_total{policy="dear"} 1.0\n' in exposed) is not heedless


async def test_a_tenant_waits_for_himself(serve: Serve) -> None:
    """A review gives way to one of another namespace, which is answered in its time."""
    running = await serve(served(rule(spinning(3600), name="dear", policy="Ignore")))
    flood = [
        asyncio.create_task(running.post(body(pod(labels={"slow": "yes"}), namespace="loud"), "/validate?timeout=15s"))
        for _ in range(4)
    ]
    async with asyncio.timeout(60):
        while "cks_admission_child_reviews_waiting 3.0" not in (await running.get("/metrics")).text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        before = sum(task.done() for task in flood)
        other = await running.post(body(pod(annotations={"long": "x" * LARGE})), "/validate?timeout=8s")
        done = sum(task.done() for task in flood)

    assert before == 0
    assert answer_of(other.body) == {"uid": UID, "allowed": True, "auditAnnotations": {"dear": "admit"}}
    assert done == 1
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


def _policies() -> list[Rule]:
    texts = (policy(name, f"object.metadata.?labels[?'{name}'].orValue('') != 'no'") for name in ("first", "second"))
    loaded = read(documents("".join(texts)))
    return policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)


async def test_reviews_before_and_after_policies_are_fused(serve: Serve) -> None:
    """Answers, annotations and metrics are the same; a refusal names the one policy that refuses."""
    rules = RuleSet(_policies())
    (screener,) = rules.screeners
    running = await serve(Served(rules, FACTS))
    admitted, refused = body(pod()), body(pod(labels={"second": "no"}))

    before = [answer_of((await running.post(sent)).body) for sent in (admitted, refused)]
    await until(lambda: not screener.is_waiting)
    series = [f'cks_admission_rule_evaluations_total{{rule="{name}"}} ' for name in ("first", "second")]

    async def evaluations() -> list[float]:
        lines = (await running.get("/metrics")).text.splitlines()
        return [float(line.removeprefix(one)) for one in series for line in lines if line.startswith(one)]

    earlier = await evaluations()
    after = [answer_of((await running.post(sent)).body) for sent in (admitted, refused)]
    assert [now - was for now, was in zip(await evaluations(), earlier, strict=True)] == [2.0, 3.0]

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
