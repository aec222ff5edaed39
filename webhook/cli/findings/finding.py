"""The records that `check`, `test` and `lint` make: findings, and the results that hold them."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

Level = Literal["error", "warning", "note"]
_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<message>.*)", re.DOTALL)
_FILE = re.compile(r"(?P<file>[^\n:]+): (?P<message>.*)", re.DOTALL)
UNREADABLE = "unreadable"
"""The code of what cannot be read."""


class Finding(NamedTuple):
    """One thing that is wrong, at a place in a file.

    level: an error fails a run, a warning does with --strict, a note never. code: that of lint, or the rule or policy.
    rule: its name for people. line, column: of the field, from 1; 0 if unknown. path: the field.
    remedy: what to do, empty if the message says it. object: what is wrong, such as `Deployment default/web`.
    """

    level: Level
    code: str
    rule: str
    file: str
    line: int
    column: int
    path: str
    message: str
    remedy: str = ""
    object: str = ""

    @property
    def text(self) -> str:
        """Path, message and remedy as one text; a message that names the field says it for both."""
        what = self.message if self.path in self.message else f"{self.path}: {self.message}"
        return f"{what}\n{self.remedy}" if self.remedy else what


class Result(NamedTuple):
    """What came of one thing that was judged: an object, a case of a suite, a policy.

    group: what it belongs to, such as its file or suite. name: what it is. line: its own. lines: what people read.
    data: what programs read. counts: what it adds to a summary, by name.
    """

    group: str
    name: str
    file: str
    line: int
    findings: tuple[Finding, ...] = ()
    lines: tuple[str, ...] = ()
    data: Any = None
    counts: tuple[str, ...] = ()

    @property
    def unreadable(self) -> bool:
        """Whether it could not be read, so that nobody judged it."""
        return any(finding.code == UNREADABLE for finding in self.findings)


def unreadable(text: str) -> Result:
    """The result for input that cannot be read. text: the error, which begins with the file, and the place if known."""
    place = _PLACE.fullmatch(text) or _FILE.fullmatch(text)
    file, message = (place["file"], place["message"]) if place else ("", text)
    parts = place.groupdict() if place else {}
    line, column = int(parts.get("line") or 0), int(parts.get("column") or 0)
    finding = Finding("error", UNREADABLE, "", file, line, column, "", message)
    return Result(file, file or message, file, line, (finding,), data={"error": text}, counts=("not read",))
