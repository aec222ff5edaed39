"""Findings about policies, with code, place and remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from policies.admissionpolicy.documents.document import Document, Path, show
from policies.admissionpolicy.model import LINT_IGNORE, Expression
from policies.kubernetes.spelling import closest


class Meaning(NamedTuple):
    """The name of a code, and what it means."""

    name: str
    text: str


CODES: Mapping[str, Meaning] = {
    "CKS101": Meaning("type-error", "An expression does not match the schema of a kind that the policy applies to"),
    "CKS102": Meaning(
        "missing-has", "A field that may be absent is read without a test; if it is absent, the expression fails"
    ),
    "CKS103": Meaning(
        "quantity-comparison", "A quantity is compared with a number, or as a text"
    ),
    "CKS104": Meaning(
        "null-object",
        "`object` is read on DELETE, `oldObject` on CREATE or `namespaceObject` in a match condition, where it is null",
    ),
    "CKS105": Meaning("unreachable-validation", "A validation can never fail"),
    "CKS106": Meaning("never-matches", "A rule, selector or binding that no request can match"),
    "CKS107": Meaning("no-remedy", "There is no message, or it does not say what to do"),
    "CKS108": Meaning(
        "native-panic", "An expression that makes kube-apiserver panic, so the policy cannot be created"
    ),
    "CKS109": Meaning("unused-variable", "A variable that no expression reads"),
    "CKS110": Meaning("unused-params", "A `paramKind`, but no expression reads `params`"),
    "CKS111": Meaning("doubtful", "Valid, but probably not intended, such as a paramRef without a `paramKind`"),
    "CKS112": Meaning("unknown-ignore", f"`{LINT_IGNORE}` names a finding that does not exist"),
    "CKS113": Meaning("object-conversion", "kube-apiserver converts objects for the policy that it need not convert"),
}  # fmt: skip
"""All codes. A code never gets another meaning; one that is given up is not used again."""

BY_NAME: Mapping[str, str] = {meaning.name: code for code, meaning in CODES.items()}


class UnknownCodeError(Exception):
    """There is no such code; the text names the nearest one."""


def named(text: str) -> frozenset[str]:
    """The codes that a text stands for: a code, the beginning of codes, or a name. Raises UnknownCodeError."""
    upper = text.upper()
    codes = {BY_NAME[text]} if text in BY_NAME else {code for code in CODES if text and code.startswith(upper)}
    if not codes:
        meant = closest(text, BY_NAME) or closest(upper, CODES)
        raise UnknownCodeError(f"{text}: there is no such code" + (f"; did you mean {meant}?" if meant else ""))
    return frozenset(codes)


@dataclass(frozen=True, slots=True)
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

    def at(self, id_: str, path: Path, message: str, remedy: str) -> LintFinding:
        """A finding about a field."""
        return self._finding(id_, self.document.place(path), show(path), message, remedy)

    def within(self, id_: str, expression: Expression, offset: int, message: str, remedy: str) -> LintFinding:
        """A finding about an expression, at an offset in code points."""
        source, offset = expression.source, max(offset, 0)
        steps = re.findall(r"[^.\[\]]+", expression.path)
        path: Path = tuple(int(step) if step.isdecimal() else step for step in steps)
        place = self.document.place_inside(path, offset) or source.location(offset)
        return self._finding(id_, place, expression.path, message, remedy, source.excerpt(offset))

    def _finding(self, id_: str, place: tuple[int, int], *about: Any) -> LintFinding:
        return LintFinding(id_, f"{self.kind} {self.name}", self.document.name, *place, *about)
