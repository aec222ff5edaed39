"""The file by which an interrupted audit goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.audit.journal import Asked, Entry, Journal, JournalError

_ASKED = Asked("https://there", ("a",), (), ("labels",), "json")


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """A line that was not written to its end does not count, and the next one stands in its place."""
    path = tmp_path / "progress"
    with Journal(str(path), _ASKED) as journal:
        journal.add(Entry("/api/v1/pods", "t", "a/x", 3, counts={"objects": 3}))
    path.write_bytes(path.read_bytes() + b'{"list":"/api/')

    with Journal(str(path), _ASKED) as journal:
        before = journal.entries
        journal.add(Entry("/api/v1/pods", ended=True))
    with Journal(str(path), _ASKED) as journal:
        after = journal.entries

    assert before == (Entry("/api/v1/pods", "t", "a/x", 3, counts={"objects": 3}),)
    assert after == (*before, Entry("/api/v1/pods", ended=True))


def test_another_audit_is_refused(tmp_path: Path) -> None:
    """The file of an audit of something else is not gone on with, and stays as it is."""
    path = tmp_path / "progress"
    with Journal(str(path), _ASKED):
        pass
    content = path.read_bytes()

    with pytest.raises(JournalError, match="the file of an audit with other namespaces; ask for the same"):
        Journal(str(path), Asked("https://there", ("b",), (), ("labels",), "json"))
    assert path.read_bytes() == content


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """A file that is none of an audit is not overwritten."""
    path = tmp_path / "notes"
    path.write_text("notes\n", encoding="utf-8")

    with pytest.raises(JournalError, match="not the file of an audit"):
        Journal(str(path), _ASKED)
    assert path.read_text(encoding="utf-8") == "notes\n"
