"""The room for bodies and calls: who is refused, who makes way, and that everything is given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.http.app import SMALL, Body, NoRoom, Room

_MIB = 1024 * 1024


def _refused(_: NoRoom) -> None:
    raise AssertionError("nobody has to make way")


def _filled(room: Room, size: int, *, complete: bool = False) -> tuple[Body, list[str]]:
    """A body of a size, and what it was refused for so far."""
    told: list[str] = []
    body = Body(room, lambda shortage: told.append(shortage.of))
    body.grow(size)
    if complete:
        body.complete()
    return body, told


def test_a_small_body_makes_the_largest_one_that_is_arriving_make_way() -> None:
    """Who sends large bodies slowly is refused, not who comes with a small one."""
    room = Room(16 * _MIB, 10)
    first, of_first = _filled(room, 7 * _MIB)
    second, of_second = _filled(room, 6 * _MIB)

    third, of_third = _filled(room, 2 * _MIB)

    assert (of_first, of_second, of_third) == (["bytes"], [], [])
    assert (first.size, room.held) == (0, 8 * _MIB)
    for body in (first, second, third):
        body.leave()
    assert (room.held, room.answering) == (0, 0)


def test_who_finds_no_room() -> None:
    """The largest body is refused itself, and an eighth of the room is left for small ones by those being answered."""
    for size, complete, largest in ((7 * _MIB, False, 7 * _MIB), (14 * _MIB, True, SMALL)):
        room = Room(16 * _MIB, 10)
        _filled(room, size, complete=complete)
        body = Body(room, _refused)

        body.grow(largest)
        with pytest.raises(NoRoom) as shortage:
            body.grow(1)

        assert shortage.value.of == "bytes"


def test_a_place_is_taken_by_a_whole_body_only() -> None:
    """Bodies that are arriving take no place, and a place is free again when its call is answered."""
    room = Room(16 * _MIB, 1)
    first, second = [Body(room, _refused) for _ in range(100)][-2:]
    with Body(room, _refused) as body:
        body.complete()
        with pytest.raises(NoRoom) as shortage:
            first.complete()
    second.complete()

    assert (shortage.value.of, room.answering) == ("places", 1)


@given(
    st.lists(st.tuples(st.sampled_from(["new", "grow", "complete", "leave"]), st.integers(0, 9), st.integers(0, 60)))
)
def test_what_is_held_is_bounded_and_given_back(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens, no more is held than there is room for, and nothing is held in the end."""
    room = Room(100, 3)
    bodies: list[Body] = []
    answered: list[Body] = []
    for step, index, count in steps:
        if step == "new" or not bodies:
            bodies.append(Body(room, lambda _: None))
            continue
        body = bodies[index % len(bodies)]
        refused = False
        try:
            if step == "grow":
                body.grow(count)
            elif step == "complete":
                body.complete()
        except NoRoom:
            refused = True
        if refused or step == "leave":
            bodies.remove(body)
            body.leave()
        elif step == "complete":
            bodies.remove(body)
            answered.append(body)
        assert room.held <= room.size
        assert room.answering == len(answered) <= room.places
    for body in (*bodies, *answered):
        body.leave()
    assert (room.held, room.answering) == (0, 0)
