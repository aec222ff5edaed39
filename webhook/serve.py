"""The composition root: settings become rules, facts, a TLS context and two ports; signals take them down again."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NoReturn

import structlog
from aiohttp import web
from yarl import URL

from policies.facts import Facts, StaticFacts
from policies.topology.catalog import Catalog
from webhook import rules
from webhook.app import Service
from webhook.certificates import Certificates
from webhook.metrics import Metrics
from webhook.registrar import Registrar
from webhook.settings import Settings, SettingsError
from webhook.state import Served, State
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.cluster.facts import ClusterFacts
    from webhook.cluster.followed import Followed
    from webhook.policykeeper import PolicyKeeper
    from webhook.rules import PolicyRules

BACKLOG = 1024
# How long connections may take to close once nothing is in flight any more.
LAST_WAIT = 0.5


class PortError(Exception):
    """A port that cannot be opened; the text says which and why."""


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, CertificateError, ClusterError or PortError at start."""
    log = structlog.get_logger()
    if settings.registration.apply and not _has_cluster(settings):
        raise SettingsError("registration.apply needs a cluster: set cluster.kubeconfig or cluster.inCluster")
    stopping = _stop_signal()
    measures = Metrics()
    certificates = Certificates(settings.tls, measures)
    certificates.start()
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(await _cluster(settings)) if _has_cluster(settings) else None
        facts = cluster.facts if cluster else None
        # Read once: what becomes of the files later must not stand in the way of policies and registration.
        catalog = rules.topologies(settings)
        keeper = await _policies(settings, measures, cluster, catalog)
        state = State(_served(settings, facts, keeper, catalog))
        state.add_gate("certificate", certificates.unready)
        if cluster is not None:
            state.add_gate("cluster", cluster.unsynced)
            state.add_note("cluster", cluster.facts.problems)
            state.add_note("parameters of policies", cluster.facts.parameters.problems)
        if keeper is not None:
            state.add_gate("policies", lambda: () if keeper.complete else ["those of the cluster are not loaded yet"])
            state.add_note("policies", keeper.unused)
        service = Service(state, measures, settings.listen.max_in_flight)
        # Last of all, for an open port promises that the rules are in place.
        health = web.AppRunner(service.health_app(), access_log=None, shutdown_timeout=LAST_WAIT)
        await _listen(health, settings.health.host, settings.health.port)
        stack.push_async_callback(health.cleanup)
        admission = web.ServerRunner(service.admission_server(), shutdown_timeout=LAST_WAIT)
        await _listen(admission, settings.listen.host, settings.listen.port, certificates)
        stack.push_async_callback(admission.cleanup)
        # What start-up made lives as long as the process: the collector need not look at it again and again.
        gc.freeze()
        registrar = Registrar(settings, certificates, facts, lambda: _known_rules(keeper), catalog)
        stack.callback(asyncio.create_task(_keep(certificates, registrar, settings.tls.check_seconds)).cancel)
        if keeper is not None:

            async def swap() -> None:
                state.served = _served(settings, facts, keeper, catalog)
                await registrar.write()

            following = asyncio.create_task(keeper.run(swap))
            following.add_done_callback(_ended)
            stack.callback(following.cancel)
        log.info(
            "serving", version=VERSION, admission=_address("https", admission), health=_address("http", health),
            rules=[rule.name for rule in state.served.ruleset.rules],
        )  # fmt: skip
        await _drain(state, stopping, settings.listen.drain_seconds)
        await _finish(admission, state, settings.listen.grace_seconds)
    log.info("stopped")


def _known_rules(keeper: PolicyKeeper | None) -> PolicyRules | None:
    """The rules of policies; None while it is not known which there are."""
    if keeper is None:
        return rules.NO_POLICIES
    return keeper.rules if keeper.complete else None


def _ended(task: asyncio.Task[NoReturn]) -> None:
    """Policies are followed until the process ends; should that ever end by itself, nobody would see it otherwise."""
    if not task.cancelled():
        structlog.get_logger().critical(
            "policies are no longer followed; restart the service", error=repr(task.exception())
        )


def _has_cluster(settings: Settings) -> bool:
    return bool(settings.cluster.kubeconfig) or settings.cluster.in_cluster


async def _cluster(settings: Settings) -> AbstractAsyncContextManager[Followed]:
    """What is known of the cluster, given a while to arrive. Raises ClusterError."""
    from webhook.cluster.client import connect  # noqa: PLC0415 - the client costs 16 MB, for clusters only
    from webhook.cluster.followed import follow  # noqa: PLC0415 - as above

    return follow(
        await connect(settings.cluster.kubeconfig or None, settings.cluster.in_cluster),
        nodes=_follows_topologies(settings) or "off" not in (settings.sunk.daemon_sets, settings.sunk.action),
        topologies=_follows_topologies(settings),
        maps_in=settings.cluster.namespace if settings.policies.config_maps else "",
        natives=settings.policies.native,
        workloads=rules.topology_options(settings).workloads,
    )


