"""Reviews that need facts which are not at hand, and those that take long, which a child process judges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, pod
from support.patience import PATIENCE, until
from support.policies.policydocuments import documents, policy
from support.service.reviews import REFUSAL, UID, NeedsNamespaces, answer_of, body, refused_body, rule, served, spinning
from support.service.servers import Directory, Serve, Unreachable, default_rules, time_at_rest

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules import policyrule
from policies.cel.library.authorizer import Check, User
from policies.engine.facts import Facts, NamespaceKey, References
from policies.engine.interruption import Key, Missing
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Rule, RuleSet, Validator
from policies.engine.violation import Violation
from policies.topology.objects import TopologyObjects
from policies.topology.topology import Catalog
from webhook import child, heavy
from webhook.http import decision
from webhook.http.app import DEFAULT_TIMEOUT, MARGIN
from webhook.http.decision import CHECKS, LARGE, LOOKUPS, Served

_DEAF = "RuntimeError: it looks something up without regard to what was found"
_ADVICE = "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."
_CONTROL_PLANE = {"ns.coreweave.cloud/org": "control-plane"}
_MANY = [f"n{number}" for number in range(LOOKUPS + 1)]
_DIRECTORY: dict[str, dict[str, str]] = {"default": {}, "team": {}, "cloud": _CONTROL_PLANE}


def _lookups(outcome: str) -> str:
    return f'cks_admission_lookups_total{{outcome="{outcome}"}}'


@pytest.mark.parametrize(
    ("namespace", "user", "asked", "allowed"),
    [
        pytest.param("default", "alice", ["default"], False, id="an-ordinary-namespace"),
        pytest.param("cloud", "alice", ["cloud"], True, id="a-control-plane-namespace"),
        pytest.param("default", "system:serviceaccount:cloud:op", ["cloud"], True, id="a-control-plane-account"),
        pytest.param("default", "system:serviceaccount:team:op", ["team", "default"], False, id="two-namespaces"),
    ],
)
async def test_a_namespace_is_read_once(
    serve: Serve, namespace: str, user: str, asked: list[str], *, allowed: bool
) -> None:
    """The labels of a Namespace on which a refusal depends are read when first needed, and not again."""
    directory = Directory(_DIRECTORY)
    running = await serve(Served(default_rules(), directory.facts(), directory))
    sent = refused_body(namespace=namespace, userInfo={"username": user, "groups": ["dev"]})

    replies = [await running.post(sent, "/validate/labels") for _ in range(3)]

    assert [answer_of(reply.body)["allowed"] for reply in replies] == [allowed] * 3
    assert [name for name, _ in directory.asked] == asked
    assert _lookups("found") + f" {len(asked)}.0\n" in (await running.get("/metrics")).text


class _Broken:
    """A resolver with a defect."""

    async def read(self, _key: Key[Any], _seconds: float) -> Any:
        raise RuntimeError("torn")


def _reading(_request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
    """A policy's rule, which needs parameters."""
    kind = ParamKind(api_version="v1", kind="ConfigMap")
    assert facts.look_up(ParametersKey(kind=kind, namespace="team", name="limits")).objects
    return ()


