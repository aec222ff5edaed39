"""Regular expressions: `matches`, `find` and `findAll`.

Sources: cel-go's common/types/string.go (matches), k8s.io/apiserver's pkg/cel/library/regex.go, Go's regexp. RE2 does
the matching, in linear time as in Go. Most expressions of policies are a plain text, perhaps with `^` before or `$`
after it. Python's string methods find these several times faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, cast

import re2  # type: ignore[import-untyped]  # the package has no type information

from policies.cel.cost import of_match
from policies.cel.environment import library
from policies.cel.values import CelError, Value, lacking, no_such_overload
from policies.engine.interruption import spend
from policies.golang.strconv import clean, utf8

_CACHED = 64
LONGEST = 10_000
"""The most characters of an expression. RE2 takes 20 ms to read so many brackets."""
_MEMORY = 256 * 2**10
"""The bytes that RE2 may use for an expression and what it remembers of searches: some 10,000 instructions, which it
compiles in 20 ms. Of all expressions in tests and packs none has more than 1,201."""
_COMPILATION = 3_000  # microseconds, after which the clock is looked at
_MOST = 60e6  # microseconds, of a search
_MOST_BYTES = 2 * 10**9
"""The bytes that all searches of a findAll may pass over. Each may read to the end of the text, however short its match
is: there may be 4,000 matches in 1 MB, and any number in 60 KB."""
_LITERAL = re.compile(r"(\^?)((?:[^\\.+*?()|\[\]{}^$]|\\[!-/:-@\[-`{-~])*)(\$?)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Search = Callable[[bytes, int], tuple[int, int] | None]
Matcher = Callable[[str], bool]


class _Raw(Protocol):
    """RE2 without the package's Python layer, whose search takes five times as long."""

    def ok(self) -> bool: ...
    def error(self) -> bytes: ...
    def ProgramSize(self) -> int: ...  # noqa: N802
    def Match(self, anchor: object, text: bytes, start: int, end: int) -> list[tuple[int, int]]: ...  # noqa: N802


