"""The choice of a domain, by examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from support.gangs.arraystock import ArrayStock, Bound, Machine

from policies.topology.choice.choice import Candidate, Choice
from policies.topology.choice.survey import choose
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import Gang, GangKey, Member, Tier
from policies.topology.gang.promise import Promise
from policies.vocabulary.keys import REGION, ZONE

BACKEND, IB = "backend.coreweave.cloud/", "ib.coreweave.cloud/"
FABRIC, SUPERPOD, RACK = (BACKEND + "fabric", IB + "fabric"), (BACKEND + "superpod", IB + "superpod"), (
    "node.coreweave.cloud/rack",
)  # fmt: skip
TIERS = (
    Tier("region", (REGION,)), Tier("zone", (ZONE,)), Tier("fabric", FABRIC), Tier("superpod", SUPERPOD),
    Tier("rack", RACK), Tier("hostname", ("kubernetes.io/hostname",)),
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


def address(**values: str | tuple[str, ...]) -> Address:
    """An address by the names of levels."""
    tiers = [tier.name for tier in TIERS]
    return tuple(
        Step(tiers.index(name), TIERS[tiers.index(name)].keys[:1], (value,) if isinstance(value, str) else value)
        for name, value in values.items()
    )


def choice(machines: tuple[Machine, ...], own: Gang, *promises: Promise, kept: Address = ()) -> Choice:
    """The choice for one gang."""
    return choose([own], ArrayStock(machines), promises, (kept,))[0]


def test_the_tightest_rack_that_fits() -> None:
    """The rack with the least free that still holds the gang Node by Node is chosen, the next best is the runner-up."""
    machines = racks("f11", "f12", "f13", used=["f111", "f121", "f122", "f123"])
    assert choice(machines, gang(3, required=RACK_LEVEL)) == Choice(
        "fits",
        required=address(fabric="f", superpod="1", rack="1"),
        level="rack",
        considered=(
            Candidate(address(fabric="f", superpod="1", rack="1"), 4, 24, 32, 3, fits=True),
            Candidate(address(fabric="f", superpod="1", rack="3"), 4, 32, 32, 3, fits=True),
            Candidate(address(fabric="f", superpod="1", rack="2"), 4, 8, 32, 1, fits=False, missing=((GPU, 16),)),
        ),
        domains=3,
    )


def test_sums_do_not_count() -> None:
    """Eight GPUs of which four are free on each of two Nodes hold no Pod of eight."""
    machines = (node("f111", used=4), node("f112", used=4), node("f121"))
    assert choice(machines, gang(1, required=RACK_LEVEL)).required == address(fabric="f", superpod="1", rack="2")


def test_large_blocks_stay_whole() -> None:
    """Of equal racks it is one in the superpod with the least free, then one in the fabric with the least free."""
    machines = racks("f11", "f12", "g21", "g22", used=["g221"])
    assert choice(machines, gang(4, required=RACK_LEVEL)).required == address(fabric="g", superpod="2", rack="1")


def test_numbers_repeat() -> None:
    """Rack 10 comes after rack 2, and racks of the same number in other superpods are other racks."""
    machines = racks("f1x", "f12", "f22", nodes=1)
    machines = tuple(
        one._replace(labels={**one.labels, RACK[0]: "10"}) if one.labels[RACK[0]] == "x" else one for one in machines
    )
    own = choice(machines, gang(1, required=RACK_LEVEL))
    assert [candidate.address for candidate in own.considered] == [
        address(fabric="f", superpod="2", rack="2"),
        address(fabric="f", superpod="1", rack="2"),
        address(fabric="f", superpod="1", rack="10"),
    ]


def test_the_zone_only_where_it_is_needed() -> None:
    """Zone and region are in the address only if the domain cannot be told from another one without them."""
    machines = (node("f111", zone="a"), node("f112", zone="b"), node("f121", used=8, zone="b"))
    assert [one.address for one in choice(machines, gang(1, required=RACK_LEVEL)).considered] == [
        address(zone="a", fabric="f", superpod="1", rack="1"),
        address(zone="b", fabric="f", superpod="1", rack="1"),
        address(fabric="f", superpod="1", rack="2"),
    ]


def test_a_domain_that_no_labels_tell_is_not_chosen() -> None:
    """Nodes without a superpod are not in rack 1 of superpod 1, and cannot be addressed without it."""
    lost = node("f112")
    lost = lost._replace(labels={key: value for key, value in lost.labels.items() if key != SUPERPOD[0]})
    machines = (node("f111", used=8), lost)
    own = choice(machines, gang(1, required=RACK_LEVEL))
    assert (own.outcome, own.required) == ("full", address(fabric="f", superpod="1", rack="1"))


def test_the_keys_that_nodes_carry() -> None:
    """The address has the old key where only that is on the Nodes, and both where some have the one, some the other."""
    old, new = node("f111"), node("f112")
    old = old._replace(labels={key.replace(BACKEND, IB): value for key, value in old.labels.items()})
    alone = choice((old,), gang(1, required=RACK_LEVEL)).required
    both = choice((old, new), gang(2, required=RACK_LEVEL)).required
    assert [step.keys for step in alone] == [FABRIC[1:], SUPERPOD[1:], RACK]
    assert [step.keys for step in both] == [FABRIC, SUPERPOD, RACK]


def test_preferred_as_near_as_there_is_room() -> None:
    """A gang that fits in a rack prefers that; a larger one the few racks of a superpod, then the superpod."""
    machines = racks("f11", "f12", "f13", "f21", used=["f111"])
    near = choice(machines, gang(3, preferred=RACK_LEVEL))
    wide = choice(machines, gang(6, preferred=RACK_LEVEL))
    assert (near.required, near.level, near.preferred) == (
        (),
        "rack",
        (address(fabric="f", superpod="1", rack="1"), address(fabric="f", superpod="1")),
    )
    assert (wide.required, wide.level, wide.preferred) == (
        (),
        "superpod",
        (address(fabric="f", superpod="1", rack=("1", "2")), address(fabric="f", superpod="1")),
    )


def test_required_and_preferred() -> None:
    """The required superpod is the one that holds the preferred rack; farther levels are not preferred."""
    machines = racks("f11", "f12", "f21", used=["f111", "f121"])
    own = choice(machines, gang(4, required=POD, preferred=RACK_LEVEL))
    assert (own.required, own.preferred, own.level) == (
        address(fabric="f", superpod="2"),
        (address(fabric="f", superpod="2", rack="1"),),
        "rack",
    )


def test_near_a_named_domain() -> None:
    """A gang goes into the domain that it prefers by name, or into the required one around it, or where it is free."""
    machines = racks("f11", "f12", "f21", "f22", used=["f111", "f121"])
    inside = replace(gang(4, preferred=RACK_LEVEL), near=address(superpod="2"))
    fits, around, elsewhere = (
        replace(gang(pods, required=POD), near=address(rack="2", superpod="2")) for pods in (4, 6, 5)
    )
    full = (*racks("f11", "f12"), *racks("f21", "f22", used=["f211", "f212", "f221", "f222"]))

    assert choice(machines, inside).preferred[0] == address(fabric="f", superpod="2", rack="1")
    assert choice(machines, replace(gang(3, preferred=RACK_LEVEL), near=address(superpod="2"))).level == "rack"
    assert choice(machines, fits).required == address(fabric="f", superpod="2")
    assert choice(machines, around).required == address(fabric="f", superpod="2")
    assert choice(full, elsewhere).required == address(fabric="f", superpod="1")
    assert choice(machines, replace(around, near=())).required == address(fabric="f", superpod="1")


def test_full() -> None:
    """A gang that fits once running work ends gets the rack with the most room now, and what is missing is told."""
    machines = racks("f11", "f12", used=["f111", "f112", "f121"])
    own = choice(machines, gang(4, required=RACK_LEVEL))
    assert (own.outcome, own.required, own.missing, own.accelerators_missing, own.pods_missing) == (
        "full",
        address(fabric="f", superpod="1", rack="2"),
        ((GPU, 8),),
        8,
        1,
    )


def test_a_sick_node_is_full_not_never() -> None:
    """A Node that takes no Pods for now has no room, but may have it again."""
    machines = (node("f111", ready=False), node("f112"))
    assert [choice(machines, gang(pods, required=RACK_LEVEL)).outcome for pods in (1, 2, 3)] == [
        "fits",
        "full",
        "never",
    ]


def test_never() -> None:
    """A gang that is larger than every rack gets no domain, and the numbers of the largest."""
    own = choice(racks("f11", "f12", used=["f111"]), gang(6, required=RACK_LEVEL))
    assert (own.outcome, own.required, own.pods_missing, own.accelerators_missing, own.considered[0].pods) == (
        "never", (), 2, 16, 4,
    )  # fmt: skip


def test_preemption() -> None:
    """Pods of lower priority make room for one that may preempt, but a rack where it fits now comes first."""
    busy, free = node("f111", used=8, priority=0), node("f121")
    above = {"required": RACK_LEVEL, "priority": 5}
    outcomes = [
        (own.outcome, own.required[-1].values)
        for own in (
            choice((busy,), gang(1, **above)),
            choice((busy, free), gang(1, **above)),
            choice((busy,), gang(1, **above, preempts=False)),
            choice((busy,), gang(1, required=RACK_LEVEL, priority=0)),
        )
    ]
    assert outcomes == [("preempts", ("1",)), ("fits", ("2",)), ("full", ("1",)), ("full", ("1",))]


def test_promised_room_is_not_free() -> None:
    """Room that is promised to another gang is not given again, and told."""
    machines = racks("f11", "f12", used=["f121"])
    promise = Promise(replace(KEY, name="other"), address(fabric="f", superpod="1", rack="1"), gang(2).members, 0.0)
    own = choice(machines, gang(4, required=RACK_LEVEL), promise)
    assert own.outcome == "full"
    assert [(one.address[-1].values, one.free, one.promised, one.pods) for one in own.considered] == [
        (("2",), 24, 0, 3),
        (("1",), 32, 16, 2),
    ]


def test_a_kept_domain() -> None:
    """A gang keeps a domain that has become worse than others, until it has no Nodes any more."""
    machines = racks("f11", "f12", used=["f111"])
    kept = address(fabric="f", superpod="1", rack="1")
    own, fits = gang(4, required=RACK_LEVEL), address(fabric="f", superpod="1", rack="2")
    assert [
        (one.outcome, one.required) for one in (choice(machines, own, kept=kept), choice(machines[4:], own, kept=kept))
    ] == [("full", kept), ("fits", fits)]


def test_unknown() -> None:
    """Without Nodes of the level, and with claims that cannot be counted, nothing is chosen, and why is said."""
    claims = gang(1, required=RACK_LEVEL, claims=("gpu.example.com",))
    machines = (Machine("a", {}, {GPU: 8}),)
    assert [
        (one.outcome, one.reason, one.required)
        for one in (choice(machines, gang(1, required=RACK_LEVEL)), choice(racks("f11"), claims), choice((), gang(0)))
    ] == [
        (
            "unknown",
            "no Node has the label node.coreweave.cloud/rack: use a level or a topology whose labels the Nodes have",
            (),
        ),
        (
            "unknown",
            "it is not known which Nodes have devices for gpu.example.com: name a domain, such as LEVEL=VALUE",
            (),
        ),
        ("unknown", "Job 'train' has no Pods to place yet: a domain is chosen when it has", ()),
    ]


def test_other_names_of_accelerators() -> None:
    """What is measured are the accelerators that the member says it has, whatever the resource is called."""
    tpu = Member("a", 1, (("example.com/tpu", 4), ("pods", 1), ("rdma/ib", 1)), 4)
    machines = tuple(
        node(f"f1{rack}1")._replace(amounts={"example.com/tpu": amount, "rdma/ib": 1, "pods": 9})
        for rack, amount in (("1", 8), ("2", 4))
    )
    own = choice(machines, replace(gang(1, required=RACK_LEVEL), members=(tpu,)))
    assert [(one.address[-1].values, one.free) for one in own.considered] == [(("2",), 4), (("1",), 8)]


def test_gangs_of_one_workload() -> None:
    """The wider gang's superpod has a rack for the narrower one, and room for its own Pods beside it."""
    machines = racks("f11", "f12", "f21", "f22", used=["f111", "f121", "f211"])
    wide, close = gang(2, required=POD), gang(4, required=RACK_LEVEL)
    choices = choose([wide, close], ArrayStock(machines), ())
    assert [(own.outcome, own.required) for own in choices] == [
        ("fits", address(fabric="f", superpod="2")),
        ("fits", address(fabric="f", superpod="2", rack="2")),
    ]


