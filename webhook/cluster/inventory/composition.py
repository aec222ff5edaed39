"""Makes the inventory that the settings ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from policies.engine.facts import Facts
from policies.topology.choice.layout import Atlas
from policies.topology.choice.survey import Survey
from policies.topology.gang.demand import Cluster
from policies.topology.gang.ledger import Ledger
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.inventory.inventory import ClusterInventory
from webhook.configuration import inventory, rules
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


@asynccontextmanager
async def following(
    api: Connection, settings: Settings, measures: Metrics, facts: Facts | None = None
) -> AsyncIterator[ClusterInventory]:
    """The inventory of a cluster, followed during the block over a connection that the caller closes.

    facts: the cluster's device claims; None to follow them, too.
    """
    async with AsyncExitStack() as stack:
        if facts is None:
            own = ClusterFacts(api, watch_nodes=False)
            await own.start()
            stack.push_async_callback(own.stop)
            facts = own.known
        options = rules.topology_options(settings)
        ledger = Ledger(options.workloads, Cluster(facts, options.accelerators))
        kinds = [row.group_kind for row in inventory.workloads(settings)]
        known = ClusterInventory(api, ledger, kinds, settings.topology.stale_seconds, _chooser(), measures)
        measures.inventory = known
        await known.start()
        stack.push_async_callback(known.stop)
        yield known
