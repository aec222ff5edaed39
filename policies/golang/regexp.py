r"""Whether Go accepts a regular expression (regexp/syntax's Parse, go1.26).

RE2 in C++ does the matching. It accepts almost the same language, but allows `\C` and refuses some spellings of Unicode
classes. This module reads an expression from left to right, as Go does. Of the syntax tree it keeps only what Go's
rules need: the depth, the number of repetitions, and whether there is something to repeat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from policies.golang.unicodeclass import POSIX_CLASSES, unicode_class

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_NAMED = re.compile(r"\(\?P?<(?=.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_]+")
_HEIGHT, _REPEATS, _SIZE = 1000, 1000, 128 * 2**20 // 40
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})")
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_LARGEST = 0x10FFFF
TOO_LARGE = "the expression is too large"
_WRONG_NAME = "the name of a group is of letters, digits and _, as in (?P<name>a)"
_WRONG_COUNT = "something is repeated more than 1000 times, or at most less often than at least"
_WRONG_FLAGS = "(? has to be followed by :, P<name> or flags; there is no lookahead or lookbehind"


class RegexError(ValueError):
    """Go refuses the expression. The text says why."""


@dataclass(slots=True)
class _Item:
    """A piece of an expression: its nesting depth, its repetitions, and its size in compiled instructions."""

    height: int = 1
    repeats: int = 1
    size: int = 1


@dataclass(slots=True)
class _Group:
    """A group that is still open. last: the piece that a repetition would apply to."""

    captures: bool = True
    last: _Item | None = None
    height: int = 0
    repeats: int = 1
    size: int = 0
    pieces: int = 0
    branches: int = 0

    def push(self, item: _Item) -> None:
        self.take()
        self.last = item
        self.pieces += 1

    def take(self) -> None:
        """Add the last piece to the group. A repetition can no longer apply to it."""
        if self.last:
            self.height = max(self.height, self.last.height)
            self.repeats = max(self.repeats, self.last.repeats)
            self.size += self.last.size
        self.last = None

    def branch(self) -> None:
        self.take()
        self.branches += 1
        self.size += 1

    def closed(self) -> _Item:
        self.take()
        height = max(1, self.height) + (self.pieces > 1 + self.branches) + (self.branches > 0)
        return _Item(height + self.captures, self.repeats, self.size + 2 * self.captures)


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    groups: list[_Group] = field(default_factory=lambda: [_Group(captures=False)])
    repetition: bool = False  # whether the piece just before is a repetition
    named_classes: bool = True  # whether a named class may still follow
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def read(self) -> str:
        """The same expression in RE2's spelling. Raises RegexError."""
        text = self.text
        while self.at < len(text):
            after_repetition, self.repetition = self.repetition, False
            self.step(text[self.at], after_repetition=after_repetition)
        if len(self.groups) > 1:
            raise RegexError("a ( is not closed")
        self.limit(self.groups[0].closed())
        return self.edited()

    def step(self, sign: str, *, after_repetition: bool) -> None:
        match sign:
            case "(":
                self.open()
            case ")":
                self.close()
            case "|":
                self.groups[-1].branch()
                self.at += 1
            case "[":
                self.push(self.character_class())
            case "*" | "+" | "?":
                self.repeat(self.at + 1, 1, after_repetition=after_repetition)
            case "{":
                self.count(after_repetition=after_repetition)
            case "\\":
                self.escape()
            case _:
                self.push(self.at + 1)

    def push(self, end: int) -> None:
        self.groups[-1].push(_Item())
        self.at = end

    def open(self) -> None:
        if not self.text.startswith("(?", self.at):
            self.groups.append(_Group())
            self.at += 1
            return
        named = _NAMED.match(self.text, self.at)
        if named:
            self.named(named.end())
        else:
            self.flags()

    def named(self, start: int) -> None:
        end = self.text.find(">", self.at)
        if end < 0 or not _NAME.fullmatch(self.text, start, end):
            raise RegexError(_WRONG_NAME)
        self.groups.append(_Group())
        self.at = end + 1

    def flags(self) -> None:
        """Read `(?i)`, `(?i-s:` or `(?:`."""
        negative = flagged = False
        for index in range(self.at + 2, len(self.text)):
            sign = self.text[index]
            if sign in "imsU":
                flagged = True
            elif sign == "-" and not negative:
                negative, flagged = True, False
            elif sign in ":)" and (flagged or not negative):
                if sign == ":":
                    self.groups.append(_Group(captures=False))
                self.at = index + 1
                return
            else:
                break
        raise RegexError(_WRONG_FLAGS)

    def close(self) -> None:
        if len(self.groups) == 1:
            raise RegexError("a ) closes nothing")
        item = self.groups.pop().closed()
        self.limit(item)
        self.groups[-1].push(item)
        self.at += 1

    def count(self, *, after_repetition: bool) -> None:
        count = _REPEAT.match(self.text, self.at)
        if not count:
            self.push(self.at + 1)
            return
        least, most = _number(count[1]), _number(count[3] or count[1])
        if least > _REPEATS or most > _REPEATS or most < least:
            raise RegexError(_WRONG_COUNT)
        endless = count[2] is not None and count[3] is None
        times = least if endless else most
        self.repeat(count.end(), times, after_repetition=after_repetition, counted=endless or most > 0)
        item = self.groups[-1].last
        if item and item.repeats > _REPEATS and times >= 2:
            raise RegexError(_WRONG_COUNT)

    def repeat(self, end: int, times: int, *, after_repetition: bool, counted: bool = True) -> None:
        if self.text.startswith("?", end):
            end += 1
        if after_repetition:
            raise RegexError("a repetition is repeated")
        item = self.groups[-1].last
        if item is None:
            raise RegexError(f"nothing stands before {self.text[self.at]}")
        repeats = item.repeats * max(times, 1) if counted else 1
        self.groups[-1].last = _Item(item.height + 1, repeats, item.size * max(times, 1) + 1)
        self.limit(self.groups[-1].last)
        self.repetition, self.at = True, end

    def limit(self, item: _Item) -> None:
        if item.size > _SIZE:
            raise RegexError(TOO_LARGE)
        if item.height > _HEIGHT:
            raise RegexError("the expression is nested too deeply")

    def escape(self) -> None:
        kind = self.text[self.at + 1 : self.at + 2]
        if kind == "Q":
            stop = _closing(self.text, "\\E", self.at + 2)
            for _ in range(self.at + 2, len(self.text) if stop is None else stop - 2):
                self.groups[-1].push(_Item())
            self.at = stop or len(self.text)
        elif kind == "C":
            raise RegexError(r"\C is no escape")
        elif kind and kind in "AbBz":
            self.push(self.at + 2)
        else:
            end = self.class_escape(self.at)
            self.push(_escape_end(self.text, self.at)[1] if end is None else end)

    def class_escape(self, at: int) -> int | None:
        r"""The end of a class such as `\d`, `\pL` or `\p{Greek}`; None if none starts here."""
        kind = self.text[at + 1 : at + 2] if self.text.startswith("\\", at) else ""
        if kind and kind in "dDsSwW":
            return at + 2
        if not kind or kind not in "pP":
            return None
        end = at + 3
        if self.text.startswith("{", at + 2):
            end = self.text.find("}", at) + 1
            if end == 0:
                raise RegexError("a { is not closed")
        name = self.text[at + 2 : end].removeprefix("{").removesuffix("}")
        spelled = unicode_class(name)
        if spelled is None:
            raise RegexError(f"{self.text[at:end]} is no character class")
        if spelled != name:
            self.edits.append((at + 2, end, f"{{{spelled}}}"))
        return end

    def character_class(self) -> int:
        """The end of the class that starts here."""
        text, at = self.text, self.at + 1
        if text.startswith("^", at):
            at += 1
        first = True
        while first or not text.startswith("]", at):
            first = False
            at = self.named_class(at) or self.class_escape(at) or self.character_range(at)
        return at + 1

    def named_class(self, at: int) -> int | None:
        if not self.named_classes or not self.text.startswith("[:", at):
            return None
        end = _closing(self.text, ":]", at + 2)
        if end is None:
            self.named_classes = False  # the rest has none either: do not search it again
            return None
        if self.text[at:end] not in POSIX_CLASSES:
            raise RegexError(f"{self.text[at:end]} is no character class")
        return end

    def character_range(self, at: int) -> int:
        low, end = self.class_character(at)
        if self.text.startswith("-", end) and end + 1 < len(self.text) and self.text[end + 1] != "]":
            high, end = self.class_character(end + 1)
            if high < low:
                raise RegexError(f"the range {self.text[at:end]} ends before it begins")
        return end

    def class_character(self, at: int) -> tuple[int, int]:
        if at >= len(self.text):
            raise RegexError("a [ is not closed")
        if self.text[at] == "\\":
            return _escape_end(self.text, at)
        return ord(self.text[at]), at + 1

    def edited(self) -> str:
        parts, at = [], 0
        for start, end, new in self.edits:
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 9 else 10**9


def _closing(text: str, sign: str, at: int) -> int | None:
    """The end of the next closing sign from `at` on; None if there is none."""
    start = text.find(sign, at)
    return None if start < 0 else start + len(sign)


def _escape_end(text: str, at: int) -> tuple[int, int]:
    """The character that the escape at `at` stands for, and where the escape ends. Raises RegexError."""
    kind = text[at + 1 : at + 2]
    if octal := _OCTAL.match(text, at + 1):
        return int(octal[0], 8), octal.end()
    if hexadecimal := _HEX.match(text, at + 1):
        value = int(hexadecimal[1] or hexadecimal[2], 16)
        if value <= _LARGEST:
            return value, hexadecimal.end()
    elif kind in _CONTROLS:
        return _CONTROLS[kind], at + 2
    elif kind and kind.isascii() and not kind.isalnum():
        return ord(kind), at + 2
    raise RegexError(f"\\{kind} is no escape")


def to_re2(pattern: str) -> str:
    """The expression in RE2's spelling. Raises RegexError if Go refuses it."""
    return _Reader(pattern).read()
