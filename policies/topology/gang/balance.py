"""What is promised to a gang and not taken yet: its shares minus the Pods that are bound.

A Pod counts once: it takes from the share of its role, or is promised something by its own record, never both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from policies.topology.gang.account import Account, Seat, Share, State
from policies.topology.gang.address import Address
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.lifetime import UNBORN, Life, end
from policies.topology.gang.membership import LEADER, WORKER
from policies.topology.gang.promise import Promise

Places = dict[Address, list[Member]]

_BOUND: frozenset[State] = frozenset({"bound"})
_BORN: frozenset[State] = frozenset({"bound", "unbound"})


def balance(key: GangKey, account: Account | None, seats: Sequence[Seat], span: float) -> Iterator[Promise]:
    """The promises to a gang, by domain: to Pods that wait for a Node, and to those that do not exist yet.

    account: of its workload, None if that is promised nothing. seats: its Pods. span: seconds for which a promise holds
    after the last sign of Pods.
    """
    shares = _shares(key, account, seats)
    roles = {share.role for share in shares}
    if key.part and WORKER in roles and LEADER not in roles:  # leaders are made from the workers' template
        seats = [replace(seat, role=WORKER) for seat in seats]
    life = account.life if account is not None and shares else Life(0.0)
    if key.part:
        life = replace(life, start=0.0)  # a replica begins with its leader
    signs = [seat.sign for seat in seats if seat.state != "done"]
    until, soon = end(life, signs, span), end(life, signs, min(span, UNBORN))
    if {"bound", "unbound"} <= {seat.state for seat in seats}:
        # It holds a part of its room until it gets the rest. Who did not count it might wait for the same rest.
        until = math.inf
    left, unborn = _left(shares, seats, _BOUND), _left(shares, seats, _BORN)
    if soon < until and not (life.ordered and signs):  # else the others come when the first ones are ready
        yield from _promises(key, _places(shares, unborn), soon)
        left = [all_ - later for all_, later in zip(left, unborn, strict=True)]
    yield from _promises(key, _places(shares, left), until)
    alone = [seat for seat in seats if seat.state == "unbound" and seat.role not in roles and "" not in roles]
    yield from _promises(key, _own(alone), end(Life(0.0), (seat.sign for seat in alone), span))


def home(seats: Iterable[Seat]) -> Address:
    """The domain of a replica, which its leader has on record, or else a worker; empty if it is not known."""
    known = [(seat.role != LEADER, seat.own[0]) for seat in seats if seat.own is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else ()


def beside(pod: Member, members: Sequence[Member]) -> tuple[Member, ...]:
    """A Pod with the others of its replica. members: of all templates, that of the leader first."""
    own = next((member for member in members if member.accelerators == pod.accelerators), members[0])
    placed = [member for member in members if member.accelerators] or members
    others = (replace(member, count=member.count - (member is own)) for member in placed)
    return (pod, *(member for member in others if member.count))


def _shares(key: GangKey, account: Account | None, seats: Iterable[Seat]) -> tuple[Share, ...]:
    """The shares of a workload with their domains. All Pods of a replica are promised that of its leader."""
    if account is None or not key.part:
        return () if account is None else tuple(share for share in account.shares if share.address)
    address = home(seats)
    return tuple(replace(share, address=address) for share in account.shares) if address else ()


def _places(shares: Iterable[Share], counts: Iterable[int]) -> Places:
    """By domain, the members of the shares with so many Pods of each."""
    places: Places = {}
    for share, count in zip(shares, counts, strict=True):
        if count:
            places.setdefault(share.address, []).append(replace(share.member, count=count))
    return places


def _left(shares: Iterable[Share], seats: Iterable[Seat], states: frozenset[State]) -> list[int]:
    """By share, its Pods without those in some states.

    A Pod takes from the first share of its role that has room. Where one of the two roles is not known, any will do.
    """
    there = Counter(seat.role for seat in seats if seat.state in states)
    done = Counter(seat.role for seat in seats if seat.state == "done")
    left = []
    for share in shares:
        due = share.member.count
        if share.total is not None:
            due = max(0, min(due, share.total - max(done[share.role], share.done)))
        taken = 0
        for role in (share.role, "") if share.role else tuple(there):
            part = min(due - taken, there[role])
            there[role] -= part
            taken += part
        left.append(due - taken)
    return left


def _own(seats: Iterable[Seat]) -> Places:
    """By domain, the Pods that are promised something by their own records, equal ones together."""
    alike = Counter(seat.own for seat in seats if seat.own is not None)
    places: Places = {}
    for (address, member), count in alike.items():
        places.setdefault(address, []).append(replace(member, count=count))
    return places


def _promises(key: GangKey, places: Places, until: float) -> Iterator[Promise]:
    for address, members in sorted(places.items(), key=repr):
        yield Promise(key, address, tuple(sorted(members, key=repr)), until)
