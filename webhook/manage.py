"""The composition root of `cks-admission manage`, which writes to the cluster what all replicas share.

It holds the key of the CA and answers no reviews: who takes over a process that reads what people send gains neither.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from webhook.certificates import Issuance, Renewed, Upkeep, trusted
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.replicas.checks import Leader, SchedulingProbe, checks
from webhook.cluster.replicas.lease import SecretStore, joined
from webhook.cluster.replicas.pods import ReplicaPods
from webhook.cluster.watches.cluster import Followed, WatchAges, follow
from webhook.composition import connected, keeper, run, stop_signal
from webhook.configuration import rules
from webhook.configuration.configuration import Configuration
from webhook.configuration.settings import Settings
from webhook.doctor.connection import dialled
from webhook.http import health
from webhook.http.health import Readiness
from webhook.logs import Sink
from webhook.metrics import Metrics
from webhook.registration.registrar import Registrar, RegistrarInputs
from webhook.version import VERSION


async def manage(read: Callable[[], Settings], path: Path | None = None, log_lines: Sink | None = None) -> None:
    """Do the work until SIGTERM or SIGINT. Raises SettingsError, CertificateError, ClusterError or PortError at start.

    read: returns the current settings. path: their file, which is watched for changes. log_lines: where log lines go,
    whose losses are counted.
    """
    log, stopping, measures = structlog.get_logger(), stop_signal(), Metrics("manage")
    measures.log = log_lines
    configuration = Configuration(read, path, measures)
    settings = configuration.current.settings
    async with AsyncExitStack() as stack:
        cluster = await _cluster(stack, settings)
        facts, measures.kubernetes = cluster.facts, cluster.release
        replica = await stack.enter_async_context(joined(facts.api, settings))
        namespace = settings.cluster.namespace
        pods = ReplicaPods(
            facts.api, namespace, settings.manage.pods, dialled(settings).name, replica.webhooks.changed.set
        )
        await pods.start()
        stack.push_async_callback(pods.stop)

        trust = trusted(settings.registration, replica.webhooks)
        certificates = Renewed()
        if replica.authority is not None:
            secret = SecretStore(facts.api, namespace, settings.manage.secret, changed=replica.changed)
            await secret.start()
            stack.push_async_callback(secret.stop)
            names = settings.tls.names
            certificates = Issuance(
                replica.authority, secret, replica.leadership, names, trust, pods.handshakes, measures
            )
        # Entries do not depend on parameters, so that nothing reads what they refer to.
        rule_keeper = await keeper(configuration.current, measures, cluster, parameters=False)

        def inputs() -> RegistrarInputs:
            replicas = pods.announcements()
            policies = rule_keeper.rules if rule_keeper.complete and replicas is not None else None
            namespaces, bundle = facts.control_plane_namespaces(), certificates.ca_bundle
            release = cluster.release.known
            return RegistrarInputs(
                *configuration.current, policies, namespaces, bundle, upkeep.writing, pods.ready, release, replicas
            )

        # The inputs are asked for only after `upkeep` exists.
        registrar = Registrar(facts.api, inputs, replica.webhooks, measures)
        upkeep = Upkeep(certificates, registrar, measures, settings.tls.check_seconds, replica, trust)

        ages = measures.watches = WatchAges((cluster, replica, pods), settings.cluster.cut_off_seconds)
        gates = {"cluster": cluster.unsynced, "manage": replica.unsynced, "replicas": pods.unsynced}
        notes = {
            "configuration": configuration.notes,
            "kubernetes": cluster.release.problems,
            "certificate": certificates.unready,
            "manage": replica.problems,
            "registration": registrar.problems,
            "policies": rule_keeper.unused,
            "watches": ages.problems,
        }
        readiness = Readiness(gates, notes)
        application = health.application(readiness, measures)
        port = await stack.enter_async_context(health.opened(application, settings.health))

        async def look() -> None:
            registrar.look()

        run(stack, "replicas", pods.ask())
        run(stack, "upkeep", upkeep.run())
        run(stack, "configuration", configuration.run(rule_keeper.reconfigure, look))
        run(stack, "policies", rule_keeper.run(look))
        if settings.registration.writes:
            run(stack, "registration", registrar.run(settings.tls.check_seconds))
        leader = Leader(
            facts.api,
            lambda: configuration.current.settings,
            lambda: (rule_keeper.ruleset, facts.known),
            lambda: replica.leadership.leading,
            measures,
        )
        for what, looking in {**checks(leader), "workload scheduling": SchedulingProbe(leader).run()}.items():
            run(stack, what, looking)
        log.info("managing", version=VERSION, health=port)
        received = await stopping
        readiness.draining = True
        log.info("stopping", signal=received.name)
    log.info("stopped")


async def _cluster(stack: AsyncExitStack, settings: Settings) -> Followed:
    api = await connected(stack, settings)
    maps_in = settings.cluster.namespace if settings.policies.config_maps else ""
    topologies = rules.follows_topologies(settings)
    facts = ClusterFacts(api, watch_nodes=False, watch_topologies=topologies, watch_devices=False)
    return await stack.enter_async_context(
        follow(facts, maps_in=maps_in, natives=settings.policies.native, release=settings.policies.release)
    )
