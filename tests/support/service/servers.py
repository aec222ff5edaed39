"""The service in this process, behind real ports."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from support.builders import FACTS
from support.service.reviews import TODAY
from support.service.wire import Reply

from policies.admissionpolicy.evaluation.inputs import KnownParameters, ParametersKey
from policies.cel.library.authorizer import Check, CheckAnswer
from policies.engine.facts import Facts, NamespaceKey, References, ReferencesKey, StaticFacts
from policies.engine.interruption import FactUnavailable, Key, Missing
from policies.engine.rule import RuleSet
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import Clock
from webhook.cluster.replicas.checks import Leader
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.http.decision import Follower, Served, ServingState
from webhook.metrics import Metrics

Client = TestClient[web.Request, Any]


class Running:
    """Both applications of a service, each with a client."""

    def __init__(self, state: ServingState, metrics: Metrics, admission: Client, health: Client) -> None:
        self.state = state
        self.metrics = metrics
        self._admission = admission
        self._health = health

    @property
    def port(self) -> int:
        """The port of the admission application."""
        port = self._admission.port
        assert port is not None
        return port

    async def post(self, data: Any, path: str = "/validate", content_type: str | None = "application/json") -> Reply:
        """Send a review; a generator as data is sent in chunks."""
        headers = {} if content_type is None else {"Content-Type": content_type}
        skip = ["Content-Type"] if content_type is None else []
        async with self._admission.post(path, data=data, headers=headers, skip_auto_headers=skip) as response:
            return Reply(response.status, _lower(response.headers), await response.read())

    async def get(self, path: str) -> Reply:
        """Ask the health application."""
        async with self._health.get(path) as response:
            return Reply(response.status, _lower(response.headers), await response.read())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def leader(
    api: Connection,
    settings: Callable[[], Settings] = Settings,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    *,
    leads: Callable[[], bool] = lambda: True,
) -> Leader:
    """What a process that leads looks with: the default rules, and no facts."""
    judgement = (default_rules(), FACTS)
    return Leader(api, settings, lambda: judgement, leads, metrics or Metrics(), clock or Clock())


def default_rules(**settings: Any) -> RuleSet:
    """The rules that the settings ask for, the default ones without any."""
    return rules.build(Settings.model_validate(settings))


@contextmanager
def time_at_rest() -> Iterator[None]:
    """A block in which the clock of the event loop stands still, so that no deadline passes."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(loop, "time", lambda: now)
        yield


class Serve(Protocol):
    """Starts a service with given rules."""

    async def __call__(self, served: Served, max_in_flight: int = 64, followers: Sequence[Follower] = ()) -> Running:
        """The service, running."""
        ...


class Unreachable:
    """A resolver whose cluster does not answer."""

    def __init__(self, reason: str = "connection refused") -> None:
        self.reason = reason

    async def read(self, key: Key[Any], _seconds: float) -> Any:
        """Fail; a check has an answer that says so."""
        if isinstance(key, NamespaceKey):
            raise FactUnavailable(f"namespace {key.name} could not be read: {self.reason}")
        return key.failure(self.reason)


class Directory:
    """A cluster as a resolver and as facts, of which nothing is known until it has been read.

    hold: the event that each read waits for. parameters: the existing parameters of policies, as texts.
    references: the workloads that name each topology. asked: what was read, with the seconds given for each.
    reviewed: the requested authorization checks; alice may do everything.
    """

    def __init__(
        self,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        hold: asyncio.Event | None = None,
        parameters: Sequence[str] = (),
        references: Mapping[str, References] | None = None,
    ) -> None:
        self._namespaces = namespaces or {}
        self._parameters = parameters
        self._references = references or {}
        self._known: dict[Key[Any], Any] = {}
        self.hold = hold
        self.asked: list[tuple[str, float]] = []
        self.reviewed: list[Check] = []
        self.reading = asyncio.Event()

    async def read(self, key: Key[Any], seconds: float) -> Any:
        """The given value. References and answers are not known afterwards either."""
        match key:
            case Check(user=user):
                self.reviewed.append(key)
                return CheckAnswer(user.name == "alice")
            case ReferencesKey(topology):
                self.asked.append((topology, seconds))
                return self._references[topology]
            case NamespaceKey(name):
                self.asked.append((name, seconds))
                self.reading.set()
                if self.hold is not None:
                    await self.hold.wait()
                if name in self._namespaces:
                    self._known[key] = StaticFacts(TODAY, self._namespaces).known(key)
            case ParametersKey():
                self.asked.append((str(key), seconds))
                if str(key) in self._parameters:
                    self._known[key] = KnownParameters("Namespaced", ({"metadata": {"name": key.name}},))
            case _:
                raise NotImplementedError
        return self.facts().look_up(key)

    def facts(self) -> Facts:
        """The facts with what has been read so far."""
        return _Known(TODAY, values=self._known)


class _Known(StaticFacts, frozen=True, kw_only=True):
    """Facts that raise for what has not been read."""

    values: dict[Key[Any], Any]

    def known(self, key: Key[Any]) -> Any:
        if key not in self.values:
            raise Missing(key)
        return self.values[key]
