"""The envelopes of lists and watch events. The objects in them stay undecoded, because their types differ."""

from __future__ import annotations

from typing import Literal

import msgspec

from webhook.cluster.api.objects import Metadata


class _ListMetadata(Metadata, rename="camel"):
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int = 0


class Page(msgspec.Struct):
    """A list, or a part of one if its metadata has a continue token."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """A line of a watch. A bookmark's object has only a version; that of an error is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


PAGE = msgspec.json.Decoder(Page)
EVENT = msgspec.json.Decoder(WatchEvent)
# What decoding raises: ValueError if bytes are not UTF-8, RecursionError for too deep nesting.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Lines:
    """Splits a body that arrives in parts into lines.

    The response's own readline fails for lines over a limit (4 MiB with the client's buffers), so that a watch would
    fail at the same line forever. It also concatenates parts in quadratic time.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that a part completes."""
        *complete, rest = part.split(b"\n")
        lines = []
        for end in complete:
            lines.append(b"".join([*self._rest, end]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines
