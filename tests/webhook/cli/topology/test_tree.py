"""`cks-admission topology tree`: many Nodes, the tree as data, and colours; the rest is in commands/topology.yaml."""

import json
from pathlib import Path

from click.testing import CliRunner
from support.service.commands import run
from support.service.nodefiles import HELD, SMALL, node, place, pod, write

from webhook.cli.main import main
from webhook.cli.topology.drawing import shares


def test_many_nodes_that_are_alike_share_a_line() -> None:
    """A rack of many Nodes is a few lines: those that are alike are together, with some of their names."""
    nodes = [node(f"g{number}", place("1", "1")) for number in range(1, 11)]
    name = write(Path("nodes.json"), *nodes, pod("a", "g2"), pod("b", "g4"))

    assert run("topology", "tree", "-f", name).stdout.splitlines()[3:-2] == [
        "   ├─ 8 Nodes with 8 GPUs each: g1, g3, g5 and 5 more           8    64    64  ░░░░░░░░",
        "   ├─ g2                                                              0     8  ████████",
        "   └─ g4                                                              0     8  ████████",
    ]


def test_a_tree_as_data() -> None:
    """The same is there for machines; a group of Nodes that lack a level has no name."""
    found = json.loads(run("topology", "tree", "-f", write(Path("a.json"), *SMALL, *HELD), "-o", "json").stdout)
    zone = found.pop("domains")[0].pop("domains")[0]
    fabric, no_fabric = zone.pop("domains")
    first, second, no_superpod = fabric["domains"]

    closed = {"closedNodes": 2, "obstacles": {"cordoned": 1, "not ready": 1}}
    counts = {"nodes": 6, **closed, "gpus": 40, "used": 13, "free": 14, "unavailable": 13, "flaws": {"incomplete": 1}}
    assert (found, zone) == ({"topology": "coreweave", **counts}, {"level": "zone", "name": "east-1", **counts})
    assert [(one["level"], one["name"], one["free"]) for one in (first, second, no_superpod)] == [
        ("superpod", "1", 8),
        ("superpod", "2", 6),
        ("superpod", None, 0),
    ]
    assert no_superpod["domains"][0]["members"][0]["flaws"] == [{"kind": "incomplete", "text": "no superpod"}]
    assert first["domains"][0]["members"] == [
        {"name": "g3", "gpus": 8, "used": 3, "free": 0, "ready": True, "cordoned": True, "obstacles": ["cordoned"]}
    ]
    nothing = {"gpus": 0, "used": 0, "free": 0}
    member = {"name": "cpu", **nothing, "ready": True, "cordoned": False, "obstacles": []}
    group: dict[str, object] = {
        "level": "fabric",
        "name": None,
        "nodes": 1,
        "closedNodes": 0,
        "obstacles": {},
        **nothing,
    }
    assert no_fabric == {**group, "unavailable": 0, "members": [member]}


def test_colours_are_for_terminals() -> None:
    """A terminal gets the same text in colours."""
    name = write(Path("nodes.json"), *SMALL, *HELD)

    assert "\x1b[32m░░░" in CliRunner().invoke(main, ["topology", "tree", "-f", name], color=True).stdout
    assert "\x1b" not in run("topology", "tree", "-f", name).stdout


def test_shares_of_a_bar() -> None:
    """A bar is as long as it should be, and what there is of any kind is seen in it; the rest goes to the first."""
    rows = {
        (0, 0, 0): [0, 0, 0],
        (8, 0, 0): [8, 0, 0],
        (1, 999, 0): [1, 7, 0],
        (1, 1, 998): [1, 1, 6],
        (4, 2, 2): [4, 2, 2],
        (1, 1, 1): [3, 3, 2],
    }

    assert {amounts: shares(amounts, 8) for amounts in rows} == rows
