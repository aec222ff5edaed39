"""Violations, and the text in which people read them.

A refusal has several lines: a summary, one indented line per place, then the remedies. A warning has one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

Verdict = Literal["deny", "warn", "audit", ""]

# Warnings are sent as HTTP headers. The API documentation asks for 120 characters at most, and a warning with a control
# character gets lost.
WARNING_LENGTH = 120
# The API server cuts the warnings of an answer at 4096 characters in total; 24 full ones stay below that.
WARNING_COUNT = 24


class Violation(Struct, frozen=True, order=True):
    """One problem at one place.

    rule: the name of the rule that found it. path: the place, as Kubernetes writes a field path. value: what was found
    there. problem: why that is wrong; empty if the summary says everything. summary: the first sentence of the refusal,
    shared by violations of a kind. remedy: how to fix it. verdict: the consequence; empty to use the rule's action.
    status: the reason of the refusal in the HTTP answer; empty for Forbidden.
    """

    rule: str
    path: str
    value: str
    problem: str
    summary: str
    remedy: str
    verdict: Verdict = ""
    status: str = ""

    @property
    def line(self) -> str:
        """The violation on one line: `path: value problem`."""
        what = f"{self.value} {self.problem}".strip()
        return printable(": ".join(part for part in (self.path, what) if part))

    @property
    def warning(self) -> str:
        """The violation as a warning: a policy's message with the place, or another rule's place and value."""
        if not self.verdict:
            return self.line
        where = f"({self.path})" if self.path else ""
        return " ".join(part for part in (self.summary, where, self.problem) if part)


def describe(violations: Iterable[Violation]) -> str:
    """All violations as one text: each summary with its places in order, then its remedies, each once."""
    groups: dict[str, list[Violation]] = {}
    for violation in sorted(violations):
        groups.setdefault(violation.summary, []).append(violation)
    paragraphs = []
    for summary, members in groups.items():
        lines = [summary, *(f"  {member.line}" for member in members if member.line)]
        paragraphs.append("\n".join([*lines, *dict.fromkeys(member.remedy for member in members if member.remedy)]))
    return "\n".join(paragraphs)


def limited(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines of an answer's warnings. One line with their number replaces those past the limit."""
    if len(lines) <= WARNING_COUNT:
        return tuple(lines)
    return (*lines[:WARNING_COUNT], f"and {len(lines) - WARNING_COUNT} more")


def one_line(text: str) -> str:
    """The text as one line of printable characters, shortened to the length of a warning."""
    text = " ".join(printable(text).split())
    return text if len(text) <= WARNING_LENGTH else text[: WARNING_LENGTH - 1] + "…"


def printable(text: str) -> str:
    """The text with a space for each unprintable character, so that it stays on its line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def quote(value: object, limit: int = 80) -> str:
    """A value as messages show it: strings in double quotes and shortened, others by their JSON type."""
    if isinstance(value, str):
        shown = value if len(value) <= limit else value[:limit] + "…"
        return '"' + printable(shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) + '"'
    return {dict: "a map", list: "a list", bool: "a boolean", type(None): "null"}.get(
        type(value), f"the number {value}"
    )
