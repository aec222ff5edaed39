r"""Whether a regular expression is one for Go, and Go's message if not (regexp/syntax's Parse, go1.26).

RE2 in C++, which does the matching, accepts almost the same language but words its errors differently, takes `\C`
and refuses other spellings of Unicode classes. This reads an expression from left to right as Go does and keeps of
the tree only what its rules need: how deep, how often repeated, whether there is something to repeat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from policies.golang.regexescape import RegexError, closing, escape_end
from policies.golang.unicodeclass import POSIX_CLASSES, unicode_class

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_NAMED = re.compile(r"\(\?P?<(?=.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_]+")
_HEIGHT, _REPEATS, _SIZE = 1000, 1000, 128 * 2**20 // 40
_INVALID_GROUP = "invalid or unsupported Perl syntax"
_INVALID_RANGE = "invalid character class range"


@dataclass(slots=True)
class _Item:
    """A piece of an expression: nested how deep, repeated how often in itself, compiled to how many instructions."""

    height: int = 1
    repeats: int = 1
    size: int = 1


@dataclass(slots=True)
class _Group:
    """What is known of a group that is still open; `last` is what a repetition would apply to."""

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
        """Nothing can be repeated any more."""
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
    repetition: int | None = None  # where the repetition just before starts
    named_classes: bool = True  # whether one may still come
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def read(self) -> str:
        """The same expression in RE2's spelling. Raises RegexError."""
        text = self.text
        while self.at < len(text):
            before, self.repetition = self.repetition, None
            self.step(text[self.at], before)
        if len(self.groups) > 1:
            raise RegexError("missing closing )", text)
        self.limit(self.groups[0].closed())
        return self.edited()

    def step(self, sign: str, before: int | None) -> None:
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
                self.repeat(self.at + 1, 1, before)
            case "{":
                self.count(before)
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
        if end < 0:
            raise RegexError("invalid named capture", self.text[self.at :])
        if not _NAME.fullmatch(self.text, start, end):
            raise RegexError("invalid named capture", self.text[self.at : end + 1])
        self.groups.append(_Group())
        self.at = end + 1

    def flags(self) -> None:
        """`(?i)`, `(?i-s:`, `(?:`: the expression that a wrong one shows ends with the first wrong character."""
        negative = seen = False
        for index in range(self.at + 2, len(self.text)):
            sign = self.text[index]
            if sign in "imsU":
                seen = True
            elif sign == "-" and not negative:
                negative, seen = True, False
            elif sign in ":)" and (seen or not negative):
                if sign == ":":
                    self.groups.append(_Group(captures=False))
                self.at = index + 1
                return
            else:
                raise RegexError(_INVALID_GROUP, self.text[self.at : index + 1])
        raise RegexError(_INVALID_GROUP, self.text[self.at :])

    def close(self) -> None:
        if len(self.groups) == 1:
            raise RegexError("unexpected )", self.text)
        item = self.groups.pop().closed()
        self.limit(item)
        self.groups[-1].push(item)
        self.at += 1

    def count(self, before: int | None) -> None:
        found = _REPEAT.match(self.text, self.at)
        if not found:
            self.push(self.at + 1)
            return
        least, most = _number(found[1]), _number(found[3] or found[1])
        if least > _REPEATS or most > _REPEATS or most < least:
            raise RegexError("invalid repeat count", found[0])
        endless = found[2] is not None and found[3] is None
        times = least if endless else most
        self.repeat(found.end(), times, before, counted=endless or most > 0)
        item = self.groups[-1].last
        if item and item.repeats > _REPEATS and times >= 2:
            raise RegexError("invalid repeat count", self.text[found.start() : self.at])

    def repeat(self, end: int, times: int, before: int | None, *, counted: bool = True) -> None:
        start = self.at
        if self.text.startswith("?", end):
            end += 1
        if before is not None:
            raise RegexError("invalid nested repetition operator", self.text[before:end])
        item = self.groups[-1].last
        if item is None:
            raise RegexError("missing argument to repetition operator", self.text[start:end])
        repeats = item.repeats * max(times, 1) if counted else 1
        self.groups[-1].last = _Item(item.height + 1, repeats, item.size * max(times, 1) + 1)
        self.limit(self.groups[-1].last)
        self.repetition, self.at = start, end

    def limit(self, item: _Item) -> None:
        if item.size > _SIZE:
            raise RegexError("expression too large", self.text)
        if item.height > _HEIGHT:
            raise RegexError("expression nests too deeply", self.text)

    def escape(self) -> None:
        kind = self.text[self.at + 1 : self.at + 2]
        if kind == "Q":
            stop = closing(self.text, "\\E", self.at + 2)
            for _ in range(self.at + 2, len(self.text) if stop is None else stop - 2):
                self.groups[-1].push(_Item())
            self.at = stop or len(self.text)
        elif kind == "C":
            raise RegexError("invalid escape sequence", "\\C")
        elif kind and kind in "AbBz":
            self.push(self.at + 2)
        else:
            end = self.class_escape(self.at)
            self.push(escape_end(self.text, self.at)[1] if end is None else end)

    def class_escape(self, at: int) -> int | None:
        r"""Where `\d`, `\pL` or `\p{Greek}` ends; None if there is none."""
        kind = self.text[at + 1 : at + 2] if self.text.startswith("\\", at) else ""
        if kind and kind in "dDsSwW":
            return at + 2
        if not kind or kind not in "pP":
            return None
        end = at + 3
        if self.text.startswith("{", at + 2):
            end = self.text.find("}", at) + 1
            if end == 0:
                raise RegexError(_INVALID_RANGE, self.text[at:])
        name = self.text[at + 2 : end].removeprefix("{").removesuffix("}")
        spelled = unicode_class(name)
        if spelled is None:
            raise RegexError(_INVALID_RANGE, self.text[at:end])
        if spelled != name:
            self.edits.append((at + 2, end, f"{{{spelled}}}"))
        return end

    def character_class(self) -> int:
        """Where the class ends that starts here."""
        text, start = self.text, self.at
        at = start + 2 if text.startswith("^", start + 1) else start + 1
        first = True
        while first or not text.startswith("]", at):
            first = False
            at = self.named_class(at) or self.class_escape(at) or self.character_range(at, start)
        return at + 1

    def named_class(self, at: int) -> int | None:
        if not self.named_classes or not self.text.startswith("[:", at):
            return None
        end = closing(self.text, ":]", at + 2)
        if end is None:
            self.named_classes = False  # there is no other one either: no need to look again
            return None
        if self.text[at:end] not in POSIX_CLASSES:
            raise RegexError(_INVALID_RANGE, self.text[at:end])
        return end

    def character_range(self, at: int, start: int) -> int:
        low, end = self.class_character(at, start)
        if self.text.startswith("-", end) and end + 1 < len(self.text) and self.text[end + 1] != "]":
            high, end = self.class_character(end + 1, start)
            if high < low:
                raise RegexError(_INVALID_RANGE, self.text[at:end])
        return end

    def class_character(self, at: int, start: int) -> tuple[int, int]:
        if at >= len(self.text):
            raise RegexError("missing closing ]", self.text[start:])
        if self.text[at] == "\\":
            return escape_end(self.text, at)
        return ord(self.text[at]), at + 1

    def edited(self) -> str:
        parts, at = [], 0
        for start, end, new in self.edits:
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 9 else 10**9


def to_re2(pattern: str) -> str:
    """The expression as RE2 has it. Raises RegexError with Go's message for one that Go refuses."""
    return _Reader(pattern).read()
