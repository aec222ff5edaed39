"""Requirements of selectors, and whether a selector matches labels.

Source: pkg/apis/meta/v1/validation in k8s.io/apimachinery, and ValidateNodeSelectorRequirement in k8s.io/kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place
from policies.schema.rules.values import items

_AMONG, _PRESENCE, _COMPARED = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
_BAD_OPERATOR = "not a valid selector operator"
_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
_REFUSED = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def requirement(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A requirement of labels has an operator, and values where it compares with some."""
    _requirement(value, place, flaws, (*_AMONG, *_PRESENCE))


def node_requirement(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A requirement of Nodes, which may also compare numbers."""
    _requirement(value, place, flaws, (*_AMONG, *_PRESENCE, *_COMPARED))
    if value.get("operator") in _COMPARED and len(items(value, "values")) != 1:
        flaws.required((place, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _requirement(value: Mapping[str, Any], place: Place, flaws: Flaws, operators: tuple[str, ...]) -> None:
    operator = value.get("operator") or ""
    if operator not in operators:
        flaws.invalid((place, "operator"), operator, _BAD_OPERATOR, f"write one of {', '.join(operators)}")
    elif operator in _AMONG and not items(value, "values"):
        flaws.required((place, "values"), _NEEDED)
    elif operator in _PRESENCE and items(value, "values"):
        flaws.forbidden((place, "values"), _REFUSED)


def matches(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a label selector matches labels."""
    for key, value in mapping(selector, "matchLabels").items():
        if key not in labels or (labels[key] or "") != (value or ""):
            return False
    return all(_meets(item, labels) for item in items(selector, "matchExpressions") if isinstance(item, dict))


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = requirement.get("key") or "", items(requirement, "values")
    match requirement.get("operator"):
        case "In":
            return not values or (key in labels and labels[key] in values)
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True  # the operator is a flaw of its own, as is a lack of values
