"""The composition root: makes rules, facts, a TLS context and two ports from settings, and stops on signals."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from policies.engine.facts import StaticFacts
from webhook.authority import trusted
from webhook.certificates import Certificates, Upkeep
from webhook.cluster.api.call import Connection
from webhook.cluster.facts import scheduling
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.facts.scheduling import Ask
from webhook.cluster.placer.gates import PlacerLookout
from webhook.cluster.replicas.checks import Leader, checks
from webhook.cluster.replicas.lease import Replica, joined
from webhook.cluster.replicas.webhooks import Recognition, Webhooks
from webhook.cluster.watches.cluster import Followed, WatchAges, follow
from webhook.composition import (
    Followers,
    follow_answers,
    keeper,
    measure_lag,
    measured_collections,
    run,
    stop_signal,
    trace,
)
from webhook.configuration import roles, rules
from webhook.configuration.configuration import Configuration, LoadedConfiguration
from webhook.configuration.settings import Settings, SettingsError
from webhook.heavy import SlowPolicies
from webhook.http import health
from webhook.http.app import Service
from webhook.http.decision import Served, ServingState
from webhook.logs import Sink
from webhook.metrics import Metrics
from webhook.registration.registrar import Registrar, RegistrarInputs
from webhook.sources.policykeeper import PolicyKeeper
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.cluster.placer.follower import Follower


class _Parts(NamedTuple):
    """The parts of a process before it opens its ports.

    taking_part: closed before the ports, so that another replica takes over what this one does for all. webhooks: the
    configurations that manage writes; None if it does not run apart. placement: what places gangs; None if another
    process does. lookout: for a placer that runs apart.
    """

    configuration: Configuration
    measures: Metrics
    cluster: Followed | None
    taking_part: AsyncExitStack
    replica: Replica | None
    certificates: Certificates
    keeper: PolicyKeeper
    webhooks: Webhooks | None = None
    placement: Follower | None = None
    lookout: PlacerLookout | None = None

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.configuration.current.settings

    @property
    def facts(self) -> ClusterFacts | None:
        """The facts of the cluster; None without a cluster."""
        return self.cluster.facts if self.cluster else None


# The seconds that a thread which compiles policies may keep the event loop waiting, each time it wakes up.
_SWITCH = 0.001


async def serve(read: Callable[[], Settings], path: Path | None = None, log_lines: Sink | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, CertificateError, ClusterError or PortError at start.

    read: returns the current settings. path: their file, which is watched for changes. log_lines: where log lines go,
    whose losses are counted.
    """
    log = structlog.get_logger()
    sys.setswitchinterval(_SWITCH)
    stopping = stop_signal()
    measures = Metrics()
    measures.log = log_lines
    configuration = Configuration(read, path, measures)
    settings = configuration.current.settings
    _check(settings)
    async with AsyncExitStack() as stack:
        parts = await _assemble(stack, configuration, measures)
        # The lambda is called only after `upkeep` and `state` exist.
        registrar = _registrar(parts, lambda: (upkeep.writing, not state.unready()))
        replica, tls = parts.replica, settings.tls
        trust = trusted(settings.registration, replica.webhooks if replica else None)
        upkeep = Upkeep(parts.certificates, registrar, measures, tls.check_seconds, replica, trust)
        parts.certificates.start()
        state = _state(parts, registrar)
        _watch_ages(stack, parts, state)
        service = Service(state, measures, settings.listen, _slow(parts))
        followers = await follow_answers(stack, service, configuration.current, parts.cluster)
        trace(stack, service, settings.tracing)
        # Last, because an open port promises that the rules are in force.
        probed = await stack.enter_async_context(health.opened(service.health_app(), settings.health))
        server = service.connections()
        url = await stack.enter_async_context(server.port(parts.certificates.serving.context))
        # The objects from start-up live as long as the process, so the garbage collector can ignore them.
        gc.freeze()
        stack.enter_context(measured_collections(measures))
        _run_all(stack, parts, registrar, upkeep, service, followers)
        log.info(
            "serving", version=VERSION, admission=url,
            health=probed, rules=[rule.name for rule in state.served.ruleset.rules],
        )  # fmt: skip
        await _drain(state, stopping, settings.listen.drain_seconds, parts.taking_part.aclose)
        await server.finish(lambda: state.in_flight, settings.listen.grace_seconds)
    log.info("stopped")


