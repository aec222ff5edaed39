"""What follows the answers of a process: the log of decisions and the policies in the shadow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from policies.kubernetes.release import NEWEST
from webhook.composition import run
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.settings import Settings
from webhook.decisions.log import DecisionLog, output
from webhook.decisions.writer import Writer
from webhook.http.app import Service

if TYPE_CHECKING:
    from webhook.cluster.watches.cluster import Followed
    from webhook.decisions.refusals import Refusals
    from webhook.decisions.shadow import Shadow
    from webhook.sources.policykeeper import FollowedParameters, PolicyKeeper


class Followers:
    """What follows the answers. shadow, keeper: the policies in the shadow, and what reads them; None without any."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.shadow: Shadow | None = None
        self.keeper: PolicyKeeper | None = None

    async def reconfigure(self, loaded: LoadedConfiguration) -> None:
        """Take over a configuration that the rules in force have taken over. Raises nothing."""
        if self.keeper is None:
            return
        from webhook.sources.policykeeper import shadowed  # noqa: PLC0415 - for the shadow only

        try:
            await self.keeper.reconfigure(loaded._replace(settings=shadowed(loaded.settings)))
        except Exception:  # noqa: BLE001 - policies in the shadow must not keep a configuration out
            structlog.get_logger().exception("shadow policies keep their last configuration")

    async def swap(self) -> None:
        """Compare with the rules that are in force now."""
        if self.shadow is not None and self.keeper is not None:
            self.shadow.install(self.keeper.rules, self.keeper.ruleset, self._service.state.served)


async def follow(
    stack: AsyncExitStack,
    service: Service,
    loaded: LoadedConfiguration,
    cluster: Followed | None,
    parameters: FollowedParameters | None,
) -> Followers:
    """Have the answers of a service followed until the stack is closed.

    parameters: of the policies in the shadow; None without a cluster.
    """
    settings = loaded.settings
    log = _log(stack, service, settings, cluster)
    followers = Followers(service)
    if settings.policies.shadow:
        await _begin_shadow(stack, followers, service, loaded, cluster, parameters, log)
    told = _refusals(stack, service, settings, cluster)
    service.followers = tuple(follower for follower in (log, followers.shadow, told) if follower is not None)
    return followers


def _log(stack: AsyncExitStack, service: Service, settings: Settings, cluster: Followed | None) -> DecisionLog | None:
    chosen = settings.decisions
    if not chosen.log:
        return None
    writer = Writer(output(chosen))
    writer.start()
    stack.callback(writer.end)
    service.metrics.records = writer
    service.state.add_note("decision log", writer.problems)
    return DecisionLog(chosen, writer, _release(settings, cluster))


def _refusals(stack: AsyncExitStack, service: Service, settings: Settings, cluster: Followed | None) -> Refusals | None:
    """Tells owners of refusals until the stack is closed; None without a cluster."""
    if cluster is None or not settings.events.refusals:
        return None
    from webhook.cluster.api.clock import Clock  # noqa: PLC0415 - for clusters only
    from webhook.cluster.api.events import Events  # noqa: PLC0415 - as above
    from webhook.cluster.facts.workloads import Owners  # noqa: PLC0415 - as above
    from webhook.decisions.refusals import Refusals  # noqa: PLC0415 - as above

    api = cluster.facts.api
    events = Events(api)
    owners = Owners(api, rules.topology_options(settings).workloads)
    refusals = Refusals(owners.top, events.write, events.hour, service.metrics, Clock())
    run(stack, "refusals", refusals.run())
    return refusals


def _release(settings: Settings, cluster: Followed | None) -> Callable[[], str]:
    if cluster is None:
        return lambda: (settings.policies.release or NEWEST).name
    return lambda: cluster.release.current.name


async def _begin_shadow(
    stack: AsyncExitStack,
    followers: Followers,
    service: Service,
    loaded: LoadedConfiguration,
    cluster: Followed | None,
    parameters: FollowedParameters | None,
    log: DecisionLog | None,
) -> None:
    from webhook.decisions.shadow import Shadow  # noqa: PLC0415 - nothing else needs it
    from webhook.sources.policykeeper import CurrentRelease, InCluster, shadow_keeper  # noqa: PLC0415 - as above

    inside = None
    if cluster is not None and parameters is not None:
        inside = InCluster(CurrentRelease(cluster.release), parameters, None, cluster.unsynced_policies)
    keeper = followers.keeper = shadow_keeper(loaded, service.metrics.shadow, inside)
    shadow = followers.shadow = Shadow(service.judge, service.metrics.shadow, log)
    await keeper.look()
    await followers.swap()
    service.state.add_note("shadow", lambda: [*keeper.unused(), *shadow.notes()])
    run(stack, "shadow policies", keeper.run(followers.swap))
    run(stack, "shadow", shadow.run())
