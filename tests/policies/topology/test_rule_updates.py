"""Updates by which nothing is asked that was not asked before: what was written stays."""

from __future__ import annotations

from copy import deepcopy

import pytest
from support.builders import FACTS, WORKLOADS, Json, request

from policies.engine import patch
from policies.topology.objects import read
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Default, Options
from policies.topology.topology import BUILT_IN, Catalog

_HALL = "example.org/hall"


def _rule(*levels: str) -> TopologyPlacement:
    """The rule where a topology `site` has these levels; without any there is none."""
    more = [read({"name": "site", "levels": list(levels)}, "a file")] if levels else []
    return TopologyPlacement(Catalog([*more, *BUILT_IN]), Options(WORKLOADS))


def _manifest(kind: str, placement: str = "hall=h1") -> Json:
    spec: Json = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    annotations = {"kai.scheduler/topology": "site", "kai.scheduler/topology-required-placement": placement}
    return {
        "apiVersion": {"Job": "batch/v1"}.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"template": {"spec": spec}},
    }


def _written(rule: TopologyPlacement, obj: Json, old: Json | None = None) -> Json:
    return patch.apply(obj, rule.mutate(request(obj, old=old), FACTS).operations)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="deleted"),
        pytest.param(["example.org/site", "example.org/building"], id="without-the-level"),
        pytest.param(["example.net/hall", "kubernetes.io/hostname"], id="another-key"),
    ],
)
def test_a_topology_that_changes_changes_no_workload(kind: str, later: list[str]) -> None:
    """An update of a workload whose topology has changed writes nothing, and refuses nothing."""
    live = _written(_rule(_HALL), _manifest(kind))
    labelled = deepcopy(live)
    labelled["metadata"]["labels"] = {"a": "b"}
    rule = _rule(*later)

    assert _written(rule, labelled, live) == labelled
    assert [each for each in rule.validate(request(labelled, old=live), FACTS) if each.verdict != "warn"] == []


@pytest.mark.parametrize("preferred", ["lowest", "zone"])
def test_a_default_refuses_nothing(preferred: str) -> None:
    """A workload that was there before the default was configured is updated as ever."""
    rule = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, default=Default("kubernetes", preferred)))
    running = _manifest("Job")
    del running["metadata"]["annotations"]
    running["spec"]["parallelism"] = 4
    labelled = {**running, "metadata": {**running["metadata"], "labels": {"a": "b"}}}

    assert (_written(rule, labelled, running), rule.validate(request(labelled, old=running), FACTS)) == (labelled, [])
