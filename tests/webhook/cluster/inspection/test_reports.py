"""The reports that an audit writes, and the Events by which people are told: what is in them, and how few."""

from __future__ import annotations

import json

import pytest
from support.api.fakeapi import FakeApi, status
from support.api.times import Times

from policies.engine.request import GroupVersionResource
from webhook.audit.finding import AuditError, Finding, Judged, Scope, Subject
from webhook.audit.reports import OPEN_REPORTS, POLICY_REPORTS, Form, Store
from webhook.cluster.api.client import Connection
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.inspection.auditing import MOST, SHARE, FindingEvents, Kinds, Lister, Reports, Told, Written, kinds

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
    assert notices.told == Told(written=1)


async def test_the_same_words_make_the_same_event(server: FakeApi, notices: FindingEvents) -> None:
    """What is said there already has the same name, so that the API server refuses it, and no failure is counted."""
    names = []
    for text in ("One.", "One.", "Other."):
        await notices.tell(_scope(0), text)
        names.append(json.loads(server.seen[-1].body)["metadata"]["name"])
    server.fail("/api/v1/namespaces/a/events", 409, status(409, "already exists"))
    await notices.tell(_scope(0), "One.")

    assert (names[0] == names[1], names[0] == names[2]) == (True, False)
    assert (notices.told, notices.problems) == (Told(written=3), [])


async def test_few_are_written(server: FakeApi, notices: FindingEvents, times: Times) -> None:
    """A run writes so many at most, few of them in one Namespace, at the rate of the audit, and counts the others."""
    places = [chr(ord("a") + number) for number in range(MOST // SHARE + 1)]
    for place in places:
        for number in range(SHARE + 1):
            await notices.tell(_scope(number, place), "No.")

    assert _sent(server) == [f"{place}-{number}" for place in places[:-1] for number in range(SHARE)]
    assert notices.told == Told(written=MOST, omitted=len(places) * (SHARE + 1) - MOST)
    assert len(times.pauses) == MOST - 1
    assert sum(times.pauses) / len(times.pauses) >= 1 / _QPS


@pytest.mark.parametrize(
    ("code", "message", "sent", "told"),
    [
        (403, "events is forbidden", ["a-0", "b-0", "b-1"], Told(written=2, omitted=1, failed=1)),
        (403, "exceeded quota: few, requested: count/events=1", ["a-0", "b-0", "b-1"], Told(2, 1, 1)),
        (422, "is invalid", ["a-0", "b-0", "b-1"], Told(2, 1, 1)),
        (404, "namespaces not found", ["a-0", "a-1", "b-0", "b-1"], Told(written=3)),
        (403, "it is being terminated", ["a-0", "a-1", "b-0", "b-1"], Told(written=3)),
        (500, "failed calling webhook", ["a-0"] * 8, Told(omitted=3, failed=1)),
    ],
    ids=["a right is missing", "a quota", "refused", "gone", "ending", "broken"],
)
async def test_what_a_failure_ends(
    server: FakeApi, notices: FindingEvents, code: int, message: str, sent: list[str], told: Told
) -> None:
    """A refusal ends the Events of its Namespace, a failing API server all; a Namespace that goes is no failure."""
    server.fail("/api/v1/namespaces/a/events", code, status(code, message), times=8 if code == 500 else 1)

    for place in ("a", "b"):
        for number in range(2):
            await notices.tell(_scope(number, place), "No.")

    assert (_sent(server), notices.told) == (sent, told)
    assert len(notices.problems) == told.failed


@pytest.mark.parametrize(("text", "kind", "on"), [("", "Pod", True), ("No.", "Event", True), ("No.", "Pod", False)])
async def test_who_is_not_told(server: FakeApi, api: Connection, text: str, kind: str, *, on: bool) -> None:
    """There is no Event without a refusal, none about an Event, which would have one itself, and none if off."""
    notices = FindingEvents(Lister(api, _QPS), on=on)
    await notices.tell(Scope("v1", kind, "a", "x", "u"), text)

    assert (server.seen, notices.told) == ([], Told())


def _kinds(form: Form) -> Kinds:
    names = ((form.plural, form.kind), (form.cluster_plural, form.cluster_kind))
    one, other = (
        ServedResource(GroupVersionResource(form.group, form.version, plural), kind, plural == form.plural)
        for plural, kind in names
    )
    return Kinds(form, one, other)


_OPEN, _POLICY = _kinds(OPEN_REPORTS), _kinds(POLICY_REPORTS)


def test_the_newest_kinds_are_written() -> None:
    """OpenReports are written where they are served, else PolicyReports; a group with one of two kinds is none."""
    assert kinds([*_POLICY[1:], *_OPEN[1:]]) == (_OPEN, _POLICY)
    assert kinds([*_POLICY[1:], _OPEN.namespaced]) == (_POLICY,)


def test_a_cluster_without_reports_is_told() -> None:
    """Whoever asks for reports where there are no kinds for them learns which ones to install."""
    with pytest.raises(AuditError) as error:
        kinds([])

    assert str(error.value) == (
        "-o reports: the cluster has neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2; install the "
        "CustomResourceDefinitions of one of them, see https://github.com/openreports/reports-api"
    )


_IN_A = "/apis/openreports.io/v1alpha1/namespaces/a/reports"
_EVENTS = "/api/v1/namespaces/a/events"


def _judged(name: str, *verdicts: str) -> Judged:
    scope = Scope("apps/v1", "Deployment", "a", name, f"uid-{name}")
    subject = Subject("apps/v1", "Deployment", "a", name, scope.uid, f"Deployment/{name}", scope)
    return Judged(subject, tuple(Finding(subject, "team", verdict, "", "no team") for verdict in verdicts))  # type: ignore[arg-type]


async def _write(api: Connection, times: Times, *judged: Judged) -> tuple[Written, list[str]]:
    """A run that found this."""
    lister = Lister(api, 10, times.clock)
    notices = FindingEvents(lister, times.clock)
    with Store() as store:
        for each in judged:
            store.add(each)
        done = await Reports(lister, [_OPEN], notices, namespaces=("a",)).write(store, complete=True)
    return done, notices.problems


def _take_reports(server: FakeApi) -> None:
    """Let reports about these workloads be written and removed."""
    server.put(_IN_A, {"metadata": {"name": "of-others"}})
    server.groups |= {f"{_IN_A}/cks-admission-uid-{name}": {} for name in ("web", "db", "broken")}


async def test_events_that_fail_stop_no_report(server: FakeApi, api: Connection, times: Times) -> None:
    """Without the right to create Events all reports are written, and one line says why nobody is told."""
    message = 'events is forbidden: User "audit" cannot create resource "events" in API group "" in the namespace "a"'
    right = "a ClusterRole must allow the account of this process to create events"
    _take_reports(server)
    server.fail(_EVENTS, 403, {"kind": "Status", "message": message}, times=9)

    assert await _write(api, times, _judged("web", "deny"), _judged("db", "deny")) == (
        Written(written=2, told=Told(omitted=1, failed=1)),
        [f"could not write Events: the API server refused POST {_EVENTS} at {server.url} (403: {message}); {right}"],
    )
