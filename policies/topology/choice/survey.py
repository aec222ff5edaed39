"""The domains that gangs get, at one time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

from policies.topology.choice.choice import Choice
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.ground.ground import Ground
from policies.topology.choice.near import near
from policies.topology.choice.stock import Stock
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang
from policies.topology.gang.promise import Promise
from policies.topology.gang.size import excess


def choose(
    gangs: Sequence[Gang], stock: Stock, promises: Sequence[Promise], kept: Sequence[Address] = ()
) -> tuple[Choice, ...]:
    """The domain of each gang; see `Survey.choose`."""
    return Survey(stock, promises).choose(gangs, kept)


class Survey:
    """A stock with promises, for many questions. It must be made anew when either changes.

    atlas: what is remembered of the Nodes' places, to be handed on from survey to survey.
    """

    def __init__(self, stock: Stock, promises: Sequence[Promise], atlas: Atlas | None = None) -> None:
        self._ground = Ground(stock, promises, atlas or Atlas())

    def choose(self, gangs: Sequence[Gang], kept: Sequence[Address] = ()) -> tuple[Choice, ...]:
        """The domain of each gang of a workload, wider required levels first.

        A gang's own promise and its own bound Pods do not count against it. kept: by gang, the domain that it already
        has; it stays if there still are Nodes in it, and the choice tells how the gang fits there.
        """
        if reason := excess(member for gang in gangs for member in gang.members):
            key = gangs[0].key
            return tuple(Choice("unknown", f"{key.kind} {key.name!r} has {reason}") for _ in gangs)
        addresses = (*kept, *[()] * len(gangs))
        pairs = zip(gangs, addresses, strict=False)
        chains = [list(chain) for _, chain in groupby(pairs, key=lambda pair: _nested(pair[0]))]
        return tuple(
            choice
            for chain in chains
            for choice in near(self._ground, [gang for gang, _ in chain], [address for _, address in chain])
        )


def _nested(gang: Gang) -> Hashable:
    """What gangs have in common that are in one domain of the widest of them; the gang itself if it requires none."""
    return gang if gang.required is None else (gang.key, gang.tiers)
