"""Random small clusters and gangs, from a number."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from support.gangs.machines import Bound, Machine

from policies.topology.gang import Gang, GangKey, Member
from policies.topology.nodes.manifest import PODS
from policies.topology.topology import Level

GPU, CPU = "nvidia.com/gpu", "cpu"
KEY = GangKey("team", "batch", "Job", "train")
SUPERPOD = Level("superpod", ("backend.coreweave.cloud/superpod", "ib.coreweave.cloud/superpod"))
RACK = Level("rack", ("node.coreweave.cloud/rack",))
HOSTNAME = Level("hostname", ("kubernetes.io/hostname",))
PRIORITY = 5


class Case(NamedTuple):
    """A cluster and a gang."""

    machines: tuple[Machine, ...]
    gang: Gang


def case(seed: int) -> Case:
    """A cluster of at most 12 Nodes with two or three levels, and a gang of one to three members."""
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    tiers = random.choice([(SUPERPOD, RACK), (SUPERPOD, RACK, HOSTNAME)])
    empty = random.random() < 0.5
    machines = tuple(machine(random, number, empty=empty) for number in range(random.randint(4, 12)))
    required = random.choice([None, 0, 0, 1])
    nearer = [None, *range(0 if required is None else required + 1, len(tiers))]
    preferred = random.choice(nearer[1:] if required is None else nearer)
    return Case(machines, Gang(KEY, "small", tiers, members(random), required, preferred))


def machine(random: Random, number: int, *, empty: bool) -> Machine:
    """A Node, mostly with both labels. empty: whether no Pods are bound to it and it is as large as the others."""
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "kind": random.choice("aab")}
    if random.random() < 0.95:
        labels[random.choice(SUPERPOD.keys)] = random.choice("12")
    if random.random() < 0.97:
        labels[RACK.keys[0]] = random.choice(["1", "2", "10"])
    bound = tuple(
        Bound({GPU: random.randint(0, 6), CPU: random.randint(0, 4), PODS: 1}, random.choice([0, 10]))
        for _ in range(0 if empty else random.choice([0, 1, 1, 2]))
    )
    amounts = {GPU: 8, CPU: 16, PODS: 10}
    if not empty:
        amounts = {GPU: random.choice([0, 4, 8, 8]), CPU: random.choice([8, 16]), PODS: random.choice([3, 10])}
    taint = random.choice(["", "", "", "", "", "reserved"])
    return Machine(name, labels, amounts, bound, taint, ready=random.random() < 0.9)


def members(random: Random) -> tuple[Member, ...]:
    """One to three members."""
    return tuple(_member(random, f"spec.{number}") for number in range(random.choice([1, 1, 2, 3])))


def _member(random: Random, path: str) -> Member:
    gpus = random.choice([0, 1, 1, 2, 3, 4, 8])
    requests = tuple(sorted({GPU: gpus, CPU: random.randint(1, 6), PODS: 1}.items()))
    return Member(
        path,
        random.choice([1, 1, 2, 3]),
        tuple(pair for pair in requests if pair[1]),
        gpus,
        (("kind", "a"),) if random.random() < 0.2 else (),
        priority=random.choice([PRIORITY, PRIORITY, None]),
        preempts=random.random() < 0.8,
    )
