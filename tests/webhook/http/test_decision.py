"""Facts that are not at hand: fetched while the call waits, and what follows where they cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.builders import pod
from support.service.reviews import REFUSAL, NeedsNamespaces, answer_of, body, refused_body, rule, served
from support.service.servers import Directory, Serve, Unreachable, default_rules, time_at_rest

from policies.admissionpolicy.evaluation.parameters import ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.cel.library.authorizer import Check, User
from policies.engine.facts import Facts, NamespaceKey, References
from policies.engine.interruption import Key, Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Mutation
from policies.engine.ruleset import RuleSet
from policies.engine.violation import Violation
from policies.topology import objects
from policies.topology.topology import Catalog
from webhook.http.app import DEFAULT_TIMEOUT, MARGIN
from webhook.http.decision import CHECKS, LOOKUPS, Served

_DEAF = "it looks something up without regard to what was found"
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


async def test_what_no_rule_needs_is_not_read(serve: Serve) -> None:
    """A review with nothing to refuse asks the cluster for nothing."""
    directory = Directory(_DIRECTORY)
    running = await serve(Served(default_rules(guard={"namespaces": "off"}), directory.facts(), directory))

    reply = await running.post(body(pod(labels={"app": "a"})))

    assert answer_of(reply.body)["allowed"] is True
    assert directory.asked == []


def _refusal(reply: Any) -> tuple[int, str, str]:
    """HTTP status, reason and message of a refusal."""
    status = answer_of(reply.body)["status"]
    return reply.status, status["reason"], status["message"]


def _could_not(cause: str) -> str:
    return f"Rule 'labels' could not be evaluated (FactUnavailable: {cause}).\n{_ADVICE}"


async def test_a_namespace_that_cannot_be_read_refuses_where_the_rule_fails_closed(serve: Serve) -> None:
    """The guard refuses what it cannot judge, and its text names the cause; other reviews are none the worse."""
    directory, cluster = Directory(), Unreachable("connection refused")
    running = await serve(Served(default_rules(guard={"namespaces": "off"}), directory.facts(), cluster))

    reply = await running.post(refused_body())
    other = await running.post(body(pod()))

    cause = "namespace default could not be read: connection refused"
    assert _refusal(reply) == (200, "InternalError", _could_not(cause))
    assert answer_of(other.body)["allowed"] is True
    assert cluster.asked == ["default"]
    assert _lookups("failed") + " 1.0\n" in (await running.get("/metrics")).text


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_namespace_that_cannot_be_read_warns_where_the_rule_fails_open(serve: Serve, path: str) -> None:
    """A rule with failure policy Ignore that needs the lost fact is skipped with a warning."""
    asking = rule(NeedsNamespaces("team"), policy="Ignore")
    running = await serve(Served(RuleSet([asking]), Directory().facts(), Unreachable("no route")))

    answer = answer_of((await running.post(body(pod()), path)).body)

    assert (answer["allowed"], answer["auditAnnotations"]) == (True, {"tidy": "error: FactUnavailable"})
    (warning,) = answer["warnings"]
    assert warning.startswith(
        "rule 'tidy' was skipped, it could not be evaluated: FactUnavailable: namespace team could"
    )


async def test_a_namespace_that_a_selector_needs_is_read(serve: Serve) -> None:
    """A rule's own namespace selector is judged by the labels as the cluster has them."""
    selector = LabelSelector((SelectorRequirement("tier", "In", ("gold",)),))
    directory = Directory({"gold": {"tier": "gold"}, "lead": {"tier": "lead"}})
    ruleset = default_rules(labels={"namespaceSelector": {"matchLabels": {"tier": "gold"}}})
    running = await serve(Served(ruleset, directory.facts(), directory))

    replies = [await running.post(refused_body(namespace=name), "/validate/labels") for name in ("gold", "lead")]

    assert ruleset.rules[0].namespaces == selector
    assert [answer_of(reply.body)["allowed"] for reply in replies] == [False, True]


@pytest.mark.parametrize(
    ("names", "given", "cause"),
    [
        pytest.param(
            ["ghost"], "", "namespace 'ghost' is not known yet, although it was looked for", id="brings-nothing"
        ),
        pytest.param(
            _MANY,
            "",
            f"namespace 'n{LOOKUPS}' is not known yet, and one review looks for {LOOKUPS} things at most",
            id="more-than-any-rule-needs",
        ),
        pytest.param(
            ["n1"],
            "?timeout=50ms",
            "namespace 'n1' is not known yet, and no time was left to ask the API server",
            id="no-time-left",
        ),
    ],
)
async def test_look_ups_are_bounded(serve: Serve, names: list[str], given: str, cause: str) -> None:
    """A rule that asks for more than can be had in number or in time fails, and says for want of what."""
    directory = Directory({name: {} for name in _MANY})
    running = await serve(Served(RuleSet([rule(NeedsNamespaces(*names), name="labels")]), directory.facts(), directory))

    reply = await running.post(body(pod()), f"/validate{given}")

    assert _refusal(reply) == (200, "InternalError", _could_not(cause))


async def test_without_a_cluster_a_missing_fact_has_its_cause(serve: Serve) -> None:
    """Where there is nobody to ask, the refusal says so."""
    running = await serve(Served(default_rules(), Directory().facts()))

    reply = await running.post(refused_body())

    cause = "namespace 'default' is not known yet, and there is no cluster to ask"
    assert _refusal(reply) == (200, "InternalError", _could_not(cause))


class _Broken:
    """A resolver with a defect."""

    async def read(self, key: Key[Any], seconds: float) -> Any:
        raise RuntimeError(f"{key} {seconds}")


async def test_a_defect_in_a_look_up_fails_the_rule_and_not_the_call(serve: Serve) -> None:
    """An exception that nobody foresaw while a fact is fetched follows the rule's failure policy like any other."""
    running = await serve(Served(default_rules(), Directory().facts(), _Broken()))

    reply = await running.post(refused_body())

    assert reply.status == 200
    assert answer_of(reply.body)["allowed"] is False


class _Deaf:
    """A rule that goes on asking for what was found."""

    def validate(self, _request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
        """Ask."""
        raise Missing(NamespaceKey("team"))

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Not asked for."""
        raise NotImplementedError


async def test_a_rule_that_takes_no_answer_has_failed(serve: Serve) -> None:
    """A look-up that was made is not made again and again: the rule fails, and its failure policy applies."""
    directory = Directory(_DIRECTORY)
    running = await serve(Served(RuleSet([rule(_Deaf(), phases=["validate"])]), directory.facts(), directory))

    reply = await running.post(body(pod()))

    assert [name for name, _ in directory.asked] == ["team"]
    assert _refusal(reply) == (
        200,
        "InternalError",
        f"Rule 'tidy' could not be evaluated (RuntimeError: {_DEAF}).\n{_ADVICE}",
    )
    assert answer_of((await running.post(body(pod()), "/validate/labels")).body)["allowed"] is True


async def test_a_review_is_judged_by_one_set_of_rules(serve: Serve) -> None:
    """Rules that are swapped while a review waits for a fact count from the next review on."""
    directory = Directory({"default": {}}, asyncio.Event())
    running = await serve(Served(default_rules(guard={"namespaces": "off"}), directory.facts(), directory))
    assert directory.hold

    waiting = asyncio.create_task(running.post(refused_body()))
    await directory.reading.wait()
    running.state.served = served(rule(name="other"))
    directory.hold.set()

    assert answer_of((await waiting).body)["status"]["message"] == REFUSAL
    assert list(answer_of((await running.post(refused_body())).body)["auditAnnotations"]) == ["other"]


async def test_reviews_are_answered_while_one_waits(serve: Serve) -> None:
    """A look-up that takes its time holds up its own review only."""
    directory = Directory({"default": {}}, asyncio.Event())
    running = await serve(Served(default_rules(guard={"namespaces": "off"}), directory.facts(), directory))
    assert directory.hold

    waiting = asyncio.create_task(running.post(refused_body()))
    await directory.reading.wait()
    others = [await running.post(body(pod(labels={"app": "a"}))) for _ in range(3)]
    assert not waiting.done()
    directory.hold.set()

    assert [answer_of(reply.body)["allowed"] for reply in others] == [True] * 3
    assert answer_of((await waiting).body)["auditAnnotations"]["labels"] == "deny: metadata.labels"


class _Asks:
    """A validating rule that wants to know whether the requester may do as many things as are given."""

    def __init__(self, checks: int) -> None:
        self.checks = checks

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """The answers that are not a yes."""
        user = User(request.user_info.username)
        answers = [facts.answer(Check(user=user, verb="get", name=str(n))) for n in range(self.checks)]
        refused = {answer.error or "no" for answer in answers if not answer.allowed}
        return [Violation("tidy", "spec", error, "is the answer", "Not allowed.", "Ask.") for error in sorted(refused)]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Not asked for."""
        raise NotImplementedError


def _checks(count: int, user: str = "alice") -> list[Check]:
    return [Check(user=User(user), verb="get", name=str(n)) for n in range(count)]


async def test_authorization_is_asked_for_once_and_anew_for_every_review(serve: Serve) -> None:
    """Each check of a rule goes to the cluster once in a review; what was answered before does not count."""
    directory = Directory()
    running = await serve(Served(RuleSet([rule(_Asks(2), phases=["validate"])]), directory.facts(), directory))

    alice = await running.post(body(pod()))
    bob = await running.post(body(pod(), userInfo={"username": "bob"}))

    assert answer_of(alice.body)["allowed"] is True
    assert answer_of(bob.body)["status"]["message"] == "Not allowed.\n  spec: no is the answer\nAsk."
    assert directory.reviewed == [*_checks(2), *_checks(2, "bob")]
    assert _lookups("found") + " 4.0\n" in (await running.get("/metrics")).text


@pytest.mark.parametrize(
    ("resolver", "count", "found"),
    [
        pytest.param(None, 1, "there is no cluster to ask", id="no-cluster"),
        pytest.param(Unreachable(), 1, "connection refused", id="unreachable"),
        pytest.param(
            Directory(),
            CHECKS + 1,
            f"over {CHECKS} authorization checks in one review",
            id="more-than-a-policy-may-ask",
        ),
    ],
)
async def test_authorization_that_cannot_be_asked_is_an_errored_answer(
    serve: Serve, resolver: Directory | Unreachable | None, count: int, found: str
) -> None:
    """The rule gets an answer that says why there is none, and decides; the call does not fail."""
    running = await serve(Served(RuleSet([rule(_Asks(count), phases=["validate"])]), Directory().facts(), resolver))

    reply = await running.post(body(pod()))

    assert answer_of(reply.body)["status"]["message"] == f"Not allowed.\n  spec: {found} is the answer\nAsk."


class _Reading:
    """A policy's rule, which needs parameters."""

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Nothing wrong, once they are known."""
        del request
        kind = ParamKind(api_version="v1", kind="ConfigMap")
        assert facts.look_up(ParametersKey(kind=kind, namespace="team", name="limits")).objects
        return []

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Not asked for."""
        raise NotImplementedError


async def test_parameters_are_waited_for(serve: Serve) -> None:
    """Parameters of a policy that are not known yet are fetched once; then the rule decides."""
    directory = Directory(parameters=["ConfigMap limits in namespace team"])
    running = await serve(Served(RuleSet([rule(_Reading(), phases=["validate"])]), directory.facts(), directory))

    replies = [await running.post(body(pod())) for _ in range(2)]

    assert [answer_of(reply.body)["allowed"] for reply in replies] == [True, True]
    assert [name for name, _ in directory.asked] == ["ConfigMap limits in namespace team"]


async def test_parameters_that_cannot_be_had(serve: Serve) -> None:
    """The rule that needs them fails, and its text names them."""
    directory = Directory()
    running = await serve(
        Served(RuleSet([rule(_Reading(), name="labels", phases=["validate"])]), directory.facts(), directory)
    )

    reply = await running.post(body(pod()), "/validate")

    cause = "ConfigMap limits in namespace team is not known yet, although it was looked for"
    assert _refusal(reply) == (200, "InternalError", _could_not(cause))


_OBJECTS = objects.TopologyObjects(Catalog(()), "deny")


class _Deletion:
    """The rule for topologies that go, which asks who names them; as often as is given."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What the rule finds."""
        return [each for _ in range(self.times) for each in _OBJECTS.validate(request, facts)]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Not asked for."""
        raise NotImplementedError


def _going(name: str = "racks") -> bytes:
    """The review of a topology's deletion."""
    old = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}}
    return body(None, old, operation="DELETE", namespace="")


