"""What holds after every look, whatever happens in a cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.gangs.stream import Gang, Stream

from policies.topology.placer.placer import Look

_PARTS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 8, 8])), min_size=1, max_size=2)
_LEVELS = st.sampled_from([("rack", ""), ("superpod", ""), ("superpod", "rack"), ("rack", "hostname"), ("", "rack")])
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), _LEVELS, _PARTS),
        st.tuples(st.just("submit"), _LEVELS, _PARTS),
        st.tuples(st.sampled_from(["end", "succeed", "replaced"]), st.integers(0, 20), st.none()),
        st.tuples(st.sampled_from(["lose", "fail", "restart", "bind", "restore"]), st.integers(0, 20), st.none()),
    ),
    max_size=25,
)
_RACKS = st.lists(st.integers(1, 4), min_size=2, max_size=4)


def happen(world: Stream, event: tuple[Any, Any, Any]) -> None:
    """Let an event happen."""
    kind, which, parts = event
    gangs = list(world.gangs.values())
    match kind:
        case "submit":
            world.submit(which[0], which[1], parts)
        case "end" | "succeed" | "replaced" if gangs:
            getattr(world, kind)(gangs[which % len(gangs)])
        case "lose" if world.nodes:
            world.lose(sorted(world.nodes)[which % len(world.nodes)])
        case "restore":
            world.restore()
        case "restart":
            world.restarted()
        case "bind":
            world.bind_some(which)
        case _:
            pass


def placed(world: Stream, gang: Gang) -> bool:
    """Whether a Pod of a gang is bound or opened."""
    return any(world.node_of(name) or world.is_open(name) for name, _, _ in gang.pods() if name in world.pods)


def check_whole(world: Stream, look: Look) -> None:
    """Of a required gang that was not placed yet all Pods are opened, or none."""
    opened = {opening.name for opening in look.openings}
    for gang in world.gangs.values():
        own = {name for name, _, _ in gang.pods() if name in world.pods}
        if gang.level and opened & own and not placed(world, gang):
            assert own <= opened, f"{gang.name}: {sorted(opened & own)} of {sorted(own)}"


def check_together(world: Stream) -> None:
    """All Pods of a required gang are in one domain."""
    for gang in world.gangs.values():
        nodes = {world.node_of(name) for name, _, _ in gang.pods() if name in world.pods} - {""}
        assert not gang.level or len({world.domain_of(gang, node) for node in nodes}) < 2, (gang.name, nodes)


def check_bound(world: Stream) -> None:
    """In whatever order Pods of required gangs are bound, each finds a Node."""
    world.bind_some()
    left = {name for name in world.pods if world.is_open(name) and world.gangs[name.split("-")[0]].level}
    assert left <= world.disturbed, (sorted(left - world.disturbed), world.free())


_NEAR = [
    ("submit", ("", "rack"), [(1, 1)]),
    ("submit", ("", "rack"), [(1, 1), (1, 1)]),
    *(("replaced", 0, None), ("lose", 0, None)),
    ("submit", ("rack", "hostname"), [(3, 4)]),
    *(("replaced", 2, None), ("replaced", 0, None)),
]
"""A Pod of the last gang waits for room on the Node of another one, until the first gang takes it."""


@settings(deadline=None)
@given(_RACKS, _EVENTS, st.integers(0, 1_000_000))
@example([1, 3], _NEAR, 0)
def test_whatever_happens(racks: list[int], events: list[tuple[Any, Any, Any]], seed: int) -> None:
    """Gangs start whole, in one domain, with room for each Pod, and all that fit have their turn."""
    world = Stream(racks, seed)
    for event in events:
        world.now += 1
        happen(world, event)
        before = world.placer
        restarted = Stream.restarted(world)
        world.placer = before
        look, same = before.look(world.now), restarted.look(world.now)
        assert {one.name: one.patch for one in same.openings} == {one.name: one.patch for one in look.openings}
        check_whole(world, look)
        world.carry_out(look, failing=3 if event[0] == "fail" else 0)
        failed = event[0] == "fail"
        again = before.look(world.now)
        # A Pod that only prefers to be near others, of its own gang too, may be let go once it is seen what these take.
        late = {world.gangs[one.name.split("-")[0]] for one in again.openings}
        assert failed or all(not gang.level or (gang.preferred and placed(world, gang)) for gang in late)
        world.carry_out(again)
        check_together(world)
        world.disturbed &= {name for name in world.pods if world.is_open(name)}
        if world.random.random() < 0.4:
            check_bound(world)
            check_together(world)
    check_liveness(world)


def check_liveness(world: Stream) -> None:
    """Once all Nodes are back and what runs ends, every gang that fits into the cluster has its turn."""
    world.restore()
    for gang in [gang for gang in world.gangs.values() if not gang.level]:
        world.end(gang)  # it never waits, and may take the room of others
    for _ in range(3 * len(world.gangs) + 3):
        world.now += 100
        look = world.placer.look(world.now)
        check_whole(world, look)
        world.carry_out(look)
        world.bind_some()
        check_together(world)
        for gang in list(world.gangs.values()):
            if all(name not in world.pods or world.node_of(name) for name, _, _ in gang.pods()):
                world.end(gang)
    left = [gang for gang in world.gangs.values() if world.fits_empty(gang)]
    assert [(gang.name, gang.level, gang.parts) for gang in left] == [], world.placer.look(world.now)
