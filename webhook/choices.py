"""How the domains of gangs are chosen for the reviews of a process: from the inventory that it keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from policies.topology.choice.choice import Choice, ChoiceKey
from webhook.configuration import roles
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.inventory.inventory import ClusterInventory
    from webhook.cluster.watches.cluster import Followed

Choices = Callable[[ChoiceKey, float], Awaitable[tuple[Choice, ...]]]


async def begin(
    stack: AsyncExitStack, settings: Settings, cluster: Followed | None, measures: Metrics
) -> ClusterInventory | None:
    """Have domains chosen until the stack is closed. Return the inventory; None if the settings ask for none."""
    if cluster is None or not roles.keeps_inventory(settings):
        return None
    from webhook.cluster.inventory.composition import following  # noqa: PLC0415 - numpy is for inventories only

    facts = cluster.facts
    inventory = await stack.enter_async_context(following(facts.api, settings, measures.placing, facts.known))

    async def read(key: ChoiceKey, _seconds: float) -> tuple[Choice, ...]:
        return inventory.answer(key)

    facts.choices = counted(read, measures)
    return inventory


def counted(choices: Choices, measures: Metrics) -> Choices:
    """The same choices, whose outcomes are counted."""

    async def read(key: ChoiceKey, seconds: float) -> tuple[Choice, ...]:
        chosen = await choices(key, seconds)
        for choice in chosen:
            measures.placing.outcomes.labels(choice.outcome).inc()
        return chosen

    return read