async def _assemble(stack: AsyncExitStack, configuration: Configuration, measures: Metrics) -> _Parts:
    settings = configuration.current.settings
    namespace = settings.cluster.namespace
    taking_part = AsyncExitStack()
    cluster: Followed | None = None
    placement: Follower | None = None
    lookout: PlacerLookout | None = None
    webhooks: Webhooks | None = None
    replica: Replica | None = None
    if settings.cluster.is_given:
        cluster = await _cluster(stack, settings)
        api, measures.kubernetes = cluster.facts.api, cluster.release
        if settings.topology.action != "off":
            # The rule loads it, and numpy, for the first gang, whose review must not wait for that.
            import_module("policies.topology.choice")
        if roles.places(settings):
            from webhook.place import placing  # noqa: PLC0415 - numpy is for placers

            placement = await stack.enter_async_context(placing(cluster.facts, settings, measures))
        if settings.place.apart and roles.gates(settings):
            lookout = PlacerLookout(api, namespace, settings.place.lease)
            run(stack, "placer's Lease", lookout.run())
        stack.push_async_callback(taking_part.aclose)
        if settings.registration.writes:
            replica = await taking_part.enter_async_context(joined(api, settings))
        if settings.manage.apart:
            webhooks = Webhooks(api, settings.registration.name)
            await webhooks.start()
            stack.push_async_callback(webhooks.stop)
    return _Parts(
        configuration,
        measures,
        cluster,
        taking_part,
        replica,
        Certificates(settings.tls, measures),
        await keeper(configuration.current, measures, cluster, reports=not settings.manage.apart),
        webhooks,
        placement,
        lookout,
    )


def _run_all(
    stack: AsyncExitStack,
    parts: _Parts,
    registrar: Registrar | None,
    upkeep: Upkeep,
    service: Service,
    followers: Followers,
) -> None:
    state = service.state

    async def swap() -> None:
        if parts.facts is not None:
            parts.facts.workloads = tuple(rules.topology_options(parts.settings).workloads)
        state.served = _served(parts)
        parts.measures.in_force({*(rule.name for rule in parts.keeper.ruleset.rules), *parts.keeper.rules.names})
        service.slow.forgive()
        await followers.swap()
        if registrar is not None:
            registrar.look()

    async def prepare(loaded: LoadedConfiguration) -> None:
        await parts.keeper.reconfigure(loaded)
        await followers.reconfigure(loaded)

    run(stack, "lag", measure_lag(parts.measures))
    run(stack, "upkeep", upkeep.run())
    run(stack, "configuration", parts.configuration.run(prepare, swap))
    run(stack, "policies", parts.keeper.run(swap))
    if registrar is not None:
        run(parts.taking_part, "registration", registrar.run(parts.settings.tls.check_seconds))
    _look_around(parts, service)


def _look_around(parts: _Parts, service: Service) -> None:
    """Begin the looks of a process that may lead, for as long as it takes part."""
    if parts.replica is None or parts.facts is None or parts.settings.manage.apart:
        return
    state, leadership = service.state, parts.replica.leadership
    leader = Leader(
        parts.facts.api,
        lambda: parts.settings,
        lambda: (state.served.ruleset, state.served.facts),
        lambda: leadership.leading,
        parts.measures,
    )
    for what, looking in checks(leader).items():
        run(parts.taking_part, what, looking)


def _slow(parts: _Parts) -> SlowPolicies:
    """The memory of slow policies. Those in ConfigMaps are named in an Event there."""
    tasks: set[asyncio.Task[None]] = set()

    def tell(policy: str) -> None:
        if parts.cluster is None or parts.cluster.maps is None:
            return
        text = f"Policy {policy} was over the time of a review several times within a minute."
        task = asyncio.create_task(parts.cluster.maps.warn(parts.keeper.file_of(policy), "PolicySlow", text))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return SlowPolicies(parts.measures, skips=lambda: parts.settings.policies.slow == "skip", tell=tell)


def _check(settings: Settings) -> None:
    registration = settings.registration
    if registration.apply and registration.ca_only:
        raise SettingsError("registration: apply and caOnly exclude each other; give one of them")
    for key, is_set in (("apply", registration.apply), ("caOnly", registration.ca_only)):
        if is_set and not settings.cluster.is_given:
            raise SettingsError(f"registration.{key} needs a cluster: set cluster.kubeconfig or cluster.inCluster")


def _registrar(parts: _Parts, leading_and_ready: Callable[[], tuple[bool, bool]]) -> Registrar | None:
    replica, cluster = parts.replica, parts.cluster
    if replica is None or cluster is None or not parts.settings.registration.writes:
        return None

    def inputs() -> RegistrarInputs:
        policies = parts.keeper.rules if parts.keeper.complete else None
        namespaces, bundle = cluster.facts.control_plane_namespaces(), parts.certificates.ca_bundle
        leading, ready = leading_and_ready()
        known = cluster.release.known
        return RegistrarInputs(*parts.configuration.current, policies, namespaces, bundle, leading, ready, known)

    return Registrar(cluster.facts.api, inputs, replica.webhooks, parts.measures)


