"""The parameters that several sets of policies follow: all that any of them names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.admissionpolicy.evaluation.parameters import ParametersKey
    from webhook.sources.policykeeper import FollowedParameters


class SharedParameters:
    """Follows for several sets at once. followed: the parameters of the cluster."""

    def __init__(self, followed: FollowedParameters) -> None:
        self._followed = followed
        self._keys: dict[object, tuple[ParametersKey, ...]] = {}

    def part(self) -> FollowedParameters:
        """What one more set of policies follows."""
        return _Part(self._follow)

    async def _follow(self, part: object, keys: Iterable[ParametersKey]) -> None:
        self._keys[part] = tuple(keys)
        await self._followed.follow(dict.fromkeys(key for kept in self._keys.values() for key in kept))


class _Part:
    """What one set of policies follows."""

    def __init__(self, follow: Callable[[object, Sequence[ParametersKey]], Awaitable[None]]) -> None:
        self._follow = follow

    async def follow(self, keys: Iterable[ParametersKey]) -> None:
        """Follow exactly these for this set from now on."""
        await self._follow(self, tuple(keys))
