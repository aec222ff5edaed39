"""What the composition roots `serve`, `manage` and `place` share: tasks, signals, the connection, rules."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import structlog

from webhook.cluster.api.call import Connection
from webhook.cluster.watches.cluster import Followed
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.sources.policykeeper import InCluster, PolicyKeeper
from webhook.sources.policyset import ConfigMaps, Directories, Source


def stop_signal() -> asyncio.Future[signal.Signals]:
    """A future that the first SIGTERM or SIGINT resolves. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()

    def receive(number: signal.Signals) -> None:
        for known in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(known)
        received.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number)
    return received


def run(stack: AsyncExitStack, what: str, work: Coroutine[Any, Any, NoReturn]) -> None:
    """Run a task until the stack is closed. If it ends by itself, log that, because nobody would notice otherwise."""

    def ended(task: asyncio.Task[NoReturn]) -> None:
        if not task.cancelled():
            structlog.get_logger().critical("task ended; restart the service", what=what, error=repr(task.exception()))

    task = asyncio.create_task(work, name=what)
    task.add_done_callback(ended)
    stack.callback(task.cancel)


async def keeper(
    loaded: LoadedConfiguration,
    measures: Metrics,
    cluster: Followed | None,
    *,
    parameters: bool = True,
    reports: bool = True,
) -> PolicyKeeper:
    """The keeper of the rules, with the current policies of the sources. Raises SettingsError.

    parameters: whether those of policies are read. reports: whether this process
    tells owners of policies what is wrong with them.
    """
    settings, catalog = loaded
    directories = settings.policies.directories
    sources: list[Source] = [Directories(directories)] if directories else []
    inside = None
    if cluster is not None:
        sources += [ConfigMaps(cluster.maps, reports=reports)] if cluster.maps else []
        followed = cluster.facts.parameters if parameters else None
        inside = InCluster(cluster.release, followed, cluster.natives, cluster.unsynced_policies, reports)
    made = PolicyKeeper(settings, sources, measures, catalog, inside)
    await made.start()
    return made


async def connected(stack: AsyncExitStack, settings: Settings) -> Connection:
    """The connection to the cluster of the settings, until the stack is closed. Raises ClusterError."""
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - the client costs 16 MB, for clusters only

    chosen = settings.cluster
    return await stack.enter_async_context(
        await connect(chosen.kubeconfig or None, chosen.in_cluster, chosen.service_account)
    )
