"""Whether a single Node meets what a Pod requires of its labels, and whether the Pod tolerates its taints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from policies.engine.facts import Taint
from policies.topology.gang.gang import Requirement, Toleration

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII).fullmatch


def meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement. Source: Requirement.Matches of k8s.io/apimachinery's labels."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and compares(value, requirement)
        case _:  # the API server refuses it
            return False


def compares(value: str, requirement: Requirement) -> bool:
    """Whether a value is a number above (Gt) or below (Lt) the one of the requirement."""
    if len(requirement.values) != 1 or not _INTEGER(value) or not _INTEGER(requirement.values[0]):
        return False
    number, limit = int(value), int(requirement.values[0])
    return number > limit if requirement.operator == "Gt" else number < limit


def tolerates_all(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether tolerations tolerate all of these taints."""
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration tolerates a taint. Source: ToleratesTaint in k8s.io/api core/v1/toleration.go."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
