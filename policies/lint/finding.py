"""Findings about policies, with place and remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.admissionpolicy.documents.document import Document, Path
from policies.admissionpolicy.documents.problem import show
from policies.admissionpolicy.model import Expression
from policies.lint.code import BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One finding, at a place in a file.

    id: its name in the table of codes. subject: the kind and name of the document. path: the field as the API server
    names it. line, column: from 1. message: what was found. remedy: what to do. excerpt: the line of the expression,
    and a line with a caret below it.
    """

    id: str
    subject: str
    file: str
    line: int
    column: int
    path: str
    message: str
    remedy: str
    excerpt: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """Its short code, such as CKS102."""
        return BY_NAME[self.id]


@dataclass(frozen=True, slots=True)
class LintSubject:
    """A policy or binding, for which it makes findings."""

    kind: str
    name: str
    document: Document

    def at(self, id_: str, path: Path, message: str, remedy: str, *, key: bool = False) -> LintFinding:
        """A finding about a field; `key`: about its key rather than its value."""
        line, column = self.document.place(path, key=key)
        return self._finding(id_, show(path), (line, column), message, remedy)

    def within(self, id_: str, expression: Expression, offset: int, message: str, remedy: str) -> LintFinding:
        """A finding about an expression, at an offset in code points."""
        source, offset = expression.source, max(offset, 0)
        place = self.document.place_inside(_steps(expression.path), offset) or source.location(offset)
        return self._finding(id_, expression.path, place, message, remedy, source.excerpt(offset))

    def _finding(
        self, id_: str, path: str, place: tuple[int, int], message: str, remedy: str, excerpt: tuple[str, ...] = ()
    ) -> LintFinding:
        return LintFinding(
            id=id_,
            subject=f"{self.kind} {self.name}",
            file=self.document.name,
            line=place[0],
            column=place[1],
            path=path,
            message=message,
            remedy=remedy,
            excerpt=excerpt,
        )


def _steps(path: str) -> Path:
    return tuple(int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", path))
