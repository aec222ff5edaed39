"""Nodes as machines with accelerators, and machines as a tree of domains."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from policies.engine.facts import Node, Taint
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.tree import (
    Branch,
    Count,
    Machine,
    best_topology,
    count,
    held,
    machines,
    suited,
    tree,
)
from policies.topology.topology import BUILT_IN, Topology, level

_GLOBS = ("nvidia.com/gpu", "nvidia.com/mig-*", "sunk.coreweave.com/accelerator")
_ABC = Topology("abc", (level("x/a"), level("x/b"), level("x/c"), level("kubernetes.io/hostname")))


def _pod(containers: list[Any], init: list[Any] | None = None) -> PodManifest:
    return msgspec.convert(
        {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}}, PodManifest
    )


def _asks(resource: str = "nvidia.com/gpu", **sides: str | int) -> dict[str, Any]:
    return {"resources": {side: {resource: quantity, "cpu": "1500m"} for side, quantity in sides.items()}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(_pod([{}]), 0, id="nothing"),
        pytest.param(_pod([_asks(requests="2"), _asks(requests=1)]), 3, id="containers-add-up"),
        pytest.param(_pod([_asks(limits="4")]), 4, id="limit-only"),
        pytest.param(_pod([_asks(requests="1", limits="4")]), 1, id="request-before-limit"),
        pytest.param(_pod([_asks(requests="1")], [_asks(requests="4")]), 4, id="init-container-needs-more"),
        pytest.param(
            _pod([_asks(requests="2")], [{**_asks(requests="1"), "restartPolicy": "Always"}]), 3, id="sidecar"
        ),
        pytest.param(
            _pod([_asks(requests="1")], [{**_asks(requests="1"), "restartPolicy": "Always"}, _asks(requests="3")]),
            4,
            id="init-container-beside-a-sidecar",
        ),
        pytest.param(_pod([_asks("nvidia.com/mig-1g.5gb", requests="2")]), 2, id="glob"),
        pytest.param(_pod([_asks("amd.com/gpu", requests="2")]), 0, id="another-resource"),
        pytest.param(_pod([_asks(requests="2k")]), 2000, id="canonical-thousands"),
        pytest.param(_pod([_asks("sunk.coreweave.com/accelerator", limits="8")]), 8, id="slurm"),
    ],
)
def test_what_a_pod_holds(pod: PodManifest, expected: int) -> None:
    """A Pod holds what its containers and sidecars do, or more where an init container asks for more."""
    assert held(pod, _GLOBS) == expected


def test_a_quantity_that_is_no_number_is_told() -> None:
    """Nobody counts with what is no whole number."""
    with pytest.raises(ValueError, match=r"nvidia.com/gpu is '1.5'; a whole number of devices was expected"):
        held(_pod([_asks(requests="1.5")]), _GLOBS)


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
    pods = [
        msgspec.convert(
            {
                "metadata": {"name": name},
                "spec": {"nodeName": on, "containers": [_asks(requests="3")]},
                "status": {"phase": phase},
            },
            PodManifest,
        )
        for name, on, phase in (
            ("p", "a", "Running"),
            ("q", "a", "Failed"),
            ("r", "c", "Pending"),
            ("s", "", "Pending"),
        )
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


_ONE, _TWO = _machine("n1", 8, at="a=1 b=1 c=1"), _machine("n2", 2, at="a=1 b=1 c=2")
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


@pytest.mark.parametrize(
    ("lowest", "expected"),
    [
        pytest.param("a", ("", [("a 1", [])]), id="first"),
        pytest.param("b", ("", [("a 1", [("b 1", []), ("b 10", [])])]), id="between"),
        pytest.param(
            "kubernetes.io/hostname",
            ("", [("a 1", [("b 1", [("c 1", ["n1"])]), ("b 10", [("c 1", ["n10"])])])]),
            id="nodes",
        ),
    ],
)
def test_a_tree_is_cut_below_a_level(lowest: str, expected: Any) -> None:
    """Nothing below the lowest level is there, and the counts stay."""
    root = tree((_ONE, _TEN), _ABC, _ABC.find(lowest))

    assert _shape(root) == expected
    assert root.branches[0].count.total == 16


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


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(_labelled(*_EVERYWHERE, "backend.coreweave.cloud/fabric"), "coreweave", id="coreweave"),
        pytest.param(_labelled(*_EVERYWHERE, "ib.coreweave.cloud/superpod"), "coreweave", id="older-coreweave"),
        pytest.param(_labelled(*_EVERYWHERE), "kubernetes", id="only-what-all-clouds-have"),
        pytest.param(
            _labelled(*_EVERYWHERE, *(f"topology.k8s.aws/network-node-layer-{i}" for i in (1, 2, 3))), "aws", id="aws"
        ),
        pytest.param(
            _labelled(_EVERYWHERE[2], *(f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf"))),
            "topograph",
            id="the-one-without-further-levels",
        ),
    ],
)
def test_the_topology_that_fits(nodes: list[Machine], expected: str) -> None:
    """CoreWeave's counts where its labels are; else the one that most Nodes have the levels of, and no more levels."""
    assert best_topology(nodes, BUILT_IN).name == expected


def _requires(key: str, *values: str) -> LabelSelector:
    return LabelSelector((SelectorRequirement(key, "In", values),))


@pytest.mark.parametrize(
    ("topology", "labels", "expected"),
    [
        pytest.param(_ABC, {}, True, id="nothing-required"),
        pytest.param(Topology("t", (), pool=_requires("pool", "a")), {"pool": "a"}, True, id="in-the-pool"),
        pytest.param(Topology("t", (), pool=_requires("pool", "a")), {"pool": "b"}, False, id="in-another-pool"),
        pytest.param(BUILT_IN[1], {"backend.coreweave.cloud/flavor": "infiniband"}, True, id="infiniband"),
        pytest.param(BUILT_IN[1], {"ib.coreweave.cloud/fabric": "f"}, True, id="older-infiniband"),
        pytest.param(BUILT_IN[1], {"backend.coreweave.cloud/flavor": "roce"}, False, id="roce"),
    ],
)
def test_which_nodes_a_topology_is_for(topology: Topology, labels: dict[str, str], *, expected: bool) -> None:
    """A Node is in the pool and has what the topology requires, under the newer or the older names."""
    assert bool(suited(topology, [Machine(Node("n", labels))])) is expected
