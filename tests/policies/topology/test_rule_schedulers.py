"""Schedulers that read the annotations themselves: what they are handed is what they can know."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, request

from policies.engine import patch
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Options
from policies.topology.topology import BUILT_IN, Catalog

_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_SHORT = {_TOPOLOGY: "coreweave", _REQUIRED: "superpod"}
_FULL = {**_SHORT, _REQUIRED: "backend.coreweave.cloud/superpod"}
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))


def _job(own: Json, template: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": own, **metadata},
        "spec": {"template": {"metadata": {"annotations": template}, "spec": {"containers": []}}},
    }


def _written(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE) -> Json:
    return patch.apply(obj, rule.mutate(request(obj, old=old), FACTS).operations)


def _queued(own: Json, template: Json) -> Json:
    return _job(own, template, labels={"kai.scheduler/queue": "research"})


def test_a_manifest_that_is_applied_again() -> None:
    """The short name in the template of a running Job becomes the key that stands there already."""
    assert _written(_queued({}, _SHORT), _queued({}, _FULL)) == _queued({}, _FULL)


@pytest.mark.parametrize(
    ("annotations", "refused"),
    [
        pytest.param(
            {_TOPOLOGY: "topograph-nvlink", _REQUIRED: "nvlink"},
            ('"nvlink"', "is no level that the scheduler knows (label kai.scheduler/queue)."),
            id="a-union",
        ),
        pytest.param(
            {**_SHORT, _PREFERRED: "superpod=3"},
            ('"superpod=3"', "names a domain, which the scheduler cannot read (label kai.scheduler/queue)."),
            id="a-domain-that-is-not-more-specific",
        ),
    ],
)
def test_what_the_scheduler_cannot_know_is_refused(annotations: Json, refused: tuple[str, str]) -> None:
    """Forms of the annotations that only this service knows are refused, also where the placement has no effect."""
    lenient = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, not_more_specific="warn"))
    obj = _queued(deepcopy(annotations), {})

    refusals = [each for each in lenient.validate(request(obj), FACTS) if not each.verdict]

    assert [(violation.value, violation.problem) for violation in refusals] == [refused]
