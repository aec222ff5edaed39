"""The composition root of `cks-admission place`, which chooses domains for gangs and opens the gates of their Pods.

It answers no reviews. Its account may read what decides on placement and patch gated Pods, and a policy of the API
server holds it to that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from policies.topology.placer.state import Options
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.placer.gatekeeper import Follower, Gatekeeper
from webhook.cluster.replicas.lease import Leadership, identity
from webhook.cluster.watches.cluster import WatchAges, follow
from webhook.composition import connected, run, stop_signal
from webhook.configuration import rules
from webhook.configuration.configuration import Configuration
from webhook.configuration.settings import Settings
from webhook.http import health
from webhook.http.health import Readiness
from webhook.logs import Sink
from webhook.metrics import Metrics
from webhook.version import VERSION


@asynccontextmanager
async def placing(facts: ClusterFacts, settings: Settings, measures: Metrics) -> AsyncIterator[Follower]:
    """Place gangs during the block, while this process holds the Lease: by what is followed for that.

    facts: the cluster's topologies, PriorityClasses and device classes, which the caller follows.
    """
    api, chosen = facts.api, rules.topology_options(settings)
    options = Options(
        chosen.workloads,
        facts.known,
        chosen.accelerators,
        settings.topology.settle_seconds,
        settings.topology.patience_seconds,
    )
    async with AsyncExitStack() as stack:
        follower = Follower(api, options, rules.topologies(settings), facts.unsynced)
        await follower.start()
        stack.push_async_callback(follower.stop)
        namespace, lease = settings.cluster.namespace, settings.place.lease
        # The lambda is called only after `leadership` exists.
        gatekeeper = Gatekeeper(api, follower, lambda: leadership.leading, measures.placing)
        leadership = Leadership(api, namespace, lease, identity(), changed=follower.changed, began=gatekeeper.began)
        stack.push_async_callback(leadership.release)
        measures.placing.sizes = follower.placer.sizes
        run(stack, "lease of the placer", leadership.run())
        stack.push_async_callback(gatekeeper.stop)
        run(stack, "placer", gatekeeper.run())
        yield follower


async def place(read: Callable[[], Settings], path: Path | None = None, log_lines: Sink | None = None) -> None:
    """Place gangs until SIGTERM or SIGINT. Raises SettingsError, ClusterError or PortError at start.

    read: returns the current settings. path: their file. log_lines: where log lines go, whose losses are counted.
    """
    log, stopping, measures = structlog.get_logger(), stop_signal(), Metrics("place")
    measures.log = log_lines
    settings = Configuration(read, path, measures).current.settings
    async with AsyncExitStack() as stack:
        facts = ClusterFacts(
            await connected(stack, settings), watch_nodes=False, watch_topologies=True, watch_priorities=True
        )
        followed = await stack.enter_async_context(follow(facts))
        measures.kubernetes = followed.release
        follower = await stack.enter_async_context(placing(followed.facts, settings, measures))
        ages = measures.watches = WatchAges((followed, follower), settings.cluster.cut_off_seconds)
        gates = {"cluster": followed.unsynced, "placer": follower.unsynced}
        notes = {"cluster": followed.facts.problems, "placer": follower.problems, "watches": ages.problems}
        readiness = Readiness(gates, notes)
        run(stack, "watch ages", ages.run())
        port = await stack.enter_async_context(health.opened(health.application(readiness, measures), settings.health))
        log.info("placing", version=VERSION, health=port)
        received = await stopping
        readiness.draining = True
        log.info("stopping", signal=received.name)
    log.info("stopped")
