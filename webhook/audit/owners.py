"""Whose an object is: the topmost owner that is known, by owner references, without a look-up for each Pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

from policies.engine.request import AdmissionRequest, JsonObject, Owner, controller, mapping
from webhook.audit.finding import Scope, subject

MOST: Final = 10_000
"""Owners that are remembered; of more, those that were not asked about for longest are forgotten."""
_DEEPEST: Final = 8

Read = Callable[[Owner, str], Awaitable[JsonObject | None]]
"""Returns the metadata of an owner of what is in a Namespace; None if it is not known. May raise ClusterError."""


class _Known(NamedTuple):
    """An object that exists. namespace: empty for cluster-wide kinds. above: who owns it."""

    namespace: str
    above: Owner | None


class Owners:
    """Remembers objects that may own others. read: reads one that is not remembered; None if nobody can.

    They are remembered by their Namespace and all of a reference, since whoever makes an object can write a false one.
    """

    def __init__(self, read: Read | None = None) -> None:
        self._read = read
        self._known: OrderedDict[tuple[str, Owner], _Known | None] = OrderedDict()

    def remember(self, obj: JsonObject) -> None:
        """Remember an object as a possible owner. Pods own nothing that anybody audits."""
        metadata = mapping(obj, "metadata")
        uid = metadata.get("uid")
        if isinstance(uid, str) and obj.get("kind") != "Pod":
            known = _known(obj)
            owner = Owner(str(obj.get("apiVersion")), str(obj.get("kind")), str(metadata.get("name")), uid)
            self._keep((known.namespace, owner), known)

    async def topmost(self, request: AdmissionRequest) -> tuple[str, Scope]:
        """Kind and name of the topmost owner that is named, or of the object itself, and what a report is about.

        That is the topmost owner which is known to exist in the object's Namespace. Kubernetes removes what owners in
        other Namespaces own, or owners that are gone; what is cluster-wide stands for itself.
        """
        about = subject(request)
        name = about.workload
        namespace = str(mapping(request.object, "metadata").get("namespace") or "")
        scope = Scope(about.api_version, about.kind, namespace, about.name, about.uid)
        async for owner, known in self._chain(controller(request.object), request.scope_namespace):
            name = f"{owner.kind}/{owner.name}"
            if known is not None and known.namespace and known.namespace == namespace:
                scope = Scope(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        return name, scope

    async def top(self, namespace: str, owner: Owner) -> Owner:
        """The topmost owner that is named above an owner in a Namespace, or the owner itself."""
        async for above, _ in self._chain(owner, namespace):
            owner = above
        return owner

    async def _chain(self, owner: Owner | None, namespace: str) -> AsyncIterator[tuple[Owner, _Known | None]]:
        for _ in range(_DEEPEST):
            if owner is None:
                return
            known = await self._of(owner, namespace)
            yield owner, known
            owner = known.above if known is not None else None

    async def _of(self, owner: Owner, namespace: str) -> _Known | None:
        """What is known of an owner; None if nothing is, or another object has its name by now."""
        for key in ((namespace, owner), ("", owner)):
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        if self._read is None:
            return None
        obj = await self._read(owner, namespace)
        known = _known(obj) if obj is not None and mapping(obj, "metadata").get("uid") == owner.uid else None
        self._keep((namespace, owner), known)
        return known

    def _keep(self, key: tuple[str, Owner], known: _Known | None) -> None:
        self._known[key] = known
        if len(self._known) > MOST:
            self._known.popitem(last=False)


def _known(obj: JsonObject) -> _Known:
    return _Known(str(mapping(obj, "metadata").get("namespace") or ""), controller(obj))
