"""Makes the inventory that the settings ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from policies.engine.facts import Facts
from policies.topology.choice.choice import Choice
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.stock import Stock
from policies.topology.choice.survey import Survey
from policies.topology.gang.address import Address
from policies.topology.gang.demand import Cluster
from policies.topology.gang.gang import Gang
from policies.topology.gang.ledger import Ledger
from policies.topology.gang.promise import Promise
from webhook.cluster.inventory.inventory import ClusterInventory
from webhook.cluster.inventory.keeper import Choose
from webhook.configuration import inventory, rules
from webhook.configuration.settings import Settings
from webhook.measures.placing import Placing

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


@asynccontextmanager
async def following(
    api: Connection, settings: Settings, measures: Placing, facts: Facts
) -> AsyncIterator[ClusterInventory]:
    """The inventory of a cluster, followed during the block over a connection that the caller closes.

    facts: the cluster's device claims and PriorityClasses.
    """
    options = rules.topology_options(settings)
    ledger = Ledger(options.workloads, Cluster(facts, options.accelerators))
    kinds = [row.group_kind for row in inventory.workloads(settings)]
    known = ClusterInventory(api, ledger, kinds, settings.topology.stale_seconds, chooser(), measures)
    measures.inventory = known
    await known.start()
    try:
        yield known
    finally:
        await known.stop()


def chooser() -> Choose:
    """The choice, with a memory of where the Nodes are: they seldom change, what runs on them always does."""
    atlas = Atlas()

    def choose(
        gangs: Sequence[Gang], stock: Stock, promises: Sequence[Promise], kept: Sequence[Address]
    ) -> tuple[Choice, ...]:
        return Survey(stock, promises, atlas).choose(gangs, kept)

    return choose