class Pattern:
    """A compiled expression."""

    __slots__ = ("_plain", "_search", "matches")

    def __init__(self, search: Search, matches: Matcher, plain: str | None) -> None:
        self._search = search
        self._plain = plain  # the text of every match, if it is always the same
        self.matches = matches
        """Returns whether the expression matches anywhere in a text."""

    def find(self, text: str) -> str:
        """The text of the first match, or "" without a match."""
        if self._plain is not None:
            return self._plain if self.matches(text) else ""
        raw = utf8(text)
        span = self._search(raw, 0)
        return "" if span is None else raw[span[0] : span[1]].decode(errors="replace")

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The texts of all matches that do not overlap, from left to right. limit: the most matches; negative for all.

        Skips an empty match right after another match (Go's FindAllString).
        """
        raw, places, at, before, left = utf8(text), list[str](), 0, -1, _MOST_BYTES
        while at <= len(raw) and len(places) != limit:
            left -= len(raw) - at
            if left < 0:
                raise CelError("the text is too long to be searched for so many matches")
            span = self._search(raw, at)
            if span is None:
                break
            start, end = span
            if end > at or start != before:
                places.append(raw[start:end].decode(errors="replace"))
            at = end if end > at else _next(raw, at)
            before = end
        return places


def _next(raw: bytes, at: int) -> int:
    """The start of the character after the one at `at`."""
    at += 1
    while at < len(raw) and raw[at] & 0xC0 == 0x80:
        at += 1
    return at


@lru_cache(_CACHED)
def compile_pattern(text: str) -> Pattern:
    """The compiled expression. Raises CelError if it is invalid or too large."""
    if len(text) > LONGEST:
        raise CelError(f"error parsing regexp: it has {len(text)} characters, and may have {LONGEST}")
    text = clean(text)
    spend(_COMPILATION)
    try:
        private = getattr(getattr(re2, "_re2", None), "RE2", None)
        search, matches = _public(text) if private is None else _private(private, text)
        if "\\B" in text:
            search = _between_characters(search)
            matches = _matching(search)
    except ValueError as error:
        hint = " (repeat less, or compare size() instead)" if "too large" in str(error) else ""
        raise CelError(f"error parsing regexp: {error}{hint}") from None
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return Pattern(search, matches, None)
    plain = _ESCAPED.sub(r"\1", literal[2])
    return Pattern(search, _comparing(literal[1], plain, literal[3]), plain)


def _comparing(start: str, plain: str, end: str) -> Matcher:
    match start, end:
        case "^", "$":
            return plain.__eq__
        case "^", _:
            return lambda searched: searched.startswith(plain)
        case _, "$":
            return lambda searched: searched.endswith(plain)
        case _:
            return lambda searched: plain in searched


def _matching(search: Search) -> Matcher:
    def matches(text: str) -> bool:
        return search(utf8(text), 0) is not None

    return matches


def _between_characters(search: Search) -> Search:
    r"""A search without empty matches inside of characters. RE2 matches `\B` there, but Go does not."""

    def checked(raw: bytes, start: int) -> tuple[int, int] | None:
        while (span := search(raw, start)) and span[0] < len(raw) and raw[span[0]] & 0xC0 == 0x80:
            start = _next(raw, span[0])
        return span

    return checked


def _private(private: Callable[[bytes, object], _Raw], pattern: str) -> tuple[Search, Matcher]:
    compiled = private(pattern.encode(), _options())
    if not compiled.ok():
        raise ValueError(compiled.error().decode(errors="replace"))
    match, anywhere = compiled.Match, cast("object", re2._Anchor.UNANCHORED)  # noqa: SLF001 - as the package does
    per_byte = _per_byte(compiled.ProgramSize())
    enough, waiting = 1_000 / per_byte, 0  # bytes

    def search(raw: bytes, start: int) -> tuple[int, int] | None:
        _announce((len(raw) - start) * per_byte)
        span = match(anywhere, raw, start, len(raw))[0]
        return None if span[0] < 0 else span

    def matches(text: str) -> bool:  # policies call this for every container, so it has no further layer
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raw = utf8(text)
        nonlocal waiting
        waiting += len(raw)
        if waiting > enough:
            length, waiting = waiting, 0
            _announce(length * per_byte)
        return match(anywhere, raw, 0, len(raw))[0][0] >= 0

    return search, matches


def _public(pattern: str) -> tuple[Search, Matcher]:
    try:
        compiled = re2.compile(pattern.encode(), _options())
    except re2.error as error:
        raise ValueError(str(error)) from None
    per_byte = _per_byte(compiled.programsize)

    def search(raw: bytes, start: int) -> tuple[int, int] | None:
        _announce((len(raw) - start) * per_byte)
        match = compiled.search(raw, start)
        return None if match is None else match.span()

    return search, _matching(search)


def _per_byte(instructions: int) -> float:
    """The microseconds that RE2 may need for a byte of text, where it has to follow many instructions at once."""
    return 0.04 * min(instructions, 50) + 0.005 * max(instructions - 50, 0)


def _announce(work: float) -> None:
    """Say how long searches may take. Raises CelError beyond all bounds, which only large expressions come to."""
    if work > _MOST:
        raise CelError("the text is too long to be searched for so large a regular expression")
    spend(work)


def _options() -> object:
    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    options.never_capture = True  # only the whole match counts
    options.max_mem = _MEMORY
    return options


def _matches(text: Value, pattern: Value) -> bool:
    if text.__class__ is not str:
        raise lacking("matches", text)
    if pattern.__class__ is not str:
        raise no_such_overload()
    return compile_pattern(pattern).matches(text)


def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except CelError as error:
        raise CelError(f"Illegal regex: {error.message}") from None


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _compiled(pattern).find_all(text, limit)


LIBRARY = library(
    "kubernetes.regex",
    ("matches: matches(string, string) -> bool", None, of_match),
    ("matches_string: string.matches(string) -> bool", None, of_match),
    (
        "string_find_string: string.find(string) -> string",
        lambda text, pattern: _compiled(pattern).find(text),
        of_match,
    ),
    ("string_find_all_string: string.findAll(string) -> list(string)", _find_all, of_match),
    ("string_find_all_string_int: string.findAll(string, int) -> list(string)", _find_all, of_match),
    calls={"matches": _matches},
    patterns=("matches", "find", "findAll"),
)
