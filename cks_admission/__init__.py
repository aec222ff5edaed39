"""Kubernetes' admission policies and their CEL for other programs: documents in, verdicts out.

`read` decodes text, `compile` prepares documents or an expression, `evaluate` judges a request, `explain` says why an
expression is false, and `lint` finds mistakes. Nothing here needs a cluster, a server or a clock.
docs/reference/library.md explains it with examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from cks_admission.errors import DocumentError, ExpressionError, Issue, LibraryError, ReleaseError, RequestError
from cks_admission.evaluation import (
    Cause,
    Evaluation,
    Expression,
    Finding,
    Policies,
    Result,
    Verdict,
    compiled_expression,
)
from cks_admission.inputs import Documents, Request, files, lint, read, release_of
from policies.kubernetes.release import NEWEST
from policies.lint.finding import LintFinding

__all__ = [
    "Cause",
    "DocumentError",
    "Evaluation",
    "Expression",
    "ExpressionError",
    "Finding",
    "Issue",
    "LibraryError",
    "LintFinding",
    "Policies",
    "ReleaseError",
    "Request",
    "RequestError",
    "Verdict",
    "compile",
    "evaluate",
    "explain",
    "lint",
    "read",
]


_NOTHING = Request()


@overload
def compile(
    source: str, *, variables: Mapping[str, str] = ..., result: Result = ..., kubernetes: str = ...
) -> Expression: ...
@overload
def compile(source: Documents, *, kubernetes: str = ...) -> Policies: ...
def compile(
    source: str | Documents,
    *,
    variables: Mapping[str, str] | None = None,
    result: Result = "any",
    kubernetes: str = NEWEST.name,
) -> Expression | Policies:
    """An expression, from its text, or the policies in documents.

    variables: what `variables` has, in order, as expressions. result: the type that is demanded. kubernetes: the
    release that judges; policies may use what it takes into new ones, an expression alone all that it evaluates. Raises
    ExpressionError and DocumentError, with all that is wrong, and ReleaseError.
    """
    if isinstance(source, str):
        return compiled_expression(source, variables or {}, result, release_of(kubernetes))
    return Policies(files(source, release_of(kubernetes)))


@overload
def evaluate(compiled: Expression, request: Request | Mapping[str, Any] = ...) -> Evaluation: ...
@overload
def evaluate(compiled: Policies, request: Request | Mapping[str, Any]) -> Verdict: ...
def evaluate(compiled: Expression | Policies, request: Request | Mapping[str, Any] = _NOTHING) -> Evaluation | Verdict:
    """The value of an expression, or what policies say. request: or an object that is to be created.

    Raises RequestError.
    """
    if isinstance(compiled, Expression):
        return compiled.evaluation(_request(request))
    return compiled.verdict(_request(request))


def explain(compiled: Expression, request: Request | Mapping[str, Any] = _NOTHING) -> tuple[Cause, ...]:
    """Why an expression is false or fails: the smallest parts that decided it. Empty if it is neither."""
    return compiled.causes(_request(request))


def _request(request: Request | Mapping[str, Any]) -> Request:
    return request if isinstance(request, Request) else Request(object=request)
