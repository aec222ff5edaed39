"""Kubernetes' admission policies and their CEL for other programs: documents in, verdicts out.

`read` decodes text, `compile` prepares documents or an expression, `evaluate` judges a request, `explain` says why an
expression is false, and `lint` finds mistakes. Nothing here needs a cluster, a server or a clock.
docs/reference/library.md explains it with examples.
"""

from __future__ import annotations

from cks_admission.errors import DocumentError, ExpressionError, Issue, LibraryError, ReleaseError, RequestError
from cks_admission.library import (
    Cause,
    Evaluation,
    Expression,
    Finding,
    Policies,
    Request,
    Verdict,
    compile,
    evaluate,
    explain,
    lint,
    read,
)
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
