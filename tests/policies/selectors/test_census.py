"""What is counted of Nodes, and for how long it holds."""

from __future__ import annotations

from policies.engine.facts import Node
from policies.selectors.fault import MOST_KEPT, MOST_KEYS, Census

_NODES = (Node("a", {"pool": "x"}), Node("b", {"pool": "y"}))


def test_what_was_counted_is_kept_while_the_nodes_are_the_same() -> None:
    """A later review gets the same counts, and others as soon as a Node is another."""
    census = Census(_NODES)
    counts = census.values("pool")

    assert census.renewed(_NODES, ()).values("pool") is counts
    changed = census.renewed((_NODES[0],), ())
    assert dict(changed.values("pool")) == {"x": 1}


def test_a_review_has_so_many_keys_counted() -> None:
    """Beyond them nothing is known of further keys, until the next review."""
    census = Census(_NODES)
    for number in range(MOST_KEYS):
        census.values(f"key-{number}")

    assert (census.knows("more"), census.knows("key-0")) == (False, True)
    assert census.renewed(_NODES, ()).knows("more")


def test_what_is_kept_has_a_bound() -> None:
    """After reviews that ask for ever new keys, the counts begin anew."""
    census = Census(_NODES)
    for number in range(MOST_KEPT + 1):
        census.values(f"key-{number}")

    assert census.renewed(_NODES, ()) is not census
