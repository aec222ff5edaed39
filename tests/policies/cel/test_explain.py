"""Explanations: which part of an expression decided, where it reads, and what it found there."""

import gc
from typing import Any

import pytest

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


_CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "constant": ("false", ()),
    "comparison": (
        "object.spec.replicas <= params.max",
        ("spec.replicas: object.spec.replicas <= params.max is false (object.spec.replicas is 7; params.max is 5)",),
    ),
    "element of a list": (
        "object.spec.containers.all(c, has(c.resources.limits))",
        ('spec.containers[1].resources: has(c.resources.limits) is false (container "sidecar")',),
    ),
    "key of a map": (
        "object.metadata.labels.all(k, !k.startsWith('coreweave.cloud/'))",
        ("metadata.labels[coreweave.cloud/x]: k.startsWith('coreweave.cloud/') is true (k is \"coreweave.cloud/x\")",),
    ),
    "key and value": (
        "object.metadata.labels.all(k, v, v != 'web')",
        ("metadata.labels.app: v != 'web' is false (v is \"web\")",),
    ),
    "index and element": (
        "object.spec.containers.all(i, c, i < 1)",
        ('spec.containers[1]: i < 1 is false (container "sidecar"; i is 1)',),
    ),
    "none of the elements": (
        "object.spec.containers.exists(c, c.image == 'x')",
        (
            'spec.containers[0].image: c.image == \'x\' is false (container "app"; c.image is "reg/a:1")',
            'spec.containers[1].image: c.image == \'x\' is false (container "sidecar"; c.image is "other/x")',
        ),
    ),
    "the element that exists": (
        "!object.spec.containers.exists(c, c.image.contains('other'))",
        ('spec.containers[1].image: c.image.contains(\'other\') is true (container "sidecar"; c.image is "other/x")',),
    ),
    "no elements": (
        "object.spec.empty.exists(c, c == 1)",
        ("spec.empty: object.spec.empty.exists(c, c == 1) is false (there are no elements)",),
    ),
    "first of the sides of &&": (
        "object.spec.replicas == 7 && object.metadata.name == 'y' && object.spec.replicas == 1",
        ("metadata.name: object.metadata.name == 'y' is false (object.metadata.name is \"web\")",),
    ),
    "both sides of ||": (
        "request.userInfo.username == 'alice' || has(object.spec.x)",
        (
            (
                "request.userInfo.username: request.userInfo.username == 'alice' is false"
                ' (request.userInfo.username is "bob")'
            ),
            "spec: has(object.spec.x) is false",
        ),
    ),
    "the branch that was chosen": (
        "has(object.spec.replicas) ? object.spec.replicas > 10 : true",
        ("spec.replicas: object.spec.replicas > 10 is false (object.spec.replicas is 7)",),
    ),
    "lists put together": (
        "(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, !c.image.startsWith('bad'))",
        (
            (
                "spec.initContainers[0].image: c.image.startsWith('bad') is true"
                ' (init container "init"; c.image is "bad")'
            ),
        ),
    ),
    "filtered list": (
        "object.spec.containers.filter(c, c.image != 'reg/a:1').all(c, has(c.x))",
        ('spec.containers[1]: has(c.x) is false (container "sidecar")',),
    ),
    "how many were kept": (
        "object.spec.containers.filter(c, !c.image.startsWith('reg/')).size() == 0",
        (
            (
                "spec.containers[1].image: c.image.startsWith('reg/') is false"
                ' (container "sidecar"; c.image is "other/x")'
            ),
        ),
    ),
    "a failure": (
        "object.spec.missing.deeper == 'x'",
        ("spec.missing: object.spec.missing failed: no such key: missing",),
    ),
    "a failure in an element": (
        "object.spec.initContainers.all(c, c.securityContext.privileged)",
        (
            (
                "spec.initContainers[0].securityContext: c.securityContext failed: no such key: securityContext"
                ' (init container "init")'
            ),
        ),
    ),
    "a wrong type": (
        "object.spec.replicas < 'a'",
        ("spec.replicas: object.spec.replicas < 'a' failed: no such overload",),
    ),
    "a call": (
        "quantity(object.spec.containers[0].resources.limits.memory).isLessThan(quantity('512Mi'))",
        (
            (
                "spec.containers[0].resources.limits.memory:"
                " quantity(object.spec.containers[0].resources.limits.memory).isLessThan(quantity('512Mi')) is false"
                ' (quantity(object.spec.containers[0].resources.limits.memory) is "1Gi")'
            ),
        ),
    ),
    "nothing of the object": ("1 == 2", ("1 == 2 is false",)),
}


