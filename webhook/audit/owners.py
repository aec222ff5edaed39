"""Whose an object is: the topmost owner that is known, by owner references, without a look-up for each Pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from policies.engine.request import AdmissionRequest, JsonObject, mapping
from webhook.audit.subject import controller

MOST: Final = 10_000
"""Owners that are remembered; of more, those that were not asked about for longest are forgotten."""
_DEEPEST: Final = 8

Reference = dict[str, Any]
Read = Callable[[Reference, str], Awaitable[JsonObject | None]]
"""Returns the metadata of what a reference names in a Namespace; None if it is not known."""


class Owners:
    """Remembers objects that may own others. read: reads one that is not remembered; None if nobody can."""

    def __init__(self, read: Read | None = None) -> None:
        self._read = read
        self._above: OrderedDict[str, Reference | None] = OrderedDict()

    def remember(self, obj: JsonObject) -> None:
        """Remember an object as a possible owner. Pods own nothing that anybody audits."""
        uid = mapping(obj, "metadata").get("uid")
        if isinstance(uid, str) and obj.get("kind") != "Pod":
            self._keep(uid, controller(obj))

    async def topmost(self, request: AdmissionRequest) -> str:
        """Kind and name of the topmost owner that is known, or of the object itself."""
        name = f"{request.kind.kind}/{request.display_name}"
        reference = controller(request.object)
        for _ in range(_DEEPEST):
            if reference is None:
                break
            name = f"{reference.get('kind')}/{reference.get('name')}"
            reference = await self._owner(reference, request.scope_namespace)
        return name

    async def _owner(self, reference: Reference, namespace: str) -> Reference | None:
        """The owner of what a reference names."""
        uid = str(reference.get("uid"))
        if uid in self._above:
            self._above.move_to_end(uid)
            return self._above[uid]
        if self._read is None:
            return None
        above = controller(await self._read(reference, namespace))
        self._keep(uid, above)
        return above

    def _keep(self, uid: str, above: Reference | None) -> None:
        self._above[uid] = above
        if len(self._above) > MOST:
            self._above.popitem(last=False)
