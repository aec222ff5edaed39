"""The Pod and the policies that every engine is measured with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[1] / "data" / "cel"
POD = DATA / "pod.json"
POLICIES = DATA / "policies.json"


class Policy(NamedTuple):
    """One validation. `variables`: expressions by name, in order. `allowed`: the correct verdict on the Pod."""

    name: str
    variables: dict[str, str]
    expression: str
    allowed: bool


@cache
def policies() -> tuple[Policy, ...]:
    """The twenty policies."""
    return tuple(
        Policy(
            policy["name"],
            {variable["name"]: variable["expression"] for variable in policy["variables"]},
            policy["expression"],
            policy["allowed"],
        )
        for policy in _content()["policies"]
    )


def shapes() -> tuple[Policy, ...]:
    """The policies of the twenty that are measured one by one."""
    return tuple(policy for policy in policies() if policy.name in _content()["shapes"])


def many(count: int) -> list[list[str]]:
    """`count` policies of three expressions each, all different."""
    return [[text.replace("{n}", str(number)) for text in _content()["load"]] for number in range(count)]


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(POLICIES.read_text(encoding="utf-8"))
    return content