@pytest.mark.parametrize(("expression", "expected"), _CASES.values(), ids=_CASES.keys())
def test_the_smallest_part_that_decided_is_shown(expression: str, expected: tuple[str, ...]) -> None:
    """The reasons are the deciding parts, each with its path, its values and its element."""
    assert _reasons(expression, {}) == expected


_WITH_VARIABLES: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "a list in a variable": (
        "variables.all.all(c, c.image.startsWith('reg/'))",
        {"all": "object.spec.containers + object.spec.initContainers"},
        (
            (
                "spec.containers[1].image: c.image.startsWith('reg/') is false"
                ' (container "sidecar"; c.image is "other/x")'
            ),
        ),
    ),
    "names of what is wrong": (
        "variables.bad.size() == 0",
        {"bad": "object.spec.containers.filter(c, !has(c.resources.limits)).map(c, c.name)"},
        ('spec.containers[1].resources: has(c.resources.limits) is false (container "sidecar")',),
    ),
    "a condition in a variable": (
        "variables.small",
        {"small": "object.spec.replicas < 5"},
        ("spec.replicas: object.spec.replicas < 5 is false (object.spec.replicas is 7)",),
    ),
}


@pytest.mark.parametrize(("expression", "variables", "expected"), _WITH_VARIABLES.values(), ids=_WITH_VARIABLES.keys())
def test_variables_are_looked_through(expression: str, variables: dict[str, str], expected: tuple[str, ...]) -> None:
    """What a variable is made of gives the path and the reason, not the name of the variable."""
    assert _reasons(expression, variables) == expected


_SECRETS: dict[str, tuple[str, dict[str, str], Any]] = {
    "environment": ("object.spec.containers.all(c, c.?env.orValue([]).all(e, e.value != 's3cret'))", {}, None),
    "environment by index": ("object.spec.containers[1].env[0].value == 'x'", {}, None),
    "environment in a variable": ("variables.v == 'x'", {"v": "object.spec.containers[1].env[0].value"}, None),
    "computed from the environment": ("object.spec.containers[1].env[0].value + '!' == 'x'", {}, None),
    "a list of values": ("object.spec.containers[1].env.map(e, e.value) == ['x']", {}, None),
    "all variables": ("object.spec.containers[1].env == []", {}, None),
    "one variable": ("object.spec.containers[1].env[0] == {'a': 1}", {}, None),
    "the whole container": ("object.spec.containers[1] == {'a': 1}", {}, None),
    "Secret": ("object.data.a == 'x'", {}, {"kind": "Secret", "data": {"a": "s3cret"}}),
    "Secret by key": ("object.stringData['a'] == 'x'", {}, {"kind": "Secret", "stringData": {"a": "s3cret"}}),
    "Secret as a whole": ("object == {'a': 1}", {}, {"kind": "Secret", "stringData": {"a": "s3cret"}}),
    "Secret in a macro": (
        "object.data.all(k, object.data[k] == 'x')",
        {},
        {"kind": "Secret", "data": {"a": "s3cret"}},
    ),
    "Secret, key and value": ("object.data.all(k, v, v == 'x')", {}, {"kind": "Secret", "data": {"a": "s3cret"}}),
}


@pytest.mark.parametrize(("expression", "variables", "obj"), _SECRETS.values(), ids=_SECRETS.keys())
def test_secrets_are_masked(expression: str, variables: dict[str, str], obj: Any) -> None:
    """No value of an environment variable or a Secret shows in an explanation, however it is reached."""
    (reason,) = _reasons(expression, variables, obj)

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
