"""What is written or sent by a thread of its own, so that no disk, pipe or receiver can keep reviews waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

import structlog

T = TypeVar("T")
# How long the end of the process waits for what is not sent yet.
LAST_SECONDS = 2.0


class Outbox(Generic[T]):
    """Takes items without waiting. What cannot be sent is counted as lost, and told in the log once.

    send: sends items, and returns why that failed; empty if it did not. size: of an item. room: the sizes of the items
    that wait, at most. batch: of those that are sent at once, about. linger: how many seconds an item waits for others.
    events: what the log says when items are lost, at which level, and when they are sent again.
    close: called at the end.
    """

    def __init__(
        self,
        send: Callable[[list[T]], str],
        size: Callable[[T], int],
        room: int,
        batch: int,
        events: tuple[str, str],
        *,
        level: Literal["warning", "error"] = "error",
        linger: float = 0.0,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._send = send
        self._measure = size
        self._room = room
        self._batch = batch
        self._events = events
        self._level = level
        self._linger = linger
        self._close = close
        self._items: deque[T] = deque()
        self._size = self._sent = self._lost = 0
        self._ending = False
        self._changed = threading.Condition()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name=events[0], daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, item: T) -> None:
        """Have an item sent, or count it as lost if too much waits."""
        size = self._measure(item)
        with self._changed:
            if self._size + size > self._room or self._ending:
                self._lost += 1
                return
            self._items.append(item)
            self._size += size
            if len(self._items) == 1 or self._size >= self._batch:
                self._changed.notify()

    def lose(self) -> None:
        """Count an item that could not even be made."""
        with self._changed:
            self._lost += 1

    def take(self) -> tuple[int, int]:
        """How many items were sent and lost since this was last called."""
        with self._changed:
            counted, self._sent, self._lost = (self._sent, self._lost), 0, 0
        return counted

    def problems(self) -> list[str]:
        """Why nothing can be sent now; nothing if it can."""
        return [self.problem] if self.problem else []

    def end(self, seconds: float = LAST_SECONDS) -> None:
        """Send what waits, for at most so many seconds, and no more."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while items := self._next():
            try:
                problem = self._send(items)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next items must be sent
                problem = repr(error)
            with self._changed:
                if problem:
                    self._lost += len(items)
                else:
                    self._sent += len(items)
            if problem and not self.problem:
                getattr(structlog.get_logger(), self._level)(self._events[0], reason=problem)
            elif self.problem and not problem:
                structlog.get_logger().info(self._events[1])
            self.problem = problem
        self._close()

    def _next(self) -> list[T]:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._ending)
            if self._linger:
                self._changed.wait_for(lambda: self._size >= self._batch or self._ending, self._linger)
            items, size = list[T](), 0
            while self._items and size < self._batch:
                items.append(item := self._items.popleft())
                size += self._measure(item)
            self._size -= size
            return items
