"""Explanations: which part of an expression decided, where it reads, and what it found there."""

import gc
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.explain import explain
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, compile_expression

_POD = {
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web", "coreweave.cloud/x": "1"}},
    "spec": {
        "replicas": 7,
        "empty": [],
        "containers": [
            {"name": "app", "image": "reg/a:1", "resources": {"limits": {"memory": "1Gi"}}},
            {"name": "sidecar", "image": "other/x", "resources": {}, "env": [{"name": "KEY", "value": "s3cret"}]},
        ],
        "initContainers": [{"name": "init", "image": "bad"}],
    },
}


def _reasons(
    expression: str, variables: dict[str, str], obj: Any = None, limit: int = EXPRESSION_LIMIT
) -> tuple[str, ...]:
    composition = Composition(admission())
    for name, text in variables.items():
        composition = composition.declare(name, text)
    program = compile_expression(expression, composition.environment)
    request = {"operation": "CREATE", "userInfo": {"username": "bob"}}
    names = {"object": obj or _POD, "oldObject": None, "params": {"max": 5}, "request": request}
    bound = composition.bind(names)
    return tuple(map(str, explain(program.source, composition, bound, limit=limit)))


_CASES = yaml.safe_load((Path(__file__).parent / "explain.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", _CASES["reasons"], ids=lambda case: case["name"])
def test_the_smallest_part_that_decided_is_shown(case: dict[str, Any]) -> None:
    """The reasons are the deciding parts, each with its path, its values and its element, variables looked through."""
    assert list(_reasons(case["expression"], case.get("variables", {}))) == case["reasons"]


@pytest.mark.parametrize("case", _CASES["secrets"], ids=lambda case: case["name"])
def test_secrets_are_masked(case: dict[str, Any]) -> None:
    """No value of an environment variable or a Secret shows in an explanation, however it is reached."""
    (reason,) = _reasons(case["expression"], case.get("variables", {}), case.get("object"))

    assert "(masked)" in reason
    assert "s3cret" not in reason.replace("'s3cret'", "")  # what the author of the policy wrote is not secret


def test_an_explanation_is_bounded() -> None:
    """Of many elements some are shown, and long values and expressions are cut."""
    many = {"spec": {"names": ["x" * 1000 for _ in range(1000)]}}

    reasons = _reasons(f"object.spec.names.exists(n, n == '{'y' * 1000}')", {}, many)

    assert len(reasons) == 5
    assert all(len(reason) < 400 for reason in reasons)


def test_a_value_that_doubles_is_not_shown() -> None:
    """A value of which each variable is two of the one before has more parts than could be written."""
    variables = {"v0": "[1]"} | {
        f"v{number + 1}": f"[variables.v{number}, variables.v{number}]" for number in range(60)
    }

    assert _reasons("variables.v60 == []", variables) == ("variables.v60 == [] is false (variables.v60 is […])",)


def test_an_explanation_that_costs_too_much_ends() -> None:
    """The reasons that were found within the limit are given, and no error."""
    assert _reasons("object.spec.containers.all(c, c.name == 'app') && true", {}, limit=5) == ()


def test_an_explanation_is_freed_at_once() -> None:
    """An explanation leaves nothing for the garbage collector, which rests while policies are loaded."""
    gc.collect()
    gc.disable()
    try:
        assert _reasons("object.spec.containers.all(c, has(c.resources.limits))", {}) != ()
        left = gc.collect()
        assert _reasons("object.spec.containers.all(c, has(c.resources.limits))", {}) != ()
        again = gc.collect()
    finally:
        gc.enable()

    assert (left, again) == (left, 0)  # the first time, functions and tables are made
