"""The inventory that a supervisor keeps for its workers, once instead of in each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from webhook.configuration import roles
from webhook.configuration.settings import Settings
from webhook.workers.health import Roster


@asynccontextmanager
async def kept(settings: Settings, roster: Roster, sockets: Path) -> AsyncIterator[None]:
    """Keep the inventory that the settings ask for, and answer workers from it, during the block.

    sockets: the directory of the socket, which nobody else may enter.

    Where that is impossible, workers choose no domain and say so: a placement must not keep the service from starting.
    """
    async with AsyncExitStack() as stack:
        if roles.keeps_inventory(settings):
            await _open(stack, settings, roster, sockets)
        yield


async def _open(stack: AsyncExitStack, settings: Settings, roster: Roster, sockets: Path) -> None:
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - the supervisor stays small without an inventory
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above
    from webhook.cluster.inventory.composition import following  # noqa: PLC0415 - as above
    from webhook.workers.question import SOCKET, answering  # noqa: PLC0415 - as above

    chosen = settings.cluster
    try:
        api = await connect(chosen.kubeconfig or None, chosen.in_cluster, chosen.service_account)
    except ClusterError as error:
        structlog.get_logger().warning("no inventory is kept", reason=str(error))
        return
    stack.push_async_callback(api.close)
    known = await stack.enter_async_context(following(api, settings, roster.metrics.placing))
    roster.notes = lambda: [f"inventory: {problem}" for problem in known.problems()]
    await stack.enter_async_context(answering(sockets / SOCKET, known.answer))
