"""What an audit of a cluster lists, its reports, and the Events by which people are told; what doctor reads."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.api.fakeapi import FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE

from policies.engine.request import GroupVersionResource
from policies.labelpolicy import LabelWriter
from webhook.audit.audit import audit_rules
from webhook.audit.finding import AuditError, Finding, Judged, Scope, Subject
from webhook.audit.reports import OPEN_REPORTS, POLICY_REPORTS, Form, Store
from webhook.cluster.api.call import DEFINITIONS
from webhook.cluster.api.client import Connection
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.inspection.auditing import (
    MOST,
    SHARE,
    EventCounts,
    FindingEvents,
    Kinds,
    Lister,
    Reports,
    Written,
    kinds,
    units,
)
from webhook.cluster.inspection.examination import label_writers, tried
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
from webhook.doctor.observation import Unread
from webhook.sources.policyset import EMPTY

_QPS = 10


@pytest.fixture
def notices(api: Connection, times: Times) -> FindingEvents:
    """The Events of a run."""
    return FindingEvents(Lister(api, _QPS, times.clock), times.clock)


def _scope(number: int, namespace: str = "a") -> Scope:
    return Scope("apps/v1", "Deployment", namespace, f"web-{number}", f"{namespace}-{number}")


def _sent(server: FakeApi) -> list[str]:
    """The uids of the objects that an Event was sent for."""
    return [json.loads(seen.body)["involvedObject"]["uid"] for seen in server.seen if seen.method == "POST"]


@pytest.mark.parametrize(
    ("scope", "place", "stem"),
    [
        (Scope("apps/v1", "Deployment", "a", "web", "u"), "a", "web"),
        (Scope("v1", "Node", "", "host", "u"), "default", "host"),
        (Scope("rbac.authorization.k8s.io/v1", "ClusterRole", "", "system:node", "u"), "default", "clusterrole"),
    ],
    ids=["in a Namespace", "in none", "a name that no Event may have"],
)
async def test_an_event_is_on_the_object_of_the_report(
    server: FakeApi, notices: FindingEvents, scope: Scope, place: str, stem: str
) -> None:
    """The Event is a warning about the scope of the report, with the text, in its Namespace or in `default`."""
    await notices.tell(scope, "Would be refused.")

    ((path, event),) = [(seen.path, json.loads(seen.body)) for seen in server.seen]
    name, _, digest = event["metadata"].pop("name").rpartition(".")
    assert (path, name, len(digest)) == (f"/api/v1/namespaces/{place}/events", stem, 16)
    about = {"kind": scope.kind, "namespace": scope.namespace, "name": scope.name, "uid": "u"}
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": place},
        "involvedObject": {"apiVersion": scope.api_version, **about},
        "type": "Warning",
        "reason": "WouldBeRefused",
        "message": "Would be refused.",
        "source": {"component": "cks-admission"},
        "firstTimestamp": "2026-03-01T23:30:00Z",
        "lastTimestamp": "2026-03-01T23:30:00Z",
        "count": 1,
    }
    assert notices.counts == EventCounts(written=1)


async def test_the_same_words_make_the_same_event(server: FakeApi, notices: FindingEvents) -> None:
    """What is said there already has the same name, so that the API server refuses it, and no failure is counted."""
    names = []
    for text in ("One.", "One.", "Other."):
        await notices.tell(_scope(0), text)
        names.append(json.loads(server.seen[-1].body)["metadata"]["name"])
    server.fail("/api/v1/namespaces/a/events", 409, status(409, "already exists"))
    await notices.tell(_scope(0), "One.")

    assert (names[0] == names[1], names[0] == names[2]) == (True, False)
    assert (notices.counts, notices.problems) == (EventCounts(written=3), [])


async def test_few_are_written(server: FakeApi, notices: FindingEvents, times: Times) -> None:
    """A run writes so many at most, few of them in one Namespace, at the rate of the audit, and counts the others."""
    places = [chr(ord("a") + number) for number in range(MOST // SHARE + 1)]
    for place in places:
        for number in range(SHARE + 1):
            await notices.tell(_scope(number, place), "No.")

    assert _sent(server) == [f"{place}-{number}" for place in places[:-1] for number in range(SHARE)]
    assert notices.counts == EventCounts(written=MOST, omitted=len(places) * (SHARE + 1) - MOST)
    assert len(times.pauses) == MOST - 1
    assert sum(times.pauses) / len(times.pauses) >= 1 / _QPS


@pytest.mark.parametrize(
    ("code", "message", "sent", "counts"),
    [
        (403, "events is forbidden", ["a-0", "b-0", "b-1"], EventCounts(written=2, omitted=1, failed=1)),
        (403, "exceeded quota: few, requested: count/events=1", ["a-0", "b-0", "b-1"], EventCounts(2, 1, 1)),
        (422, "is invalid", ["a-0", "b-0", "b-1"], EventCounts(2, 1, 1)),
        (404, "namespaces not found", ["a-0", "a-1", "b-0", "b-1"], EventCounts(written=3)),
        (403, "it is being terminated", ["a-0", "a-1", "b-0", "b-1"], EventCounts(written=3)),
        (500, "failed calling webhook", ["a-0"] * 8, EventCounts(omitted=3, failed=1)),
    ],
    ids=["a right is missing", "a quota", "refused", "gone", "ending", "broken"],
)
async def test_what_a_failure_ends(
    server: FakeApi, notices: FindingEvents, code: int, message: str, sent: list[str], counts: EventCounts
) -> None:
    """A refusal ends the Events of its Namespace, a failing API server all; a Namespace that goes is no failure."""
    server.fail("/api/v1/namespaces/a/events", code, status(code, message), times=8 if code == 500 else 1)

    for place in ("a", "b"):
        for number in range(2):
            await notices.tell(_scope(number, place), "No.")

    assert (_sent(server), notices.counts) == (sent, counts)
    assert len(notices.problems) == counts.failed


@pytest.mark.parametrize(("text", "kind", "on"), [("", "Pod", True), ("No.", "Event", True), ("No.", "Pod", False)])
async def test_who_is_not_told(server: FakeApi, api: Connection, text: str, kind: str, *, on: bool) -> None:
    """There is no Event without a refusal, none about an Event, which would have one itself, and none if off."""
    notices = FindingEvents(Lister(api, _QPS), on=on)
    await notices.tell(Scope("v1", kind, "a", "x", "u"), text)

    assert (server.seen, notices.counts) == ([], EventCounts())


def _kinds(form: Form) -> Kinds:
    names = ((form.plural, form.kind), (form.cluster_plural, form.cluster_kind))
    one, other = (
        ServedResource(GroupVersionResource(form.group, form.version, plural), kind, plural == form.plural)
        for plural, kind in names
    )
    return Kinds(form, one, other)


_OPEN, _POLICY = _kinds(OPEN_REPORTS), _kinds(POLICY_REPORTS)


def test_the_newest_kinds_are_written() -> None:
    """OpenReports are written where they are served, else PolicyReports; where both lack a kind, that is told."""
    assert kinds([*_POLICY[1:], *_OPEN[1:]]) == (_OPEN, _POLICY)
    assert kinds([*_POLICY[1:], _OPEN.namespaced]) == (_POLICY,)
    with pytest.raises(AuditError) as error:
        kinds([_OPEN.namespaced])
    assert str(error.value) == (
        "-o reports: the cluster has neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2; install the "
        "CustomResourceDefinitions of one of them, see https://github.com/openreports/reports-api"
    )


_IN_A = "/apis/openreports.io/v1alpha1/namespaces/a/reports"
_EVENTS = "/api/v1/namespaces/a/events"


async def test_events_that_fail_stop_no_report(server: FakeApi, api: Connection, times: Times) -> None:
    """Without the right to create Events all reports are written, and one line says why nobody is told."""
    message = 'events is forbidden: User "audit" cannot create resource "events" in API group "" in the namespace "a"'
    right = "a ClusterRole must allow the account of this process to create events"
    server.put(_IN_A, {"metadata": {"name": "of-others"}})
    server.fail(_EVENTS, 403, {"kind": "Status", "message": message}, times=9)
    lister = Lister(api, _QPS, times.clock)
    notices = FindingEvents(lister, times.clock)
    with Store() as store:
        for number in range(2):
            scope = _scope(number)
            server.groups[f"{_IN_A}/cks-admission-{scope.uid}"] = {}
            subject = Subject("apps/v1", "Deployment", "a", scope.name, scope.uid, scope.name, scope)
            store.add(Judged(subject, (Finding(subject, "team", "deny", "", "no team"),)))
        written = await Reports(lister, [_OPEN], notices, namespaces=("a",)).write(store, complete=True)

    assert written == Written(written=2, events=EventCounts(omitted=1, failed=1))
    refused = f"the API server refused POST {_EVENTS} at {server.url} (403: {message})"
    assert notices.problems == [f"could not write Events: {refused}; {right}"]


_MAPS = ServedResource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", namespaced=True)
_PATH = "/api/v1/configmaps"
_NAMES = [f"m-{number}" for number in range(7)]


@pytest.fixture
def lister(api: Connection, server: FakeApi, times: Times) -> Lister:
    """Lists two objects at a time of the seven that there are, of which two are in a Namespace `a`."""
    for number, name in enumerate(_NAMES):
        server.put(_PATH, named(name, namespace="a" if number < 2 else "b"))
    return Lister(api, 10, times.clock, size=2)


async def _listed(lister: Lister) -> list[str]:
    return [obj["metadata"]["name"] async for obj in lister.objects(_MAPS)]


@pytest.mark.parametrize("more", ["4", ""], ids=["a new token", "no token"])
async def test_a_token_expires(lister: Lister, server: FakeApi, more: str) -> None:
    """A list whose token has expired goes on where the API server says, or begins again, and nothing comes twice."""
    gone = status(410, "the provided continue parameter is too old", metadata={"continue": more})
    server.fail(_PATH, 410, gone, query={"continue": "4"})

    assert await _listed(lister) == _NAMES


async def test_an_api_server_that_asks_for_time_gets_it(lister: Lister, server: FakeApi, times: Times) -> None:
    """After 429 the next request comes no sooner than Retry-After says, however often that happens."""
    server.fail(_PATH, 429, status(429, "too many"), times=20, headers={"Retry-After": "7"})

    assert await _listed(lister) == _NAMES
    assert len([pause for pause in times.pauses if pause >= 7]) >= 20


async def test_a_failure_is_tried_again_a_few_times(lister: Lister, server: FakeApi) -> None:
    """Seven failures in a row are waited out, the eighth is told."""
    server.fail(_PATH, 500, status(500, "etcd"), times=7)
    assert len(await _listed(lister)) == len(_NAMES)

    server.fail(_PATH, 500, status(500, "etcd"), times=8)
    with pytest.raises(ApiError, match="etcd"):
        await _listed(lister)


async def test_requests_keep_their_distance(lister: Lister, times: Times) -> None:
    """Between four pages of one list there are three pauses, each a tenth of a second longer by a clock that stands."""
    await _listed(lister)

    assert times.pauses == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("metadata", [True, False])
async def test_objects_come_with_their_kind(lister: Lister, server: FakeApi, *, metadata: bool) -> None:
    """Each object has what the items of a list lack, on all pages; metadata may be all that is asked for."""
    objects = [one async for one in lister.objects(_MAPS, metadata=metadata)]

    assert [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects] == [
        ("v1", "ConfigMap", name) for name in _NAMES
    ]
    assert ("as=PartialObjectMetadataList" in server.seen[-1].headers["Accept"]) is metadata


_WORKLOADS = workload_table(Settings())
_RULES = audit_rules(Settings(), EMPTY.files).ruleset


def _served(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> ServedResource:
    return ServedResource(GroupVersionResource(group, version, plural), kind, namespaced)


_CLUSTER = [
    _served("", "v1", "pods", "Pod"),
    _served("", "v1", "events", "Event"),
    _served("", "v1", "nodes", "Node", namespaced=False),
    _served("apps", "v1", "deployments", "Deployment"),
    _served("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    _served("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    _served("events.k8s.io", "v1", "events", "Event"),
]


def test_each_kind_is_listed_once() -> None:
    """A kind is listed in the preferred version, Events under one name, Pods last; others by their metadata alone."""
    assert [(unit.key, unit.metadata) for unit in units(_CLUSTER, _RULES, _WORKLOADS)] == [
        ("/api/v1/events", True),
        ("/api/v1/nodes", True),
        ("/apis/apps/v1/deployments", False),
        ("/apis/autoscaling/v2/horizontalpodautoscalers", True),
        ("/api/v1/pods", False),
    ]


_DEPLOYMENTS, _PODS = "/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/pods"
_SERVICES = [_served(group, "v1", "services", "Service") for group in ("", "serving.example")]
_OWN, _OTHER = "/api/v1/services", "/apis/serving.example/v1/services"


@pytest.mark.parametrize(
    ("kinds", "namespaces", "paths"),
    [
        (("deployment.apps", "pods"), "bab", [path.format(one) for path in (_DEPLOYMENTS, _PODS) for one in "ab"]),
        # A name in full is nobody else's: Kubernetes' own kinds have no group.
        (("services.v1.",), "", [_OWN]),
        (("services.v1.serving.example",), "", [_OTHER]),
        (("services",), "", [_OWN, _OTHER]),
    ],
)
def test_namespaces_and_kinds_are_chosen(kinds: tuple[str, ...], namespaces: str, paths: list[str]) -> None:
    """Of chosen Namespaces only what is in them is listed, of chosen kinds only these, however they are called."""
    found = units([*_CLUSTER, *_SERVICES], _RULES, _WORKLOADS, [*namespaces], kinds)

    assert [unit.key for unit in found] == paths


def test_a_kind_without_a_rule_is_left_out() -> None:
    """Of several kinds those are listed that a rule is about; if there is none, or no such kind, that is told."""
    silent = audit_rules(Settings.model_validate({"labels": {"action": "off"}}), EMPTY.files).ruleset

    assert [unit.key for unit in units(_CLUSTER, silent, _WORKLOADS, (), ("pods", "events"))] == ["/api/v1/pods"]
    with pytest.raises(AuditError, match="--kind events: no rule or policy is about it"):
        units(_CLUSTER, silent, _WORKLOADS, (), ("events",))
    with pytest.raises(AuditError, match=r"--kind Deplyment: .*; did you mean Deployment\?"):
        units(_CLUSTER, silent, _WORKLOADS, (), ("Deplyment",))


@pytest.mark.parametrize(
    ("error", "unread"),
    [
        pytest.param(ApiError("forbidden", 403), Unread("forbidden", "list things"), id="a right is missing"),
        pytest.param(ApiError("broken", 500), Unread("broken"), id="the API server fails"),
        pytest.param(ClusterError("unreadable"), Unread("unreadable"), id="no object"),
        pytest.param(None, Unread("no answer within 0 s"), id="no answer"),
    ],
)
async def test_what_cannot_be_read_is_an_answer(error: Exception | None, unread: Unread) -> None:
    """Only where a right is missing, the right is named; no read takes for ever."""
    answer = asyncio.get_running_loop().create_future()
    if error:
        answer.set_exception(error)

    assert await tried(answer, "list things", PATIENCE if error else 0.01) == unread


POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_what_can_write_labels(server: FakeApi, api: Connection, version: str) -> None:
    """Bound policies in the version that is served, and conversions; not what is trusted or without a binding."""
    kinds = {POLICIES: "MutatingAdmissionPolicy", BINDINGS: "MutatingAdmissionPolicyBinding"}
    server.install("admissionregistration.k8s.io", {version: kinds})
    definitions = {"v1": {"customresourcedefinitions": "CustomResourceDefinition"}}
    server.install("apiextensions.k8s.io", definitions, namespaced=False)
    root = f"/apis/admissionregistration.k8s.io/{version}"
    spec = {"mutations": [{"jsonPatch": {"expression": "'coreweave.cloud/x'"}}]}
    for name in ("bad", "unbound", "cks-a"):
        server.put(f"{root}/{POLICIES}", {"metadata": {"name": name}, "spec": spec})
        if name != "unbound":
            server.put(f"{root}/{BINDINGS}", {"metadata": {"name": name}, "spec": {"policyName": name}})
    hook = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}}
    for name, conversion in (("a.example.org", hook), ("b.example.org", {"strategy": "None"})):
        versions = [{"name": "v1"}, {"name": "v2"}]
        server.put(DEFINITIONS, {"metadata": {"name": name}, "spec": {"versions": versions, "conversion": conversion}})
    settings = Settings.model_validate({"labels": {"trusted": ["MutatingAdmissionPolicy/cks-*"]}})

    assert await label_writers(api, settings) == [
        LabelWriter(
            "MutatingAdmissionPolicy", "bad", "reserved", "its expressions name reserved labels: coreweave.cloud/x"
        ),
        LabelWriter(
            "CustomResourceDefinition",
            "a.example.org",
            "possible",
            "its conversion webhook, ops/hook, may change the labels of its objects after admission",
        ),
    ]
