"""Placements: every way to write one, and every text that is none, with what people read."""

from __future__ import annotations

from typing import Any

import pytest
from support.tables import rows

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement, Term
from policies.topology.placement import (
    Domain,
    Placement,
    PlacementError,
    alternatives,
    old_names,
    parse,
    preferred_terms,
    with_peers,
    with_terms,
)
from policies.topology.topology import BUILT_IN, NVLINK, Topology, level

_TOPOLOGIES = {each.name: each for each in BUILT_IN}
_COREWEAVE = _TOPOLOGIES["coreweave"]
_LEVELS = {each.short: each for each in _COREWEAVE.levels}
_RACKS = Topology("racks", (level("north.example.org/rack"), level("south.example.org/rack")))


def _placement(**domains: str) -> Placement:
    """Domains by level, several values with spaces between them."""
    return Placement(tuple(Domain(_LEVELS[name], tuple(values.split())) for name, values in domains.items()))


def test_forms() -> None:
    """Every form comes to its domains, farthest first."""
    bare, named = _placement(superpod=""), _placement(superpod="3")
    forms = {
        **dict.fromkeys(("superpod", "backend.coreweave.cloud/superpod", "ib.coreweave.cloud/superpod"), bare),
        **dict.fromkeys(("superpod=3", " superpod = 3 ", "superpod in (3,3)"), named),
        "superpod in (3,4)": _placement(superpod="3 4"),
        "rack=12, fabric=f1": _placement(fabric="f1", rack="12"),
        "fabric in (a,b),rack": _placement(fabric="a b", rack=""),
        "zone=A-1_b.c": _placement(zone="A-1_b.c"),
    }

    assert {text: parse(text, _COREWEAVE) for text in forms} == forms


def test_how_a_placement_is_called() -> None:
    """People read it in short names, farthest first."""
    placement = parse("rack in (1, 2),ib.coreweave.cloud/fabric=f1", _COREWEAVE)

    assert placement.called(_COREWEAVE) == "fabric=f1,rack in (1, 2)"
    assert (placement.level, bool(placement.named)) == (_LEVELS["rack"], True)
    assert not parse("rack", _COREWEAVE).named
    assert placement == _placement(fabric="f1", rack="1 2")


def test_values_that_are_too_long() -> None:
    """Under a key of Topograph's such a value is the hash that Nodes carry."""
    topology = _TOPOLOGIES["topograph"]
    domains = parse(f"leaf={'a' * 69}", topology).domains

    assert alternatives(domains, topology.requirement) == (
        (SelectorRequirement("network.topology.nvidia.com/leaf", "In", ("x65863cd5b882ce8",)),),
    )


_LEVELS_OF = (
    'Levels of topology "coreweave", farthest first: region, zone, fabric, superpod, leafgroup, rack, hostname.'
)
_NAME_ONE = f"  {_LEVELS_OF}\nName one of them."
_FORMS = "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow."
_SEVERAL, _COPY = "Name several domains as LEVEL in (A, B).", "Copy the value of the Nodes' label."
_NO_VALUE = "that is no value of a label: letters, digits, and within them - _ . are allowed."
_MEASURE = "tells how a Node is connected, not where it is, and is no level."
_LONG = "that has 64 characters, and the value of a label has 63 at most."


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("rack" + " " * 16_380 + "x", "has 16385 characters, and a placement has 16384 at most.", _FORMS),
        ("x=1", 'names "x", which is no level of topology "coreweave".', _NAME_ONE),
        ("speed.current=400", f'names "speed.current", which {_MEASURE}', _NAME_ONE),
        ("rack=1,rack=2", "names the level rack twice.", _SEVERAL),
        ("backend.coreweave.cloud/fabric=1,ib.coreweave.cloud/fabric=1", "names the level fabric twice.", _SEVERAL),
        (
            "fabric,rack=12",
            "names fabric, a level above rack, without a domain.",
            "Name the domain, as fabric=DOMAIN, or leave it out.",
        ),
        ("rack=1,", "has an empty part.", _FORMS),
        ("rack in (1", "has a parenthesis that does not close.", _FORMS),
        *((text, f'has a part that cannot be read, "{text}".', _FORMS) for text in ("rack in 1)", "=1")),
        ("rack=", "names an empty domain of rack.", "Name the domain, as rack=DOMAIN."),
        ("rack=-1", f'names a domain of rack, "-1", {_NO_VALUE}', _COPY),
        (f"rack={'1' * 64}", f'names a domain of rack, "{"1" * 64}", {_LONG}', _COPY),
    ],
)
def test_what_cannot_be_read(text: str, problem: str, remedy: str) -> None:
    """The error says what is wrong, shows the levels where they help, and what to write."""
    with pytest.raises(PlacementError) as raised:
        parse(text, _COREWEAVE)

    assert (raised.value.problem, raised.value.remedy) == (problem, remedy)
    assert str(raised.value) == f"{problem} {remedy}"


def test_names_of_several_levels() -> None:
    """A short name that several share names none of them; the clique and the NVLink domain are one level."""
    with pytest.raises(PlacementError) as raised:
        parse("rack=1", _RACKS)
    with pytest.raises(PlacementError, match=r"names the level gpu\.clique twice"):
        parse("gpu.clique=1,nvlink=1", _TOPOLOGIES["topograph-nvlink"])

    assert (raised.value.problem, raised.value.remedy) == (
        "names rack, which stands for several levels.",
        "Write the whole key: north.example.org/rack and south.example.org/rack.",
    )


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


@rows(__file__, "steps")
def test_steps(topology: str, preferred: str, required: str, expected: list[list[int | str]]) -> None:
    """Each domain below the required level has a term and its twin; weights fall, and the nearest has the rest."""
    known = _TOPOLOGIES[topology]
    terms = preferred_terms(known, parse(required, known) if required else None, parse(preferred, known))

    assert [
        [
            each["weight"],
            ", ".join(f"{e['key'].rpartition('/')[2]} {e['operator']}" for e in each["preference"]["matchExpressions"]),
        ]
        for each in terms
    ] == expected
