"""The replicas and their Lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.builders import Json

from webhook.doctor.processes import check_lease, check_replicas, selector

from .findings import FORBIDDEN, settings, told

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_SETTINGS = settings(cluster={"namespace": "cloud"}, registration={"apply": True})
_LEASE = "Lease cloud/cks-admission"
_WATCH = "check that a replica runs and may get, create and update the Lease; see its log"


def _deployment(wanted: int, ready: int) -> Json:
    return {"metadata": {"name": "cks"}, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}


def _pod(name: str, image: str = "cks:1", phase: str = "Running") -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}}


def _lease(holder: str = "cks-a", ago: float = 3) -> Json:
    renewed = (_NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


@pytest.mark.parametrize(
    ("ready", "level"),
    [pytest.param(2, "ok", id="all"), pytest.param(1, "warning", id="some"), pytest.param(0, "problem", id="none")],
)
def test_how_many_are_ready(ready: int, level: str) -> None:
    """Nobody ready is a problem, some a warning."""
    remedy = "" if level == "ok" else "see kubectl get pods; /readyz and the log of each Pod say why"
    assert told(check_replicas([_deployment(2, ready)], [], _SETTINGS)) == [
        (level, "Deployment cks", f"{ready} of 2 replicas ready", remedy)
    ]


def test_replicas_of_several_versions() -> None:
    """Two images at once are told; Pods that have ended do not count."""
    pods = [_pod("a"), _pod("b", "cks:2"), _pod("c", "cks:3", "Succeeded")]
    assert told(check_replicas([_deployment(2, 2)], pods, _SETTINGS))[1:] == [
        (
            "warning",
            "Pods in cloud",
            "they run cks:1, cks:2",
            "this is normal during a rollout; if it lasts, see kubectl rollout status",
        )
    ]


def test_no_deployment() -> None:
    """A service in the cluster has one; one that is called by a URL may run anywhere."""
    outside = settings(registration={"url": "https://127.0.0.1:9443"})

    assert told(check_replicas([], [], outside)) == []
    assert told(check_replicas([], [], _SETTINGS)) == [
        (
            "warning",
            "Deployments in cloud",
            "none has the labels of the service",
            "check where the service runs: cluster.namespace is cloud",
        )
    ]
    assert [level for level, *_ in told(check_replicas(FORBIDDEN, FORBIDDEN, _SETTINGS))] == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("lease", "pods", "expected"),
    [
        pytest.param(_lease(), [_pod("cks-a")], ("ok", "cks-a holds and renews it", ""), id="fine"),
        pytest.param(_lease("cks-a_7"), [_pod("cks-a")], ("ok", "cks-a_7 holds and renews it", ""), id="its process"),
        pytest.param(_lease("host"), [], ("ok", "host holds and renews it", ""), id="outside"),
        pytest.param(
            _lease(),
            [_pod("cks-ab"), _pod("cks-c")],
            (
                "warning",
                "cks-a holds it, which is none of 2 Pods of the service",
                "stop whatever else uses this Lease, or choose another one with cluster.lease",
            ),
            id="somebody else",
        ),
        pytest.param(
            _lease(ago=100),
            [],
            ("problem", "cks-a last renewed it 100 s ago: nobody writes the registration", _WATCH),
            id="overdue",
        ),
        pytest.param(
            _lease(""), [], ("problem", "no process holds it: nobody writes the registration", _WATCH), id="free"
        ),
        pytest.param(None, [], ("problem", "it does not exist: nobody writes the registration", _WATCH), id="missing"),
    ],
)
def test_who_writes(lease: Json | None, pods: list[Json], expected: tuple[str, str, str]) -> None:
    """One of the replicas holds the Lease and renews it."""
    level, found, remedy = expected
    assert told(check_lease(lease, pods, _SETTINGS, _NOW)) == [(level, _LEASE, found, remedy)]


def test_where_nothing_is_written_nobody_leads() -> None:
    """A service that writes neither registration nor CA has no Lease; one that may not be seen is not known."""
    assert told(check_lease(None, [], settings(), _NOW)) == []
    assert told(check_lease(FORBIDDEN, [], _SETTINGS, _NOW))[0][0] == "unknown"


def test_the_pods_are_those_of_the_service() -> None:
    """The Service's selector says which; without one the label of the chart."""
    service: Any = {"spec": {"selector": {"a": "b", "c": "d"}}}
    assert [selector(each, settings()) for each in (service, None, FORBIDDEN)] == [
        "a=b,c=d",
        "app.kubernetes.io/name=cks-admission",
        "app.kubernetes.io/name=cks-admission",
    ]


def test_manage_holds_the_lease() -> None:
    """Where manage runs apart, its Pods are looked at, too, and it is what has to run."""
    pods = "app=cks,app.kubernetes.io/component=webhook,release=a"
    apart = settings(cluster={"namespace": "cloud", "lease": "cks"}, manage={"apart": True, "pods": pods})
    service: Any = {"spec": {"selector": {"a": "b"}}}
    ((level, _, found, remedy),) = told(check_lease(None, [], apart, _NOW))

    assert selector(service, apart) == "app=cks,release=a"
    assert (level, found) == ("problem", "it does not exist: nobody writes the registration")
    assert remedy == "check that manage runs and may get, create and update the Lease; see its log"
