"""Roles and bindings, and the rights that they grant: the same checks for our RBAC and for the API server's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from policies.cel.library.authorizer import Check, CheckAnswer, User, service_account
from policies.kubernetes.release import Release

TEAM, OTHER = "rbac-team", "rbac-other"
"""The Namespaces that the roles and bindings are in."""

RIGHTS = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")


def _check(row: dict[str, Any]) -> tuple[Check, CheckAnswer]:
    """The check of a row about a path, or about `resource.group/subresource`, and its answer."""
    full, _, subresource = row.get("of", "").partition("/")
    resource, _, group = full.partition(".")
    account = row.get("account", "").partition("/")
    check = Check(
        user=service_account(account[0], account[2])
        if account[2]
        else User(row["user"], groups=tuple(row.get("groups", ()))),
        verb=row["verb"],
        path=row.get("path"),
        api_group=group,
        resource=resource,
        subresource=subresource,
        namespace=row.get("namespace", ""),
        name=row.get("name", ""),
    )
    return check, CheckAnswer(allowed="allowed" in row, reason=row.get("allowed", row.get("refused", "")))


_ROWS = yaml.safe_load(Path(__file__).with_name("rbacchecks.yaml").read_text(encoding="utf-8"))
CHECKS: dict[str, tuple[Check, CheckAnswer]] = {name: _check(row) for name, row in _ROWS.items()}


def answer_in(name: str, release: Release) -> CheckAnswer:
    """The answer to the check with a name, in a release."""
    answer = CHECKS[name][1]
    return answer if release.names_authorizers else replace(answer, reason=answer.reason.removeprefix("rbac: "))