def _follows_topologies(settings: Settings) -> bool:
    return settings.topology.action != "off"


async def _policies(
    settings: Settings, measures: Metrics, cluster: Followed | None, catalog: Catalog
) -> PolicyKeeper | None:
    """The policies as the sources have them now; None where there is no source. Raises SettingsError."""
    directories = settings.policies.directories
    if not directories and (cluster is None or not (cluster.maps or cluster.natives)):
        if unknown := rules.unknown_names(settings):
            raise SettingsError("\n".join(unknown))
        return None
    from webhook.policykeeper import InCluster, PolicyKeeper  # noqa: PLC0415 - nothing else needs the CEL engine
    from webhook.policysources.configmaps import ConfigMaps  # noqa: PLC0415 - as above
    from webhook.policysources.directories import Directories  # noqa: PLC0415 - as above
    from webhook.policysources.natives import Natives  # noqa: PLC0415 - as above
    from webhook.policysources.source import Source  # noqa: PLC0415 - as above

    sources: list[Source] = [Directories(directories)] if directories else []
    inside = None
    if cluster is not None:
        sources += [ConfigMaps(cluster.maps)] if cluster.maps else []
        natives = Natives(cluster.natives) if cluster.natives else None
        inside = InCluster(cluster.facts.parameters, natives, cluster.unsynced_policies)
    keeper = PolicyKeeper(settings, sources, measures, catalog, inside)
    await keeper.start()
    return keeper


def _served(settings: Settings, facts: ClusterFacts | None, keeper: PolicyKeeper | None, catalog: Catalog) -> Served:
    ruleset = rules.build(settings, catalog=catalog) if keeper is None else keeper.ruleset
    if facts is None:
        return Served(ruleset, _no_cluster)
    current: Callable[[], Facts] = lambda: facts  # noqa: E731
    return Served(ruleset, current, facts)


class _NoCluster(StaticFacts, frozen=True):
    """No facts but the date, which is looked up only where a rule asks for it."""

    def today(self) -> date:
        return datetime.now(UTC).date()


_NO_CLUSTER = _NoCluster(date.min)


def _no_cluster() -> Facts:
    return _NO_CLUSTER


async def _listen(runner: web.BaseRunner, host: str, port: int, certificates: Certificates | None = None) -> None:
    """Open a port. Raises PortError."""
    await runner.setup()
    context = certificates.serving.context if certificates else None
    try:
        await web.TCPSite(runner, host, port, ssl_context=context, backlog=BACKLOG).start()
    except OSError as error:
        await runner.cleanup()
        problem = f"{error.strerror or error}; is another process using it?"
        raise PortError(f"cannot listen on {host}:{port}: {problem}") from None


def _address(scheme: str, runner: web.BaseRunner) -> str:
    host, port = runner.addresses[0][:2]
    return str(URL.build(scheme=scheme, host=host, port=port))


async def _keep(certificates: Certificates, registrar: Registrar, seconds: float) -> None:
    """Everything that must be looked after while the service runs."""
    while True:
        try:
            if await registrar.write():
                certificates.install()
            await asyncio.sleep(seconds)
            certificates.look()
        except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a certificate would expire unseen
            structlog.get_logger().exception("upkeep failed")
            await asyncio.sleep(seconds)


def _stop_signal() -> asyncio.Future[signal.Signals]:
    """Resolved by the first SIGTERM or SIGINT; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()

    def receive(number: signal.Signals) -> None:
        for known in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(known)
        received.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number)
    return received


async def _drain(state: State, stopping: asyncio.Future[signal.Signals], seconds: float) -> None:
    """Wait for the signal, then let the cluster notice before the port closes.

    From here on readiness says no and every answer closes its connection, so that callers go elsewhere.
    """
    received = await stopping
    state.draining = True
    structlog.get_logger().info("stopping", signal=received.name, in_flight=state.in_flight)
    if received is signal.SIGTERM:  # on a terminal nobody waits for endpoints
        await asyncio.sleep(seconds)


async def _finish(admission: web.ServerRunner, state: State, seconds: float) -> None:
    """Close the port, and wait for the reviews in flight.

    Not left to aiohttp's own clean-up: that drops what still arrives of a body.
    """
    for site in list(admission.sites):
        await site.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while state.in_flight:  # noqa: ASYNC110 - once in the process's life
                await asyncio.sleep(0.01)
