"""A review that was answered, for those who look at it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from webhook.http.decision import Reviewed
from webhook.http.state import Route, Served


class Answered(NamedTuple):
    """An answered review. body: as it came. path: at which it was asked. seconds: how long the answer took."""

    body: bytes
    path: str
    route: Route
    served: Served
    reviewed: Reviewed
    seconds: float


Follower = Callable[[Answered], None]
"""Is told of each answer before it is sent. It takes next to no time, and raises nothing."""
