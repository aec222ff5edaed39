"""All topologies by name: what is merged, what clashes, and which name comes nearest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.topology.topology import Catalog, Clash, Topology, level

_HALL, _RACK = level("example.org/hall"), level("example.org/rack")
_FILE = Topology("halls", (_HALL, _RACK), source="halls.yaml")
_OBJECT = Topology("halls", (level("example.org/hall", "room"), _RACK), source="KAI Topology halls", in_cluster=True)
_ONE, _TWO = (LabelSelector((SelectorRequirement("pool", "In", (name,)),)) for name in ("a", "b"))


def test_topologies_with_the_same_levels_are_one() -> None:
    """They are merged, in whichever order; the cluster's object gives the aliases, which its schedulers know."""
    merged = replace(_OBJECT, source="halls.yaml; KAI Topology halls")

    assert Catalog([_FILE, _OBJECT]).by_name == {"halls": merged}
    assert Catalog([_OBJECT, _FILE]).by_name == {"halls": replace(merged, source="KAI Topology halls; halls.yaml")}


def test_what_only_one_of_them_says_holds() -> None:
    """Requirement and pool come from whichever has them."""
    first, second = replace(_FILE, requirement=_ONE), replace(_OBJECT, pool=_TWO)
    catalog = Catalog([first, second])

    found = catalog.find("halls")

    assert found is not None
    assert (found.requirement, found.pool, catalog.clashes) == (_ONE, _TWO, ())


def test_levels_that_differ_clash() -> None:
    """The first one counts, and the error names both with their levels."""
    other = Topology("halls", (_RACK, _HALL), source="the configuration")
    catalog = Catalog([_FILE, other])

    assert (catalog.by_name, catalog.clashes) == ({"halls": _FILE}, (Clash(_FILE, other),))
    assert str(catalog.clashes[0]) == (
        'topology "halls" is defined twice, with different levels: halls.yaml (example.org/hall, example.org/rack); '
        "and the configuration (example.org/rack, example.org/hall). Keep one."
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(replace(_FILE, requirement=_ONE), replace(_FILE, requirement=_TWO), id="requirements"),
        pytest.param(replace(_FILE, pool=_ONE), replace(_FILE, pool=_TWO), id="pools"),
    ],
)
def test_requirements_and_pools_that_differ_clash(first: Topology, second: Topology) -> None:
    """Where the levels are the same the error says what is not."""
    catalog = Catalog([first, replace(second, source="the configuration")])

    assert list(map(str, catalog.clashes)) == [
        (
            'topology "halls" is defined twice, with different node requirements or pools: halls.yaml, '
            "and the configuration. Keep one of them."
        )
    ]


def test_the_older_name_of_a_key_is_the_same_level() -> None:
    """A topology in the older names merges with the same one in the newer ones."""
    old, new = (
        Topology("halls", (level(f"{prefix}.coreweave.cloud/fabric"),), source=prefix) for prefix in ("ib", "backend")
    )

    assert Catalog([new, old]).by_name == {"halls": replace(new, source="backend; ib")}


def test_joining() -> None:
    """The cluster's topologies come after the others; without any, the catalog is the same one."""
    catalog = Catalog([_FILE])
    more = Topology("rows", (_RACK,))

    assert catalog.joined(()) is catalog
    assert list(catalog.joined((more, _OBJECT)).by_name) == ["halls", "rows"]
    assert (catalog.find("rows"), catalog.joined((more,)).find("rows")) == (None, more)
    assert Topology("halls", (_HALL,)).requirement == EVERYTHING


def test_aliases_of_all_definitions_hold() -> None:
    """A level may be called by any alias that a definition gives it; where two differ the cluster's counts."""
    configured = Topology("halls", (level("example.org/hall", "salon"), level("example.org/rack", "rk")))

    merged = Catalog([configured, _OBJECT]).by_name["halls"]

    assert [each.alias for each in merged.levels] == ["room", "rk"]
