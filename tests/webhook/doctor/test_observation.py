"""Findings, and the words that they share."""

from __future__ import annotations

from policies.engine.violation import listed
from webhook.doctor.observation import Check, Diagnosis, Unread, count


def test_what_may_not_be_read_names_the_right() -> None:
    """A right that is missing is no fault of the installation: it is not known, and the remedy is that right."""
    assert Check("nodes").unread("Nodes", Unread("403", "list nodes")) == Diagnosis(
        "nodes",
        "unknown",
        "Nodes",
        "not checked: the current account may not list nodes",
        "use an account that may list nodes",
    )


def test_what_could_not_be_read_says_why() -> None:
    """For every other reason the reason itself is told."""
    assert Check("nodes").unread("Nodes", Unread("no answer within 10 s")) == Diagnosis(
        "nodes", "unknown", "Nodes", "not checked: no answer within 10 s", "try again"
    )


def test_lists_are_short() -> None:
    """Three names are shown, of the others how many there are; nouns have their number."""
    assert [listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e"])] == ["a, b, c", "a, b, c and 2 more"]
    assert [count(1, "entry", "entries"), count(2, "entry", "entries"), count(0, "Node")] == [
        "1 entry",
        "2 entries",
        "0 Nodes",
    ]
