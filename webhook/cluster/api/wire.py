"""Lists and watch events as they arrive: their envelopes. Whoever knows the type of the objects decodes these."""

from __future__ import annotations

from typing import Literal

import msgspec

from webhook.cluster.api.objects import Metadata


class _ListMetadata(Metadata, rename="camel"):
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """A list, or a part of one where its metadata says how to continue."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """A line of a watch. A bookmark's object has nothing but a version, an error's is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


PAGE = msgspec.json.Decoder(Page)
EVENT = msgspec.json.Decoder(WatchEvent)
# What decoding raises: bytes that are not UTF-8 are a ValueError, nesting without end is a RecursionError.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Lines:
    """Cuts a body that arrives in parts into lines.

    The response's own readline stops at a limit (4 MiB with the client's buffers), after which a watch would meet the
    same line again for ever; and it adds part to part, in quadratic time.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that this part completes."""
        *complete, rest = part.split(b"\n")
        lines = []
        for end in complete:
            lines.append(b"".join([*self._rest, end]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines
