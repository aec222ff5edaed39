"""The room for calls: bytes of bodies in memory, and places of calls that are being answered. Pure.

Bytes are counted as they arrive, not as a caller declares them. If they need more room than there is, the body with the
most bytes among those that are still arriving makes way, so that whoever sends large bodies slowly keeps out no small
one. A call takes a place only when its body is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

Shortage = Literal["bytes", "places", "time"]
# Nearly every review is smaller. An eighth of the room is kept for such bodies, while large ones are being answered.
SMALL = 128 * 1024


class NoRoom(Exception):  # noqa: N818 - a state, which the caller may wait out
    """There is no room for a call now. `of`: what there is too little of; time, if bodies are not read as they come."""

    def __init__(self, of: Shortage) -> None:
        super().__init__(of)
        self.of = of


class Room:
    """The room of a process. size: bytes for bodies. places: calls that are answered at once."""

    def __init__(self, size: int, places: int) -> None:
        self.size = size
        self.places = places
        self.held = 0
        self.answering = 0
        self._arriving: set[Body] = set()

    def body(self, refuse: Callable[[NoRoom], object]) -> Body:
        """A body that begins to arrive. `refuse` is called if it has to make way for another one."""
        return Body(self, refuse)

    def _make_way(self, newcomer: Body) -> None:
        """Raises NoRoom if no larger body can make way."""
        size = self.size if newcomer.size <= SMALL else self.size - self.size // 8
        while self.held > size:
            largest = max(self._arriving, key=lambda body: body.size, default=newcomer)
            if largest.size <= newcomer.size:
                raise NoRoom("bytes")
            largest.leave()
            largest.refuse(NoRoom("bytes"))


class Body:
    """The bytes of one body, from the first one to the answer; a context that gives them back."""

    def __init__(self, room: Room, refuse: Callable[[NoRoom], object]) -> None:
        self.size = 0
        self.refuse = refuse
        self._room = room
        self._has_place = False
        room._arriving.add(self)  # noqa: SLF001 - both are one state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def grow(self, count: int) -> None:
        """Count bytes that have arrived. Raises NoRoom."""
        self.size += count
        self._room.held += count
        if self._room.held > self._room.size - self._room.size // 8:
            self._room._make_way(self)  # noqa: SLF001 - as above

    def complete(self) -> None:
        """Take a place. Raises NoRoom."""
        if self._room.answering >= self._room.places:
            raise NoRoom("places")
        self._room._arriving.discard(self)  # noqa: SLF001 - as above
        self._room.answering += 1
        self._has_place = True

    def leave(self) -> None:
        """Give back the bytes and the place."""
        self._room._arriving.discard(self)  # noqa: SLF001 - as above
        self._room.held -= self.size
        self._room.answering -= self._has_place
        self.size, self._has_place = 0, False
