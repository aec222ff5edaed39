"""What is preferred, and how much."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from policies.topology.placement import parse
from policies.topology.term import preferred_terms, weights
from policies.topology.topology import BUILT_IN

_TOPOLOGIES = {each.name: each for each in BUILT_IN}
_WEIGHTS = {
    1: [100],
    2: [67, 33],
    3: [51, 33, 16],
    4: [40, 30, 20, 10],
    5: [35, 26, 20, 13, 6],
    6: [31, 23, 19, 14, 9, 4],
    7: [28, 21, 17, 14, 10, 7, 3],
}


@pytest.mark.parametrize(("steps", "expected"), _WEIGHTS.items())
def test_weights_of_few_steps(steps: int, expected: list[int]) -> None:
    """As n to … 1, rounded down, and the nearest step gets what is left of 100."""
    assert weights(steps) == expected


@pytest.mark.parametrize("steps", range(1, 17))
def test_weights(steps: int) -> None:
    """They add up to 100, fall with the distance, and all but the nearest are their share without its fraction."""
    found = weights(steps)

    total = sum(range(1, steps + 1))
    shares = [int(Fraction(100 * share, total)) for share in range(steps, 0, -1)]
    assert (sum(found), found[1:]) == (100, shares[1:])
    assert sorted(found, reverse=True) == found
    assert found[0] >= shares[0]


def test_no_steps() -> None:
    """Without steps there are no weights."""
    assert weights(0) == []


def _preferred(topology: str, preferred: str, required: str = "") -> list[Any]:
    known = _TOPOLOGIES[topology]
    floor = parse(required, known) if required else None
    return [
        (each["weight"], [(e["key"].rpartition("/")[2], e["operator"]) for e in each["preference"]["matchExpressions"]])
        for each in preferred_terms(known, floor, parse(preferred, known))
    ]


@pytest.mark.parametrize(
    ("topology", "preferred", "required", "expected"),
    [
        pytest.param("kubernetes", "zone", "", [], id="level"),
        pytest.param("kubernetes", "zone=z", "region", [(100, [("zone", "In")])], id="domain"),
        pytest.param(
            "kubernetes",
            "region=r,zone",
            "",
            [(100, [("region", "In")])],
            id="level-in-a-domain",
        ),
        pytest.param(
            "kubernetes", "region=r,zone=z", "region", [(100, [("region", "In"), ("zone", "In")])], id="one-step-below"
        ),
        pytest.param(
            "coreweave",
            "superpod=3,rack=1",
            "",
            [
                (67, [("superpod", "In"), ("rack", "In")]),
                (67, [("superpod", "In"), ("rack", "In"), ("superpod", "DoesNotExist")]),
                (33, [("superpod", "In")]),
                (33, [("superpod", "In"), ("superpod", "DoesNotExist")]),
            ],
            id="twins",
        ),
        pytest.param("coreweave-roce", "superpod=3", "", [(100, [("superpod", "In")])], id="no-twin-for-roce"),
        pytest.param(
            "topograph-nvlink",
            "nvlink=n",
            "",
            [(100, [("gpu.clique", "In")]), (100, [("accelerator", "In"), ("gpu.clique", "DoesNotExist")])],
            id="nvlink",
        ),
    ],
)
def test_steps(topology: str, preferred: str, required: str, expected: list[Any]) -> None:
    """A term for each domain below the required level, in all those above it, and its twin for the older names."""
    assert _preferred(topology, preferred, required) == expected


def test_twins_are_never_met_both() -> None:
    """The twin asks for the absence of the newer name of which the other term asks for the presence."""
    known = _TOPOLOGIES["coreweave"]
    newer, older = preferred_terms(known, None, parse("fabric=1", known))

    assert newer["preference"]["matchExpressions"] == [
        {"key": "backend.coreweave.cloud/fabric", "operator": "In", "values": ["1"]}
    ]
    assert older["preference"]["matchExpressions"] == [
        {"key": "ib.coreweave.cloud/fabric", "operator": "In", "values": ["1"]},
        {"key": "backend.coreweave.cloud/fabric", "operator": "DoesNotExist"},
    ]
