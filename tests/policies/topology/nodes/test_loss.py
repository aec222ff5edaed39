"""Domains whose Nodes cannot hold their gang any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.builders import FACTS, WORKLOADS
from support.ledgers import RACK, job

from policies.topology.affinity import RECORD, with_terms, write_record
from policies.topology.gang.account import account
from policies.topology.gang.demand import Cluster
from policies.topology.gang.membership import identity
from policies.topology.nodes.loss import Loss, Sites, site
from policies.topology.nodes.manifest import NodeManifest

_ROOM = {"cpu": "8", "memory": "64Gi", "pods": "10", "nvidia.com/gpu": "8"}


def _node(name: str, rack: str = "12", gpus: int = 8, **spec: Any) -> NodeManifest:
    node = {
        "metadata": {"name": name, "labels": {"rack": rack}},
        "spec": spec,
        "status": {"allocatable": {**_ROOM, "nvidia.com/gpu": str(gpus)}},
    }
    return msgspec.convert(node, NodeManifest)


def _losses(nodes: Iterable[NodeManifest], obj: dict[str, Any]) -> list[Loss]:
    known = account(obj, identity(obj), WORKLOADS["batch", "Job"], Cluster(FACTS))
    assert known is not None
    return Sites(map(site, nodes)).losses(known)


def _rack(size: int, **spec: Any) -> list[NodeManifest]:
    return [_node(f"n{number}", **spec) for number in range(size)]


def test_a_domain_that_holds_its_gang_is_not_lost() -> None:
    """What else runs there does not count: it ends."""
    assert _losses(_rack(4), job(pods=4)) == []


def test_nodes_that_are_gone() -> None:
    """A domain without Nodes holds none of the Pods, whatever other domains have."""
    (loss,) = _losses([_node("other", rack="13")], job(pods=4))

    assert loss == Loss(RACK, 0, (), 4, 4)
    assert loss.sentence == "Its Pods must run in rack=12, which has no Nodes any more."


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"unschedulable": True}, "cordoned"),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, "not ready"),
        ({"taints": [{"key": "sunk.coreweave.com/lock", "effect": "NoSchedule"}]}, "locked by SUNK"),
    ],
)
def test_nodes_that_take_no_pods(spec: dict[str, Any], reason: str) -> None:
    """A domain lacks the room of its Nodes that are not well, and is told why they are not."""
    (loss,) = _losses([*_rack(3), _node("ill", **spec)], job(pods=4))

    assert loss == Loss(RACK, 4, ((reason, 1),), 4, 1)
    assert loss.sentence == (
        f"Its Pods must run in rack=12, which has 4 Nodes (1 {reason}): "
        "no room for 1 of its 4 Pods, even if nothing else ran there."
    )


def test_tolerated_taints_keep_nobody_out() -> None:
    """A gang that tolerates what ails its Nodes has not lost them."""
    obj = job(pods=4)
    obj["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]

    assert _losses(_rack(4, unschedulable=True), obj) == []


def test_only_the_pods_that_are_left_need_room() -> None:
    """Pods that have succeeded are not created again."""
    obj = job(pods=4, status={"succeeded": 2})

    assert ([loss.missing for loss in _losses(_rack(1), obj)], _losses(_rack(2), obj)) == ([1], [])


def test_a_preferred_domain_is_never_lost() -> None:
    """Pods that only prefer their domain may go elsewhere."""
    required = {"key": "rack", "operator": "In", "values": ["12"]}
    preference = {"weight": 100, "preference": {"matchExpressions": [required]}}
    affinity, entry = with_terms(None, [], [preference])
    obj = job(pods=4)
    obj["spec"]["template"]["spec"]["affinity"] = affinity
    obj["metadata"]["annotations"][RECORD] = write_record({"spec.template": replace(entry, domain=RACK)})[0]

    assert _losses([], obj) == []


def test_room_is_counted_node_by_node() -> None:
    """Four Nodes with half of the GPUs that a Pod asks for hold none, though they have enough in sum."""
    (loss,) = _losses([_node(f"n{number}", gpus=4) for number in range(8)], job(pods=4))

    assert (loss.nodes, loss.missing) == (8, 4)
