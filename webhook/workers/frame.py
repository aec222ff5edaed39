"""Frames on a stream between processes: a length of four bytes, and so many bytes."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

LONGEST: Final = 512 * 1024
"""Far more than a question takes; what is waiting stays within some hundred MiB."""

_LENGTH = struct.Struct("!I")


class FrameError(Exception):
    """A frame is too long, or the stream ended within it."""


def framed(body: bytes) -> bytes:
    """The frame of a body. Raises FrameError."""
    if len(body) > LONGEST:
        raise FrameError(f"{len(body)} bytes are too much, {LONGEST} are the most")
    return _LENGTH.pack(len(body)) + body


async def receive(reader: asyncio.StreamReader) -> bytes:
    """The body of the next frame. Raises FrameError and OSError."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > LONGEST:
            raise FrameError(f"{length} bytes are announced, {LONGEST} are the most")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise FrameError("the connection ended without an answer") from None
