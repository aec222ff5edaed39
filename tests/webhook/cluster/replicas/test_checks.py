"""What the process that leads looks for again and again, and whom it tells."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import Failure, FakeApi, named, status
from support.api.times import Times
from support.builders import FACTS, Json, pod
from support.patience import until
from support.service.nodefiles import node, place
from support.service.servers import default_rules, leader

from policies.engine.rule import RuleSet
from webhook.audit.finding import Record
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.inspection.auditing import Lister, Place, leave
from webhook.cluster.replicas.checks import (
    FIRST_SECONDS,
    MOST,
    PATH,
    SECONDS,
    AuditCheck,
    NodeSurvey,
    PeriodicCheck,
    WaitingPods,
    lacked,
)
from webhook.cluster.watches.reflector import cancelled
from webhook.configuration.settings import Settings, SettingsError
from webhook.metrics import Metrics


class _Walk(PeriodicCheck):
    """Looks that end in one outcome after the other, while they are due."""

    failure = "not looked"

    def __init__(self, api: Connection, times: Times, due: list[bool], *outcomes: Exception | None) -> None:
        super().__init__(leader(api, clock=times.clock))
        self.due, self.outcomes, self.rests, self.times = due, list(outcomes), 0, times

    async def look(self) -> None:
        if outcome := self.outcomes.pop(0):
            raise outcome

    def _is_due(self) -> bool:
        return self.due.pop(0)

    def _rest(self) -> None:
        self.rests += 1

    async def end(self) -> None:
        self.times.patience = len(self.due)
        task = asyncio.create_task(self.run())
        await until(lambda: self.times.patience < 0)
        await cancelled([task])


async def test_it_looks_each_minute_while_it_is_due(api: Connection, times: Times) -> None:
    """Until a look is due it asks every few seconds, and rests; after a look it waits for a minute."""
    walk = _Walk(api, times, [False, False, True, True, False], None, None)

    await walk.end()

    assert times.pauses == [*[FIRST_SECONDS] * 3, SECONDS, SECONDS, FIRST_SECONDS]
    assert (walk.outcomes, walk.rests) == ([], 3)


async def test_a_failure_is_logged_once(api: Connection, times: Times) -> None:
    """The same failure again is no news; another one is, and so is the same one after a success."""
    failures = [ClusterError("a"), ClusterError("a"), SettingsError("b"), None, SettingsError("b")]
    walk = _Walk(api, times, [True] * 5, *failures)

    with capture_logs() as logs:
        await walk.end()

    assert [(event["event"], event["reason"]) for event in logs] == [
        ("not looked", "a"),
        ("not looked", "b"),
        ("not looked", "b"),
    ]


_NODES, _MAPS = "/api/v1/nodes", "/api/v1/namespaces/cks-admission/configmaps"


class _Look:
    """The look with its surroundings."""

    def __init__(self, api: Connection, times: Times, facts: str = "topologies") -> None:
        self.metrics = Metrics()
        self.settings = Settings.model_validate({"cluster": {"inCluster": True}, "topology": {"facts": facts}})
        self.survey = NodeSurvey(leader(api, lambda: self.settings, self.metrics, times.clock))

    def usable(self) -> int:
        """The GPUs that Pods can get, as far as the watch has told."""
        machines = self.survey.machines
        return sum(machine.total for machine in machines if machine.is_open)

    @property
    def flawed(self) -> dict[str, float]:
        samples = next(iter(self.metrics.placing.flawed.collect())).samples
        return {sample.labels["kind"]: sample.value for sample in samples}


def _put(server: FakeApi, name: str, superpod: str, **more: Any) -> None:
    server.put(_NODES, node(name, place(superpod, "1"), **more))


def _writes(server: FakeApi) -> list[tuple[str, Any]]:
    """The methods and data of the writes that were sent."""
    return [(seen.method, json.loads(seen.body)["data"]) for seen in server.seen if seen.method in ("POST", "PUT")]


async def test_flaws_are_counted_and_facts_written_once(server: FakeApi, api: Connection, times: Times) -> None:
    """The first look writes the ConfigMap, and another one of the same Nodes writes nothing."""
    _put(server, "g1", "1")
    server.put(_NODES, node("g2", {key: value for key, value in place("1", "1").items() if "superpod" not in key}))
    look = _Look(api, times)

    await look.survey.look()
    await look.survey.look()

    ((method, data),) = _writes(server)
    assert (method, data["coreweave.gpus"], data["coreweave.superpod.gpus"]) == ("POST", "16", "8")
    assert data["coreweave.superpod"] == "region=east,zone=east-1,fabric=f1,superpod=1 nodes=1 gpus=8 usable=8"
    assert look.flawed == {"slow": 0, "miswired": 0, "split": 0, "incomplete": 1, "mixed": 0}


async def test_a_change_is_written(server: FakeApi, api: Connection, times: Times) -> None:
    """A Node that takes no Pods any more has no usable GPUs, and what somebody wrote into the ConfigMap goes."""
    _put(server, "g1", "1")
    look = _Look(api, times)
    await look.survey.look()
    _put(server, "g1", "1", cordoned=True)
    await until(lambda: look.usable() == 0)
    (server.get(_MAPS, "topologies") or {})["data"]["forged"] = "1"

    await look.survey.look()

    (_, before), (method, after) = _writes(server)
    assert (before["coreweave.usable"], method, after["coreweave.usable"]) == ("8", "PUT", "0")
    assert before.keys() == after.keys()


async def test_what_cannot_be_written_is_named(server: FakeApi, api: Connection, times: Times) -> None:
    """A ConfigMap that the service did not make stays, and which right is missing is said: both with what to do."""
    _put(server, "g1", "1")
    server.failures.append(Failure(_MAPS, 403, status(403, "no"), -1, method="POST"))
    with pytest.raises(ClusterError) as refused:
        await _Look(api, times).survey.look()
    server.put(_MAPS, {"metadata": {"name": "topologies"}, "data": {"mine": "yes"}})
    with pytest.raises(ClusterError) as foreign:
        await _Look(api, times).survey.look()

    needed = "; a Role in namespace cks-admission must allow to create configmaps, and to get and update topologies"
    told = "ConfigMap cks-admission/topologies is somebody else's; delete it, or set topology.facts to another name"
    assert str(refused.value).endswith(needed)
    assert (str(foreign.value), [method for method, _ in _writes(server)]) == (told, ["POST"])


async def test_without_a_name_nothing_is_written(server: FakeApi, api: Connection, times: Times) -> None:
    """By default there is no ConfigMap; flaws are counted all the same."""
    _put(server, "g1", "1")
    look = _Look(api, times, facts="")

    await look.survey.look()

    assert (_writes(server), sum(look.flawed.values())) == ([], 0)


_PLACE = Place("cloud", "audit")
_RECORDS_AT = "/api/v1/namespaces/cloud/configmaps"
_SINCE = datetime(2026, 3, 1, tzinfo=UTC)
_SETTINGS = Settings.model_validate({"cluster": {"namespace": "cloud"}, "audit": {"record": "audit"}})
_RECORDS = (
    Record(
        "0/2", "openreports.io/v1alpha1", 2_000, 30.5, 10, 1, {"deny": 2, "warn": 1},
        {"team": {"deny": 2}, "latest": {"warn": 1}}, {"written": 3, "unchanged": 1, "removed": 0, "refused": 0},
        {"written": 3},
    ),
    Record(
        "1/2", "openreports.io/v1alpha1", 1_000, 60.0, 5, 0, {"deny": 1},
        {"team": {"deny": 1}}, {"written": 0, "unchanged": 4, "removed": 2, "refused": 1}, {"written": 1, "failed": 1},
    ),
)  # fmt: skip


def _audited(server: FakeApi, **fields: Any) -> None:
    config_map = named("audit", **fields)
    config_map["metadata"]["creationTimestamp"] = _SINCE.strftime("%Y-%m-%dT%H:%M:%SZ")
    server.put(_RECORDS_AT, config_map)


def _measured(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """The metrics of audits by name, without its beginning, and values of labels."""
    return {
        (sample.name.removeprefix("cks_admission_audit_"), *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith("cks_admission_audit_")
        for sample in family.samples
    }


_UNKNOWN = {(name,): 0 for name in ("end_timestamp_seconds", "duration_seconds", "objects", "unreadable_kinds")}


async def test_what_was_left_is_shown(server: FakeApi, api: Connection, times: Times) -> None:
    """The parts of an audit, left one after the other, are shown together; before and after, nothing but since when."""
    _audited(server)
    metrics = Metrics()
    look = AuditCheck(leader(api, lambda: _SETTINGS, metrics, times.clock))
    await look.look()
    before = _measured(metrics)
    for record in _RECORDS:
        await leave(Lister(api, 100, times.clock), _PLACE, record)
    await look.look()
    after = _measured(metrics)
    metrics.audits.clear()

    assert before == {**_UNKNOWN, ("end_timestamp_seconds",): _SINCE.timestamp()}
    assert after == {
        ("end_timestamp_seconds",): 1_000,
        ("duration_seconds",): 60,
        ("objects",): 15,
        ("unreadable_kinds",): 1,
        ("findings", "team", "deny"): 3,
        ("findings", "latest", "warn"): 1,
        ("reports", "written"): 3,
        ("reports", "unchanged"): 5,
        ("reports", "removed"): 2,
        ("reports", "refused"): 1,
        ("events", "written"): 4,
        ("events", "failed"): 1,
    }
    assert _measured(metrics) == _UNKNOWN


async def test_what_is_no_record_changes_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """A ConfigMap that somebody has changed is named with the reason, and what was shown before stays."""
    _audited(server, data={"0": msgspec.json.encode(_RECORDS[0]).decode()})
    metrics = Metrics()
    look = AuditCheck(leader(api, lambda: _SETTINGS, metrics, times.clock))
    await look.look()
    before = _measured(metrics)
    _audited(server, data={"0": "by hand"})

    with pytest.raises(ClusterError) as error:
        await look.look()

    assert str(error.value).startswith("ConfigMap cloud/audit: data['0'] is no record of an audit: ")
    assert _measured(metrics) == before


async def test_a_config_map_that_is_not_there_is_named(server: FakeApi, api: Connection, times: Times) -> None:
    """Whoever sets audit.record without a ConfigMap of that name learns what to do, from the audit and from manage."""
    server.failures.append(Failure(f"{_RECORDS_AT}/audit", 404, status(404), 2))
    look = AuditCheck(leader(api, lambda: _SETTINGS, clock=times.clock))
    told = []
    for attempt in (look.look(), leave(Lister(api, 100, times.clock), _PLACE, _RECORDS[0])):
        with pytest.raises(ClusterError) as error:
            await attempt
        told.append(str(error.value))

    assert told == ["ConfigMap cloud/audit is not there: make it, empty, or leave audit.record empty"] * 2


_MESSAGE = (
    "It was admitted while cks-admission did not answer, without the toleration for CPU Nodes. "
    "Delete it, so that its controller creates it again, or create it again."
)
_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


async def test_a_pod_that_waits_is_told_once(server: FakeApi, api: Connection, times: Times) -> None:
    """Its Event says what it lacks and what to do; Pods that lack nothing have none, and a second look adds none."""
    specs: dict[str, Json] = {"one": {}, "fine": {"tolerations": [{"operator": "Exists"}]}}
    for name, spec in specs.items():
        server.put(PATH, _pod(metadata={"name": name, "namespace": "team", "uid": f"uid-{name}"}, **spec))
    pods = WaitingPods(leader(api, clock=times.clock))

    await pods.look()
    await pods.look()

    ((path, event),) = [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method == "POST"]
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "one", "uid": "uid-one"}
    assert (path, event["involvedObject"]) == ("/api/v1/namespaces/team/events", about)
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "AdmittedUnchanged", _MESSAGE)
    query = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "resourceVersion": "0", "limit": "500"}
    assert server.lists(PATH)[0] == query


_EVENTS = "/api/v1/namespaces/team/events"


def _waiting(name: str) -> Json:
    return _pod(metadata={"name": name, "namespace": "team", "uid": f"uid-{name}"})


def _named(server: FakeApi) -> list[str]:
    """The Pods that an Event was sent for."""
    return [json.loads(seen.body)["involvedObject"]["name"] for seen in server.seen if seen.method == "POST"]


async def test_a_refusal_ends_the_events_of_a_look(server: FakeApi, api: Connection, times: Times) -> None:
    """Without the right one Event is tried in each look, and the log says so once; with it, all are written."""
    for number in range(20):
        server.put(PATH, _waiting(f"{number:02}"))
    server.fail(_EVENTS, 403, status(403, "may not create events"), times=3)
    pods = WaitingPods(leader(api, clock=times.clock))
    numbers = []

    with capture_logs() as logs:
        for _ in range(5):
            await pods.look()
            numbers.append(len(_named(server)))

    assert numbers == [1, 2, 3, 23, 23]
    right = "a ClusterRole must allow the account of this process to create events"
    reason = f"the API server refused POST {_EVENTS} at {server.url} (403: may not create events); {right}"
    event = "could not write an Event"
    assert logs == [{"event": event, "log_level": "warning", "kind": "Pod", "name": "team/00", "reason": reason}]


@pytest.mark.parametrize(("code", "numbers"), [(409, [3, 3]), (404, [3, 3]), (500, [1, 4])])
async def test_what_an_answer_means(
    code: int, numbers: list[int], server: FakeApi, api: Connection, times: Times
) -> None:
    """An Event that is there, or whose Namespace is gone, is settled; any other failure waits for the next look."""
    for name in ("a", "b", "c"):
        server.put(PATH, _waiting(name))
    server.fail(_EVENTS, code, status(code, "no"))
    pods = WaitingPods(leader(api, clock=times.clock))

    sent = []
    for _ in range(2):
        await pods.look()
        sent.append(len(_named(server)))

    assert sent == numbers


async def test_another_failure_is_logged_again(server: FakeApi, api: Connection, times: Times) -> None:
    """The log has a line for each change of the answer, also when what worked in between fails again."""
    pods = WaitingPods(leader(api, clock=times.clock))

    with capture_logs() as logs:
        for number, code in enumerate((403, 403, 500, 0, 403)):
            if code:
                server.fail(_EVENTS, code, status(code, "no"))
            server.put(PATH, _waiting(str(number)))
            await pods.look()
            server.delete(PATH, str(number), "team")

    assert [event["reason"].split("(")[1][:3] for event in logs] == ["403", "500", "403"]


async def test_many_are_told_bit_by_bit(server: FakeApi, api: Connection, times: Times) -> None:
    """One look writes so many at most, and the next one goes on."""
    for number in range(MOST + 10):
        server.put(PATH, _waiting(str(number)))
    pods = WaitingPods(leader(api, clock=times.clock))

    numbers = []
    for _ in range(3):
        await pods.look()
        numbers.append(len(_named(server)))

    assert numbers == [MOST, MOST + 10, MOST + 10]


_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_CPU = "the toleration for CPU Nodes"
_PLACED = "the scheduling gate of its topology annotations"
_REQUIRED = {"kai.scheduler/topology": "kubernetes", "kai.scheduler/topology-required-placement": "zone"}


def _pod(condition: Json | None = None, *, phase: str = "Pending", metadata: Json | None = None, **spec: Any) -> Json:
    waiting = pod(metadata={"namespace": "team", **(metadata or {})}, **spec)
    return {**waiting, "status": {"phase": phase, "conditions": [condition or _UNSCHEDULABLE]}}


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(_pod(), [_CPU], id="lacks-the-toleration"),
        pytest.param(_pod(tolerations=[_TOLERATION]), [], id="has-the-toleration"),
        pytest.param(_pod(metadata={"annotations": _REQUIRED}), [_PLACED, _CPU], id="lacks-both"),
        pytest.param(
            _pod(metadata={"annotations": {**_REQUIRED, "cks-admission.dev/placement": "in zone a"}}),
            [_CPU],
            id="was-opened",
        ),
        pytest.param(_pod({**_UNSCHEDULABLE, "reason": "SchedulingGated"}), [], id="waits-for-something-else"),
        pytest.param(_pod({**_UNSCHEDULABLE, "type": "Ready"}), [], id="not-seen-by-the-scheduler"),
        pytest.param(_pod(phase="Running"), [], id="runs"),
        pytest.param(_pod(nodeName="one"), [], id="has-a-node"),
        pytest.param(_pod(resourceClaims=[{"name": "gpu"}]), [], id="may-be-a-gpu-pod"),
        pytest.param(_pod(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}), [], id="is-deleted"),
        pytest.param(_pod(metadata={"namespace": "cks-admission"}), [], id="the-services-own"),
        pytest.param({"metadata": {}, "status": {"conditions": "?"}}, [], id="of-another-shape"),
    ],
)
def test_what_a_pod_lacks(waiting: Json, expected: list[str]) -> None:
    """Only an unschedulable Pod lacks something, and only what the rules would have given it."""
    assert list(lacked(waiting, default_rules(), FACTS)) == expected


def test_rules_that_are_off() -> None:
    """Nobody lacks what no rule gives."""
    assert list(lacked(_pod(), RuleSet([]), FACTS)) == []
