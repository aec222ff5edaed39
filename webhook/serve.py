"""The composition root: makes rules, facts, a TLS context and two ports from settings, and stops on signals."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, date, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import structlog

from policies.engine.facts import StaticFacts
from policies.kubernetes.release import NEWEST
from webhook.audit.finding import Owners
from webhook.certificates import Certificates, Upkeep, trusted
from webhook.cluster.api.errors import Clock
from webhook.cluster.api.events import Events
from webhook.cluster.facts import scheduling
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.facts.workloads import owner_reader
from webhook.cluster.placer.gates import PlacerLookout
from webhook.cluster.replicas.checks import Leader, checks
from webhook.cluster.replicas.lease import Replica, joined
from webhook.cluster.replicas.webhooks import Webhooks, recognition
from webhook.cluster.watches.cluster import Followed, WatchAges, follow
from webhook.composition import connected, keeper, run, stop_signal
from webhook.configuration import roles, rules
from webhook.configuration.configuration import Configuration, LoadedConfiguration
from webhook.configuration.settings import Settings, SettingsError, TracingSettings
from webhook.decisions.log import DecisionLog, output, writer
from webhook.decisions.refusals import Refusals
from webhook.decisions.shadow import Shadow
from webhook.heavy import SlowPolicies
from webhook.http import health
from webhook.http.app import Service
from webhook.http.decision import Served, ServingState
from webhook.logs import Sink
from webhook.metrics import Metrics
from webhook.registration.registrar import Registrar, RegistrarInputs
from webhook.sources.policykeeper import InCluster, PolicyKeeper, shadow_keeper, shadowed
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.cluster.placer.gatekeeper import Follower


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


# The seconds that a thread which compiles policies may keep the event loop waiting, each time it wakes up.
_SWITCH = 0.001


async def serve(read: Callable[[], Settings], path: Path | None = None, log_lines: Sink | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, CertificateError, ClusterError or PortError at start.

    read: returns the current settings. path: their file, which is watched for changes. log_lines: where log lines go,
    whose losses are counted.
    """
    log, stopping, measures = structlog.get_logger(), stop_signal(), Metrics()
    sys.setswitchinterval(_SWITCH)
    measures.log = log_lines
    configuration = Configuration(read, path, measures)
    settings = configuration.current.settings
    registration = settings.registration
    if registration.apply and registration.ca_only:
        raise SettingsError("registration: apply and caOnly exclude each other; give one of them")
    if registration.writes and not settings.cluster.is_given:
        key = "apply" if registration.apply else "caOnly"
        raise SettingsError(f"registration.{key} needs a cluster: set cluster.kubeconfig or cluster.inCluster")

    async with AsyncExitStack() as stack:
        parts = await _assemble(stack, configuration, measures)
        # The lambda is called only after `upkeep` and `state` exist.
        registrar = _registrar(parts, lambda: (upkeep.writing, not state.unready()))
        replica = parts.replica
        trust = trusted(registration, replica.webhooks if replica else None)
        upkeep = Upkeep(parts.certificates, registrar, measures, settings.tls.check_seconds, replica, trust)
        parts.certificates.start()
        state = _state(parts, registrar)
        _watch_ages(stack, parts, state)
        service = Service(state, measures, settings.listen, _slow(parts))
        shadow_policies, swap_shadow = await _follow_answers(stack, service, configuration.current, parts.cluster)
        trace(stack, service, settings.tracing)

        # Last, because an open port promises that the rules are in force.
        application = health.application(state, measures, service.list_paths)
        probed = await stack.enter_async_context(health.opened(application, settings.health))
        server = service.connections()
        url = await stack.enter_async_context(server.port(parts.certificates.serving.context))
        # The objects from start-up live as long as the process, so the garbage collector can ignore them.
        gc.freeze()
        stack.enter_context(measured_collections(measures))
        run(stack, "lag", measure_lag(measures))
        run(stack, "upkeep", upkeep.run())
        _keep_up(stack, parts, registrar, service, shadow_policies, swap_shadow)
        log.info(
            "serving", version=VERSION, admission=url,
            health=probed, rules=[rule.name for rule in state.served.ruleset.rules],
        )  # fmt: skip

        # After the signal, the service is unready and every answer closes its connection, so that callers go elsewhere.
        # The port closes when the cluster has had time to notice.
        received = await stopping
        state.draining = True
        log.info("stopping", signal=received.name, in_flight=state.in_flight)
        async with asyncio.TaskGroup() as group:
            if received is SIGTERM:  # on a terminal there are no endpoints to wait for
                group.create_task(asyncio.sleep(settings.listen.drain_seconds))
            try:
                await parts.taking_part.aclose()
            except Exception:
                log.exception("shutdown failed")
        await server.finish(lambda: state.in_flight, settings.listen.grace_seconds)
    log.info("stopped")


