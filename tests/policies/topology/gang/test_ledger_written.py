"""What the rule writes, the ledger believes: a placed workload is promised its domain."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, request
from support.choices import Chooser
from support.ledgers import CONTAINERS, START, at

from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.gang.demand import Cluster
from policies.topology.gang.ledger import Ledger
from policies.topology.rule import TopologyPlacement

_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_POOLS = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]} for pool in "ab"
            ]
        }
    }
}
_ABOVE = {"fabric": "f1", "superpod": "2"}


def _job(placements: dict[str, str], affinity: dict[str, Any] | None) -> dict[str, Any]:
    template = {"spec": {"containers": CONTAINERS, **({"affinity": affinity} if affinity else {})}}
    metadata = {"name": "a", "namespace": "ns", "creationTimestamp": at(0)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "annotations": {_TOPOLOGY: "coreweave", **placements}},
        "spec": {"parallelism": 4, "completions": 4, "template": template},
    }


@pytest.mark.parametrize("affinity", [None, _POOLS], ids=["plain", "with terms"])
@pytest.mark.parametrize(
    ("placements", "values"),
    [
        ({_REQUIRED: "rack"}, ("f1", "2", "12")),
        ({_PREFERRED: "rack"}, ("f1", "2", "12")),
        ({_REQUIRED: "superpod", _PREFERRED: "rack"}, ("f1", "12")),
        ({_REQUIRED: "superpod=2", _PREFERRED: "rack"}, ("f1", "2", "12")),
    ],
    ids=["required", "preferred", "both", "named"],
)
def test_what_was_written(placements: dict[str, str], values: tuple[str, ...], affinity: Any) -> None:
    """The promise is for all Pods, in the nearest domain that was chosen for them together."""
    chooser = Chooser("12", _ABOVE)
    obj = _job(placements, affinity)
    changed = patch.apply(obj, _RULE.mutate(request(obj), chooser.facts).operations)
    made = Ledger(WORKLOADS, Cluster(FACTS))
    made.put(changed)

    assert [
        (tuple(value for step in promise.address for value in step.values), [m.count for m in promise.members])
        for promise in made.promises(START)
    ] == [(values, [4])]
