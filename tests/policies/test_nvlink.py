"""NVL Domains: which cliques are in one, and what is written for a Pod that is to be in it."""

from __future__ import annotations

from policies.engine.match import SelectorRequirement
from policies.nvlink import NVL_DOMAIN, cliques, domain, labelled, written
from policies.vocabulary import CLIQUE

_A, _B = "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2", "1f0c2a44-90ab-4e0e-8a51-6b1d2c3e4f50"
_NODES = [labelled({CLIQUE: f"{_A}.{number}"}) for number in (2, 1, 1)] + [labelled({CLIQUE: f"{_B}.1"}), {}]
_KNOWN = {_A: [f"{_A}.1", f"{_A}.2"], _B: [f"{_B}.1"]}


def test_the_domain_of_a_node() -> None:
    """It is what stands before the dot; a clique of another form is in none."""
    assert labelled({CLIQUE: f"{_A}.1", "a": "b"}) == {CLIQUE: f"{_A}.1", "a": "b", NVL_DOMAIN: _A}
    assert [labelled(labels) for labels in ({}, {CLIQUE: "1"})] == [{}, {CLIQUE: "1"}]
    assert domain(f"{_A}.1") == _A


def test_the_cliques_of_domains() -> None:
    """Each domain has its cliques once, in order."""
    assert cliques(_NODES) == _KNOWN


def test_what_is_written() -> None:
    """A domain becomes its cliques, that there is one becomes that there is a clique, and the rest stays as it is."""
    other = SelectorRequirement("a", "In", ("b",))
    inside, there = SelectorRequirement(NVL_DOMAIN, "In", (_A, "gone")), SelectorRequirement(NVL_DOMAIN, "Exists")

    assert [written(requirement, _KNOWN) for requirement in (other, inside, there)] == [
        other,
        SelectorRequirement(CLIQUE, "In", (f"{_A}.1", f"{_A}.2", "gone")),
        SelectorRequirement(CLIQUE, "Exists"),
    ]
