"""What holds for every choice."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.gangs import naive
from support.gangs.machines import Machine, ground
from support.gangs.smallclusters import HOSTNAME, KEY, PRIORITY, RACK, SUPERPOD, case, members

from policies.topology.choice import Ground, Placing, Search, Terms, choose, taken
from policies.topology.gang import Address, Gang
from policies.topology.nodes.inventory import Inventory
from policies.topology.pack import Crowd, is_safe

SEEDS = st.integers(0, 1_000_000)


def narrow(seed: int, level: int) -> Gang:
    """A gang that requires a level."""
    return Gang(KEY, "small", (SUPERPOD, RACK, HOSTNAME), members(Random(seed)), level)  # noqa: S311 - repeatable


def domain(nodes: Ground, gang: Gang, placing: Placing) -> Address:
    """The address of the required domain of a placing."""
    search = Search(nodes, gang)
    if search.required < 0:
        return ()
    row = search.layout.row(placing.level, placing.group)
    return search.layout.address(search.required, int(search.layout.groups(search.required)[row]))


@given(SEEDS, st.sampled_from([None, PRIORITY]))
def test_a_placed_gang_fits(seed: int, priority: int | None) -> None:
    """Pod by Pod, the gang fits on the Nodes of the domain that it gets, and on the very Nodes that its Pods get."""
    cluster = case(seed)
    nodes = ground(cluster.machines)
    search = Search(nodes, cluster.gang, Terms(priority=priority))
    placing = next(search.placing(), None)
    assume(placing is not None)
    assert placing is not None
    own = naive.inside(cluster.machines, domain(nodes, cluster.gang, placing))
    left = naive.free(cluster.machines, priority)
    assert naive.fits([(member, own) for member in cluster.gang.members], left)
    names = nodes.inventory.names()
    for member, rows in zip(cluster.gang.members, search.slots(placing), strict=True):
        assert len(rows) == member.count
        for row in rows:
            assert names[row] in {machine.name for machine in own}
            for name, amount in member.requests:
                left[names[row]][name] = left[names[row]].get(name, 0) - amount
    assert [name for name, amounts in left.items() if min(amounts.values()) < 0] == []


@given(SEEDS, st.randoms(use_true_random=False))
def test_rows_mean_nothing(seed: int, random: Random) -> None:
    """The order in which Nodes came changes no choice."""
    cluster = case(seed)
    shuffled = [*cluster.machines]
    random.shuffle(shuffled)

    def chosen(machines: list[Machine]) -> list[list[str]] | None:
        nodes = ground(machines)
        search = Search(nodes, cluster.gang)
        placing = next(search.placing(), None)
        names = nodes.inventory.names()
        return None if placing is None else [[names[row] for row in rows] for rows in search.slots(placing)]

    assert chosen(shuffled) == chosen([*cluster.machines])


@given(SEEDS, SEEDS)
def test_gangs_nest(seed: int, other: int) -> None:
    """The domain of a wider gang contains the narrower one's, and all Pods fit there together."""
    machines = case(seed).machines
    nodes, wide, close = ground(machines), narrow(seed, 0), narrow(other, 1)
    placings = choose(nodes, [wide, close], Terms())
    assume(placings is not None)
    outer, inner = (
        naive.inside(machines, domain(nodes, gang, placing))
        for gang, placing in zip((wide, close), placings or (), strict=True)
    )
    assert [one.name for one in inner if one not in outer] == []
    pods = [(member, inner) for member in close.members] + [(member, outer) for member in wide.members]
    assert naive.fits(pods, naive.free(machines))


@given(SEEDS, SEEDS)
def test_what_is_held_is_not_given_again(seed: int, other: int) -> None:
    """A gang that fits beside what is held for another one leaves the other's Pods their room."""
    cluster = case(seed)
    nodes, earlier = ground(cluster.machines), narrow(other, 1)
    first = choose(nodes, [earlier], Terms())
    assume(first is not None)
    beside = Ground(nodes.inventory, nodes.layouts, taken({}, first or (), nodes.inventory.size))
    second = choose(beside, [cluster.gang], Terms())
    assume(second is not None)
    pods = [
        (member, naive.inside(cluster.machines, domain(nodes, gang, placing)))
        for gang, placings in ((earlier, first or ()), (cluster.gang, second or ()))
        for placing in placings
        for member in gang.members
    ]
    assert naive.fits(pods, naive.free(cluster.machines))


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # about one of ten is safe
@given(SEEDS, SEEDS, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_safe_fits_in_every_order(seed: int, other: int, alone: bool, random: Random) -> None:  # noqa: FBT001 - drawn
    """Pods of which it is said that no order of binding matters all find a Node, in whatever order they come."""
    cluster = case(seed)
    inventory = ground(cluster.machines).inventory
    half = np.arange(inventory.size) % 2 == 0
    crowds = [
        Crowd(replace(one, alone=alone and number == 0), one.count, inventory.eligible(one)[0] & where)
        for where, gang in ((True, cluster.gang), (half, narrow(other, 0)))
        for number, one in enumerate(gang.members)
    ]
    assume(is_safe(crowds, inventory.free))
    for _ in range(20):
        assert _binds(crowds, inventory, random)


def _binds(crowds: Sequence[Crowd], inventory: Inventory, random: Random) -> bool:
    """Whether all Pods find a Node, one after the other, each on a random one that has room."""
    pods = [index for index, crowd in enumerate(crowds) for _ in range(crowd.count)]
    random.shuffle(pods)
    names = {name for crowd in crowds for name, _ in crowd.member.requests}
    free = {name: inventory.free(name).copy() for name in names}
    taken: set[tuple[int, int]] = set()
    for index in pods:
        crowd = crowds[index]
        nodes = [
            int(row)
            for row in np.flatnonzero(crowd.where)
            if all(free[name][row] >= amount for name, amount in crowd.member.requests)
            and not (crowd.member.alone and (index, int(row)) in taken)
        ]
        if not nodes:
            return False
        row = random.choice(nodes)
        taken.add((index, row))
        for name, amount in crowd.member.requests:
            free[name][row] -= amount
    return True
