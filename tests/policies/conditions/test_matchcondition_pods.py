"""The conditions about Pods, evaluated: what they keep from the rule is nothing that the rule would change."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, Json, pod
from support.cel.celrun import compiled, names

from policies.celtext import at, values
from policies.matchconditions import pod_requests_no_accelerator
from policies.objects.fieldpath import Pattern, locate, parse
from policies.podspec import Accelerators

_ACCELERATORS = Accelerators()
_CONDITION = compiled(pod_requests_no_accelerator(_ACCELERATORS).expression)


def _limits(**resources: str) -> Json:
    return {
        "name": "main",
        "resources": {"limits": {name.replace("_", "/"): value for name, value in resources.items()}},
    }


@pytest.mark.parametrize(
    ("containers", "asked"),
    [
        pytest.param([{"name": "main"}], True, id="no-resources"),
        pytest.param([{"name": "main", "resources": {"requests": {"cpu": "1"}}}], True, id="no-limits"),
        pytest.param([_limits(cpu="8", memory="1Gi")], True, id="cpu"),
        pytest.param([_limits(**{"nvidia.com_gpu": "0"})], True, id="no-gpu"),
        pytest.param([_limits(**{"nvidia.com_gpus": "1"})], True, id="another-resource"),
        pytest.param([_limits(**{"nvidia.com_gpu": "8"})], False, id="gpu"),
        pytest.param([_limits(cpu="1"), _limits(**{"nvidia.com_mig-1g.5gb": "1"})], False, id="glob-in-the-second"),
    ],
)
def test_accelerators(containers: list[Json], *, asked: bool) -> None:
    """A Pod that is not asked about requests an accelerator, as the rule sees it."""
    obj = pod(containers=containers)

    found = _CONDITION.evaluate_exactly(names(obj))

    assert (found.error, found.value) == (None, asked)
    assert asked or _ACCELERATORS.requested(obj, "default", FACTS)


_OBJECT: Json = {
    "a": {"b": 1, "c-d": {"e": 2}},
    "list": [{"b": 3}, {}, {"b": None}, 7, [1]],
    "map": {"x": {"b": [4]}, "y": {"b": [5, 6]}, "z": "b"},
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path or "object")
        for path in (
            "",
            "a.b",
            "a.c-d.e",
            "a.b.c",
            "none.b",
            "list.b",
            "list[*].b",
            "list[*]",
            "map.*.b[*]",
            "map[*]",
            "a.*",
        )
    ],
)
def test_values_at_a_path(path: str) -> None:
    """The list has what stands at the places of the pattern, in order, and nothing where a step does not fit."""
    pattern: Pattern = parse(path)

    found = compiled(f"{values('object', pattern)} == dyn(params)").evaluate_exactly(
        names(_OBJECT, params=[value for _, value in locate(_OBJECT, pattern)])
    )

    assert (found.error, found.value) == (None, True)


@pytest.mark.parametrize(
    ("path", "holds"), [("a.b", True), ("a.none", False), ("list.b", False), ("a.b.c", False), ("a.c-d.e", False)]
)
def test_a_predicate_at_a_path(path: str, *, holds: bool) -> None:
    """The predicate is asked about the one value at a path; without one the answer is no, and no error."""
    found: Any = compiled(at("object", parse(path), "{} == 1".format)).evaluate_exactly(names(_OBJECT))

    assert (found.error, found.value) == (None, holds)
