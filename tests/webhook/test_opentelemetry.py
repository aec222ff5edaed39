"""Where traces are sent, which reviews have one, and what is said where nothing can send them."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from support.service.reviews import served

from webhook import serve
from webhook.configuration.settings import Listen, SettingsError, TracingSettings
from webhook.http.app import Service
from webhook.http.decision import ServingState
from webhook.metrics import Metrics
from webhook.opentelemetry import Tracer, receiver
from webhook.serve import trace
from webhook.tracing import Trace


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://example.org/otlp/v1/traces", "https://example.org/otlp/v1/traces"),
    ],
)
def test_the_path_of_the_protocol_is_added(endpoint: str, address: str) -> None:
    """An endpoint without a path gets that of the protocol; any other is taken as it is."""
    assert receiver(endpoint) == address


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service does not start with a receiver that it cannot send to, and says what to install."""
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    service = Service(ServingState(served()), Metrics(), Listen())
    async with AsyncExitStack() as stack:
        trace(stack, service, TracingSettings())
        assert service.tracing is None
        with pytest.raises(SettingsError, match=r"^tracing\.endpoint needs .*pip install 'cks-admission\[tracing\]'"):
            trace(stack, service, TracingSettings(endpoint="http://collector:4318"))


_SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_UNSAMPLED = _SAMPLED[:-1] + "0"
_BROKEN = "00-00000000000000000000000000000000-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("sent", "share", "traced"),
    [
        pytest.param(_SAMPLED, 0, True, id="the caller traces"),
        pytest.param(_UNSAMPLED, 1, False, id="the caller does not trace"),
        pytest.param("", 1, True, id="the caller says nothing, all are traced"),
        pytest.param("", 0, False, id="the caller says nothing, none is traced"),
        pytest.param(_BROKEN, 1, True, id="the caller says nothing that can be read, all are traced"),
        pytest.param(_BROKEN, 0, False, id="the caller says nothing that can be read, none is traced"),
    ],
)
def test_the_caller_decides_before_the_share_does(sent: str, share: float, traced: bool) -> None:  # noqa: FBT001 - a case
    """A valid traceparent decides; without one, the share does."""
    tracer = Tracer(share, 0.001, lambda _: None)

    assert (tracer.begin({"traceparent": sent} if sent else {}) is not None) is traced


def test_a_rule_that_takes_less_has_no_span() -> None:
    """Only slow rules have a span; all of them are told to the other listener."""
    told: list[object] = []
    quick, slow = Trace(None, 3600.0), Trace(None, 0.0)
    for timed in (quick, slow):
        lap = timed.laps(told.append)
        lap("labels")
        lap(("first", "second"))

    assert told == ["labels", ("first", "second")] * 2
    assert quick.spans == []
    assert [(span.name, span.attributes) for span in slow.spans] == [
        ("rule", {"cks_admission.rule": "labels"}),
        ("rules", {"cks_admission.rules": 2}),
    ]
