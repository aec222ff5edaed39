"""A served application on a port of its own, as the API server reaches it."""

from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from aiohttp.web import AppRunner, BaseRunner
from pytest_aiohttp import AiohttpClient

from webhook.app import Service
from webhook.metrics import Metrics
from webhook.state import Served, State

from .servers import Client, Running, Serve


class _Server(TestServer):
    """A server that lets handlers finish when their caller has gone, as those that are not for tests do."""

    async def _make_runner(self, **kwargs: Any) -> BaseRunner:
        return AppRunner(self.app, **{**kwargs, "handler_cancellation": False})


@pytest.fixture
def serve(aiohttp_client: AiohttpClient) -> Serve:
    """Starts the two applications of a service for what is to be served; they end with the test."""

    async def start(served: Served, max_in_flight: int = 64) -> Running:
        state = State(served)
        service = Service(state, Metrics(), max_in_flight)
        admission: Client = await aiohttp_client(_Server(service.admission_app()))
        health: Client = await aiohttp_client(_Server(service.health_app()))
        return Running(state, service.metrics, admission, health)

    return start
