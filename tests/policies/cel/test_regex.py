"""Regular expressions. Expected values are those of the Go reference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.celrun import Failed, usually

from policies.cel.library.regex import _public, compile_pattern
from policies.cel.values import CelError

REFUSED = [
    ("app(", "missing ): app("),
    ("a{1001}", "invalid repetition size: {1001}"),
    ("[z-a]", "invalid character class range: z-a"),
    ("(?=a)", "invalid perl operator: (?="),
    ("\\8", "invalid escape sequence: \\8"),
    (r"\pL{20}", "pattern too large - compile failed (repeat less, or compare size() instead)"),
    ("a" * 10_001, "it has 10001 characters, and may have 10000"),
]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_refused(pattern: str, reason: str) -> None:
    """What RE2 refuses is refused with its reason, which find() and findAll() put something before."""
    failed = f"error parsing regexp: {reason}"
    calls = (f"'a'.{name}(object.p)" for name in ("matches", "find", "findAll"))
    assert [usually(call, {"p": pattern})[0] for call in calls] == [
        Failed(failed),
        Failed(f"Illegal regex: {failed}"),
        Failed(f"Illegal regex: {failed}"),
    ]


@given(st.text(), st.text(), st.sampled_from(["", "^"]), st.sampled_from(["", "$"]))
def test_plain_texts(text: str, plain: str, start: str, end: str) -> None:
    """Expressions without operators match as those of the standard library do."""
    pattern = f"{start}{re.escape(plain)}{end.replace('$', chr(92) + 'Z')}"
    expected = re.search(pattern, text + plain) is not None
    go = f"{start}{''.join(chr(92) + each if each in '.^$*+?()[]{}|' + chr(92) else each for each in plain)}{end}"
    assert compile_pattern(go).matches(text + plain) is expected


def test_without_the_raw_object() -> None:
    """The package's public functions, used where its private object is missing, find the same places."""
    search, matches = _public("b[c-e]+")
    assert (matches("abcd"), matches("ab")) == (True, False)
    assert [search(b"abcd bc", start) for start in (0, 3, 6)] == [(1, 4), (5, 7), None]


def test_lone_surrogates() -> None:
    """A lone surrogate counts as U+FFFD, as it would after Go's decoding of JSON."""
    assert compile_pattern("a.b").matches("a\ud800b") is True
    assert compile_pattern(".").find_all("\ud800\udfff") == ["\ufffd", "\ufffd"]
    assert compile_pattern("\ud800+").find("a\ufffd") == "\ufffd"


def test_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2 writes nothing to stderr."""
    with pytest.raises(CelError):
        compile_pattern("(")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "[[:" * 100_000, "(a|" * 100_000, "a" * 100_000, "(?P<a" * 100_000], ids=len
)
def test_hostile_patterns(pattern: str) -> None:
    """A long or nested expression is accepted or refused in time that grows with its length only."""
    usually("object.t.find(object.p)", {"t": "a" * 100_000, "p": pattern})
