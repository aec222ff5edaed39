"""The errors of the library.

LibraryError        all of them
├── DocumentError   documents are no YAML, or no valid policies: `problems`
├── ExpressionError an expression that Kubernetes refuses: `issues`
├── ReleaseError    a release of Kubernetes that is not followed
└── RequestError    a request that the API server could not get
"""

from __future__ import annotations

from msgspec import Struct

from policies.admissionpolicy.documents.document import Problem
from policies.cel.syntax.source import CompileError


class Issue(Struct, frozen=True):
    """One thing that is wrong with an expression: line and column from 1, Kubernetes' message, and what to write."""

    line: int
    column: int
    message: str
    hint: str = ""


class LibraryError(Exception):
    """Something cannot be used as it was given. The text says what, where, and what to do."""


class DocumentError(LibraryError):
    """Documents cannot be used. `problems` has each with its place and field; it is empty if they are no YAML."""

    def __init__(self, text: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class ExpressionError(LibraryError):
    """Kubernetes refuses an expression, for these issues."""

    def __init__(self, error: CompileError) -> None:
        super().__init__(str(error))
        self.issues = tuple(
            Issue(*error.source.location(issue.position), issue.message, issue.hint) for issue in error.issues
        )


class ReleaseError(LibraryError):
    """There is no such release of Kubernetes, or it is not followed. The text names those that are."""


class RequestError(LibraryError):
    """A request is not one that the API server could get."""
