"""Annotations decide where Pods run: the real scheduler, on Nodes of three networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements, workloads
from cluster.placements import (
    GATED,
    MAY,
    MUST,
    UNSCHEDULABLE,
    annotated,
    answer_of,
    one_of,
    one_per_node,
    required,
    scheduled,
)
from cluster.polling import NotYet
from cluster.topologynodes import BACKEND, IB, NODES, RACK
from policies.topology.placement import GATE, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("topology_nodes")

SUPERPOD, HOSTNAME = f"{BACKEND}/superpod", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Case:
    """What annotations say, the user's own node affinity, and the Nodes that the Pods may have."""

    nodes: list[str]
    required: str = ""
    preferred: str = ""
    topology: str = "coreweave"
    own: Mapping[str, Any] = field(default_factory=dict)


NEVER = "domain-that-nobody-is-in"
CASES = {
    "domain": Case(["f1-s1-l1", "f1-s1-l2", "old-f1-s1"], "superpod=1"),
    "domain-of-a-fabric": Case(["f1-s1-l1", "f1-s1-l2", "old-f1-s1"], "fabric=f1,superpod=1"),
    "two-domains-by-key": Case(["roce-s2"], f"{BACKEND}/fabric=c1,{SUPERPOD} in (2, 3)"),
    "domain-by-the-older-key": Case(["old-f1-s3"], f"{IB}/superpod=3"),
    NEVER: Case([], "superpod=99"),
    "roce": Case(["roce-s1"], "superpod=1", topology="coreweave-roce"),
    "roce-preferred": Case(["roce-s1", "roce-s2"], "", "rack=r5", "coreweave-roce"),
    "infiniband": Case(["f1-s1-l1", "f1-s1-l2", "old-f1-s1"], "superpod=1", topology="coreweave-infiniband"),
    "own-terms": Case(
        ["f1-s1-l1", "old-f1-s1"],
        "superpod=1",
        own=required([one_of(RACK, "r1", "r3")], [one_of(HOSTNAME, "old-f1-s1", "old-f1-s3")]),
    ),
    "own-empty-term": Case([], "superpod=1", own=required([])),
}


@pytest.fixture(scope="module")
def deployments(control_plane: ControlPlane, topology_nodes: None) -> Iterator[str]:
    """A Deployment for each case, with a Pod for each Node that is meant, and one Pod to a Node."""
    del topology_nodes
    namespace = "topology-placement"
    control_plane.namespace(namespace)
    for name, case in CASES.items():
        made = placements.deployment(namespace, name, len(case.nodes) or 1, affinity={**case.own, **one_per_node(name)})
        control_plane.objects.create(annotated(made, case.required, case.preferred, case.topology), user="alice")
    yield namespace
    control_plane.objects.delete("namespace", namespace)


@pytest.mark.parametrize("name", CASES)
def test_pods_run_where_the_annotations_say(control_plane: ControlPlane, deployments: str, name: str) -> None:
    """The Pods fill exactly the Nodes that are meant, however these are labelled; one Pod more waits behind the gate.

    A placement that is only preferred does not, nor one that no Node there is can hold, which goes by affinity.
    """
    case = CASES[name]
    if case.nodes:
        assert scheduled(control_plane, deployments, name, len(case.nodes)) == case.nodes
        scale = ("scale", f"deployment/{name}", "-n", deployments, f"--replicas={len(case.nodes) + 1}")
        control_plane.kubectl(*scale, check=True)

    expected = {GATED if case.required and name != NEVER else UNSCHEDULABLE}

    def left() -> bool:
        found = control_plane.get("pods", "-n", deployments, "-l", f"app={name}")["items"]
        why = {placements.condition(each) for each in found if not each["spec"].get("nodeName")}
        if len(found) != len(case.nodes) + 1 or why != expected:
            raise NotYet(f"{len(found)} Pods, {why}")
        return True

    control_plane.wait_for(f"one Pod more to be {expected}", left)


def test_bare_level_keeps_pods_in_one_domain(control_plane: ControlPlane, namespace: str) -> None:
    """All Pods of a Deployment that requires a level, and names no domain of it, are in one, by whichever name."""
    control_plane.apply(annotated(placements.deployment(namespace, replicas=6), "leafgroup"), check=True)

    nodes = scheduled(control_plane, namespace, "main", 6)

    keys = [(f"{BACKEND}/{tier}", f"{IB}/{tier}") for tier in ("fabric", "superpod", "leafgroup")]
    domains = {tuple(next(NODES[node][key] for key in names if key in NODES[node]) for names in keys) for node in nodes}
    assert len(domains) == 1


