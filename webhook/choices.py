"""Who chooses the domains of gangs for the reviews of a process: the process itself, or its supervisor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from policies.topology.choice.choice import Choice, ChoiceKey
from webhook.configuration import roles
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.workers.question import SOCKET, Asker

if TYPE_CHECKING:
    from webhook.cluster.inventory.inventory import ClusterInventory
    from webhook.cluster.watches.cluster import Followed

Choices = Callable[[ChoiceKey, float], Awaitable[tuple[Choice, ...]]]


async def begin(
    stack: AsyncExitStack, settings: Settings, cluster: Followed | None, measures: Metrics, health_socket: str
) -> ClusterInventory | None:
    """Have domains chosen until the stack is closed. Return the inventory if this process keeps it.

    health_socket: of a worker, whose supervisor keeps the inventory; else empty.
    """
    if cluster is None or not roles.keeps_inventory(settings):
        return None
    if health_socket:
        asker = Asker(Path(health_socket).with_name(SOCKET))
        cluster.facts.choices = counted(asker.read, measures)
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