def _deaf(_request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
    """A rule that goes on asking for what was found."""
    raise Missing(NamespaceKey("team"))


_TEAM = NeedsNamespaces("team")
_MISSED = "is not known yet, although it was looked for"
_OVER = f"is not known yet, and one review looks for {LOOKUPS} things at most"
_LATE = "is not known yet, and no time was left to ask the API server"


@pytest.mark.parametrize(
    ("asking", "resolver", "path", "cause"),
    [
        (_TEAM, Unreachable("no route"), "/validate", "namespace team could not be read: no route"),
        (_TEAM, Unreachable("no route"), "/mutate", "namespace team could not be read: no route"),
        (_TEAM, None, "/validate", "namespace 'team' is not known yet, and there is no cluster to ask"),
        (_TEAM, _Broken(), "/validate", "namespace 'team' is not known yet: RuntimeError: torn"),
        (_TEAM, Directory(), "/validate", f"namespace 'team' {_MISSED}"),
        (_reading, Directory(), "/validate", f"ConfigMap limits in namespace team {_MISSED}"),
        (
            NeedsNamespaces(*_MANY),
            Directory({name: {} for name in _MANY}),
            "/validate",
            f"namespace 'n{LOOKUPS}' {_OVER}",
        ),
        (NeedsNamespaces("n1"), Directory({"n1": {}}), "/validate?timeout=50ms", f"namespace 'n1' {_LATE}"),
    ],
)
async def test_a_fact_that_cannot_be_had(serve: Serve, asking: Any, resolver: Any, path: str, cause: str) -> None:
    """A rule that fails closed refuses for want of it, one that fails open is skipped, and both say why."""
    rules = RuleSet([rule(asking, name="shut"), rule(asking, name="open", policy="Ignore")])
    facts = resolver.facts() if isinstance(resolver, Directory) else Directory().facts()
    running = await serve(Served(rules, facts, resolver))

    answer = answer_of((await running.post(body(pod()), path)).body)

    (warning,) = answer.pop("warnings")
    message = f"Rule 'shut' could not be evaluated (FactUnavailable: {cause}).\n{_ADVICE}"
    assert answer == {
        "uid": UID,
        "allowed": False,
        "status": {"message": message, "reason": "InternalError", "code": 500, "status": "Failure"},
        "auditAnnotations": {"shut": "error: FactUnavailable", "open": "error: FactUnavailable"},
    }
    assert warning.startswith(f"rule 'open' was skipped, it could not be evaluated: FactUnavailable: {cause[:20]}")
    assert _lookups("failed") + " 1.0\n" in (await running.get("/metrics")).text


async def test_a_namespace_that_a_selector_needs_is_read(serve: Serve) -> None:
    """A rule's own namespace selector is judged by the labels as the cluster has them."""
    directory = Directory({"gold": {"tier": "gold"}, "lead": {"tier": "lead"}})
    ruleset = default_rules(labels={"namespaceSelector": {"matchLabels": {"tier": "gold"}}})
    running = await serve(Served(ruleset, directory.facts(), directory))

    replies = [await running.post(refused_body(namespace=name), "/validate/labels") for name in ("gold", "lead")]

    assert [answer_of(reply.body)["allowed"] for reply in replies] == [False, True]


async def test_a_rule_that_takes_no_answer_has_failed(serve: Serve) -> None:
    """A look-up that was made is not made again and again: the rule fails, and its failure policy applies."""
    directory = Directory(_DIRECTORY)
    running = await serve(Served(RuleSet([rule(_deaf)]), directory.facts(), directory))

    answer = answer_of((await running.post(body(pod()))).body)

    assert [name for name, _ in directory.asked] == ["team"]
    assert answer["status"]["message"] == f"Rule 'tidy' could not be evaluated ({_DEAF}).\n{_ADVICE}"


async def test_while_a_review_waits(serve: Serve) -> None:
    """It holds up none that needs no look-up, and is judged by the rules that it began with, whatever comes by then."""
    directory = Directory({"default": {}}, asyncio.Event())
    running = await serve(Served(default_rules(guard={"namespaces": "off"}), directory.facts(), directory))
    assert directory.hold

    waiting = asyncio.create_task(running.post(refused_body()))
    await directory.reading.wait()
    other = await running.post(body(pod(labels={"app": "a"})))
    running.state.served = served(rule(name="other"))
    later = await running.post(refused_body())
    assert not waiting.done()
    directory.hold.set()

    assert answer_of(other.body)["allowed"] is True
    assert list(answer_of(later.body)["auditAnnotations"]) == ["other"]
    assert answer_of((await waiting).body)["status"]["message"] == REFUSAL
    assert [name for name, _ in directory.asked] == ["default"]


def _checks(count: int, user: str = "alice") -> list[Check]:
    return [Check(user=User(user), verb="get", name=str(number)) for number in range(count)]


def _asks(count: int) -> Validator:
    """Wants to know whether the requester may do so many things; tells of the answers that are not a yes."""

    def validate(request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        answers = [facts.answer(check) for check in _checks(count, request.user_info.username)]
        refused = {answer.error or "no" for answer in answers if not answer.allowed}
        return [Violation("tidy", "spec", error, "is the answer", "Not allowed.", "Ask.") for error in sorted(refused)]

    return validate


async def test_authorization_is_asked_for_once_and_anew_for_every_review(serve: Serve) -> None:
    """Each check of a rule goes to the cluster once in a review; what was answered before does not count."""
    directory = Directory()
    running = await serve(Served(RuleSet([rule(_asks(2))]), directory.facts(), directory))

    alice = await running.post(body(pod()))
    bob = await running.post(body(pod(), userInfo={"username": "bob"}))

    assert answer_of(alice.body)["allowed"] is True
    assert answer_of(bob.body)["status"]["message"] == "Not allowed.\n  spec: no is the answer\nAsk."
    assert directory.reviewed == [*_checks(2), *_checks(2, "bob")]
    assert _lookups("found") + " 4.0\n" in (await running.get("/metrics")).text


@pytest.mark.parametrize(
    ("resolver", "count", "found"),
    [
        (None, 1, "there is no cluster to ask"),
        (Unreachable(), 1, "connection refused"),
        (Directory(), CHECKS + 1, f"over {CHECKS} authorization checks in one review"),
    ],
)
async def test_authorization_that_cannot_be_asked_is_an_errored_answer(
    serve: Serve, resolver: Directory | Unreachable | None, count: int, found: str
) -> None:
    """The rule gets an answer that says why there is none, and decides; the call does not fail."""
    running = await serve(Served(RuleSet([rule(_asks(count))]), Directory().facts(), resolver))

    reply = await running.post(body(pod()))

    assert answer_of(reply.body)["status"]["message"] == f"Not allowed.\n  spec: {found} is the answer\nAsk."


async def test_parameters_are_waited_for(serve: Serve) -> None:
    """Parameters of a policy that are not known yet are fetched once; then the rule decides."""
    directory = Directory(parameters=["ConfigMap limits in namespace team"])
    running = await serve(Served(RuleSet([rule(_reading)]), directory.facts(), directory))

    replies = [await running.post(body(pod())) for _ in range(2)]

    assert [answer_of(reply.body)["allowed"] for reply in replies] == [True, True]
    assert [name for name, _ in directory.asked] == ["ConfigMap limits in namespace team"]


async def test_references_are_looked_for_once_and_anew_for_every_review(serve: Serve) -> None:
    """Who names a topology is found out once in a review; the next one looks again and sees what has changed."""
    naming = {"racks": References(("Job team/train",), "Pod (no time left)"), "blocks": References()}
    directory = Directory(references=naming)
    asking = TopologyObjects(Catalog(()), "deny").validate

    def twice(request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        return [*asking(request, facts), *asking(request, facts)]

    def going(name: str = "racks") -> bytes:
        old = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}}
        return body(None, old, operation="DELETE", namespace="")

    running = await serve(Served(RuleSet([rule(twice, name="labels")]), directory.facts(), directory))

    with time_at_rest():
        refused = await running.post(going())
        other = await running.post(going("blocks"))
        naming["racks"] = References()
        later = await running.post(going())

    assert answer_of(refused.body)["status"]["message"].splitlines()[1] == (
        '  topology "racks" is named by Job team/train; not all could be looked at: Pod (no time left)'
    )
    assert [answer_of(reply.body)["allowed"] for reply in (other, later)] == [True, True]
    assert [name for name, _ in directory.asked] == ["racks", "blocks", "racks"]
    assert [seconds for _, seconds in directory.asked] == pytest.approx([DEFAULT_TIMEOUT - MARGIN] * 3)
    assert _lookups("found") + " 3.0\n" in (await running.get("/metrics")).text


_ANSWERED = 'cks_admission_child_reviews_total{outcome="answered"}'
_ENDED = 'cks_admission_child_reviews_total{outcome="ended"}'
_POSTPONED = "cks_admission_postponed_reviews_total"
_SLOW = body(pod(labels={"slow": "yes"}))
_LARGE = body(pod(labels={"slow": "yes"}, annotations={"long": "x" * LARGE}))


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
    good = await running.post(_LARGE)
    broken = (_LARGE[:-1], b"[" * 2 * LARGE, b'{"kind": "Other"}' + b" " * LARGE, b'{"request": 1' + b" " * LARGE)
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
    answer = answer_of((await running.post(_LARGE)).body)

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
    review, seconds = (_LARGE, 1) if heedless else (_SLOW, 21)
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