def test_job_of_a_cron_job_runs_in_the_domain(control_plane: ControlPlane, namespace: str) -> None:
    """What a CronJob's template got goes to its Jobs and their Pods."""
    made = placements.job(namespace, pods=2)
    cron = {
        **made,
        "kind": "CronJob",
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": made["spec"]}},
    }
    control_plane.apply(annotated(cron, "fabric=f1,superpod=2"), check=True)

    answer = control_plane.kubectl("create", "job", "once", "--from=cronjob/main", "-n", namespace)

    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, namespace, "main", 2) == ["f1-s2-l1"] * 2


@pytest.mark.parametrize("on_template", [False, True], ids=["workload", "template"])
def test_daemon_set_is_left_alone(control_plane: ControlPlane, namespace: str, *, on_template: bool) -> None:
    """A DaemonSet has a Pod on each Node: each of its Pods belongs on its own, and none is gated."""
    made = placements.deployment(namespace)
    del made["spec"]["replicas"]
    holder = made["spec"]["template"] if on_template else made
    holder["metadata"]["annotations"] = placements.asking("fabric=f1,superpod=1", "rack=r1")

    control_plane.objects.create({**made, "kind": "DaemonSet"}, user="alice")

    assert scheduled(control_plane, namespace, "main", len(NODES)) == sorted(NODES)


@pytest.mark.parametrize("keys", [BACKEND, IB], ids=["newer", "older"])
def test_domain_is_written_as_documented(control_plane: ControlPlane, namespace: str, keys: str) -> None:
    """Each of the user's terms is narrowed by the domain, in the keys of the Node; preferences name rack and Node."""
    node = {BACKEND: "f1-s1-l1", IB: "old-f1-s1"}[keys]
    own = required([one_of(HOSTNAME, node)], [one_of(HOSTNAME, "bare")])
    made = annotated(placements.job(namespace, affinity=own), "fabric=f1,superpod=1", "leafgroup")

    control_plane.objects.create(made, user="alice")

    assert scheduled(control_plane, namespace, "main", 1) == [node]
    (pod,) = control_plane.get("pods", "-n", namespace, "-l", "app=main")["items"]
    written = pod["spec"]["affinity"]["nodeAffinity"]
    domain = [one_of(f"{keys}/fabric", "f1"), one_of(f"{keys}/superpod", "1")]
    near = [*domain, one_of(f"{keys}/leafgroup", "1")]
    narrowed = required([one_of(HOSTNAME, node), *domain], [one_of(HOSTNAME, "bare"), *domain])["nodeAffinity"]
    assert written[MUST] == narrowed[MUST]
    assert [each["weight"] for each in written[MAY]] == [100, 100]
    assert written[MAY][0]["preference"]["matchExpressions"][: len(near)] == near
    assert written[MAY][1]["preference"]["matchExpressions"] == [one_of(HOSTNAME, node)]
    assert pod["metadata"]["annotations"][PLACEMENT].startswith("1 Pod with 1 GPU in fabric=f1,superpod=1; packed on ")
    template = control_plane.get("job", "main", "-n", namespace)["spec"]["template"]
    assert (template["spec"]["affinity"], template["metadata"]["annotations"]) == (own, made["metadata"]["annotations"])


def test_preference_goes_from_near_to_far(control_plane: ControlPlane, namespace: str) -> None:
    """Pods of a Node each take the preferred rack, then its superpod, then the required fabric; then they wait."""
    containers = placements.template()["spec"]["containers"]
    containers[0]["resources"] |= {"requests": {"cpu": "100"}}
    found, nodes = [], 5  # of that fabric
    for number in range(nodes + 1):
        made = placements.pod(namespace, f"pod-{number}", containers=containers)
        control_plane.objects.create(annotated(made, "fabric=f1", "superpod=1,rack=r2"), user="alice")
        if number < nodes:
            found += scheduled(control_plane, namespace, f"pod-{number}", 1)

    placements.gated(control_plane, namespace, f"pod-{nodes}", 1)
    assert found[0] == "f1-s1-l2"
    assert [sorted(found[1:3]), sorted(found[3:])] == [["f1-s1-l1", "old-f1-s1"], ["f1-s2-l1", "old-f1-s3"]]


def test_a_pod_with_many_terms_of_its_own_is_stored(control_plane: ControlPlane, namespace: str) -> None:
    """A Pod with 800 node selector terms of its own waits behind the gate, and keeps its terms as they are."""
    pod = annotated(workloads.pod(namespace), "superpod=3")
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [str(number)]}]} for number in range(800)
    ]
    pod["spec"]["affinity"] = {"nodeAffinity": {MUST: {"nodeSelectorTerms": terms}}}

    answer = control_plane.apply(pod, check=True)

    stored = control_plane.get("pod", "main", "-n", namespace)
    assert stored["spec"]["affinity"] == pod["spec"]["affinity"]
    assert stored["spec"]["schedulingGates"] == [{"name": GATE}]
    assert not answer.stderr