async def _assemble(stack: AsyncExitStack, configuration: Configuration, measures: Metrics) -> _Parts:
    settings = configuration.current.settings
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
            lookout = PlacerLookout(api, settings.cluster.namespace, settings.place.lease)
            run(stack, "placer's Lease", lookout.run())
        stack.push_async_callback(taking_part.aclose)
        if settings.registration.writes:
            replica = await taking_part.enter_async_context(joined(api, settings))
        if settings.manage.apart:
            webhooks = Webhooks(api, settings.registration.name)
            await webhooks.start()
            stack.push_async_callback(webhooks.stop)
    certificates = Certificates(settings.tls, measures)
    rule_keeper = await keeper(configuration.current, measures, cluster, reports=not settings.manage.apart)
    return _Parts(
        configuration, measures, cluster, taking_part, replica, certificates, rule_keeper, webhooks, placement, lookout
    )


async def _cluster(stack: AsyncExitStack, settings: Settings) -> Followed:
    api, chosen = await connected(stack, settings), settings.cluster
    # What the cluster does about topology constraints: found out by a dry run, or by `manage` by one.
    support: scheduling.Ask = partial(scheduling.probed, api, chosen.namespace)
    if settings.manage.apart:
        support = partial(scheduling.published, api, settings.registration.name)
    facts = ClusterFacts(
        api,
        watch_nodes=rules.follows_nodes(settings),
        watch_pools=settings.selectors.action != "off",
        watch_topologies=rules.follows_topologies(settings),
        watch_priorities=roles.places(settings),
        workloads=rules.topology_options(settings).workloads,
        support=support if rules.schedules_workloads(settings) else None,
    )
    maps_in = chosen.namespace if settings.policies.config_maps else ""
    return await stack.enter_async_context(
        follow(facts, maps_in=maps_in, natives=settings.policies.native, release=settings.policies.release)
    )


def _registrar(parts: _Parts, leading_and_ready: Callable[[], tuple[bool, bool]]) -> Registrar | None:
    replica, cluster = parts.replica, parts.cluster
    if replica is None or cluster is None:
        return None

    def inputs() -> RegistrarInputs:
        policies = parts.keeper.rules if parts.keeper.complete else None
        namespaces, bundle = cluster.facts.control_plane_namespaces(), parts.certificates.ca_bundle
        leading, ready = leading_and_ready()
        known = cluster.release.known
        return RegistrarInputs(*parts.configuration.current, policies, namespaces, bundle, leading, ready, known)

    return Registrar(cluster.facts.api, inputs, replica.webhooks, parts.measures)


def _served(parts: _Parts) -> Served:
    if parts.cluster is None:
        return Served(parts.keeper.ruleset, _NoCluster(date.min))
    return Served(parts.keeper.ruleset, parts.cluster.facts.known, parts.cluster.facts)


class _NoCluster(StaticFacts, frozen=True):
    """Facts without a cluster: only the date, which is computed on demand."""

    def today(self) -> date:
        return datetime.now(UTC).date()


def _state(parts: _Parts, registrar: Registrar | None) -> ServingState:
    secret = parts.settings.manage.secret if parts.settings.manage.apart else ""
    maker = f"; manage writes it into Secret {secret}, and kubelets bring it within about a minute" if secret else ""
    state = ServingState(_served(parts))
    state.add_note("configuration", parts.configuration.notes)
    state.add_gate("certificate", lambda: [reason + maker for reason in parts.certificates.unready()])
    if (cluster := parts.cluster) is not None:
        state.add_gate("cluster", cluster.unsynced)
        state.add_note("cluster", cluster.facts.problems)
        state.add_note("kubernetes", cluster.release.problems)
        state.add_note("parameters of policies", cluster.facts.parameters.problems)
    for placer in (parts.placement, parts.lookout):
        if placer is not None:
            state.add_note("placer", placer.problems)
    if parts.replica is not None:
        state.add_gate("replicas", parts.replica.unsynced)
        state.add_note("replicas", parts.replica.problems)
    if registrar is not None:
        state.add_note("registration", registrar.problems)
    if parts.webhooks is not None:
        unready = recognition(parts.webhooks, lambda: state.served.routes, lambda: state.was_ready)
        state.add_gate("registration", unready)
    state.add_gate("policies", lambda: () if parts.keeper.complete else ["those of the cluster are not loaded yet"])
    state.add_note("policies", parts.keeper.unused)
    return state


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


