"""What `serve` and `manage` are both composed of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.metrics import Metrics
from webhook.sources.rulekeeper import RuleKeeper

if TYPE_CHECKING:
    from webhook.cluster.watches.cluster import Followed
    from webhook.sources.policykeeper import FollowedParameters, PolicyKeeper


def run(stack: AsyncExitStack, what: str, work: Coroutine[Any, Any, NoReturn]) -> None:
    """Run a task until the stack is closed. If it ends by itself, log that, because nobody would notice otherwise."""

    def ended(task: asyncio.Task[NoReturn]) -> None:
        if not task.cancelled():
            structlog.get_logger().critical(
                "no longer looked after; restart the service", what=what, error=repr(task.exception())
            )

    task = asyncio.create_task(work, name=what)
    task.add_done_callback(ended)
    stack.callback(task.cancel)


async def keeper(
    loaded: LoadedConfiguration,
    measures: Metrics,
    cluster: Followed | None,
    parameters: FollowedParameters | None = None,
    *,
    reports: bool = True,
) -> RuleKeeper | PolicyKeeper:
    """The keeper of the rules, with the current policies of the sources. Raises SettingsError.

    parameters: what follows the parameters of policies; None for the cluster's facts. reports: whether this process
    tells owners of ConfigMaps what is wrong with them.
    """
    settings, catalog = loaded
    directories = settings.policies.directories
    if not rules.uses_policies(settings):
        return RuleKeeper(loaded)
    from webhook.sources.policykeeper import InCluster, PolicyKeeper  # noqa: PLC0415 - nothing else needs the CEL engine
    from webhook.sources.policyset import ConfigMaps, Directories, Natives, Source  # noqa: PLC0415 - as above

    sources: list[Source] = [Directories(directories)] if directories else []
    inside = None
    if cluster is not None:
        sources += [ConfigMaps(cluster.maps, reports=reports)] if cluster.maps else []
        natives = Natives(cluster.natives) if cluster.natives else None
        inside = InCluster(cluster.release, parameters or cluster.facts.parameters, natives, cluster.unsynced_policies)
    made = PolicyKeeper(settings, sources, measures, catalog, inside)
    await made.start()
    return made