def _state(parts: _Parts, registrar: Registrar | None) -> ServingState:
    state = ServingState(_served(parts))
    state.add_note("configuration", parts.configuration.notes)
    state.add_gate("certificate", lambda: _certificate_reasons(parts))
    if (cluster := parts.cluster) is not None:
        state.add_gate("cluster", cluster.unsynced)
        state.add_note("cluster", cluster.facts.problems)
        state.add_note("kubernetes", cluster.release.problems)
        state.add_note("parameters of policies", cluster.facts.parameters.problems)
    if parts.placement is not None:
        state.add_note("placer", parts.placement.problems)
    if parts.lookout is not None:
        state.add_note("placer", parts.lookout.problems)
    if parts.replica is not None:
        state.add_gate("replicas", parts.replica.unsynced)
        state.add_note("replicas", parts.replica.problems)
    if registrar is not None:
        state.add_note("registration", registrar.problems)
    if parts.webhooks is not None:
        recognition = Recognition(parts.webhooks, lambda: state.served.routes, lambda: state.was_ready)
        state.add_gate("registration", recognition.unready)
    state.add_gate("policies", lambda: () if parts.keeper.complete else ["those of the cluster are not loaded yet"])
    state.add_note("policies", parts.keeper.unused)
    return state


def _certificate_reasons(parts: _Parts) -> list[str]:
    """Why clients cannot connect, and who makes the certificate if it is manage."""
    name = parts.settings.manage.secret if parts.settings.manage.apart else ""
    maker = f"; manage writes it into Secret {name}, and kubelets bring it within about a minute" if name else ""
    return [reason + maker for reason in parts.certificates.unready()]


def _watch_ages(stack: AsyncExitStack, parts: _Parts, state: ServingState) -> None:
    """Make the ages of the watches a metric, a reason of readiness and a line of the log."""
    if parts.cluster is None:
        return
    sources = [one for one in (parts.cluster, parts.replica, parts.webhooks, parts.placement) if one is not None]
    ages = WatchAges(sources, parts.settings.cluster.cut_off_seconds)
    parts.measures.watches = ages
    state.add_note("watches", ages.problems)
    state.add_gate("watches", ages.unready)
    run(stack, "watch ages", ages.run())


async def _cluster(stack: AsyncExitStack, settings: Settings) -> Followed:
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - the client costs 16 MB, for clusters only

    chosen = settings.cluster
    api: Connection = await stack.enter_async_context(
        await connect(chosen.kubeconfig or None, chosen.in_cluster, chosen.service_account)
    )
    facts = ClusterFacts(
        api,
        watch_nodes=rules.follows_nodes(settings),
        watch_pools=settings.selectors.action != "off",
        watch_topologies=rules.follows_topologies(settings),
        watch_priorities=roles.places(settings),
        workloads=rules.topology_options(settings).workloads,
        support=_support(api, settings) if rules.schedules_workloads(settings) else None,
    )
    maps_in = chosen.namespace if settings.policies.config_maps else ""
    return await stack.enter_async_context(
        follow(facts, maps_in=maps_in, natives=settings.policies.native, release=settings.policies.release)
    )


def _support(api: Connection, settings: Settings) -> Ask:
    """Asks what the cluster does about topology constraints: by a dry run, or what `manage` found out by one."""
    if settings.manage.apart:
        return partial(scheduling.published, api, settings.registration.name)
    return partial(scheduling.probed, api, settings.cluster.namespace)


def _served(parts: _Parts) -> Served:
    if parts.facts is None:
        return Served(parts.keeper.ruleset, _NoCluster(date.min))
    return Served(parts.keeper.ruleset, parts.facts.known, parts.facts)


class _NoCluster(StaticFacts, frozen=True):
    """Facts without a cluster: only the date, which is computed on demand."""

    def today(self) -> date:
        return datetime.now(UTC).date()


async def _drain(
    state: ServingState, stopping: asyncio.Future[signal.Signals], seconds: float, leave: Callable[[], Awaitable[None]]
) -> None:
    """Wait for the signal, then give the cluster time to notice before the port closes.

    After the signal, the service is unready and every answer closes its connection, so that callers go elsewhere.
    leave: hands over to other replicas what this one does for all.
    """
    received = await stopping
    state.draining = True
    structlog.get_logger().info("stopping", signal=received.name, in_flight=state.in_flight)
    async with asyncio.TaskGroup() as group:
        group.create_task(_left(leave))
        if received is signal.SIGTERM:  # on a terminal there are no endpoints to wait for
            group.create_task(asyncio.sleep(seconds))


async def _left(leave: Callable[[], Awaitable[None]]) -> None:
    try:
        await leave()
    except Exception:  # noqa: BLE001 - whatever it is, the reviews in flight come first
        structlog.get_logger().exception("shutdown failed")