def test_gangs_that_only_prefer_are_apart() -> None:
    """Gangs that require nothing do not look for one domain together."""
    near, far = gang(4, preferred=RACK_LEVEL), gang(3, preferred=RACK_LEVEL)
    machines = racks("f11", "f12", used=["f111"])
    assert [own.level for own in choose([near, far], ArrayStock(machines), ())] == ["rack", "rack"]


def test_a_wider_domain_is_named() -> None:
    """A gang that is full is told the nearest domain above its level that would hold it now, if there is one."""
    machines = racks("f11", "f12", "f21", used=["f111", "f121", "f122", "f211"])
    told = choice(machines, gang(4, required=RACK_LEVEL))
    assert (told.outcome, told.wider) == ("full", address(fabric="f", superpod="1"))
    full = choice(racks("f11", "f12", used=["f111", "f121", "f122", "f123", "f124"]), gang(4, required=RACK_LEVEL))
    assert (full.outcome, full.wider) == ("full", ())


def test_gangs_of_one_workload_leave_each_other_room() -> None:
    """Gangs of two topologies, or that only prefer a level, are not given the same Nodes."""
    machines = racks("f11", "f12")
    first = gang(3, required=RACK_LEVEL)
    member = replace(first.members[0], path="other")
    seconds = (
        replace(first, topology="other", tiers=TIERS[:5], members=(member,)),
        replace(gang(3, preferred=RACK_LEVEL), members=(member,)),
    )
    for second in seconds:
        choices = choose([first, second], ArrayStock(machines), ())
        assert [next(iter(own.preferred), own.required)[-1].values for own in choices] == [("1",), ("2",)]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        pytest.param(
            (Member("a", 2**31, (("pods", 1),)),),
            "2147483648 Pods, and domains are chosen for at most 1000000",
            id="Pods",
        ),
        pytest.param(
            (Member("a", 3, (("cpu", 2**62), ("pods", 1))),),
            f"requests for more than {2**60} of cpu, and domains are chosen for at most that",
            id="amount",
        ),
        pytest.param(
            tuple(Member(f"a{number}", 1, (("cpu", number), ("pods", 1))) for number in range(1000)),
            "1000 templates, and domains are chosen for at most 32",
            id="templates",
        ),
    ],
)
def test_a_demand_beyond_all_measure(members: tuple[Member, ...], reason: str) -> None:
    """No domain is chosen for it, with the reason; as a promise it takes nothing from others."""
    machines, hostile = racks("f11"), replace(gang(1, required=RACK_LEVEL), members=members)
    told = choice(machines, hostile)
    assert (told.outcome, told.reason) == ("unknown", f"Job 'train' has {reason}")
    promise = Promise(GangKey("team", "batch", "Job", "other"), (), members, 0.0)
    own = gang(5, required=RACK_LEVEL)
    for outcome, asked in (("fits", gang(4, required=RACK_LEVEL)), ("never", own)):
        assert choice(machines, asked, promise).outcome == outcome


def test_the_largest_demand_is_counted() -> None:
    """Amounts at the limit overflow nothing: the gang can never fit, beside a promise of the same size."""
    large = Member("a", 1, (("cpu", 2**60), ("pods", 1)))
    asked = replace(gang(1, required=RACK_LEVEL), members=(large, replace(large, path="b", count=0)))
    promises = [Promise(GangKey("team", "", "Pod", str(number)), (), (large,), 0.0) for number in range(20)]
    assert choice(racks("f11"), asked, *promises).outcome == "never"
