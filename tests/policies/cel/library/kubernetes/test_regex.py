"""Regular expressions. Expected values are those of the Go reference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.regex import LIBRARY, _public, compile_pattern, matcher

REFUSED = [
    ("app(", "a ( is not closed"),
    ("a{1001}", "something is repeated more than 1000 times, or at most less often than at least"),
    ("\\C", "\\C is no escape"),
    ("a**", "a repetition is repeated"),
    ("a)", "a ) closes nothing"),
    ("[a", "a [ is not closed"),
    ("[z-a]", "the range z-a ends before it begins"),
    ("[[:foo:]]", "[:foo:] is no character class"),
    ("\\8", "\\8 is no escape"),
    ("\\", "\\ is no escape"),
    ("(?i", "(? has to be followed by :, P<name> or flags; there is no lookahead or lookbehind"),
    ("(?=a)", "(? has to be followed by :, P<name> or flags; there is no lookahead or lookbehind"),
    ("(?P<n", "the name of a group is of letters, digits and _, as in (?P<name>a)"),
    ("(?P<n-m>a)", "the name of a group is of letters, digits and _, as in (?P<name>a)"),
    ("*a", "nothing stands before *"),
    ("(x{10}){101}", "something is repeated more than 1000 times, or at most less often than at least"),
    ("\\x{110000}", "\\x is no escape"),
    ("\\p{Foo}", "\\p{Foo} is no character class"),
    ("\\p{Foo", "a { is not closed"),
    ("\\p{Old_Italic}", "\\p{Old_Italic} is no character class"),
    ("(?z)", "(? has to be followed by :, P<name> or flags; there is no lookahead or lookbehind"),
]
FOUND: list[tuple[object, ...]] = [
    ("matches", "xabcabd", "ab.", True),
    ("find", "xabcabd", "ab.", "abc"),
    ("findAll", "xabcabd", "ab.", ["abc", "abd"]),
    ("matches", "aéa", "\\B", False),
    ("find", "aéa", "\\B", ""),
    ("findAll", "aéa", "\\B", []),
    ("matches", "éa", "x*", True),
    ("find", "éa", "x*", ""),
    ("findAll", "éa", "x*", ["", "", ""]),
    ("matches", "a.b", "^a\\.b$", True),
    ("find", "a.b", "^a\\.b$", "a.b"),
    ("findAll", "a.b", "^a\\.b$", ["a.b"]),
    ("matches", "ab", "^a\\.b", False),
    ("find", "ab", "^a\\.b", ""),
    ("findAll", "ab", "^a\\.b", []),
    ("matches", "xa.b", "a\\.b$", True),
    ("find", "xa.b", "a\\.b$", "a.b"),
    ("findAll", "xa.b", "a\\.b$", ["a.b"]),
    ("matches", "x", "y", False),
    ("find", "x", "y", ""),
    ("findAll", "x", "y", []),
    ("matches", "", "^$", True),
    ("find", "", "^$", ""),
    ("findAll", "", "^$", [""]),
    ("matches", "a\nb", "a.b", False),
    ("find", "a\nb", "a.b", ""),
    ("findAll", "a\nb", "a.b", []),
    ("matches", "a\nb", "(?s)a.b", True),
    ("find", "a\nb", "(?s)a.b", "a\nb"),
    ("findAll", "a\nb", "(?s)a.b", ["a\nb"]),
    ("matches", "a\n", "a$", False),
    ("find", "a\n", "a$", ""),
    ("findAll", "a\n", "a$", []),
    ("matches", "K", "(?i)k", True),
    ("find", "K", "(?i)k", "K"),
    ("findAll", "K", "(?i)k", ["K"]),
    ("matches", "日本", "\\p{han}", True),
    ("find", "日本", "\\p{han}", "日"),
    ("findAll", "日本", "\\p{han}", ["日", "本"]),
    ("matches", "x+y", "\\Qx+\\E", True),
    ("find", "x+y", "\\Qx+\\E", "x+"),
    ("findAll", "x+y", "\\Qx+\\E", ["x+"]),
    ("matches", "ab", "(?<n>a)(?P<m>b)", True),
    ("find", "ab", "(?<n>a)(?P<m>b)", "ab"),
    ("findAll", "ab", "(?<n>a)(?P<m>b)", ["ab"]),
    ("matches", "aaa", "a{2}?", True),
    ("find", "aaa", "a{2}?", "aa"),
    ("findAll", "aaa", "a{2}?", ["aa"]),
    ("findAll", "aaa", "a", 0, []),
    ("findAll", "aaa", "a", 1, ["a"]),
    ("findAll", "aaa", "a", 2, ["a", "a"]),
    ("findAll", "aaa", "a", 5, ["a", "a", "a"]),
    ("findAll", "aaa", "a", -3, ["a", "a", "a"]),
]


def test_refused() -> None:
    """What Go refuses is refused with the reason, which find() and findAll() put something before."""
    answers = {}
    for pattern, reason in REFUSED:
        message = f"error: error parsing regexp: {reason}: `{pattern}`"
        illegal = message.replace("error: ", "error: Illegal regex: ", 1)
        given = [answer(LIBRARY, name, "a", pattern) for name in ("matches", "find", "findAll")]
        if given != [message, illegal, illegal]:
            answers[pattern] = given
    assert answers == {}


def test_found() -> None:
    """What is found is what Go finds."""
    answers = [answer(LIBRARY, str(name), *arguments) for name, *arguments, _ in FOUND]
    assert dict(zip(map(str, FOUND), answers, strict=True)) == {str(case): case[-1] for case in FOUND}


@given(st.text(), st.text(), st.sampled_from(["", "^"]), st.sampled_from(["", "$"]))
def test_plain_texts(text: str, plain: str, start: str, end: str) -> None:
    """Expressions without operators match as those of the standard library do."""
    pattern = f"{start}{re.escape(plain)}{end.replace('$', chr(92) + 'z')}"
    expected = re.search(pattern.replace("\\z", "\\Z"), text + plain) is not None
    go = f"{start}{''.join(chr(92) + each if each in '.^$*+?()[]{}|' + chr(92) else each for each in plain)}{end}"
    assert matcher(go)(text + plain) is expected


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


def test_no_text(capfd: pytest.CaptureFixture[str]) -> None:
    """What is not a text has no overload, and RE2 writes nothing to stderr."""
    call = LIBRARY.functions[0].call
    assert call is not None
    with pytest.raises(CelError, match=r"^no such overload: matches$"):
        call(1, "a")
    with pytest.raises(CelError):
        compile_pattern("(" * 3 + "x{1000}" * 4000 + ")" * 3)
    assert capfd.readouterr().err == ""


def test_cost() -> None:
    """A search costs by text and expression; the function form of matches() is always 1, as in the reference."""
    assert charged(LIBRARY, "find", "a" * 29, "b" * 19) == 15
    member = LIBRARY.functions[0].overloads[1].cost
    assert callable(member)
    assert member(["a" * 29, "b" * 19], False) == 15  # noqa: FBT003 - the result of the call
    assert LIBRARY.functions[0].cost is None


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "[[:" * 100_000, "(a|" * 100_000, "a" * 100_000, "(?P<a" * 100_000], ids=len
)
def test_hostile_patterns(pattern: str) -> None:
    """A long or nested expression is accepted or refused in time that grows with its length only."""
    answer(LIBRARY, "find", "a" * 100_000, pattern)
