"""Objects of a reflector, one by one."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from webhook.cluster.api.objects import Metadata, Object, name_of
from webhook.cluster.placer.follower import Entries
from webhook.cluster.watches.reflector import PageSink


class _Shelf:
    """Keeps the names of objects, and takes none that is called bad."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.entries = Entries(name_of, self.put, self.names.discard)

    def put(self, item: Object) -> None:
        """Keep an object."""
        if item.metadata.name == "bad":
            raise ValueError("it is bad")
        self.names.add(item.metadata.name)


@pytest.fixture
def shelf() -> _Shelf:
    """An empty one."""
    return _Shelf()


def named(*names: str) -> list[Object]:
    """Objects."""
    return [Object(Metadata(name)) for name in names]


def test_a_list_comes_in_pages(shelf: _Shelf) -> None:
    """What a page has is there at once, and what no page had goes with the last one."""
    shelf.entries.begin()
    shelf.entries.page(named("a", "b"))
    shelf.entries.complete()
    shelf.entries.begin()
    shelf.entries.page(named("b"))
    shelf.entries.page(named("c"))

    assert shelf.names == {"a", "b", "c"}
    shelf.entries.complete()
    assert shelf.names == {"b", "c"}


def test_a_list_that_breaks_off_removes_nothing(shelf: _Shelf) -> None:
    """What was known stays, also through the next list, which is whole."""
    shelf.entries.begin()
    shelf.entries.page(named("a", "b"))
    shelf.entries.complete()
    shelf.entries.begin()
    shelf.entries.page(named("c"))
    shelf.entries.begin()
    shelf.entries.page(named("a"))

    assert shelf.names == {"a", "b", "c"}
    shelf.entries.complete()
    assert shelf.names == {"a"}


def test_events(shelf: _Shelf) -> None:
    """Objects come and go one by one, and what is gone may go again."""
    added, gone = named("a", "b")
    shelf.entries.changed("ADDED", added)
    shelf.entries.changed("MODIFIED", gone)
    shelf.entries.changed("DELETED", gone)
    shelf.entries.changed("DELETED", gone)

    assert shelf.names == {"a"}


def test_a_malformed_object_affects_no_other(shelf: _Shelf) -> None:
    """It is named in the log, and the rest of the page is taken."""
    with capture_logs() as logs:
        shelf.entries.page(named("a", "bad", "c"))

    assert shelf.names == {"a", "c"}
    assert [(log["event"], log["key"], log["reason"]) for log in logs] == [("object skipped", "bad", "it is bad")]


def test_it_takes_pages(shelf: _Shelf) -> None:
    """A reflector gives it pages, not whole lists."""
    assert isinstance(shelf.entries, PageSink)
