"""The domains that gangs get, at one time."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from math import inf

from msgspec.structs import replace

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
        self._stock = stock
        self._promises = promises
        self._atlas = atlas or Atlas()
        self._ground = Ground(stock, promises, self._atlas)

    def choose(self, gangs: Sequence[Gang], kept: Sequence[Address] = ()) -> tuple[Choice, ...]:
        """The domain of each gang of a workload, wider required levels first.

        A gang's own promise and its own bound Pods do not count against it. kept: by gang, the domain that it already
        has; it stays if there still are Nodes in it, and the choice tells how the gang fits there. Gangs that are not
        inside each other leave each other's Pods their room.
        """
        if reason := excess(member for gang in gangs for member in gang.members):
            key = gangs[0].key
            return tuple(Choice("unknown", f"{key.kind} {key.name!r} has {reason}") for _ in gangs)
        addresses = (*kept, *[()] * len(gangs))
        pairs = zip(gangs, addresses, strict=False)
        placed: list[tuple[Gang, Choice]] = []
        for _, group in groupby(pairs, key=lambda pair: _nested(pair[0])):
            chain, own = zip(*group, strict=True)
            placed += zip(chain, near(self._beside(placed, chain), chain, own), strict=True)
        return tuple(choice for _, choice in placed)

    def _beside(self, placed: Sequence[tuple[Gang, Choice]], gangs: Sequence[Gang]) -> Ground:
        """The ground for some gangs of a workload beside those placed before, whose Pods take room, too."""
        own = {member.path for gang in gangs for member in gang.members}
        promises = tuple(_promises(placed, own))
        return Ground(self._stock, (*self._promises, *promises), self._atlas) if promises else self._ground


def _promises(placed: Iterable[tuple[Gang, Choice]], own: Container[str]) -> Iterator[Promise]:
    """What gangs take that were placed for the same question. own: the templates that do not count.

    The keys are not those of the gangs, which are the same for all gangs of a workload.
    """
    for number, (gang, choice) in enumerate(placed):
        address = choice.required or next(iter(choice.preferred), ())
        members = tuple(member for member in gang.members if member.path not in own)
        if choice.outcome in ("fits", "preempts") and address and members:
            yield Promise(replace(gang.key, part=f"{gang.key.part}/{number}"), address, members, inf)


def _nested(gang: Gang) -> Hashable:
    """What gangs have in common that are in one domain of the widest of them; the gang itself if it requires none."""
    return gang if gang.required is None else (gang.key, gang.tiers)
