"""The Events about what an audit finds: what is in them, and how few there are."""

from __future__ import annotations

import json

import pytest
from support.api.fakeapi import FakeApi, status
from support.api.times import Times

from webhook.audit.finding import Scope
from webhook.cluster.api.client import Connection
from webhook.cluster.inspection.listing import Lister
from webhook.cluster.inspection.reports import MOST, SHARE, FindingEvents, Told

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
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": place},
        "involvedObject": {
            "apiVersion": scope.api_version,
            "kind": scope.kind,
            "namespace": scope.namespace,
            "name": scope.name,
            "uid": "u",
        },
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
