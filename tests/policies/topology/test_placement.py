"""Placements: every way to write one, and every text that is none, with what people read."""

from __future__ import annotations

import pytest

from policies.engine.match import SelectorRequirement
from policies.topology.placement import Domain, Placement, PlacementError, parse
from policies.topology.term import required_terms
from policies.topology.topology import BUILT_IN, Topology, level

_TOPOLOGIES = {each.name: each for each in BUILT_IN}
_COREWEAVE = _TOPOLOGIES["coreweave"]
_LEVELS = {each.short: each for each in _COREWEAVE.levels}
_SUPERPOD = _LEVELS["superpod"]
_RACKS = Topology("racks", (level("north.example.org/rack"), level("south.example.org/rack")))


def _placement(**domains: str) -> Placement:
    """Domains by level, several values with spaces between them."""
    return Placement(tuple(Domain(_LEVELS[name], tuple(values.split())) for name, values in domains.items()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("superpod", _placement(superpod=""), id="short-name"),
        pytest.param("backend.coreweave.cloud/superpod", _placement(superpod=""), id="key"),
        pytest.param("ib.coreweave.cloud/superpod", _placement(superpod=""), id="older-key"),
        pytest.param("superpod=3", _placement(superpod="3"), id="domain"),
        pytest.param(" superpod = 3 ", _placement(superpod="3"), id="spaces"),
        pytest.param("superpod in (3,4)", _placement(superpod="3 4"), id="several-domains"),
        pytest.param("superpod in (3,3)", _placement(superpod="3"), id="one-domain-twice"),
        pytest.param(
            "fabric=f1,superpod=3,rack=12", _placement(fabric="f1", superpod="3", rack="12"), id="with-ancestors"
        ),
        pytest.param("rack=12, fabric=f1", _placement(fabric="f1", rack="12"), id="in-any-order"),
        pytest.param("fabric in (a,b),rack", _placement(fabric="a b", rack=""), id="ancestor-of-a-bare-level"),
        pytest.param("zone=A-1_b.c", _placement(zone="A-1_b.c"), id="any-value-of-a-label"),
    ],
)
def test_forms(text: str, expected: Placement) -> None:
    """Every form comes to its domains, farthest first."""
    assert parse(text, _COREWEAVE) == expected


def test_how_a_placement_is_called() -> None:
    """People read it in short names, farthest first."""
    placement = parse("rack in (1, 2),ib.coreweave.cloud/fabric=f1", _COREWEAVE)

    assert placement.called(_COREWEAVE) == "fabric=f1,rack in (1, 2)"
    assert (placement.level, placement.is_named, parse("rack", _COREWEAVE).is_named) == (_LEVELS["rack"], True, False)
    assert placement == _placement(fabric="f1", rack="1 2")


def test_values_that_are_too_long() -> None:
    """Under a key of Topograph's such a value is the hash that Nodes carry."""
    topology = _TOPOLOGIES["topograph"]
    domains = parse(f"leaf={'a' * 69}", topology).domains

    assert required_terms(topology, Placement(domains)) == (
        (SelectorRequirement("network.topology.nvidia.com/leaf", "In", ("x65863cd5b882ce8",)),),
    )


_IN_ORDER = (
    '  Levels of topology "coreweave", farthest first: region, zone, fabric, superpod, leafgroup, rack, hostname.\n'
)
_FORMS = "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow."
_NO_VALUE = "that is no value of a label: letters, digits, and within them - _ . are allowed."


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        pytest.param("", "is empty.", f"{_IN_ORDER}Name one of them.", id="empty"),
        pytest.param(
            "rack" + " " * 16_380 + "x",
            "has 16385 characters, and a placement has 16384 at most.",
            _FORMS,
            id="too-long",
        ),
        pytest.param(
            "superpodd",
            'is no level of topology "coreweave".',
            f"{_IN_ORDER}Did you mean superpod?",
            id="misspelled",
        ),
        pytest.param(
            "x=1",
            'names "x", which is no level of topology "coreweave".',
            f"{_IN_ORDER}Name one of them.",
            id="unknown",
        ),
        pytest.param(
            "speed.current=400",
            'names "speed.current", which tells how a Node is connected, not where it is, and is no level.',
            f"{_IN_ORDER}Name one of them.",
            id="speed",
        ),
        pytest.param(
            "rack=1,rack=2",
            "names the level rack twice.",
            "Name several domains as LEVEL in (A, B).",
            id="level-twice",
        ),
        pytest.param(
            "backend.coreweave.cloud/fabric=1,ib.coreweave.cloud/fabric=1",
            "names the level fabric twice.",
            "Name several domains as LEVEL in (A, B).",
            id="level-under-two-names",
        ),
        pytest.param(
            "fabric,rack=12",
            "names fabric, a level above rack, without a domain.",
            "Name the domain, as fabric=DOMAIN, or leave it out.",
            id="ancestor-without-a-domain",
        ),
        pytest.param("rack=1,", "has an empty part.", _FORMS, id="comma-at-the-end"),
        pytest.param("rack in (1", "has a parenthesis that does not close.", _FORMS, id="open-parenthesis"),
        pytest.param("rack in 1)", 'has a part that cannot be read, "rack in 1)".', _FORMS, id="closing-parenthesis"),
        pytest.param("rack!=1", 'has a part that cannot be read, "rack!=1".', _FORMS, id="not-equal"),
        pytest.param("=1", 'has a part that cannot be read, "=1".', _FORMS, id="no-level"),
        pytest.param("rack=", "names an empty domain of rack.", "Name the domain, as rack=DOMAIN.", id="empty-domain"),
        pytest.param(
            "rack=-1",
            f'names a domain of rack, "-1", {_NO_VALUE}',
            "Copy the value of the Nodes' label.",
            id="no-value-of-a-label",
        ),
        pytest.param(
            f"rack={'1' * 64}",
            f'names a domain of rack, "{"1" * 64}", that has 64 characters, and the value of a label has 63 at most.',
            "Copy the value of the Nodes' label.",
            id="too-long",
        ),
    ],
)
def test_what_cannot_be_read(text: str, problem: str, remedy: str) -> None:
    """The error says what is wrong, shows the levels where they help, and what to write."""
    with pytest.raises(PlacementError) as raised:
        parse(text, _COREWEAVE)

    assert (raised.value.problem, raised.value.remedy) == (problem, remedy)
    assert str(raised.value) == f"{problem} {remedy}"


def test_a_short_name_of_several_levels() -> None:
    """It names none of them; the keys are told."""
    with pytest.raises(PlacementError) as raised:
        parse("rack=1", _RACKS)

    assert (raised.value.problem, raised.value.remedy) == (
        "names rack, which stands for several levels.",
        "Write the whole key: north.example.org/rack and south.example.org/rack.",
    )


def test_the_clique_and_the_nvlink_domain_are_one_level() -> None:
    """To name both is to name a level twice."""
    with pytest.raises(PlacementError) as raised:
        parse("gpu.clique=1,nvlink=1", _TOPOLOGIES["topograph-nvlink"])

    assert raised.value.problem == "names the level gpu.clique twice."
