"""Notices when files may have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

# The kernel reports changes, but not on every file system, nor if a whole directory was replaced.
LOOK_SECONDS = 10.0


def require() -> None:
    """Raise ImportError where the package is missing that changes() needs."""
    import watchfiles  # noqa: F401, PLC0415 - as there


async def changes(paths: Iterable[Path | str], *, recursive: bool = True) -> AsyncIterator[None]:
    """Yields at a change in one of the files or directories, and after LOOK_SECONDS without one.

    recursive: whether subdirectories count.
    """
    from watchfiles import awatch  # noqa: PLC0415 - nothing to watch, nothing to load

    milliseconds = int(LOOK_SECONDS * 1000)
    async for _ in awatch(*paths, recursive=recursive, rust_timeout=milliseconds, yield_on_timeout=True, debounce=400):
        yield
