"""What the labels of Nodes say that is wrong with the network behind them."""

from __future__ import annotations

from collections.abc import Mapping

from support.tables import rows

from policies.engine.facts import Node
from policies.topology.nodes.tree import MEANINGS, Flaw, flaws

_PLACE = {"fabric": "f1", "superpod": "1", "leafgroup": "1", "flavor": "infiniband"}


def _node(name: str, backend: Mapping[str, str | None] | None = None, ib: Mapping[str, str] | None = None) -> Node:
    """A Node that is well, but for some labels."""
    named = {f"backend.coreweave.cloud/{key}": value for key, value in {**_PLACE, **(backend or {})}.items() if value}
    older = {f"ib.coreweave.cloud/{key}": value for key, value in (ib or {}).items()}
    return Node(name, {"kubernetes.io/hostname": name, **named, **older})


_WELL = _node("well")


@rows(__file__, "flaws")
def test_the_flaws_of_a_node(
    backend: Mapping[str, str | None] | None, ib: Mapping[str, str] | None, flaw: list[str] | None
) -> None:
    """Beside a Node that is well, each flaw is named with what was found and what there should be."""
    expected = [] if flaw is None else [Flaw(flaw[0], flaw[1])]  # type: ignore[arg-type] # one of the kinds

    assert list(flaws((_WELL, _node("n", backend, ib))).get("n", ())) == expected


def test_a_leafgroup_that_is_split_by_its_name() -> None:
    """A name stands for one leafgroup, however often its number is used."""
    there = _node("a", {"leafgroup-name": "lg-1"}), _node("b", {"leafgroup-name": "lg-1", "superpod": "2"})

    split = (Flaw("split", "leafgroup 1 of fabric f1 is in superpods 1 and 2"),)
    assert flaws(there) == {"a": split, "b": split}


def test_only_nodes_with_flaws_are_there() -> None:
    """Both Nodes of a split leafgroup are named, and no others; every kind has a meaning."""
    well = (_WELL, _node("third", {"leafgroup": "3", "superpod": "2"}))
    found = flaws((*well, _node("a", {"leafgroup": "2"}), _node("b", {"leafgroup": "2", "superpod": "2"})))

    fast = _node("c", {"speed.current": "400", "speed.expected": "400"})
    half = {"d": (Flaw("incomplete", "no speed.current"),)}
    assert flaws((fast, _node("d", {"speed.expected": "400"}))) == half
    split = (Flaw("split", "leafgroup 2 of fabric f1 is in superpods 1 and 2"),)
    assert found == {"a": split, "b": split}
    assert list(MEANINGS) == ["slow", "miswired", "split", "incomplete", "mixed"]
