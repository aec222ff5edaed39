"""The look for what audits have left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from support.api.fakeapi import Failure, FakeApi, named, status
from support.api.times import Times
from support.service.servers import leader

from webhook.audit.record import Record
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.inspection.listing import Lister
from webhook.cluster.inspection.reports import Place, leave
from webhook.cluster.replicas.checks import AuditCheck
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

_PLACE = Place("cloud", "audit")
_MAPS = "/api/v1/namespaces/cloud/configmaps"
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


def _put(server: FakeApi, **fields: Any) -> None:
    config_map = named("audit", **fields)
    config_map["metadata"]["creationTimestamp"] = _SINCE.strftime("%Y-%m-%dT%H:%M:%SZ")
    server.put(_MAPS, config_map)


def _shown(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """The metrics of audits by name, without its beginning, and values of labels."""
    return {
        (sample.name.removeprefix("cks_admission_audit_"), *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith("cks_admission_audit_")
        for sample in family.samples
    }


_UNKNOWN = {(name,): 0 for name in ("end_timestamp_seconds", "duration_seconds", "objects", "unreadable_kinds")}


async def test_what_was_left_is_shown(server: FakeApi, api: Connection, times: Times) -> None:
    """The parts of an audit, left one after the other, are shown together; before them, since when there could be one.

    Who leads no more shows nothing.
    """
    _put(server)
    metrics = Metrics()
    look = AuditCheck(leader(api, lambda: _SETTINGS, metrics, times.clock))
    await look.look()
    before = _shown(metrics)
    for record in _RECORDS:
        await leave(Lister(api, 100, times.clock), _PLACE, record)
    await look.look()
    after = _shown(metrics)
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
    assert _shown(metrics) == _UNKNOWN


async def test_what_is_no_record_changes_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """A ConfigMap that somebody has changed is named with the reason, and what was shown before stays."""
    _put(server, data={"0": msgspec.json.encode(_RECORDS[0]).decode()})
    metrics = Metrics()
    look = AuditCheck(leader(api, lambda: _SETTINGS, metrics, times.clock))
    await look.look()
    before = _shown(metrics)
    _put(server, data={"0": "by hand"})

    with pytest.raises(ClusterError) as error:
        await look.look()

    assert str(error.value).startswith("ConfigMap cloud/audit: data['0'] is no record of an audit: ")
    assert _shown(metrics) == before


async def test_a_config_map_that_is_not_there_is_named(server: FakeApi, api: Connection, times: Times) -> None:
    """Whoever sets audit.record without a ConfigMap of that name learns what to do, from the audit and from manage."""
    server.failures.append(Failure(f"{_MAPS}/audit", 404, status(404), 2))
    look = AuditCheck(leader(api, lambda: _SETTINGS, clock=times.clock))
    told = []
    for attempt in (look.look(), leave(Lister(api, 100, times.clock), _PLACE, _RECORDS[0])):
        with pytest.raises(ClusterError) as error:
            await attempt
        told.append(str(error.value))

    assert told == ["ConfigMap cloud/audit is not there: make it, empty, or leave audit.record empty"] * 2
