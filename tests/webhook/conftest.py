"""A served application on a port of its own, as the API server reaches it."""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import structlog
from aiohttp.test_utils import BaseTestServer
from aiohttp.web import AppRunner, BaseRunner, ServerRunner
from pytest_aiohttp import AiohttpClient
from support.service.servers import Client, Running, Serve

from webhook.configuration.settings import Listen
from webhook.http.app import Service
from webhook.http.decision import Follower, Served, ServingState
from webhook.http.health import application
from webhook.metrics import Metrics


class _Server(BaseTestServer):
    """Serves by a runner as production does: handlers finish although their caller has gone."""

    def __init__(self, runner: BaseRunner) -> None:
        super().__init__()
        self._made = runner

    async def _make_runner(self, **_: Any) -> BaseRunner:
        return self._made


@pytest.fixture(scope="package", autouse=True)
def _no_authorities_of_the_host() -> Iterator[None]:
    """Nothing here trusts the host's list of authorities, and each TLS context that reads it costs 30 ms of CPU."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", os.devnull)
        yield


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that is run in this process sets up logs, which the next test knows nothing of."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def serve(aiohttp_client: AiohttpClient) -> Serve:
    """Starts the two applications of a service for what is to be served; they end with the test."""

    async def start(served: Served, max_in_flight: int = 64, followers: Sequence[Follower] = ()) -> Running:
        state = ServingState(served)
        service = Service(state, Metrics(), Listen.model_validate({"maxInFlight": max_in_flight}))
        service.followers = tuple(followers)
        admission: Client = await aiohttp_client(_Server(ServerRunner(service.connections())))
        health: Client = await aiohttp_client(
            _Server(AppRunner(application(service.state, service.metrics, service.list_paths)))
        )
        return Running(state, service.metrics, admission, health)

    return start
