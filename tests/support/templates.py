"""Pod templates as the kinds of the table write them."""

from __future__ import annotations

from typing import Any

from policies.objects.fieldpath import Pattern, Wildcard
from policies.objects.workload import Workload

Json = dict[str, Any]


def written(row: Workload, template: Json) -> Json:
    """A template, given as Kubernetes writes one, as it stands in objects of a kind."""
    metadata = template.get("metadata") or {}
    parts = (
        (row.shape.labels, metadata.get("labels")),
        (row.shape.annotations, metadata.get("annotations")),
        (row.shape.spec, template.get("spec")),
    )
    whole: Json = {}
    for place, value in parts:
        if value is not None:
            here = whole
            for step in place[:-1]:
                here = here.setdefault(step, {})
            here[place[-1]] = value
    return whole


def filled(value: Any, pattern: Pattern, leaf: Json, number: int) -> Any:
    """A value with a leaf at every place of a pattern, so many of them where it has a wildcard."""
    if not pattern:
        return leaf
    step, rest = pattern[0], pattern[1:]
    if isinstance(step, str):
        inner = value if isinstance(value, dict) else {}
        return {**inner, step: filled(inner.get(step), rest, leaf, number)}
    child = filled(None, rest, leaf, number)
    return [child] * number if step is Wildcard.ITEMS else {f"role-{n}": child for n in range(number)}
