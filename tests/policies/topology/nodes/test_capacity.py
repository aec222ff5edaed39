"""What each topology has of Nodes and GPUs, as the data of a ConfigMap."""

from __future__ import annotations

from policies.engine.facts import Node
from policies.topology.nodes.tree import Machine, data
from policies.topology.topology import BUILT_IN, Topology, level

_HALLS = Topology("halls", (level("example.org/site"), level("example.org/hall"), level("kubernetes.io/hostname")))


def _machine(name: str, gpus: int, *, cordoned: bool = False, **labels: str) -> Machine:
    own = {f"example.org/{key}": value for key, value in labels.items()}
    return Machine(Node(name, {"kubernetes.io/hostname": name, **own}), gpus, cordoned=cordoned)


_MACHINES = (
    _machine("a", 8, site="s", hall="1"),
    _machine("b", 8, site="s", hall="1", cordoned=True),
    _machine("c", 8, site="t", hall="1"),
    _machine("d", 4, site="t", hall="10"),
    _machine("e", 4, site="t", hall="2"),
    _machine("f", 0, site="t"),
)


def test_numbers_and_domains() -> None:
    """A topology has sums, each level the most that one domain has, and a line for each domain with those around it."""
    assert data(_MACHINES, [_HALLS]) == {
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
    whole = data(_MACHINES, [_HALLS])
    room = sum(len(key) + len(text) for key, text in whole.items()) - 1

    cut = data(_MACHINES, [_HALLS], room)

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
