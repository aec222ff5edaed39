"""The parameters of admission policies in a cluster: kept up to date by watches of what policies name, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from policies.admissionpolicy.inputs import Json
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.params import KindScope, UnknownParameters
from policies.admissionpolicy.wanted import WantedParameters
from policies.engine.match import LabelSelector
from webhook.cluster.api.clock import Clock
from webhook.cluster.watches.paramkind import FollowedKind, not_wanted

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class ClusterParameters:
    """The parameters of a cluster (policies.admissionpolicy.params.Parameters), answered from memory.

    api: the connection, which stays the caller's to close.
    """

    def __init__(self, api: ApiClient, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or Clock()
        self._kinds: dict[ParamKind, FollowedKind] = {}

    async def follow(self, wanted: Iterable[WantedParameters]) -> None:
        """Follow just these from now on; what is wanted as before is followed on.

        To change policies, follow what old and new ones want, put the new ones in force, and follow what these want.
        """
        by_kind: dict[ParamKind, set[WantedParameters]] = {}
        for each in sorted(wanted, key=str):
            by_kind.setdefault(each.kind, set()).add(each)
        dropped = [self._kinds.pop(kind) for kind in self._kinds.keys() - by_kind.keys()]
        for kind, parts in by_kind.items():
            if kind not in self._kinds:
                self._kinds[kind] = FollowedKind(self._api, kind, self._clock)
            self._kinds[kind].follow(frozenset(parts))
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

    async def read_parameters(self, needed: UnknownParameters, seconds: float) -> None:
        """Wait until what was needed is known. Raises FactUnavailable: what is missing, why, and what to do."""
        followed = self._kinds.get(needed.wanted.kind)
        if followed is None:
            raise not_wanted(needed.wanted)
        await followed.read(needed.wanted, seconds)

    def scope(self, kind: ParamKind) -> KindScope | None:
        """Whether objects of a kind are in namespaces; None where it is not served. Raises UnknownParameters."""
        return self._followed(kind).scope()

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object of a name, None where there is none. Raises UnknownParameters."""
        return self._followed(kind).known(namespace, name=name).get((namespace, name))

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects that a selector selects, in the order of their names. Raises UnknownParameters."""
        found = self._followed(kind).known(namespace, selector=selector)
        return [found[place] for place in sorted(found) if place[0] == namespace]

    def _followed(self, kind: ParamKind) -> FollowedKind:
        """What is known of a kind. Raises UnknownParameters."""
        if kind not in self._kinds:
            raise UnknownParameters(kind)
        return self._kinds[kind]
