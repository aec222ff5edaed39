"""Nodes as machines with accelerators, machines as a tree of domains and as data, and flaws of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from support.tables import rows

from policies.engine.facts import Node, Taint
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.tree import (
    MEANINGS,
    Branch,
    Count,
    Flaw,
    Machine,
    best_topology,
    count,
    data,
    flaws,
    held,
    machines,
    suited,
    tree,
)
from policies.topology.topology import BUILT_IN, Topology, level

_GLOBS = ("nvidia.com/gpu", "nvidia.com/mig-*", "sunk.coreweave.com/accelerator")
_ABC = Topology("abc", (level("x/a"), level("x/b"), level("x/c"), level("kubernetes.io/hostname")))


def _asks(resource: str = "nvidia.com/gpu", **sides: str | int) -> dict[str, Any]:
    return {"resources": {side: {resource: quantity, "cpu": "1500m"} for side, quantity in sides.items()}}


def _held(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> int:
    spec = {"containers": list(containers), "initContainers": list(init)}
    return held(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, PodManifest), _GLOBS)


def test_what_a_pod_holds() -> None:
    """A Pod holds what its containers do, by each name of accelerators, as the scheduler counts it."""
    sidecar = {**_asks(requests="1"), "restartPolicy": "Always"}

    assert [_held({}), _held(_asks(requests="2"), _asks(requests=1)), _held(_asks(limits="4"))] == [0, 3, 4]
    assert _held(_asks(requests="1"), init=(sidecar, _asks(requests="3"))) == 4
    assert [_held(_asks(name, limits="8")) for name in ("nvidia.com/mig-1g.5gb", _GLOBS[2], "amd.com/gpu")] == [8, 8, 0]
    with pytest.raises(ValueError, match=r"nvidia.com/gpu is '1.5'; a whole number of devices was expected"):
        _held(_asks(requests="1.5"))


def _node(name: str, spec: Mapping[str, Any] | None = None, **status: Any) -> NodeManifest:
    return msgspec.convert(
        {"metadata": {"name": name, "labels": {"x/a": "1"}}, "spec": spec or {}, "status": status}, NodeManifest
    )


def test_machines_know_what_is_held_and_who_is_closed() -> None:
    """Nodes come by name with what unfinished Pods on them hold; cordoned and not ready ones give nothing."""
    gpus = {"nvidia.com/gpu": "8", "sunk.coreweave.com/accelerator": "8", "cpu": "126"}
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    nodes = [
        _node("c", {"unschedulable": True, "taints": [taint]}, allocatable=gpus),
        _node("b", allocatable=gpus, conditions=[{"type": "Ready", "status": "Unknown"}]),
        _node("a", allocatable=gpus, conditions=[{"type": "MemoryPressure", "status": "False"}]),
    ]
    spec = {"containers": [_asks(requests="3")]}
    bound = [("p", "a", "Running"), ("q", "a", "Failed"), ("r", "c", "Pending"), ("s", "", "Pending")]
    pods = [
        msgspec.convert(
            {"metadata": {"name": name}, "spec": {"nodeName": on, **spec}, "status": {"phase": phase}}, PodManifest
        )
        for name, on, phase in bound
    ]

    found = machines(nodes, pods, _GLOBS)

    labels = {"x/a": "1"}
    assert found == (
        Machine(Node("a", labels), 8, 3),
        Machine(Node("b", labels), 8, 0, ready=False),
        Machine(Node("c", labels, (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),)), 8, 3, cordoned=True),
    )
    assert [machine.free for machine in found] == [5, 0, 0]
    assert [machine.used for machine in machines(nodes, None, _GLOBS)] == [None, None, None]


def _machine(name: str, used: int | None = 0, *, closed: bool = False, at: str = "") -> Machine:
    """A Node, with domains as `a=1 b=2`."""
    labels = {f"x/{key}": value for key, _, value in (pair.partition("=") for pair in at.split())}
    return Machine(Node(name, labels), 8, used, cordoned=closed)


_ONE = _machine("n1", 8, at="a=1 b=1 c=1")
_TEN = _machine("n10", 0, at="a=1 b=10 c=1")


def _shape(branch: Branch) -> Any:
    """A tree as names: (name, [branches and Nodes])."""
    name = "" if branch.level is None else f"{branch.level.short} {branch.value or '-'}"
    return name, [*map(_shape, branch.branches), *(machine.node.name for machine in branch.machines)]


def test_nodes_that_take_no_pods_are_not_free() -> None:
    """A Node in triage or locked by SUNK has nothing that is free, and the reasons are counted, most frequent first."""
    lock = Taint("sunk.coreweave.com/lock", "NoSchedule")
    triage = [Machine(Node(f"t{i}", {"node.coreweave.cloud/state": "triage"}), 8, 0) for i in range(2)]

    counted = count([_ONE, *triage, Machine(Node("locked", {}, (lock,)), 8, 2)])

    reasons = (("in triage", 2), ("locked by SUNK", 1))
    assert counted == Count(nodes=4, closed=3, total=32, used=10, free=0, obstacles=reasons)
    assert counted.unavailable == 22


def test_without_pods_nothing_is_known_to_be_free() -> None:
    """Where Pods are not known, only the total is."""
    found = count([_machine("n", None)])

    assert (found, found.unavailable) == (Count(nodes=1, closed=0, total=8, used=None, free=None), 0)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param("a=1 c=1", ("a 1", [("b -", [("c 1", ["n"])])]), id="one-between"),
        pytest.param("c=1", ("a -", [("c 1", ["n"])]), id="two-at-the-beginning-are-one-group"),
        pytest.param("a=1", ("a 1", [("b -", ["n"])]), id="all-that-follow"),
        pytest.param("a=1 b=1", ("a 1", [("b 1", [("c -", ["n"])])]), id="the-last"),
        pytest.param("b=1", ("a -", [("b 1", [("c -", ["n"])])]), id="two-apart-are-two-groups"),
        pytest.param("", ("a -", ["n"]), id="all"),
    ],
)
def test_a_node_that_lacks_a_level_is_at_the_next_one(at: str, expected: Any) -> None:
    """It stands in a group for such Nodes, after the domains, and is never dropped."""
    full = _machine("full", at="a=0 b=0 c=0")

    assert _shape(tree((_machine("n", at=at), full), _ABC)) == (
        "",
        sorted([("a 0", [("b 0", [("c 0", ["full"])])]), expected], key=lambda found: found[0] == "a -"),
    )


def test_a_tree_is_cut_below_a_level() -> None:
    """Nothing below the lowest level is there, and the counts stay."""
    shapes: dict[str, Any] = {
        "a": [("a 1", [])],
        "b": [("a 1", [("b 1", []), ("b 10", [])])],
        "kubernetes.io/hostname": [("a 1", [("b 1", [("c 1", ["n1"])]), ("b 10", [("c 1", ["n10"])])])],
    }
    trees = {lowest: tree((_ONE, _TEN), _ABC, _ABC.find(lowest)) for lowest in shapes}

    assert {lowest: _shape(root) for lowest, root in trees.items()} == {
        name: ("", shape) for name, shape in shapes.items()
    }
    assert [root.branches[0].count.total for root in trees.values()] == [16] * 3


def test_equivalent_keys_are_one_level() -> None:
    """Nodes of the older kind are in the same domains as newer ones, and the newer key counts where both are there."""
    coreweave = next(each for each in BUILT_IN if each.name == "coreweave")
    found = [
        Machine(Node("new", {"backend.coreweave.cloud/superpod": "3"})),
        Machine(Node("old", {"ib.coreweave.cloud/superpod": "3"})),
        Machine(Node("both", {"backend.coreweave.cloud/superpod": "3", "ib.coreweave.cloud/superpod": "4"})),
    ]

    assert _shape(tree(found, coreweave)) == ("", [("superpod 3", ["both", "new", "old"])])


def _labelled(*keys: str) -> list[Machine]:
    return [Machine(Node("n", dict.fromkeys(keys, "1")))]


_EVERYWHERE = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname")


def test_the_topology_that_fits() -> None:
    """CoreWeave's counts where its labels are; else the one that most Nodes have the levels of, and no more levels."""
    fitting = {
        "coreweave": [*_EVERYWHERE, "backend.coreweave.cloud/fabric"],
        "kubernetes": [*_EVERYWHERE],
        "aws": [*_EVERYWHERE, *(f"topology.k8s.aws/network-node-layer-{i}" for i in (1, 2, 3))],
        "topograph": [_EVERYWHERE[2], *(f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf"))],
    }

    assert {name: best_topology(_labelled(*keys), BUILT_IN).name for name, keys in fitting.items()} == {
        n: n for n in fitting
    }
    assert best_topology(_labelled(*_EVERYWHERE, "ib.coreweave.cloud/superpod"), BUILT_IN).name == "coreweave"


def _requires(key: str, *values: str) -> LabelSelector:
    return LabelSelector((SelectorRequirement(key, "In", values),))


@pytest.mark.parametrize(
    ("topology", "labels", "expected"),
    [
        (_ABC, {}, True),
        (Topology("t", (), pool=_requires("pool", "a")), {"pool": "a"}, True),
        (Topology("t", (), pool=_requires("pool", "a")), {"pool": "b"}, False),
        (BUILT_IN[1], {"backend.coreweave.cloud/flavor": "infiniband"}, True),
        (BUILT_IN[1], {"ib.coreweave.cloud/fabric": "f"}, True),
        (BUILT_IN[1], {"backend.coreweave.cloud/flavor": "roce"}, False),
    ],
)
def test_which_nodes_a_topology_is_for(topology: Topology, labels: dict[str, str], *, expected: bool) -> None:
    """A Node is in the pool and has what the topology requires, under the newer or the older names."""
    assert bool(suited(topology, [Machine(Node("n", labels))])) is expected


_HALLS = Topology("halls", (level("example.org/site"), level("example.org/hall"), level("kubernetes.io/hostname")))


def _in_hall(name: str, gpus: int, *, cordoned: bool = False, **labels: str) -> Machine:
    own = {f"example.org/{key}": value for key, value in labels.items()}
    return Machine(Node(name, {"kubernetes.io/hostname": name, **own}), gpus, cordoned=cordoned)


_OF_HALLS = (
    _in_hall("a", 8, site="s", hall="1"),
    _in_hall("b", 8, site="s", hall="1", cordoned=True),
    _in_hall("c", 8, site="t", hall="1"),
    _in_hall("d", 4, site="t", hall="10"),
    _in_hall("e", 4, site="t", hall="2"),
    _in_hall("f", 0, site="t"),
)


def test_numbers_and_domains() -> None:
    """A topology has sums, each level the most that one domain has, and a line for each domain with those around it."""
    assert data(_OF_HALLS, [_HALLS]) == {
        "halls.levels": "site hall hostname",
        "halls.nodes": "6",
        "halls.gpus": "32",
        "halls.usable": "24",
        "halls.site": "site=s nodes=2 gpus=16 usable=8\nsite=t nodes=4 gpus=16 usable=16",
        "halls.site.domains": "2",
        "halls.site.nodes": "4",
        "halls.site.gpus": "16",
        "halls.site.usable": "16",
        "halls.hall": "site=s,hall=1 nodes=2 gpus=16 usable=8\n"
        "site=t,hall=1 nodes=1 gpus=8 usable=8\n"
        "site=t,hall=2 nodes=1 gpus=4 usable=4\n"
        "site=t,hall=10 nodes=1 gpus=4 usable=4",
        "halls.hall.domains": "4",
        "halls.hall.nodes": "2",
        "halls.hall.gpus": "16",
        "halls.hall.usable": "8",
        "halls.hostname.domains": "6",
        "halls.hostname.nodes": "1",
        "halls.hostname.gpus": "8",
        "halls.hostname.usable": "8",
    }


def test_a_list_without_room_is_cut_with_a_word() -> None:
    """The numbers stay, the shorter lists come first, and what is left out says so."""
    whole = data(_OF_HALLS, [_HALLS])
    room = sum(len(key) + len(text) for key, text in whole.items()) - 1

    cut = data(_OF_HALLS, [_HALLS], room)

    word = "4 domains take more room than a ConfigMap has: the numbers are true, the list is left out"
    assert cut.keys() ^ whole.keys() == {"halls.hall", "halls.hall.cut"}
    assert cut["halls.hall.cut"] == word


def test_topologies_that_no_node_has_are_left_out() -> None:
    """Zones alone do not make a cluster Amazon's; keys are those that a ConfigMap may have."""
    zone = Machine(Node("n", {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "n"}), 8)
    odd = Topology("my halls", (level("example.org/site"), level("example.com/site")))
    placed = Machine(Node("m", {"example.org/site": "s", "example.com/site": "t"}), 1)

    assert {key.partition(".")[0] for key in data([zone], BUILT_IN)} == {"kubernetes"}
    assert {key for key in data([placed], [odd]) if key.endswith(".domains")} == {
        "my_halls.example.org_site.domains",
        "my_halls.example.com_site.domains",
    }


def test_ten_thousand_nodes_fit() -> None:
    """A large cluster's numbers and lists are within what a ConfigMap holds, for each topology that it has."""
    nodes = (
        {"fabric": f"us-east-04a-{number // 5000}", "superpod": number // 500, "leafgroup": number // 50}
        for number in range(10_000)
    )
    machines = [
        Machine(
            Node(
                f"g{number}",
                {f"backend.coreweave.cloud/{key}": str(value) for key, value in place.items()}
                | {"node.coreweave.cloud/rack": str(number // 5), "backend.coreweave.cloud/flavor": "infiniband"},
            ),
            8,
        )
        for number, place in enumerate(nodes)
    ]

    found = data(machines, BUILT_IN)

    assert sum(len(key) + len(text) for key, text in found.items()) < 900_000
    assert [key for key in found if key.endswith(".cut")] == []
    assert (found["coreweave.rack.domains"], found["coreweave.superpod.gpus"]) == ("2000", "4000")


_PLACE = {"fabric": "f1", "superpod": "1", "leafgroup": "1", "flavor": "infiniband"}


def _wired(name: str, backend: Mapping[str, str | None] | None = None, ib: Mapping[str, str] | None = None) -> Node:
    """A Node that is well, but for some labels."""
    named = {f"backend.coreweave.cloud/{key}": value for key, value in {**_PLACE, **(backend or {})}.items() if value}
    older = {f"ib.coreweave.cloud/{key}": value for key, value in (ib or {}).items()}
    return Node(name, {"kubernetes.io/hostname": name, **named, **older})


_WELL = _wired("well")


@rows(__file__, "flaws")
def test_the_flaws_of_a_node(
    backend: Mapping[str, str | None] | None, ib: Mapping[str, str] | None, flaw: list[str] | None
) -> None:
    """Beside a Node that is well, each flaw is named with what was found and what there should be."""
    expected = [] if flaw is None else [Flaw(flaw[0], flaw[1])]  # type: ignore[arg-type] # one of the kinds

    assert list(flaws((_WELL, _wired("n", backend, ib))).get("n", ())) == expected


def test_a_leafgroup_that_is_split_by_its_name() -> None:
    """A name stands for one leafgroup, however often its number is used."""
    there = _wired("a", {"leafgroup-name": "lg-1"}), _wired("b", {"leafgroup-name": "lg-1", "superpod": "2"})

    split = (Flaw("split", "leafgroup 1 of fabric f1 is in superpods 1 and 2"),)
    assert flaws(there) == {"a": split, "b": split}


def test_only_nodes_with_flaws_are_there() -> None:
    """Both Nodes of a split leafgroup are named, and no others; every kind has a meaning."""
    well = (_WELL, _wired("third", {"leafgroup": "3", "superpod": "2"}))
    found = flaws((*well, _wired("a", {"leafgroup": "2"}), _wired("b", {"leafgroup": "2", "superpod": "2"})))

    fast = _wired("c", {"speed.current": "400", "speed.expected": "400"})
    half = {"d": (Flaw("incomplete", "no speed.current"),)}
    assert flaws((fast, _wired("d", {"speed.expected": "400"}))) == half
    split = (Flaw("split", "leafgroup 2 of fabric f1 is in superpods 1 and 2"),)
    assert found == {"a": split, "b": split}
    assert list(MEANINGS) == ["slow", "miswired", "split", "incomplete", "mixed"]
