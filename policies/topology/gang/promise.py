"""Room that was promised to a gang and is not taken yet."""

from __future__ import annotations

from msgspec import Struct

from policies.topology.gang.address import Address
from policies.topology.gang.gang import GangKey, Member


class Promise(Struct, frozen=True):
    """The Pods of a gang that are still to be bound.

    members: with the counts that are left. until: seconds since the epoch at which it ends by itself.
    """

    key: GangKey
    address: Address
    members: tuple[Member, ...]
    until: float
