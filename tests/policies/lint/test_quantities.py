"""Quantities that are compared with numbers, or as texts."""

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, policy, reviewed

_LIMITS = "object.spec.containers.all(c, {})"


def _found(expression: str, **more: object) -> list[tuple[str, str]]:
    findings = reviewed(policy(expression, **{"rules": (PODS,), **more}))  # type: ignore[arg-type]
    return [(each.message.partition(" is a quantity")[0], each.remedy) for each in findings if "quantity-" in each.id]


_CPU, _KEY, _MEMORY = "c.resources.limits.cpu", "c.resources.limits['cpu']", "c.resources.limits.memory"
_REQUEST, _GPU = "c.resources.requests.cpu", 'c.?resources.limits[?"nvidia.com/gpu"].orValue({})'
_TEXT = _GPU.format("'0'")


@pytest.mark.parametrize(
    ("expression", "found", "remedy"),
    [
        (f"{_GPU.format(0)} <= 4", _GPU.format(0), f"quantity({_TEXT}).compareTo(quantity('4')) <= 0"),
        (f"2 > {_CPU}", _CPU, f"quantity({_CPU}).compareTo(quantity('2')) < 0"),
        (f"{_KEY} == 2.5", _KEY, f"quantity({_KEY}).compareTo(quantity('2.5')) == 0"),
        (f"{_MEMORY} < '2Gi'", _MEMORY, f"quantity({_MEMORY}).compareTo(quantity('2Gi')) < 0"),
        (f"{_CPU} >= {_REQUEST}", _CPU, f"quantity({_CPU}).compareTo(quantity({_REQUEST})) >= 0"),
        (f"{_CPU} != size(c.name)", _CPU, f"quantity({_CPU}).compareTo(quantity(string(size(c.name)))) != 0"),
    ],
)
def test_wrong_comparisons_and_what_works(expression: str, found: str, remedy: str) -> None:
    """The quantity is named, with the comparison to write."""
    assert _found(_LIMITS.format(expression)) == [(found, f"write {remedy}")]


def test_quantities_behind_variables() -> None:
    """A variable that is a quantity, or a map of them, is one where it is used, for each kind once."""
    variables = {"limits": "object.spec.?overhead", "cpu": "object.spec.overhead.cpu"}
    expression = "variables.cpu <= 2 && variables.limits.orValue({}).cpu <= 3"

    assert [text for text, _ in _found(expression, variables=variables)] == [
        "variables.cpu",
        "variables.limits.orValue({}).cpu",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        _LIMITS.format("quantity(c.?resources.limits[?'cpu'].orValue('0')).compareTo(quantity('2')) <= 0"),
        _LIMITS.format("c.resources.limits.cpu == '2'"),
        _LIMITS.format("c.resources.limits.size() <= 2"),
        "object.kind != 'Deployment' || object.spec.replicas <= 5",
    ],
    ids=["compared as quantities", "the same text", "how many", "another field"],
)
def test_right_comparisons_are_left_alone(expression: str) -> None:
    """What works is no finding."""
    assert _found(expression, rules=(PODS, DEPLOYMENTS)) == []
