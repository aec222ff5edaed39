"""What a rule found wrong, and the words in which people read it.

A refusal is a text of several lines: a summary, one indented line per place, then what to do. A warning is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

Verdict = Literal["deny", "warn", "audit", ""]

# Warnings travel as HTTP headers: the API documentation asks for 120 characters at most, and one with a control
# character vanishes on the way.
WARNING_LENGTH = 120
# The API server cuts warnings once all of an answer's together pass 4096 characters; 24 full ones stay below.
WARNING_COUNT = 24


class Violation(Struct, frozen=True, order=True):
    """One thing wrong at one place.

    rule: the name of the rule that found it. path: where, as Kubernetes writes a field path. value: what stands there.
    problem: why that is wrong, empty where the summary says it all. summary: the refusal's first sentence, shared by
    violations of a kind. remedy: what to do about it. verdict: what it leads to, empty where the rule's action says so.
    status: the reason of the refusal as an HTTP answer has it, empty for Forbidden.
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
        """`path: found problem`, the violation on one line."""
        what = f"{self.value} {self.problem}".strip()
        return printable(": ".join(part for part in (self.path, what) if part))

    @property
    def warning(self) -> str:
        """The violation as a warning: for a policy its message with the place, for other rules the place and value."""
        if not self.verdict:
            return self.line
        where = f"({self.path})" if self.path else ""
        return " ".join(part for part in (self.summary, where, self.problem) if part)


def describe(violations: Iterable[Violation]) -> str:
    """All violations as one text: per summary its places in order, then the remedies, each once."""
    groups: dict[str, list[Violation]] = {}
    for violation in sorted(violations):
        groups.setdefault(violation.summary, []).append(violation)
    paragraphs = []
    for summary, members in groups.items():
        lines = [summary, *(f"  {member.line}" for member in members if member.line)]
        paragraphs.append("\n".join([*lines, *dict.fromkeys(member.remedy for member in members if member.remedy)]))
    return "\n".join(paragraphs)


def limited(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines of an answer's warnings; those past the limit become one line that counts them."""
    if len(lines) <= WARNING_COUNT:
        return tuple(lines)
    return (*lines[:WARNING_COUNT], f"and {len(lines) - WARNING_COUNT} more")


def one_line(text: str) -> str:
    """The text as one line of printable characters, shortened to what a warning may hold."""
    text = " ".join(printable(text).split())
    return text if len(text) <= WARNING_LENGTH else text[: WARNING_LENGTH - 1] + "…"


def printable(text: str) -> str:
    """The text with a space for each character that would move the cursor or show nothing: it stays on its line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def quote(value: object, limit: int = 80) -> str:
    """A found value for a message: strings in double quotes, others by their JSON type, shortened."""
    if isinstance(value, str):
        shown = value if len(value) <= limit else value[:limit] + "…"
        return '"' + printable(shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) + '"'
    return {dict: "a map", list: "a list", bool: "a boolean", type(None): "null"}.get(
        type(value), f"the number {value}"
    )
