from __future__ import annotations

from webhook.cluster.watches.reflector import Cache

Item = tuple[str, int]


def cache() -> Cache[Item, str, int]:
    """Keeps numbers by name, and no zeros."""
    return Cache(lambda item: item[0], lambda item: item[1] or None)


def test_a_list_replaces_everything() -> None:
    """After a list nothing is known that is not in it; objects without a value of interest are left out."""
    known = cache()
    known.replace([("a", 1), ("b", 2)])
    before = known.values
    known.replace([("b", 3), ("c", 0)])

    assert (known.by_key, known.values, before) == ({"b": 3}, (3,), (1, 2))


def test_events_change_one_object() -> None:
    """Each event adds, changes or removes what it is about, also where it was not known."""
    known = cache()
    known.changed("ADDED", ("a", 1))
    known.changed("MODIFIED", ("a", 2))
    known.changed("MODIFIED", ("b", 3))
    known.changed("DELETED", ("unknown", 4))
    assert (known.by_key, known.values) == ({"a": 2, "b": 3}, (2, 3))

    known.changed("MODIFIED", ("a", 0))
    known.changed("DELETED", ("b", 3))
    assert (known.by_key, known.values) == ({}, ())


def test_values_are_the_same_until_they_change() -> None:
    """An event that changes nothing of interest makes no new sequence, and an old sequence never changes."""
    known = cache()
    known.replace([("a", 1)])
    before = known.values
    known.changed("MODIFIED", ("a", 1))
    assert known.values is before

    known.changed("MODIFIED", ("a", 2))
    assert (before, known.values) == ((1,), (2,))
