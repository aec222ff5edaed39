"""Violations, the text in which people read them, and where that is explained.

A refusal has several lines: a summary, one indented line per place, then the remedies. A warning has one line. Both
are bounded, whatever an object holds: the first violations of each rule are shown, and how many more there are.

A section of the pages for the refused quotes messages as people see them, with an ellipsis for what differs from case
to case. So one list serves both who pastes a message and the service, whose refusals end with the address of the
section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, count, islice
from json import dumps
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422, "InternalError": 500}


class Status(Struct, frozen=True):
    """The reason of a refusal, and the HTTP code of the answer: the reason's own nearly always."""

    reason: str
    code: int


FORBIDDEN = Status("Forbidden", CODES["Forbidden"])


T = TypeVar("T")

Verdict = Literal["deny", "warn", "audit", ""]

# Warnings are sent as HTTP headers. The API documentation asks for 120 characters at most, and a warning with a control
# character gets lost.
WARNING_LENGTH = 120
# The API server cuts the warnings of an answer at 4096 characters in total; 24 full ones stay below that.
WARNING_COUNT = 24
# A change to an object may need more words than a mistake: what was chosen, and what to do. So may a policy, whose
# message ends in the remedy. The API server cuts a warning at 256 characters once all of them have 4096, and drops
# those beyond.
CHANGE_LENGTH, WARNINGS_LENGTH = 250, 4080
# A longer remedy is shortened all the same. A value keeps so many characters, for it to be found again.
_REMEDY_LENGTH, _VALUE_LENGTH = 160, 24
# How many violations of a rule an answer shows, and how long its text may be.
SHOWN = 20
MESSAGE_LENGTH = 8192
# The longest label key, 253 characters, a slash and 63, is shown whole in a path. Objects are not validated yet, so a
# key may be as long as the object.
FIELD_LENGTH = 512
# The longest message of a policy in Kubernetes' API is 5 KiB long.
TEXT_LENGTH = 5120
# Unicode's spaces, and what breaks lines in what people write.
BLANKS = "\n\t \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"


class Violation(Struct, frozen=True):
    """One problem at one place.

    rule: the name of the rule that found it. path: the place, as Kubernetes writes a field path. value: what was found
    there. problem: why that is wrong; empty if the summary says everything. summary: the first sentence of the refusal,
    shared by violations of a kind. remedy: how to fix it. verdict: the consequence; empty to use the rule's action.
    status: of the HTTP answer, if this violation is the first. is_outcome: whether it says what becomes of the object,
    so that it matters only if that is admitted. position: its place among those of its rule, before the
    order of paths; the validations of a policy are in the order in which they are written.
    """

    rule: str
    path: str
    value: str
    problem: str
    summary: str
    remedy: str
    verdict: Verdict = ""
    status: Status = FORBIDDEN
    position: int = 0
    is_outcome: bool = False

    @property
    def line(self) -> str:
        """The violation on one line: `path: value problem`."""
        what = f"{self.value} {self.problem}".strip()
        return " ".join(": ".join(part for part in (self.path, what) if part).splitlines())

    @property
    def sentence(self) -> str:
        """What is wrong, without the place and the remedy: the summary, and what was found."""
        what = f"{self.value} {self.problem}".strip()
        if not what:
            return self.summary
        if what.startswith("("):
            return f"{self.summary} {what}"
        return ": ".join(part for part in (self.summary.rstrip("."), what) if part)

    @property
    def warning(self) -> str:
        """The violation as a warning for the API server."""
        return self.in_line(self.path, CHANGE_LENGTH)

    def in_line(self, place: str, room: int) -> str:
        """The violation as a warning: place, what is wrong, what to do. room: how many characters it may have.

        What was found is shortened first, then the place, the remedy never. A policy's message ends in the remedy.
        """
        if not self.remedy:
            text = f"{self.summary} {self.problem}".strip()
            name = f"{self.rule}: " * text.startswith(f"{self.rule}: ")
            placed = f"{name}{place}: {text.removeprefix(name)}" if place else text
            return placed if len(placed) <= room else text
        remedy = " ".join(self.remedy.split())
        if len(remedy) > _REMEDY_LENGTH and room == CHANGE_LENGTH:  # then what to do is in the last line
            remedy = shortened(self.remedy.strip().rpartition("\n")[2], _REMEDY_LENGTH)
        problem = self.problem or f": {self.summary}"
        around = len(place) + len(problem) + len(remedy) + len(":  .  ")
        limit = WARNING_LENGTH if around + _VALUE_LENGTH <= WARNING_LENGTH and room == CHANGE_LENGTH else room
        value = shortened(self.value, max(limit - around, _VALUE_LENGTH))
        what = f"{value} {problem}".replace(" : ", ": ", 1).removeprefix(": ").strip()
        text = ": ".join(part for part in (place, what) if part)
        text = squeezed(text if text.endswith(".") else f"{text}.", room - len(remedy) - 1)
        return f"{text} {remedy}"


