"""The names that levels may be called by, and their order."""

from __future__ import annotations

from policies.topology.topology import BUILT_IN, NVLINK, Topology, level

_ROOM, _ROW = level("example.org/hall", "room"), level("example.org/row")
_NORTH, _SOUTH = level("north.example.org/rack"), level("south.example.org/rack")
_HALLS = Topology("halls", (_ROOM, _ROW, _NORTH, _SOUTH))


def test_a_level_by_each_of_its_names() -> None:
    """Key, short name and alias name a level, unless several share a short name."""
    named = {name: _HALLS.find(name) for name in ("example.org/hall", "hall", "room", "row", "rack", "x")}

    assert named == {
        "example.org/hall": _ROOM,
        "hall": _ROOM,
        "room": _ROOM,
        "row": _ROW,
        "rack": None,
        "x": None,
    }
    assert (_HALLS.ambiguous("rack"), _HALLS.ambiguous("row")) == ((_NORTH, _SOUTH), ())


def test_what_levels_are_called() -> None:
    """A level is called by its alias, else by its short name, else by its key; the sentence has all in order."""
    assert _HALLS.in_order == (
        'Levels of topology "halls", farthest first: room, row, north.example.org/rack, south.example.org/rack.'
    )
    assert _HALLS.names == (
        *("room", "row", "north.example.org/rack", "south.example.org/rack"),
        *("hall", "example.org/hall", "example.org/row"),
    )


def test_an_alias_comes_before_the_short_name_of_another_level() -> None:
    """What a topology says itself counts; the other level is called by its key."""
    far, near = level("example.org/hall", "row"), level("example.org/row")
    topology = Topology("rows", (far, near))

    assert (topology.find("row"), topology.called(near)) == (far, "example.org/row")


def test_what_is_nearer_and_what_is_farther() -> None:
    """Levels know their neighbours; below nothing are all of them."""
    assert (_HALLS.position(_ROW), _HALLS.above(_ROW), _HALLS.below(_ROW)) == (1, (_ROOM,), (_NORTH, _SOUTH))
    assert (_HALLS.below(None), _HALLS.below(_SOUTH), _HALLS.above(_ROOM)) == (_HALLS.levels, (), ())


def test_the_place_of_the_nvlink_domain() -> None:
    """It stands where the clique does, and takes no name from the levels that it is made of."""
    (topology,) = (each for each in BUILT_IN if each.name == "topograph-nvlink")
    accelerator, domain, clique, hostname = topology.levels[-4:]

    assert topology.find("nvlink") is NVLINK
    assert (topology.find("gpu.clique"), topology.find("nvidia.com/gpu.clique")) == (clique, clique)
    assert (topology.find("accelerator"), topology.find("nvl-domain")) == (accelerator, domain)
    assert (topology.position(NVLINK), topology.below(NVLINK)) == (topology.position(clique), (hostname,))
