"""Findings: what was found in a policy, where, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from policies.admissionpolicy.document import Document, Path
from policies.admissionpolicy.model import LINT_IGNORE, Expression
from policies.admissionpolicy.problem import show

IGNORE = LINT_IGNORE
"""The annotation of a policy or binding with the ids, between commas, of what should not be found in it."""

IDS: Mapping[str, str] = {
    "type-error": "An expression does not fit the schema of a kind that the policy is for",
    "missing-has": "A field that may be absent is read without a test; the expression fails where it is",
    "null-object": "`object` is read on DELETE, or `oldObject` on CREATE, where it is null",
    "unreachable-validation": "A validation can never be false",
    "never-matches": "A rule, selector or binding that no request meets",
    "no-remedy": "Nothing tells whoever is refused what to do",
    "native-panic": "An expression at which kube-apiserver 1.36 panics, so that the policy cannot be created",
    "unused-variable": "A variable that no expression reads",
    "unused-params": "A paramKind, and no expression reads `params`",
    "doubtful": "What the API server takes and a person hardly means, such as a paramRef without a `paramKind`",
    "unknown-ignore": f"`{IGNORE}` names what is no finding",
}
"""All findings by id, with what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding, at a place of a file.

    subject: the kind and name of the document. path: the field as the API server names it. line, column: from 1.
    message: what was found. remedy: what to do. excerpt: of an expression, its line and a line with a caret below it.
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


@dataclass(frozen=True, slots=True)
class Subject:
    """A policy or binding, to find something in."""

    kind: str
    name: str
    document: Document

    def at(self, id_: str, path: Path, message: str, remedy: str, *, key: bool = False) -> Finding:
        """Something about a field; `key`: about its key rather than its value."""
        line, column = self.document.place(path, key=key)
        return self._finding(id_, show(path), (line, column), message, remedy)

    def within(self, id_: str, expression: Expression, offset: int, message: str, remedy: str) -> Finding:
        """Something about an expression, at an offset in code points."""
        source, offset = expression.source, max(offset, 0)
        place = self.document.place_inside(_steps(expression.path), offset) or source.location(offset)
        return self._finding(id_, expression.path, place, message, remedy, source.excerpt(offset))

    def _finding(
        self, id_: str, path: str, place: tuple[int, int], message: str, remedy: str, excerpt: tuple[str, ...] = ()
    ) -> Finding:
        return Finding(
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