def warnings(violations: Iterable[Violation], room: int = CHANGE_LENGTH) -> dict[str, Violation]:
    """The violations as warnings, in order, each with the first that it is about: those at several places are one."""
    alike: dict[Violation, list[Violation]] = {}
    for violation in in_order(violations):
        alike.setdefault(structs.replace(violation, path=""), []).append(violation)
    texts: dict[str, Violation] = {}
    for those in alike.values():
        first, places = those[0], dict[str, None]()
        for one in those:
            path = one.path
            if not one.remedy:
                # A path is cut before the end that a message names, as one about a Pod does for a template.
                starts = [0, *(match.end() for match in re.finditer(r"[.]|(?=\[)", path))]
                named = (at for at in starts if re.search("[.[]", path[at:]) and path[at:].strip("[]") in one.summary)
                path = path[: next(named, len(path))].rstrip(".")
            places[path] = None
        found = [path for path in places if path] or [""]
        text = first.in_line(listed(found, 1), room)
        if len(found) > 1 and (len(text) > room or found[0] not in text):
            text = first.in_line(f"{found[0]} and {len(found) - 1} more", room)
        texts.setdefault(squeezed(text, room), first)
    return texts


def in_order(violations: Iterable[Violation]) -> list[Violation]:
    """The violations in the order in which people read them: by rule, then by position and path."""
    return sorted(violations, key=lambda v: (v.rule, v.position, v.path, v.value, v.problem, v.summary, v.remedy))


class More(Struct, frozen=True):
    """Violations that a rule has counted, but does not show."""

    count: int


def first(items: Iterable[T], key: Callable[[T], Any]) -> tuple[list[T], int]:
    """The first items by a key, and how many more there are. Keeps no more items than it returns."""
    given, counter = iter(items), count()
    if not (shown := sorted(islice(given, SHOWN), key=key)):
        return shown, 0  # nearly always
    return nsmallest(SHOWN, chain(shown, (item for item, _ in zip(given, counter, strict=False))), key), next(counter)


def bounded(violations: Sequence[Violation]) -> tuple[tuple[Violation, ...], int]:
    """The first violations of a rule, each printable and of bounded length, and how many more there are."""
    if len(violations) > SHOWN:
        return tuple(map(_bounded, in_order(violations)[:SHOWN])), len(violations) - SHOWN
    return tuple(map(_bounded, violations)), 0


def _bounded(violation: Violation) -> Violation:
    fields = {
        name: shortened(printable(text, kept), length)
        for name, kept, length in _LIMITS
        if len(text := getattr(violation, name)) > FIELD_LENGTH or not text.isprintable()
    }
    return structs.replace(violation, **fields) if fields else violation


_LIMITS = (
    *((name, "", FIELD_LENGTH) for name in ("path", "value")),
    *((name, BLANKS, TEXT_LENGTH) for name in ("problem", "summary", "remedy")),
)


