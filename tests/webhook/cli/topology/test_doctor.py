"""`cks-admission topology doctor`: what the labels of Nodes show that is wrong with the network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.service.commands import run
from support.service.nodefiles import BACKEND, node, place, write

_SPEED = {f"{BACKEND}speed.current": "200G", f"{BACKEND}speed.expected": "400G"}
_LEAFGROUP = {f"{BACKEND}leafgroup": "1", f"{BACKEND}leafgroup-name": "lg-1"}
_FLAWED = (
    *(node(f"g{number}", place("1", "1", **_SPEED)) for number in range(1, 11)),
    *(node(name, place(superpod, "2", **_LEAFGROUP)) for name, superpod in (("g11", "1"), ("g12", "2"))),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def test_flaws_are_told_with_their_nodes() -> None:
    """Nodes with the same flaw share a line, and each kind of flaw says what it means; the exit code is 1."""
    result = run("topology", "doctor", "--nodes", write(Path("nodes.json"), *_FLAWED))

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "12 Nodes, 12 with a flaw of the network",
        "slow: the link is slower than it should be",
        "  speed is 200G, expected 400G (10 Nodes: g1, g2, g3, g4, g5, g6, g7, g8 and 2 more)",
        "split: the Nodes of one leafgroup are in several superpods",
        "  leafgroup 1 of fabric f1 is in superpods 1 and 2 (2 Nodes: g11, g12)",
        "incomplete: a label is missing that other Nodes have",
        "  no leafgroup (10 Nodes: g1, g2, g3, g4, g5, g6, g7, g8 and 2 more)",
    ]


def test_flaws_as_data() -> None:
    """For machines each flaw has its kind, its text and all of its Nodes."""
    result = run("topology", "doctor", "--nodes", write(Path("nodes.json"), *_FLAWED[-2:]), "-o", "json")

    text = "leafgroup 1 of fabric f1 is in superpods 1 and 2"
    assert (result.exit_code, json.loads(result.stdout)) == (
        1,
        {"nodes": 2, "flaws": [{"kind": "split", "text": text, "nodes": ["g11", "g12"]}]},
    )


def test_a_network_without_flaws() -> None:
    """Where all is well the exit code is 0."""
    result = run("topology", "doctor", "--nodes", write(Path("nodes.json"), node("g1", place("1", "1"))))

    assert (result.exit_code, result.stdout) == (0, "1 Node, no flaws of the network\n")


def test_nodes_have_to_be_given() -> None:
    """Without Nodes the command says how to give them."""
    result = run("topology", "doctor")

    told = "give the Nodes: --nodes FILE with what kubectl get nodes -o json prints, or a cluster by --kubeconfig"
    assert (result.exit_code, told in result.stderr) == (2, True)
