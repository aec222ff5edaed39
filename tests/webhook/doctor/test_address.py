"""Where the API server dials, and who answers there."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import Json

from webhook.doctor.connection import check_address, dialled_by, targets
from webhook.doctor.observation import Endpoint, Unread

from .findings import FORBIDDEN, settings, told

_WHERE = "Service cloud/svc"
_NAME = "svc.cloud.svc"
_SERVICE: Json = {"spec": {"ports": [{"name": "metrics", "port": 8081}, {"name": "https", "port": 443}]}}
_SLICE: Json = {
    "ports": [{"name": "metrics", "port": 8081}, {"name": "https", "port": 9443}],
    "endpoints": [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
        {"addresses": ["fd00::3"]},
    ],
}


def _settings(**registration: Any) -> Any:
    return settings(cluster={"namespace": "cloud"}, registration={"service": "svc", **registration})


@pytest.mark.parametrize(
    ("service", "slices", "port", "expected"),
    [
        pytest.param(_SERVICE, [_SLICE], 443, ("ok", "port 443 leads to 2 ready replicas", ""), id="fine"),
        pytest.param(
            None,
            [],
            443,
            (
                "problem",
                "it does not exist, so the API server cannot reach the service",
                "create it, or correct registration.service and cluster.namespace",
            ),
            id="no Service",
        ),
        pytest.param(
            _SERVICE,
            [_SLICE],
            8443,
            (
                "problem",
                "it has no port 8443, only 8081, 443",
                "set registration.servicePort to a port of the Service, or add this port to the Service",
            ),
            id="another port",
        ),
        pytest.param(
            _SERVICE,
            [{**_SLICE, "endpoints": _SLICE["endpoints"][1:2]}],
            443,
            (
                "problem",
                "it has no ready endpoints, so the API server cannot reach the service",
                "see kubectl get pods -n cloud; /readyz of each Pod says why it is not ready",
            ),
            id="nobody is ready",
        ),
        pytest.param(
            _SERVICE,
            FORBIDDEN,
            443,
            (
                "unknown",
                "not checked: the current account may not list things",
                "use an account that may list things",
            ),
            id="no right",
        ),
    ],
)
def test_the_service_leads_to_replicas(
    service: Json | None, slices: list[Json] | Unread, port: int, expected: tuple[str, str, str]
) -> None:
    """It is there, has the port that is dialled, and somebody is ready behind it."""
    level, found, remedy = expected
    assert told(check_address(_settings(servicePort=port), service, slices)) == [(level, _WHERE, found, remedy)]


def test_by_a_url_there_is_no_service() -> None:
    """Where the configuration has a URL, Services do not matter, and the URL is the one address."""
    chosen = _settings(url="https://[fd00::1]:9443/")

    assert told(check_address(chosen, None, [])) == []
    assert [each.where for each in targets(chosen, None, [])] == ["[fd00::1]:9443"]


def test_every_ready_replica_is_an_address() -> None:
    """The Service's own name comes first, then each replica by the port that the slice has for it; all for one name."""
    assert targets(_settings(), _SERVICE, [_SLICE]) == [
        Endpoint(_NAME, _NAME, 443),
        Endpoint(_NAME, "10.0.0.1", 9443),
        Endpoint(_NAME, "fd00::3", 9443),
    ]
    assert targets(_settings(), FORBIDDEN, [_SLICE]) == [Endpoint(_NAME, _NAME, 443)]


def test_the_name_that_is_dialled_is_read_off_an_entry() -> None:
    """A Service has its name in the cluster, a URL its host."""
    assert dialled_by({"service": {"name": "svc", "namespace": "cloud", "path": "/x"}}) == _NAME
    assert dialled_by({"url": "https://hooks.example.org:9443/x"}) == "hooks.example.org"
