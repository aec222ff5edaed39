"""The choice of a domain: by examples, and what holds for every choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.gangs import naive, smallclusters
from support.gangs.machines import Bound, Machine, ground

from policies.engine.facts import Node
from policies.topology.choice import Ground, Placing, Search, Shortfall, Terms, choose, shortfall, taken
from policies.topology.gang import Address, Gang, GangKey, Member
from policies.topology.nodes.inventory import Inventory, inventory_of
from policies.topology.pack import Crowd, is_safe
from policies.topology.placer.opening import words
from policies.topology.topology import Level
from policies.vocabulary import REGION, ZONE

BACKEND, IB = "backend.coreweave.cloud/", "ib.coreweave.cloud/"
FABRIC, SUPERPOD, RACK = (BACKEND + "fabric", IB + "fabric"), (BACKEND + "superpod", IB + "superpod"), (
    "node.coreweave.cloud/rack",
)  # fmt: skip
TIERS = (
    Level("region", (REGION,)), Level("zone", (ZONE,)), Level("fabric", FABRIC), Level("superpod", SUPERPOD),
    Level("rack", RACK), Level("hostname", ("kubernetes.io/hostname",)),
)  # fmt: skip
POD, RACK_LEVEL = 3, 4
KEY = GangKey("team", "batch", "Job", "train")
GPU = "nvidia.com/gpu"


def gang(pods: int, *, gpus: int = 8, required: int | None = None, preferred: int | None = None, **more: Any) -> Gang:
    """A gang of Pods that are alike."""
    requests = tuple(sorted({GPU: gpus, "pods": 1}.items()))
    return Gang(KEY, "coreweave", TIERS, (Member("spec.template", pods, requests, gpus, **more),), required, preferred)


def node(place: str, *, used: int = 0, priority: int = 0, ready: bool = True, zone: str = "") -> Machine:
    """A Node with 8 GPUs. place: fabric, superpod, rack and number, one letter each."""
    labels = dict(zip((FABRIC[0], SUPERPOD[0], RACK[0]), place, strict=False))
    labels |= {"kubernetes.io/hostname": f"n{place}"} | ({ZONE: zone} if zone else {})
    bound = (Bound({GPU: used, "pods": 1}, priority),) if used else ()
    return Machine(f"n{place}", labels, {GPU: 8, "cpu": 64000, "pods": 110}, bound, ready=ready)


def racks(*places: str, used: Iterable[str] = (), nodes: int = 4) -> tuple[Machine, ...]:
    """Racks of Nodes. used: Nodes with no GPU left."""
    names = [f"{place}{number}" for place in places for number in range(1, nodes + 1)]
    return tuple(node(name, used=8 if name in used else 0) for name in names)


def domain(machines: Iterable[Machine], own: Gang, terms: Terms = Terms()) -> str:  # noqa: B008 - immutable
    """The domain that a gang gets; empty if it gets none."""
    search = Search(ground([*machines]), own, terms)
    placing = next(search.placing(), None)
    return "" if placing is None else words(search.layout.address(placing.level, placing.group))


def test_numbers_repeat() -> None:
    """Rack 10 comes after rack 2, and racks of the same number in other superpods are other racks."""
    machines = racks("f1x", "f12", "f22", nodes=1)
    machines = tuple(
        one._replace(labels={**one.labels, RACK[0]: "10"}) if one.labels[RACK[0]] == "x" else one for one in machines
    )
    own = Search(ground(machines), gang(1, required=RACK_LEVEL)).candidates()
    assert [words(one.address) for one in own] == [
        "fabric=f,superpod=2,rack=2", "fabric=f,superpod=1,rack=2", "fabric=f,superpod=1,rack=10",
    ]  # fmt: skip


def test_the_zone_only_where_it_is_needed() -> None:
    """Zone and region are in the address only if the domain cannot be told from another one without them."""
    machines = (node("f111", zone="a"), node("f112", zone="b"), node("f121", used=8, zone="b"))
    own = Search(ground(machines), gang(1, required=RACK_LEVEL)).candidates()
    assert [words(one.address) for one in own] == [
        "zone=a,fabric=f,superpod=1,rack=1", "zone=b,fabric=f,superpod=1,rack=1", "fabric=f,superpod=1,rack=2",
    ]  # fmt: skip


def test_a_domain_that_no_labels_tell_is_not_chosen() -> None:
    """Nodes without a superpod are not in rack 1 of superpod 1, and cannot be addressed without it."""
    lost = node("f112")
    lost = lost._replace(labels={key: value for key, value in lost.labels.items() if key != SUPERPOD[0]})
    assert domain((node("f111", used=8), lost), gang(1, required=RACK_LEVEL)) == ""


def test_what_can_never_fit() -> None:
    """Both numbers are told, and the nearest level above that could hold the gang."""
    nodes = [Node(one.name, one.labels, (), tuple(sorted(one.amounts.items()))) for one in racks("f11", "f12", "g11")]
    inventory = inventory_of(nodes)
    told = shortfall(inventory, gang(6, required=RACK_LEVEL))
    assert told is not None
    assert (replace(told, largest=()), words(told.largest)) == (
        Shortfall("rack", 6, 48, 4, 32, wider="superpod"), "fabric=g,superpod=1,rack=1",
    )  # fmt: skip
    assert shortfall(inventory, gang(4, required=RACK_LEVEL)) is None
    assert shortfall(inventory, gang(1, gpus=16)) == Shortfall("", 1, 16, 0, 96, wider="")


def test_other_names_of_accelerators() -> None:
    """What is measured are the accelerators that the member says it has, whatever the resource is called."""
    tpu = Member("a", 1, (("example.com/tpu", 4), ("pods", 1), ("rdma/ib", 1)), 4)
    machines = tuple(
        node(f"f1{rack}1")._replace(amounts={"example.com/tpu": amount, "rdma/ib": 1, "pods": 9})
        for rack, amount in (("1", 8), ("2", 4))
    )
    own = replace(gang(1, required=RACK_LEVEL), members=(tpu,))
    assert [one.free for one in Search(ground(machines), own).candidates()] == [4, 8]


def test_independent_levels() -> None:
    """A domain beside the network is one, whatever it spans, and the preferred one inside a required leaf is found."""
    tiers = (
        Level("leaf", ("leaf",)),
        Level("nvl", ("nvl",), independent=True),
        Level("hostname", ("kubernetes.io/hostname",)),
    )
    places = [("1", "a"), ("1", "b"), ("2", "b"), ("2", "b")]
    machines = [
        Machine(f"n{n}", {"leaf": leaf, "nvl": nvl, "kubernetes.io/hostname": f"n{n}"}, {GPU: 8, "pods": 9})
        for n, (leaf, nvl) in enumerate(places)
    ]
    own = replace(gang(3, required=1), tiers=tiers)
    assert domain(machines, own) == "nvl=b"
    both = replace(gang(2, required=0, preferred=1), tiers=tiers)
    search = Search(ground(machines), both)
    placing = next(search.placing())
    assert [machines[row].name for row in search.slots(placing)[0]] == ["n2", "n3"]


SEEDS = st.integers(0, 1_000_000)


def narrow(seed: int, level: int) -> Gang:
    """A gang that requires a level."""
    tiers = smallclusters.SUPERPOD, smallclusters.RACK, smallclusters.HOSTNAME
    members = smallclusters.members(Random(seed))  # noqa: S311 - repeatable
    return Gang(smallclusters.KEY, "small", tiers, members, level)


def required_domain(nodes: Ground, gang: Gang, placing: Placing) -> Address:
    """The address of the required domain of a placing."""
    search = Search(nodes, gang)
    if search.required < 0:
        return ()
    row = search.layout.row(placing.level, placing.group)
    return search.layout.address(search.required, int(search.layout.groups(search.required)[row]))


@given(SEEDS, st.sampled_from([None, smallclusters.PRIORITY]))
def test_a_placed_gang_fits(seed: int, priority: int | None) -> None:
    """Pod by Pod, the gang fits on the Nodes of the domain that it gets, and on the very Nodes that its Pods get."""
    cluster = smallclusters.case(seed)
    nodes = ground(cluster.machines)
    search = Search(nodes, cluster.gang, Terms(priority=priority))
    placing = next(search.placing(), None)
    assume(placing is not None)
    assert placing is not None
    own = naive.inside(cluster.machines, required_domain(nodes, cluster.gang, placing))
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
    cluster = smallclusters.case(seed)
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
    machines = smallclusters.case(seed).machines
    nodes, wide, close = ground(machines), narrow(seed, 0), narrow(other, 1)
    placings = choose(nodes, [wide, close], Terms())
    assume(placings is not None)
    outer, inner = (
        naive.inside(machines, required_domain(nodes, gang, placing))
        for gang, placing in zip((wide, close), placings or (), strict=True)
    )
    assert [one.name for one in inner if one not in outer] == []
    pods = [(member, inner) for member in close.members] + [(member, outer) for member in wide.members]
    assert naive.fits(pods, naive.free(machines))


@given(SEEDS, SEEDS)
def test_what_is_held_is_not_given_again(seed: int, other: int) -> None:
    """A gang that fits beside what is held for another one leaves the other's Pods their room."""
    cluster = smallclusters.case(seed)
    nodes, earlier = ground(cluster.machines), narrow(other, 1)
    first = choose(nodes, [earlier], Terms())
    assume(first is not None)
    beside = Ground(nodes.inventory, nodes.layouts, taken({}, first or (), nodes.inventory.size))
    second = choose(beside, [cluster.gang], Terms())
    assume(second is not None)
    pods = [
        (member, naive.inside(cluster.machines, required_domain(nodes, gang, placing)))
        for gang, placings in ((earlier, first or ()), (cluster.gang, second or ()))
        for placing in placings
        for member in gang.members
    ]
    assert naive.fits(pods, naive.free(cluster.machines))


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # about one of ten is safe
@given(SEEDS, SEEDS, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_safe_fits_in_every_order(seed: int, other: int, alone: bool, random: Random) -> None:  # noqa: FBT001 - drawn
    """Pods of which it is said that no order of binding matters all find a Node, in whatever order they come."""
    cluster = smallclusters.case(seed)
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