_Swap = Callable[[], Awaitable[None]]


async def _follow_answers(
    stack: AsyncExitStack, service: Service, loaded: LoadedConfiguration, cluster: Followed | None
) -> tuple[PolicyKeeper | None, _Swap]:
    """Have the answers of a service followed until the stack is closed.

    Returns what reads the shadow policies, None without any, and what compares them with the rules in force.
    """
    settings, measures = loaded.settings, service.metrics
    log: DecisionLog | None = None
    shadow: Shadow | None = None
    policies: PolicyKeeper | None = None
    refusals: Refusals | None = None

    async def swap() -> None:
        if shadow is not None and policies is not None:
            shadow.install(policies.rules, policies.ruleset, service.state.served)

    if settings.decisions.log:
        records = writer(output(settings.decisions))
        records.start()
        stack.callback(records.end)
        measures.records = records
        service.state.add_note("decision log", records.problems)
        release = (settings.policies.release or NEWEST).name
        log = DecisionLog(
            settings.decisions, records, lambda: release if cluster is None else cluster.release.current.name
        )
    if settings.policies.shadow:
        inside = None
        if cluster is not None:
            inside = InCluster(cluster.release, cluster.facts.parameters, None, cluster.unsynced_policies)
        policies = shadow_keeper(loaded, measures.shadow, inside)
        shadow = Shadow(service.judge, measures.shadow, log)
        unused, notes = policies.unused, shadow.notes
        await policies.look()
        await swap()
        service.state.add_note("shadow", lambda: [*unused(), *notes()])
        run(stack, "shadow policies", policies.run(swap))
        run(stack, "shadow", shadow.run())
    if cluster is not None and settings.events.refusals:
        events = Events(cluster.facts.api)
        owners = Owners(owner_reader(cluster.facts.api, rules.topology_options(settings).workloads))
        refusals = Refusals(owners.top, events.write, events.hour, measures, Clock())
        run(stack, "refusals", refusals.run())
    service.followers = tuple(follower for follower in (log, shadow, refusals) if follower is not None)
    return policies, swap


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
    # Looked up beforehand: a run may begin while a look-up holds its lock.
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


def _keep_up(
    stack: AsyncExitStack,
    parts: _Parts,
    registrar: Registrar | None,
    service: Service,
    shadow_policies: PolicyKeeper | None,
    swap_shadow: _Swap,
) -> None:
    """Take over changes of configuration and policies, and do what the process that leads does for all."""
    cluster, state = parts.cluster, service.state

    async def swap() -> None:
        if cluster is not None:
            cluster.facts.workloads = tuple(rules.topology_options(parts.settings).workloads)
        state.served = _served(parts)
        parts.measures.rules.in_force({*(rule.name for rule in parts.keeper.ruleset.rules), *parts.keeper.rules.names})
        service.slow.forgive()
        await swap_shadow()
        if registrar is not None:
            registrar.look()

    async def prepare(loaded: LoadedConfiguration) -> None:
        await parts.keeper.reconfigure(loaded)
        if shadow_policies is None:
            return
        try:
            await shadow_policies.reconfigure(loaded._replace(settings=shadowed(loaded.settings)))
        except Exception:  # noqa: BLE001 - shadow policies must not keep a configuration out
            structlog.get_logger().exception("could not reconfigure shadow policies")

    run(stack, "configuration", parts.configuration.run(prepare, swap))
    run(stack, "policies", parts.keeper.run(swap))
    if registrar is not None:
        run(parts.taking_part, "registration", registrar.run(parts.settings.tls.check_seconds))
    if parts.replica is None or cluster is None:
        return
    leadership = parts.replica.leadership
    leader = Leader(
        cluster.facts.api,
        lambda: parts.settings,
        lambda: (state.served.ruleset, state.served.facts),
        lambda: leadership.leading,
        parts.measures,
    )
    for what, looking in checks(leader).items():
        run(parts.taking_part, what, looking)
