"""Reviews with the verdict that each has to get."""

from __future__ import annotations

from typing import NamedTuple

from support.builders import pod
from support.service.reviews import RESERVED, body


class Review(NamedTuple):
    """A review and the verdict that it has to get."""

    body: bytes
    path: str
    allowed: bool


RESERVED_LABEL = Review(body(pod(labels=RESERVED)), "/validate/labels", allowed=False)
OWN_LABEL = Review(body(pod(labels={"example.org/team": "a"})), "/validate/labels", allowed=True)
GUARD = (RESERVED_LABEL, OWN_LABEL)
"""What the guard of reserved labels refuses, and what it lets through."""
