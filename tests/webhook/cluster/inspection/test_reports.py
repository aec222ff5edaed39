"""Which kinds of reports an audit writes, and who is told of them."""

from __future__ import annotations

import json

import pytest
from support.api.fakeapi import FakeApi
from support.api.times import Times

from policies.engine.request import GroupVersionResource
from webhook.audit.audit import Judged
from webhook.audit.finding import Finding, Scope, Subject
from webhook.audit.reports import OPEN_REPORTS, POLICY_REPORTS, Form, NoReportsError, Store
from webhook.cluster.api.client import Connection
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.inspection.listing import Lister
from webhook.cluster.inspection.reports import MANAGER, FindingEvents, Kinds, Reports, Told, Written, kinds


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
    with pytest.raises(NoReportsError) as error:
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


def _keep(server: FakeApi) -> None:
    """Have the reports that were applied as the API server would have them."""
    for seen in [seen for seen in server.seen if seen.method == "PATCH"]:
        report = json.loads(seen.body)
        report["metadata"] |= {"uid": "u", "managedFields": [{"manager": MANAGER, "operation": "Apply"}]}
        server.put(_IN_A, report)


def _told(server: FakeApi) -> list[str]:
    return [json.loads(seen.body)["involvedObject"]["name"] for seen in server.seen if seen.path == _EVENTS]


async def test_people_are_told_of_reports_that_are_new(server: FakeApi, api: Connection, times: Times) -> None:
    """An Event goes with a report of a refusal that is written, and none with one of warnings, or one that stays."""
    _take_reports(server)
    runs = [await _write(api, times, _judged("web", "deny"), _judged("db", "warn"), _judged("broken", "error"))]
    _keep(server)
    runs.append(await _write(api, times, _judged("web", "deny"), _judged("db", "warn", "deny")))

    assert runs == [
        (Written(written=3, told=Told(written=2)), []),
        (Written(written=1, unchanged=1, removed=1, told=Told(written=1)), []),
    ]
    assert _told(server) == ["broken", "web", "db"]


async def test_events_that_fail_stop_no_report(server: FakeApi, api: Connection, times: Times) -> None:
    """Without the right to create Events all reports are written, and one line says why nobody is told."""
    message = 'events is forbidden: User "audit" cannot create resource "events" in API group "" in the namespace "a"'
    right = "a ClusterRole must allow the audit's account to create events"
    _take_reports(server)
    server.fail(_EVENTS, 403, {"kind": "Status", "message": message}, times=9)

    assert await _write(api, times, _judged("web", "deny"), _judged("db", "deny")) == (
        Written(written=2, told=Told(omitted=1, failed=1)),
        [f"could not write Events: the API server refused POST {_EVENTS} at {server.url} (403: {message}); {right}"],
    )
