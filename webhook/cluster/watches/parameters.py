"""Follows the parameters of admission policies in a cluster, and only those that policies name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from policies.admissionpolicy.evaluation.parameters import KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import Missing
from webhook.cluster.api.clock import Clock
from webhook.cluster.watches.paramkind import FollowedKind, not_followed
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


class ClusterParameters:
    """The parameters of a cluster, from memory.

    api: the connection, which the caller closes.
    """

    def __init__(self, api: Connection, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or Clock()
        self._kinds: dict[ParamKind, FollowedKind] = {}

    async def follow(self, keys: Iterable[ParametersKey]) -> None:
        """Follow exactly these keys from now on. Watches that are still needed continue.

        To change policies, first follow the keys of old and new policies, then put the new ones into force, then follow
        only the keys of these.
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
        """Stop following permanently. Known parameters stay available, but are not updated any more."""
        for followed in self._kinds.values():
            await followed.stop()

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [reflector for followed in self._kinds.values() for reflector in followed.reflectors()]

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons. Always empty after the first lists have arrived."""
        return [reason for followed in self._kinds.values() for reason in followed.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons, including kinds that the API server does not serve."""
        return [problem for followed in self._kinds.values() for problem in followed.problems()]

    def known(self, key: ParametersKey) -> KnownParameters:
        """The parameters for a key, objects sorted by name. Raises Missing if they are not known."""
        if key.kind not in self._kinds:
            raise Missing(key)
        return self._kinds[key.kind].known(key)

    async def read(self, key: ParametersKey, seconds: float) -> KnownParameters:
        """Wait until parameters are known. Raises FactUnavailable with what is missing, the reason and the remedy."""
        if key.kind not in self._kinds:
            raise not_followed(key)
        await self._kinds[key.kind].read(key, seconds)
        return self.known(key)
