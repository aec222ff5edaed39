"""Terms: the alternatives that a placement comes to, preferences, and what becomes of a user's affinity beside them.

The terms of each topology stand in cases/. Where Pods land by them, and how Nodes are scored, is proven for any Nodes
and affinity in tests/properties.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.tables import rows

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement, Term
from policies.topology.placement import (
    Domain,
    alternatives,
    old_names,
    parse,
    preferred_terms,
    with_peers,
    with_terms,
)
from policies.topology.topology import BUILT_IN, NVLINK, level

_B, _I = "backend.coreweave.cloud", "ib.coreweave.cloud"
_CLIQUE, _ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"


def _in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "In", values)


def _not_in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "NotIn", values)


def _there(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "Exists")


def _absent(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "DoesNotExist")


_RACK = Domain(level("rack"), ("1",))
_INFINIBAND, _ROCE = (LabelSelector((_in(f"{_B}/flavor", name),)) for name in ("infiniband", "roce"))
_SSD_WITHOUT_ROCE = LabelSelector((_in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce")))
_NO_INFINIBAND = LabelSelector((_not_in(f"{_B}/flavor", "infiniband"),))


@pytest.mark.parametrize(
    ("domains", "requirement", "terms"),
    [
        pytest.param(
            [_RACK],
            _SSD_WITHOUT_ROCE,
            [
                (_in("rack", "1"), _in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce")),
                (_in("rack", "1"), _in("disk", "ssd"), _there(f"{_I}/fabric")),
            ],
            id="requirement-that-infiniband-meets",
        ),
        pytest.param(
            [Domain(level(_ACCELERATOR), ("a",)), Domain(NVLINK)],
            EVERYTHING,
            [(_in(_ACCELERATOR, "a"), known(_CLIQUE)) for known in (_there, _absent)],
            id="nvlink-in-an-accelerator",
        ),
        pytest.param(
            [],
            LabelSelector((_not_in(f"{_B}/superpod", "3"),)),
            [(_not_in(f"{_B}/superpod", "3"), _not_in(f"{_I}/superpod", "3"))],
            id="excluded-under-every-name",
        ),
        pytest.param([], _NO_INFINIBAND, [(*_NO_INFINIBAND.requirements, _absent(f"{_I}/fabric"))], id="no-infiniband"),
    ],
)
def test_alternatives(domains: list[Domain], requirement: LabelSelector, terms: list[Term]) -> None:
    """There is a term for each way in which Nodes may be labelled, without what it says already."""
    assert alternatives(domains, requirement) == tuple(terms)


def test_requirements_in_older_names() -> None:
    """A flavor is a fabric there, if InfiniBand meets it; what it does not meet has no older form."""
    fabric, either = (
        LabelSelector((_there(f"{_I}/fabric"),)),
        LabelSelector((_in(f"{_B}/flavor", "roce", "infiniband"),)),
    )
    new, old = (
        LabelSelector((_there(known), _in(f"{family}/speed.current", "400G")))
        for family, known in ((_B, f"{_B}/flavor"), (_I, f"{_I}/fabric"))
    )

    assert [old_names(each) for each in (EVERYTHING, _INFINIBAND, either, new)] == [EVERYTHING, fabric, fabric, old]
    others = (_ROCE, _NO_INFINIBAND, LabelSelector((_absent(f"{_B}/flavor"),)))
    assert [each for each in others if old_names(each) is not None] == []


_MUST = "requiredDuringSchedulingIgnoredDuringExecution"


def test_affinity() -> None:
    """Terms of Pod affinity are added to those that are there, once; malformed affinity stays."""
    rack, zone = ({"topologyKey": key} for key in ("rack", "zone"))
    both = {"podAffinity": {_MUST: [zone, rack]}, "nodeAffinity": {}}
    changed: list[tuple[Any, Any]] = [
        (None, {"podAffinity": {_MUST: [rack]}}),
        ({"podAffinity": {_MUST: [zone]}, "nodeAffinity": {}}, both),
        (both, both),
        ({"podAffinity": []}, {"podAffinity": []}),
        ({"podAffinity": {_MUST: "x"}}, {"podAffinity": {_MUST: "x"}}),
    ]

    assert [with_peers(affinity, [rack], []) for affinity, _ in changed] == [expected for _, expected in changed]
    malformed: list[Any] = [{"nodeAffinity": "x"}, {"nodeAffinity": {_MUST: "x"}}]
    assert [with_terms(affinity, [(_in("rack", "1"),)], []) for affinity in malformed] == malformed


_TOPOLOGIES = {each.name: each for each in BUILT_IN}


@rows(__file__, "steps")
def test_steps(topology: str, preferred: str, required: str, expected: list[list[int | str]]) -> None:
    """A term for each domain below the required level, in all those above it, and its twin for the older names.

    Weights are as n to … 1, rounded down, and the nearest step gets what is left of 100.
    """
    known = _TOPOLOGIES[topology]
    terms = preferred_terms(known, parse(required, known) if required else None, parse(preferred, known))

    assert [
        [
            each["weight"],
            ", ".join(f"{e['key'].rpartition('/')[2]} {e['operator']}" for e in each["preference"]["matchExpressions"]),
        ]
        for each in terms
    ] == expected
