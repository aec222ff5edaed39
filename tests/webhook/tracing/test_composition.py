"""Where traces are sent, and what is said where nothing can send them."""

from contextlib import AsyncExitStack

import pytest
from support.service.reviews import served

from webhook import composition
from webhook.composition import trace
from webhook.configuration.settings import Listen, SettingsError, TracingSettings
from webhook.http.app import Service
from webhook.http.decision import ServingState
from webhook.metrics import Metrics
from webhook.opentelemetry import receiver


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
    monkeypatch.setattr(composition, "find_spec", lambda _: None)
    service = Service(ServingState(served()), Metrics(), Listen())
    async with AsyncExitStack() as stack:
        trace(stack, service, TracingSettings())
        assert service.tracing is None
        with pytest.raises(SettingsError, match=r"^tracing\.endpoint needs .*pip install 'cks-admission\[tracing\]'"):
            trace(stack, service, TracingSettings(endpoint="http://collector:4318"))
