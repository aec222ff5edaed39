"""The parameters of admission policies in a cluster: kept up to date by watches of what policies name, and no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from policies.admissionpolicy.evaluation.parameters import KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.lookup import Missing
from webhook.cluster.api.clock import Clock
from webhook.cluster.watches.paramkind import FollowedKind, not_followed

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class ClusterParameters:
    """The parameters of a cluster, answered from memory.

    api: the connection, which stays the caller's to close.
    """

    def __init__(self, api: ApiClient, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or Clock()
        self._kinds: dict[ParamKind, FollowedKind] = {}

    async def follow(self, keys: Iterable[ParametersKey]) -> None:
        """Follow just these from now on; watches that are still needed go on.

        To change policies, follow what old and new ones need, put the new ones in force, and follow what these need.
        """
        by_kind: dict[ParamKind, set[ParametersKey]] = {}
        for key in sorted(keys, key=str):
            by_kind.setdefault(key.kind, set()).add(key)
        dropped = [self._kinds.pop(kind) for kind in self._kinds.keys() - by_kind.keys()]
        for kind, of_kind in by_kind.items():
            if kind not in self._kinds:
                self._kinds[kind] = FollowedKind(self._api, kind, self._clock)
            self._kinds[kind].follow(frozenset(of_kind))
        for followed in dropped:
            await followed.stop()

    async def stop(self) -> None:
        """End all that is under way, for good. What is known stays known, and grows old."""
        for followed in self._kinds.values():
            await followed.stop()

    def unsynced(self) -> list[str]:
        """What is not known yet and why, a reason each; empty from the first lists on, whatever happens later."""
        return [reason for followed in self._kinds.values() for reason in followed.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date and why, a reason each; also kinds that the API server does not serve."""
        return [problem for followed in self._kinds.values() for problem in followed.problems()]

    def known(self, key: ParametersKey) -> KnownParameters:
        """What is known of parameters, objects in the order of their names. Raises Missing."""
        if key.kind not in self._kinds:
            raise Missing(key)
        return self._kinds[key.kind].known(key)

    async def read(self, key: ParametersKey, seconds: float) -> KnownParameters:
        """Wait until parameters are known. Raises FactUnavailable: what is missing, why, and what to do."""
        if key.kind not in self._kinds:
            raise not_followed(key)
        await self._kinds[key.kind].read(key, seconds)
        return self.known(key)
