"""The interface of sources of policies: their contents, and when to read them again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from policies.kubernetes.release import Release
from webhook.sources.policyset import Content


class Source(Protocol):
    """One place with policies, or several of one sort."""

    async def contents(self, release: Release) -> Mapping[str, Content]:
        """The current contents, by the name of the place, as an API server of a release takes them."""

    def changes(self) -> AsyncIterator[None]:
        """Yields whenever the contents may have changed."""

    async def report(self, refused: Mapping[str, str]) -> None:
        """Report refused contents to the owners. refused: reasons by the name of the place."""
