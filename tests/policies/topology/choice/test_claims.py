"""Gangs that have to wait: where, so that none of them waits for ever."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace
from support.gangs.arraystock import ArrayStock, Bound, Machine
from support.gangs.smallclusters import GPU, RACK, SUPERPOD

from benchmarks.placement.history import figures_of
from benchmarks.placement.simulation import Simulation
from benchmarks.placement.stream import HEAVY, arrivals
from policies.topology.choice.choice import Choice
from policies.topology.choice.survey import choose
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import PODS, Gang, GangKey, Member
from policies.topology.gang.promise import Promise
from policies.topology.gang.size import MOST_MEMBERS

NODES, GPUS = 4, 8
OTHER = GangKey("team", "batch", "Job", "other")


def racks(free: Mapping[str, int], held: int = 0) -> ArrayStock:
    """Racks of four Nodes, with so many of them free; the other gang has `held` Pods in rack 1."""
    running = [Bound({GPU: GPUS, PODS: 1}, gang=OTHER if number < held else None) for number in range(NODES)]
    return ArrayStock(
        [
            Machine(
                f"node-{rack}-{number}",
                {SUPERPOD.keys[0]: "1", RACK.keys[0]: rack},
                {GPU: GPUS, PODS: 10},
                () if number >= NODES - nodes else (running[number] if rack == "1" else Bound({GPU: GPUS, PODS: 1}),),
            )
            for rack, nodes in free.items()
            for number in range(NODES)
        ]
    )


def pods(count: int) -> tuple[Member, ...]:
    """Pods that fill a Node each."""
    return (Member("spec.template", count, ((GPU, GPUS), (PODS, 1)), GPUS),)


def waiting(rack: str, count: int) -> Promise:
    """What the other gang still lacks in a rack."""
    return Promise(OTHER, address(rack), pods(count), math.inf)


def address(rack: str) -> Address:
    """The address of a rack."""
    return (Step(0, SUPERPOD.keys[:1], ("1",)), Step(1, RACK.keys, (rack,)))


def chosen(stock: ArrayStock, count: int, promises: Sequence[Promise]) -> tuple[str, str]:
    """The outcome for a gang of so many Pods that requires a rack, and the rack."""
    gang = Gang(GangKey("team", "batch", "Job", "train"), "small", (SUPERPOD, RACK), pods(count), required=1)
    choice = choose((gang,), stock, promises)[0]
    return choice.outcome, choice.required[-1].values[0]


@pytest.mark.parametrize(
    ("free", "held", "lacking", "count", "rack"),
    [
        pytest.param({"1": 0, "2": 0}, 0, 0, 3, "1", id="nobody waits"),
        pytest.param({"1": 0, "2": 0}, 0, 3, 2, "2", id="another gang waits there"),
        pytest.param({"1": 1, "2": 0}, 2, 1, 2, "2", id="what the other has counts as well"),
        pytest.param({"1": 3, "2": 1}, 0, 1, 3, "1", id="both fit, and it has room for more"),
        pytest.param({"1": 2, "2": 1}, 0, 2, 3, "2", id="they do not fit beside each other"),
    ],
)
def test_a_gang_waits_beside_others_only_where_all_fit(
    free: Mapping[str, int], held: int, lacking: int, count: int, rack: str
) -> None:
    """A gang without room goes where it fits beside those that wait, and among such racks to the one with most room."""
    promises = [waiting("1", lacking)] if lacking else []

    assert chosen(racks(free, held), count, promises) == ("full", rack)


def test_no_gang_of_a_stream_waits_for_ever() -> None:
    """Of 200 gangs on a cluster that is nearly always full, each starts in the domain that it requires."""
    seed = 4  # with which 15 gangs would wait for ever if they went to the domain with the most room alone
    simulation = Simulation(lambda gang, stock, known: choose((gang,), stock, known)[0], random.Random(seed))  # noqa: S311

    figures = figures_of(simulation.go(arrivals(seed, HEAVY)))

    assert (figures.together, figures.pending, figures.stuck) == (figures.gangs, 0, 0)


def test_a_workload_that_is_too_large() -> None:
    """No domain is chosen for more templates than people write, since each would be looked at on all Nodes."""
    members = tuple(replace(pods(1)[0], path=f"spec.jobs[{number}].template") for number in range(MOST_MEMBERS + 1))
    gang = Gang(GangKey("team", "batch", "Job", "train"), "small", (SUPERPOD, RACK), members, required=1)

    reason = f"Job 'train' has {MOST_MEMBERS + 1} templates, and domains are chosen for at most {MOST_MEMBERS}"
    assert choose((gang,), racks({"1": 4}), []) == (Choice("unknown", reason),)
