"""A source of policies tells what it holds, and when to look again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from webhook.sources.policyset import Content


class Source(Protocol):
    """One place, or many of a kind."""

    async def contents(self) -> Mapping[str, Content]:
        """What there is now, by the names of the places."""

    def changes(self) -> AsyncIterator[None]:
        """Yields whenever it may be time to look again."""

    async def report(self, refused: Mapping[str, str]) -> None:
        """Tell the owners of its places what is refused of them, by the names of the places."""
