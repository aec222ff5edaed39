"""Annotations decide where Pods run: the real scheduler, on Nodes of three networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.placements import annotated, answer_of, one_of, one_per_node, required, scheduled
from cluster.topologynodes import BACKEND, IB, NODES, RACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("topology_nodes")

TIERS = ("fabric", "superpod", "leafgroup")
SUPERPOD, HOSTNAME = f"{BACKEND}/superpod", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Case:
    """What annotations say, the user's own node affinity, and the Nodes that the Pods may have."""

    nodes: list[str]
    required: str = ""
    preferred: str = ""
    topology: str = "coreweave"
    own: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "domain": Case(["f1-s1-l1", "f1-s1-l2", "f2-s1-l1", "old-f1-s1", "roce-s1"], "superpod=1"),
    "domain-of-a-fabric": Case(["f1-s1-l1", "f1-s1-l2", "old-f1-s1"], "fabric=f1,superpod=1"),
    "two-domains-by-key": Case(["f1-s2-l1", "old-f1-s3", "roce-s2"], f"{SUPERPOD} in (2, 3)"),
    "domain-by-the-older-key": Case(["old-f1-s3"], f"{IB}/superpod=3"),
    "domain-that-nobody-is-in": Case([], "superpod=99"),
    "roce": Case(["roce-s1"], "superpod=1", topology="coreweave-roce"),
    "roce-preferred": Case(["roce-s1", "roce-s2"], "", "rack=r5", "coreweave-roce"),
    "infiniband": Case(
        ["f1-s1-l1", "f1-s1-l2", "f2-s1-l1", "old-f1-s1"], "superpod=1", topology="coreweave-infiniband"
    ),
    "own-terms": Case(
        ["f1-s1-l1", "old-f1-s1"],
        "superpod=1",
        own=required([one_of(RACK, "r1", "r3")], [one_of(HOSTNAME, "old-f1-s1", "old-f1-s3")]),
    ),
    "own-empty-term": Case([], "superpod=1", own=required([])),
}


@pytest.fixture(scope="module")
def deployments(control_plane: ControlPlane, topology_nodes: None) -> Iterator[str]:
    """A Deployment for each case, with a Pod more than there are Nodes for it, and one Pod to a Node."""
    del topology_nodes
    namespace = "topology-placement"
    control_plane.namespace(namespace)
    control_plane.apply([_deployment(namespace, name) for name in CASES], check=True)
    yield namespace
    control_plane.objects.delete("namespace", namespace)


def _deployment(namespace: str, name: str) -> Manifest:
    case = CASES[name]
    affinity = {**case.own, **one_per_node(name)}
    made = placements.deployment(namespace, name, len(case.nodes) + 1, affinity=affinity)
    return annotated(made, case.required, case.preferred, case.topology)


@pytest.mark.parametrize("name", CASES)
def test_pods_run_where_the_annotations_say(control_plane: ControlPlane, deployments: str, name: str) -> None:
    """The Pods fill exactly the Nodes that are meant, however these are labelled, and one Pod more stays pending."""
    nodes = CASES[name].nodes

    assert scheduled(control_plane, deployments, name, len(nodes) + 1, pending=1) == nodes


@pytest.mark.parametrize(
    ("level", "keys"),
    [
        pytest.param("rack", [(RACK,)], id="rack"),
        pytest.param("leafgroup", [(f"{BACKEND}/{tier}", f"{IB}/{tier}") for tier in TIERS], id="leafgroup"),
    ],
)
def test_bare_level_keeps_pods_in_one_domain(
    control_plane: ControlPlane, namespace: str, level: str, keys: list[tuple[str, ...]]
) -> None:
    """All Pods of a Deployment that requires a level, and names no domain of it, are in one, by whichever name."""
    control_plane.apply(annotated(placements.deployment(namespace, replicas=6), level), check=True)

    nodes = scheduled(control_plane, namespace, "main", 6)

    domains = {tuple(next(NODES[node][key] for key in names if key in NODES[node]) for names in keys) for node in nodes}
    assert len(domains) == 1


def test_job_runs_in_its_domain(control_plane: ControlPlane, namespace: str) -> None:
    """All Pods of a Job run in the domain that it names, which only an older Node is in."""
    answer = control_plane.apply(annotated(placements.job(namespace, pods=4), "superpod=3"))

    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, namespace, "main", 4) == ["old-f1-s3"] * 4


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
def test_daemon_set_covers_its_domain(control_plane: ControlPlane, namespace: str, *, on_template: bool) -> None:
    """A DaemonSet has a Pod on each Node of its domain, also where each Pod carries the annotations itself."""
    made = placements.deployment(namespace)
    del made["spec"]["replicas"]
    holder = made["spec"]["template"] if on_template else made
    holder["metadata"]["annotations"] = placements.asking("fabric=f1,superpod=1", "rack=r1")

    answer = control_plane.apply({**made, "kind": "DaemonSet"})

    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, namespace, "main", 3) == ["f1-s1-l1", "f1-s1-l2", "old-f1-s1"]


def test_pod_of_an_annotated_template_is_like_it(control_plane: ControlPlane, namespace: str) -> None:
    """What stands in a template already is not written into its Pods again."""
    made = placements.deployment(namespace, replicas=1)
    made["spec"]["template"]["metadata"]["annotations"] = placements.asking("fabric=f1,superpod=1", "rack=r1")
    control_plane.apply(made, check=True)
    scheduled(control_plane, namespace, "main", 1)

    template = control_plane.get("deployment", "main", "-n", namespace)["spec"]["template"]
    (pod,) = control_plane.get("pods", "-n", namespace)["items"]
    assert pod["spec"]["affinity"] == template["spec"]["affinity"]
    assert pod["metadata"]["annotations"] == template["metadata"]["annotations"]


def test_preference_goes_from_near_to_far(control_plane: ControlPlane, namespace: str) -> None:
    """Pods that fill a Node each take the preferred rack, then its superpod, then the required fabric, then nothing."""
    containers = placements.template()["spec"]["containers"]
    containers[0]["resources"] |= {"requests": {"cpu": "100"}}
    found, nodes = [], 5  # of that fabric
    for number in range(nodes + 2):
        made = placements.pod(namespace, f"pod-{number}", containers=containers)
        control_plane.apply(annotated(made, "fabric=f1", "superpod=1,rack=r2"), check=True)
        found += [scheduled(control_plane, namespace, f"pod-{number}", 1, pending=int(number >= nodes))]

    nearest, *others = found
    assert nearest == ["f1-s1-l2"]
    assert [sorted(others[:2]), sorted(others[2:4]), others[4:]] == [
        [["f1-s1-l1"], ["old-f1-s1"]],
        [["f1-s2-l1"], ["old-f1-s3"]],
        [[], []],
    ]
