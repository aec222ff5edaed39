"""Placements: every way to write one, and every text that is none, with what people read."""

from __future__ import annotations

import pytest

from policies.engine.match import SelectorRequirement
from policies.topology.placement import Domain, Placement, PlacementError, alternatives, parse
from policies.topology.topology import BUILT_IN, Topology, level

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
    assert (placement.level, bool(placement.named), bool(parse("rack", _COREWEAVE).named)) == (
        _LEVELS["rack"],
        True,
        False,
    )
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