def describe(violations: Iterable[Violation], more: Mapping[str, int] | None = None) -> str:
    """All violations as one text: each summary with its places in order, then its remedies, each once.

    more: how many further violations each rule has. If the text is too long, fewer places are shown.
    """
    groups: dict[str, list[Violation]] = {}
    for violation in in_order(violations):
        groups.setdefault(violation.summary, []).append(violation)
    # Further violations of a rule are counted below the last group with one of its own.
    last = {member.rule: summary for summary, members in groups.items() for member in members}
    further = {summary: sum((more or {}).get(rule, 0) for rule in last if last[rule] == summary) for summary in groups}
    text = ""
    for shown in (SHOWN, SHOWN // 2, SHOWN // 4, 1):
        text = "\n".join(_paragraph(summary, groups[summary], further[summary], shown) for summary in groups)
        if len(text) <= MESSAGE_LENGTH:
            break
    return text


def _paragraph(summary: str, violations: Sequence[Violation], more: int, shown: int) -> str:
    """Violations with the same summary. shown: how many of a rule; `more` are counted besides those left out."""
    of_rule: dict[str, int] = {}
    lines = [summary]
    for violation in violations:
        of_rule[violation.rule] = of_rule.get(violation.rule, 0) + 1
        if of_rule[violation.rule] <= shown and violation.line:
            lines.append(f"  {violation.line}")
    more += sum(max(0, number - shown) for number in of_rule.values())
    lines += [f"  and {more} more"] if more else []
    return "\n".join([*lines, *dict.fromkeys(violation.remedy for violation in violations if violation.remedy)])


def limited(lines: Sequence[str], more: int = 0, *, room: int = CHANGE_LENGTH) -> tuple[str, ...]:
    """The lines of an answer's warnings. One line with their number replaces those past the limit, and `more`.

    room: the characters of a line. Whoever has room for longer ones than the API server passes on has it for all.
    """
    kept = len(lines) if room > CHANGE_LENGTH else 0
    room = WARNINGS_LENGTH
    while kept < min(len(lines), WARNING_COUNT) and len(lines[kept]) <= room:
        room -= len(lines[kept])
        kept += 1
    more += len(lines) - kept
    return (*lines[:kept], *((f"and {more} more",) if more else ()))


def shortened(text: str, length: int) -> str:
    """The text, cut at a length; an ellipsis then takes the place of its last character."""
    return text if len(text) <= length else text[: length - 1] + "…"


def listed(items: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first items, and how many more there are: `1, 2, 3 and 4 more`. In the place of one more stands its name."""
    kept = most if len(items) > most + 1 else len(items)
    more = f" and {len(items) - kept:,} more" if len(items) > kept else ""
    return f"{between.join(items[:kept])}{more}"


def one_line(text: str, length: int = WARNING_LENGTH) -> str:
    """The text as one line of printable characters, shortened to the length of a warning."""
    return shortened(printable(" ".join(text.split())), length)


def squeezed(text: str, length: int = CHANGE_LENGTH) -> str:
    """The text as one line of printable characters, cut in its middle: its last sentence says what to do."""
    line = printable(" ".join(text.split()))
    _, is_apart, last = line.rpartition(". ")
    head = max(length // 4, min(length // 2, length - len(last) - 1)) if is_apart else length // 2
    return line if len(line) <= length else f"{line[:head]}…{line[head + 1 - length :]}"


def printable(text: str, kept: str = "") -> str:
    """The text with control characters, bidi marks and the like escaped as in JSON. kept: those that stay.

    So nothing that is shown can turn, hide or forge what stands beside it, and JSON stays the same JSON.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else dumps(c)[1:-1] for c in text)


def prose(text: str) -> str:
    """The text, printable but for its blanks; further lines are indented below the first one."""
    first, *more = printable(text, BLANKS).split("\n")
    margin = " " * (len(first) - len(first.lstrip()))
    within = all(line.startswith(f"{margin} ") for line in more if line)
    return "\n".join([first, *(line if within or not line else f"{margin}  {line}" for line in more)])


def quote(value: object, limit: int = 80) -> str:
    """A value as messages show it: strings in double quotes and shortened, others by their JSON type."""
    if isinstance(value, str):
        shown = value if len(value) <= limit else value[:limit] + "…"
        return '"' + printable(shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) + '"'
    return {dict: "a map", list: "a list", bool: "a boolean", type(None): "null"}.get(
        type(value), f"the number {value}"
    )


_SECTIONS_SHOWN = 3
_SERVICE, _POLICY, _PACKS = "service", ("policies", "denied"), "packs"


class Section(Struct, frozen=True):
    """What a page says about some messages. code: its heading; text: all of it, as Markdown."""

    page: str
    code: str
    messages: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """What people call it: `labels/reserved-label`."""
        return f"{self.page}/{self.code}"

    def likeness(self, text: str) -> int:
        """How many characters of a message the text has, all its fixed parts in their order; 0 if one is missing."""
        best, line = 0, " ".join(text.split())
        for message in self.messages:
            parts = [" ".join(part.split()) for part in message.split("…") if part.strip(" .,:;()\"'\n")]
            position = 0
            for part in parts:
                at = line.find(part, position)
                position = at + len(part)
                if at < 0:
                    break
            else:
                best = max(best, sum(map(len, parts)))
        return best


class Help(Struct, frozen=True):
    """The address of the pages, with `{page}` and `{code}`, and their sections; without an address nothing is said."""

    url: str = ""
    sections: tuple[Section, ...] = ()

    def lines(self, violations: Sequence[Violation], failure: str = "") -> tuple[str, ...]:
        """A line for each section about an answer: its violations, and what became of a rule that failed, by code."""
        if not self.url:
            return ()
        places = [*map(self._place, in_order(violations)), *([(_SERVICE, failure)] if failure else [])]
        urls = (self.url.replace("{page}", page).replace("{code}", code) for page, code in dict.fromkeys(places))
        return tuple(f"Read on: {url.rstrip('#')}" for url in islice(urls, _SECTIONS_SHOWN))

    def _place(self, violation: Violation) -> tuple[str, str]:
        """The page and code for a violation. A rule has the page of its name; a policy that is shipped, a section."""
        of_rule = [section for section in self.sections if section.page == violation.rule]
        if of_rule:
            section = likest(of_rule, describe([violation]))
            return violation.rule, section.code if section else ""
        shipped = (_PACKS, violation.rule)
        return shipped if any((section.page, section.code) == shipped for section in self.sections) else _POLICY


NO_HELP = Help()


def likest(sections: Iterable[Section], text: str) -> Section | None:
    """The section of whose messages the text has most; None if it has none. Of several, the first."""
    best = max(sections, key=lambda section: section.likeness(text), default=None)
    return best if best is not None and best.likeness(text) else None
