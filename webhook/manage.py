"""The composition root of `cks-admission manage`, which writes to the cluster what all replicas share.

It holds the key of the CA and answers no reviews: who takes over a process that reads what people send gains neither.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import structlog

from webhook.authority import Issuance, StoredAuthority, trusted
from webhook.certificates import Renewed, Upkeep
from webhook.cluster.api.client import Connection, connect
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.replicas.checks import Leader, SchedulingProbe, checks
from webhook.cluster.replicas.lease import Replica, joined
from webhook.cluster.replicas.pods import ReplicaPods
from webhook.cluster.watches.cluster import Followed, WatchAges, follow
from webhook.cluster.watches.secrets import SecretStore
from webhook.composition import keeper, run, stop_signal
from webhook.configuration import rules
from webhook.configuration.configuration import Configuration
from webhook.configuration.settings import Settings
from webhook.doctor.connection import dialled
from webhook.http import health
from webhook.http.health import Readiness
from webhook.logs import Sink
from webhook.metrics import Metrics
from webhook.registration.registrar import Registrar, RegistrarInputs
from webhook.sources.policykeeper import PolicyKeeper
from webhook.version import VERSION


class _Parts(NamedTuple):
    """The parts of a process before it begins to write."""

    configuration: Configuration
    measures: Metrics
    cluster: Followed
    replica: Replica
    pods: ReplicaPods
    certificates: Renewed
    keeper: PolicyKeeper

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.configuration.current.settings


async def manage(read: Callable[[], Settings], path: Path | None = None, log_lines: Sink | None = None) -> None:
    """Do the work until SIGTERM or SIGINT. Raises SettingsError, CertificateError, ClusterError or PortError at start.

    read: returns the current settings. path: their file, which is watched for changes. log_lines: where log lines go,
    whose losses are counted.
    """
    log, stopping, measures = structlog.get_logger(), stop_signal(), Metrics("manage")
    measures.log = log_lines
    configuration = Configuration(read, path, measures)
    async with AsyncExitStack() as stack:
        parts = await _assemble(stack, configuration, measures)
        # The lambda is called only after `upkeep` exists.
        registrar = _registrar(parts, lambda: upkeep.writing)
        trust = trusted(parts.settings.registration, parts.replica.webhooks)
        upkeep = Upkeep(
            parts.certificates, registrar, measures, parts.settings.tls.check_seconds, parts.replica, trust
        )  # fmt: skip
        ages = WatchAges((parts.cluster, parts.replica, parts.pods), parts.settings.cluster.cut_off_seconds)
        measures.watches = ages
        readiness = _readiness(parts, registrar)
        readiness.add_note("watches", ages.problems)
        port = await stack.enter_async_context(
            health.opened(health.application(readiness, measures), parts.settings.health)
        )
        _run_all(stack, parts, registrar, upkeep)
        log.info("managing", version=VERSION, health=port)
        received = await stopping
        readiness.draining = True
        log.info("stopping", signal=received.name)
    log.info("stopped")


async def _assemble(stack: AsyncExitStack, configuration: Configuration, measures: Metrics) -> _Parts:
    settings = configuration.current.settings
    cluster = await _cluster(stack, settings)
    measures.kubernetes = cluster.release
    replica = await stack.enter_async_context(joined(cluster.facts.api, settings))
    pods = ReplicaPods(
        cluster.facts.api,
        settings.cluster.namespace,
        settings.manage.pods,
        dialled(settings).name,
        replica.webhooks.changed.set,
    )
    await pods.start()
    stack.push_async_callback(pods.stop)
    certificates = await _certificates(stack, cluster.facts.api, settings, replica, pods, measures)
    # Entries do not depend on parameters, so that nothing reads what they refer to.
    rule_keeper = await keeper(configuration.current, measures, cluster, parameters=False)
    return _Parts(configuration, measures, cluster, replica, pods, certificates, rule_keeper)


async def _cluster(stack: AsyncExitStack, settings: Settings) -> Followed:
    chosen = settings.cluster
    api: Connection = await stack.enter_async_context(
        await connect(chosen.kubeconfig or None, chosen.in_cluster, chosen.service_account)
    )
    topologies, maps_in = rules.follows_topologies(settings), chosen.namespace if settings.policies.config_maps else ""
    facts = ClusterFacts(api, watch_nodes=False, watch_topologies=topologies, watch_devices=False)
    return await stack.enter_async_context(
        follow(facts, maps_in=maps_in, natives=settings.policies.native, release=settings.policies.release)
    )


async def _certificates(
    stack: AsyncExitStack, api: Connection, settings: Settings, replica: Replica, pods: ReplicaPods, measures: Metrics
) -> Renewed:
    if replica.authority is None:
        return Renewed()
    namespace, name = settings.cluster.namespace, settings.manage.secret
    secret = SecretStore(api, namespace, name, changed=replica.changed)
    await secret.start()
    stack.push_async_callback(secret.stop)
    authority = StoredAuthority(replica.authority, replica.leadership)
    trust = trusted(settings.registration, replica.webhooks)
    return Issuance(authority, secret, replica.leadership, settings.tls.names, trust, pods.handshakes, measures)


def _registrar(parts: _Parts, writing: Callable[[], bool]) -> Registrar:
    facts, pods = parts.cluster.facts, parts.pods

    def inputs() -> RegistrarInputs:
        replicas = pods.announcements()
        policies = parts.keeper.rules if parts.keeper.complete and replicas is not None else None
        settings, catalog = parts.configuration.current
        namespaces, bundle = facts.control_plane_namespaces(), parts.certificates.ca_bundle
        release = parts.cluster.release.known
        return RegistrarInputs(
            settings, catalog, policies, namespaces, bundle, writing(), pods.ready, release, replicas
        )

    return Registrar(facts.api, inputs, parts.replica.webhooks, parts.measures)


def _readiness(parts: _Parts, registrar: Registrar) -> Readiness:
    readiness = Readiness()
    readiness.add_gate("cluster", parts.cluster.unsynced)
    readiness.add_gate("manage", parts.replica.unsynced)
    readiness.add_gate("replicas", parts.pods.unsynced)
    readiness.add_note("configuration", parts.configuration.notes)
    readiness.add_note("kubernetes", parts.cluster.release.problems)
    readiness.add_note("certificate", parts.certificates.unready)
    readiness.add_note("manage", parts.replica.problems)
    readiness.add_note("registration", registrar.problems)
    readiness.add_note("policies", parts.keeper.unused)
    return readiness


def _run_all(stack: AsyncExitStack, parts: _Parts, registrar: Registrar, upkeep: Upkeep) -> None:

    async def look() -> None:
        registrar.look()

    run(stack, "replicas", parts.pods.ask())
    run(stack, "upkeep", upkeep.run())
    run(stack, "configuration", parts.configuration.run(parts.keeper.reconfigure, look))
    run(stack, "policies", parts.keeper.run(look))
    if parts.settings.registration.writes:
        run(stack, "registration", registrar.run(parts.settings.tls.check_seconds))
    facts, leadership = parts.cluster.facts, parts.replica.leadership
    leader = Leader(
        facts.api,
        lambda: parts.settings,
        lambda: (parts.keeper.ruleset, facts.known),
        lambda: leadership.leading,
        parts.measures,
    )
    for what, looking in {**checks(leader), "workload scheduling": SchedulingProbe(leader).run()}.items():
        run(stack, what, looking)