def _deleting(directory: Directory, resolver: Any, times: int = 1) -> Served:
    asking = rule(_Deletion(times), name="labels", phases=["validate"])
    return Served(RuleSet([asking]), directory.facts(), resolver)


async def test_references_are_looked_for_once_and_anew_for_every_review(serve: Serve) -> None:
    """Who names a topology is found out once in a review; the next one looks again and sees what has changed."""
    naming = {"racks": References(("Job team/train",), "Pod (no time left)"), "blocks": References()}
    directory = Directory(references=naming)
    running = await serve(_deleting(directory, directory, 2))

    with time_at_rest():
        refused = await running.post(_going())
        other = await running.post(_going("blocks"))
        naming["racks"] = References()
        later = await running.post(_going())

    assert answer_of(refused.body)["status"]["message"].splitlines()[1] == (
        '  topology "racks" is named by Job team/train; not all could be looked at: Pod (no time left)'
    )
    assert [answer_of(reply.body)["allowed"] for reply in (other, later)] == [True, True]
    assert [name for name, _ in directory.asked] == ["racks", "blocks", "racks"]
    assert [seconds for _, seconds in directory.asked] == pytest.approx([DEFAULT_TIMEOUT - MARGIN] * 3)
    assert _lookups("found") + " 3.0\n" in (await running.get("/metrics")).text
