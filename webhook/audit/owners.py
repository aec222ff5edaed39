"""Whose an object is: the topmost owner that is known, by owner references, without a look-up for each Pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

from policies.engine.request import AdmissionRequest, JsonObject, mapping
from webhook.audit.finding import Scope
from webhook.audit.subject import controller, subject

MOST: Final = 10_000
"""Owners that are remembered; of more, those that were not asked about for longest are forgotten."""
_DEEPEST: Final = 8

Reference = dict[str, Any]
Read = Callable[[Reference, str], Awaitable[JsonObject | None]]
"""Returns the metadata of what a reference names in a Namespace; None if it is not known."""


class _Owner(NamedTuple):
    """An object that exists. namespace: empty for cluster-wide kinds. above: who owns it."""

    namespace: str
    above: Reference | None


class Owners:
    """Remembers objects that may own others. read: reads one that is not remembered; None if nobody can."""

    def __init__(self, read: Read | None = None) -> None:
        self._read = read
        self._known: OrderedDict[str, _Owner | None] = OrderedDict()

    def remember(self, obj: JsonObject) -> None:
        """Remember an object as a possible owner. Pods own nothing that anybody audits."""
        uid = mapping(obj, "metadata").get("uid")
        if isinstance(uid, str) and obj.get("kind") != "Pod":
            self._keep(uid, _owner(obj))

    async def topmost(self, request: AdmissionRequest) -> tuple[str, Scope]:
        """Kind and name of the topmost owner that is named, or of the object itself, and what a report is about.

        That is the topmost owner which is known to exist in the object's Namespace. Kubernetes removes what owners in
        other Namespaces own, or owners that are gone; what is cluster-wide stands for itself.
        """
        about = subject(request)
        name = about.workload
        namespace = str(mapping(request.object, "metadata").get("namespace") or "")
        scope = Scope(about.api_version, about.kind, namespace, about.name, about.uid)
        async for reference, owner in self._above(request):
            kind, name_of = str(reference.get("kind")), str(reference.get("name"))
            name = f"{kind}/{name_of}"
            if owner is not None and owner.namespace and owner.namespace == namespace:
                version, uid = str(reference.get("apiVersion")), str(reference.get("uid"))
                scope = Scope(version, kind, namespace, name_of, uid)
        return name, scope

    async def _above(self, request: AdmissionRequest) -> AsyncIterator[tuple[Reference, _Owner | None]]:
        """The references to owners, one above the other, each with what it names."""
        reference = controller(request.object)
        for _ in range(_DEEPEST):
            if reference is None:
                return
            owner = await self._owner(reference, request.scope_namespace)
            yield reference, owner
            reference = owner.above if owner is not None else None

    async def _owner(self, reference: Reference, namespace: str) -> _Owner | None:
        """What a reference names; None if it is not known, or another object has its name by now."""
        uid = str(reference.get("uid"))
        if uid in self._known:
            self._known.move_to_end(uid)
            return self._known[uid]
        if self._read is None:
            return None
        obj = await self._read(reference, namespace)
        owner = _owner(obj) if obj is not None and mapping(obj, "metadata").get("uid") == uid else None
        self._keep(uid, owner)
        return owner

    def _keep(self, uid: str, owner: _Owner | None) -> None:
        self._known[uid] = owner
        if len(self._known) > MOST:
            self._known.popitem(last=False)


def _owner(obj: JsonObject) -> _Owner:
    return _Owner(str(mapping(obj, "metadata").get("namespace") or ""), controller(obj))
