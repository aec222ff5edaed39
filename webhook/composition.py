"""What the composition roots `serve`, `manage` and `place` share: tasks, signals, rules, and what follows an answer."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, NoReturn

import structlog

from policies.kubernetes.release import NEWEST
from webhook.audit.owners import Owners
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.events import Events
from webhook.cluster.facts.workloads import owner_reader
from webhook.cluster.watches.cluster import Followed
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.settings import Settings, SettingsError, TracingSettings
from webhook.decisions.log import DecisionLog, output, writer
from webhook.decisions.refusals import Refusals
from webhook.decisions.shadow import Shadow
from webhook.http.app import Service
from webhook.metrics import Metrics
from webhook.sources.policykeeper import InCluster, PolicyKeeper, shadow_keeper, shadowed
from webhook.sources.policyset import ConfigMaps, Directories, Source


def stop_signal() -> asyncio.Future[signal.Signals]:
    """A future that the first SIGTERM or SIGINT resolves. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()

    def receive(number: signal.Signals) -> None:
        for known in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(known)
        received.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number)
    return received


INTERVAL = 0.1


async def measure_lag(metrics: Metrics) -> NoReturn:
    """Observe, ten times a second, how much later than it should the event loop runs a task."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))


@contextmanager
def measured_collections(metrics: Metrics) -> Iterator[None]:
    """A block in which runs of the garbage collector are counted and timed.

    Those of generation 0 are not: there is one in every few reviews, and it takes microseconds.
    """
    runs = [metrics.collections.labels(str(generation)) for generation in (1, 2)]
    pauses = [metrics.collection_seconds.labels(str(generation)) for generation in (1, 2)]
    started = 0.0

    def observe(phase: str, info: dict[str, int]) -> None:
        nonlocal started
        generation = info["generation"]
        if not generation:
            return
        if phase == "start":
            started = time.perf_counter()
        else:
            runs[generation - 1].inc()
            pauses[generation - 1].inc(time.perf_counter() - started)

    gc.callbacks.append(observe)
    try:
        yield
    finally:
        gc.callbacks.remove(observe)


def run(stack: AsyncExitStack, what: str, work: Coroutine[Any, Any, NoReturn]) -> None:
    """Run a task until the stack is closed. If it ends by itself, log that, because nobody would notice otherwise."""

    def ended(task: asyncio.Task[NoReturn]) -> None:
        if not task.cancelled():
            structlog.get_logger().critical("task ended; restart the service", what=what, error=repr(task.exception()))

    task = asyncio.create_task(work, name=what)
    task.add_done_callback(ended)
    stack.callback(task.cancel)


async def keeper(
    loaded: LoadedConfiguration,
    measures: Metrics,
    cluster: Followed | None,
    *,
    parameters: bool = True,
    reports: bool = True,
) -> PolicyKeeper:
    """The keeper of the rules, with the current policies of the sources. Raises SettingsError.

    parameters: whether those of policies are read. reports: whether this process
    tells owners of policies what is wrong with them.
    """
    settings, catalog = loaded
    directories = settings.policies.directories
    sources: list[Source] = [Directories(directories)] if directories else []
    inside = None
    if cluster is not None:
        sources += [ConfigMaps(cluster.maps, reports=reports)] if cluster.maps else []
        followed = cluster.facts.parameters if parameters else None
        inside = InCluster(cluster.release, followed, cluster.natives, cluster.unsynced_policies, reports)
    made = PolicyKeeper(settings, sources, measures, catalog, inside)
    await made.start()
    return made


def trace(stack: AsyncExitStack, service: Service, settings: TracingSettings) -> None:
    """Have the reviews of a service traced until the stack is closed. Raises SettingsError."""
    if not settings.endpoint:
        return
    if not all(map(find_spec, ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"))):
        raise SettingsError(
            "tracing.endpoint needs OpenTelemetry, which is not installed: pip install 'cks-admission[tracing]', "
            "or leave it empty"
        )
    from webhook import opentelemetry  # noqa: PLC0415 - OpenTelemetry costs 8 MB

    traces = opentelemetry.sender(stack, settings.endpoint)
    traces.start()
    stack.callback(traces.end)
    service.metrics.traces = traces
    service.state.add_note("tracing", traces.problems)
    service.tracing = opentelemetry.Tracer(settings.share, settings.rule_seconds, traces.put)


class Followers:
    """What follows the answers. shadow, keeper: the shadow policies, and what reads them; None without any."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.shadow: Shadow | None = None
        self.keeper: PolicyKeeper | None = None

    async def reconfigure(self, loaded: LoadedConfiguration) -> None:
        """Take over a configuration that the rules in force have taken over. Raises nothing."""
        if self.keeper is None:
            return
        try:
            await self.keeper.reconfigure(loaded._replace(settings=shadowed(loaded.settings)))
        except Exception:  # noqa: BLE001 - shadow policies must not keep a configuration out
            structlog.get_logger().exception("could not reconfigure shadow policies")

    async def swap(self) -> None:
        """Compare with the rules that are in force now."""
        if self.shadow is not None and self.keeper is not None:
            self.shadow.install(self.keeper.rules, self.keeper.ruleset, self._service.state.served)


async def follow_answers(
    stack: AsyncExitStack, service: Service, loaded: LoadedConfiguration, cluster: Followed | None
) -> Followers:
    """Have the answers of a service followed until the stack is closed."""
    settings = loaded.settings
    log = _decision_log(stack, service, settings, cluster)
    followers = Followers(service)
    if settings.policies.shadow:
        await _begin_shadow(stack, followers, service, loaded, cluster, log)
    told = _refusals(stack, service, settings, cluster)
    service.followers = tuple(follower for follower in (log, followers.shadow, told) if follower is not None)
    return followers


def _decision_log(
    stack: AsyncExitStack, service: Service, settings: Settings, cluster: Followed | None
) -> DecisionLog | None:
    chosen = settings.decisions
    if not chosen.log:
        return None
    records = writer(output(chosen))
    records.start()
    stack.callback(records.end)
    service.metrics.records = records
    service.state.add_note("decision log", records.problems)
    release = (settings.policies.release or NEWEST).name
    return DecisionLog(chosen, records, lambda: release if cluster is None else cluster.release.current.name)


def _refusals(stack: AsyncExitStack, service: Service, settings: Settings, cluster: Followed | None) -> Refusals | None:
    if cluster is None or not settings.events.refusals:
        return None
    api = cluster.facts.api
    events = Events(api)
    owners = Owners(owner_reader(api, rules.topology_options(settings).workloads))
    refusals = Refusals(owners.top, events.write, events.hour, service.metrics, Clock())
    run(stack, "refusals", refusals.run())
    return refusals


async def _begin_shadow(
    stack: AsyncExitStack,
    followers: Followers,
    service: Service,
    loaded: LoadedConfiguration,
    cluster: Followed | None,
    log: DecisionLog | None,
) -> None:
    inside = None
    if cluster is not None:
        followed = cluster.facts.parameters
        inside = InCluster(cluster.release, followed, None, cluster.unsynced_policies)
    keeper = followers.keeper = shadow_keeper(loaded, service.metrics.shadow, inside)
    shadow = followers.shadow = Shadow(service.judge, service.metrics.shadow, log)
    await keeper.look()
    await followers.swap()
    service.state.add_note("shadow", lambda: [*keeper.unused(), *shadow.notes()])
    run(stack, "shadow policies", keeper.run(followers.swap))
    run(stack, "shadow", shadow.run())
