"""Tells people on a workload what an audit finds: Events, few in a run, one for what is new in a report."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct, structs

from webhook.audit.finding import Scope
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.events import Subject, creation
from webhook.cluster.inspection.listing import Lister

MOST: Final = 100
"""Events that a run tries to write at most. A first run may find something in every workload of a cluster."""
SHARE: Final = 20
"""Those in one Namespace at most, so that no tenant takes all places."""
_RIGHT: Final = "; a ClusterRole must allow the audit's account to create events"
_FORBIDDEN, _CONFLICT, _BROKEN = 403, 409, 500


class Told(Struct):
    """How many Events were written, were left out as too many, and failed."""

    written: int = 0
    omitted: int = 0
    failed: int = 0


class Notices:
    """The Events of a run. on: whether there are any. problems: why they were not written, a line for all."""

    def __init__(self, lister: Lister, clock: Clock | None = None, *, on: bool = True) -> None:
        self.told = Told()
        self.problems: list[str] = []
        self._lister = lister
        self._clock = clock or Clock()
        self._on = on
        self._room = MOST
        self._places: Counter[str] = Counter()

    async def tell(self, scope: Scope, text: str) -> None:
        """Write an Event on the object of a report, unless the same is said there already. Raises UnreachableError.

        After one that fails there are none in its Namespace, and none at all if the API server itself fails.
        """
        # An Event about an Event would be judged by the next run, which would write an Event about it.
        if not self._on or not text or scope.kind == "Event":
            return
        if not self._room or self._places[scope.namespace] >= SHARE:
            self.told.omitted += 1
            return
        self._room -= 1
        self._places[scope.namespace] += 1
        about = Subject(**structs.asdict(scope))
        try:
            await self._lister.answer(creation(about, "WouldBeRefused", text, self._clock.now(), occasion=text))
        except ApiError as error:
            if error.status != _CONFLICT and not error.leaving:
                self._failed(scope, error)
        else:
            self.told.written += 1

    def _failed(self, scope: Scope, error: ApiError) -> None:
        self.told.failed += 1
        if not self.problems:
            right = _RIGHT if error.status == _FORBIDDEN else ""
            self.problems.append(f"Events not written: {error}{right}")
        self._places[scope.namespace] = SHARE
        if error.status >= _BROKEN:
            self._room = 0
