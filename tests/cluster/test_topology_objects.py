"""Topology objects of KAI and of Kueue: known while they exist, in a cluster that did not have their kinds at first."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from cluster import crds, placements, topologynodes, workloads
from cluster.placements import NOWHERE, PREFERRED, REQUIRED, TOPOLOGY, annotated, answer_of, denied, scheduled
from cluster.polling import NotYet, answers
from cluster.topologynodes import BACKEND, RACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

SUPERPOD = f"{BACKEND}/superpod"
KAI, KUEUE = "kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"
LEVELS = {KAI: [{"nodeLabel": SUPERPOD, "alias": "pod"}, {"nodeLabel": RACK, "alias": "cabinet"}]}
LEVELS[KUEUE] = [{"nodeLabel": level["nodeLabel"]} for level in LEVELS[KAI]]
GROVE = "grove.io/v1alpha1"
LEVELS[GROVE] = [{"domain": level["alias"], "key": level["nodeLabel"]} for level in LEVELS[KAI]]
KINDS = {KAI: "Topology", KUEUE: "Topology", GROVE: "ClusterTopologyBinding"}
KIND = "topologies.kai.scheduler"
UNKNOWN = f'  metadata.annotations[{TOPOLOGY}]: "{{}}" is no known topology.'


@pytest.fixture(scope="module", autouse=True)
def kinds(control_plane: ControlPlane, topology_nodes: None) -> Iterator[None]:
    """Install the kinds, beside a service that runs."""
    del topology_nodes
    with crds.installed(control_plane, crds.KAI_TOPOLOGY, crds.KUEUE_TOPOLOGY, crds.GROVE_TOPOLOGY):
        yield


def topology(name: str, api_version: str = KAI) -> Manifest:
    """Return a Topology object of superpods and racks."""
    spec = {"levels": LEVELS[api_version]}
    return {"apiVersion": api_version, "kind": KINDS[api_version], "metadata": workloads.metadata(name), "spec": spec}


def await_word(control_plane: ControlPlane, name: str, *, known: bool = True) -> None:
    """Wait until the service knows a topology, or does not know it any more."""
    asking = annotated(placements.pod("default"), "superpod=1", topology=name)

    control_plane.wait_until(
        f"the service to hear of {name}",
        lambda: control_plane.objects.applied(asking, user="alice", dry_run=True),
        lambda answer: known == (answer.code < HTTPStatus.BAD_REQUEST),
    )


def serve(control_plane: ControlPlane, name: str) -> None:
    """Make a KAI Topology that the service knows."""
    control_plane.objects.apply(topology(name))
    await_word(control_plane, name)


@pytest.mark.parametrize(
    ("api_version", "level"),
    [
        pytest.param(KAI, "pod=2,cabinet=r3", id="KAI"),
        pytest.param(KUEUE, "superpod=2,rack=r3", id="Kueue"),
        pytest.param(GROVE, "cabinet=r3,pod=2", id="Grove"),
    ],
)
def test_object_becomes_usable(control_plane: ControlPlane, namespace: str, api_version: str, level: str) -> None:
    """What was an unknown topology is one within seconds, by its aliases too, and Pods are placed by it."""
    name = f"used-{level.partition('=')[0]}"
    manifest = annotated(placements.job(namespace, pods=2), level, topology=name)
    before = control_plane.apply(manifest)
    control_plane.objects.apply(topology(name, api_version))
    await_word(control_plane, name)

    answer = control_plane.apply(manifest)

    assert UNKNOWN.format(name) in before.stderr.splitlines()
    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, namespace, "main", 2) == ["f1-s2-l1"] * 2


def test_scheduler_finds_its_own_names(control_plane: ControlPlane, namespace: str) -> None:
    """For KAI itself an alias stays, a short name becomes the key, and nothing is to be warned of."""
    serve(control_plane, "kai-own")
    manifest = annotated(placements.pod(namespace, schedulerName="kai-scheduler"), "superpod", "cabinet", "kai-own")

    answer = control_plane.apply(manifest)

    found = control_plane.get("pod", "main", "-n", namespace)["metadata"]["annotations"]
    assert answer_of(answer) == (0, "")
    assert (found[REQUIRED], found[PREFERRED]) == (SUPERPOD, "cabinet")


def test_clash_of_names_is_warned_of(control_plane: ControlPlane) -> None:
    """An object with the name of a built-in topology and other levels does not count, and that is said."""
    control_plane.objects.apply(topology("gcp", KUEUE))
    manifest = annotated(placements.pod("default"), "", "hostname=f1-s1-l1", "gcp")

    def warned() -> bool:
        answer = control_plane.apply(manifest, "--dry-run=server", check=True)
        if not answer.stderr:
            raise NotYet("no warning")
        told = 'topology "gcp" has two definitions that differ: built in counts, Kueue Topology gcp does not'
        assert answer.stderr == f"Warning: {told}\n"
        return True

    control_plane.wait_for("the service to hear of the object", warned)


REMEDY = "Change or delete them first: Pods that wait would never be scheduled. Running ones go on."


def named_by_all(control_plane: ControlPlane, namespace: str, name: str) -> str:
    """Make workloads that name a topology; return those that its deletion concerns, as they are listed."""
    bare, running = (placements.pod(namespace, pod, **NOWHERE) for pod in ("bare", "running"))
    running["spec"]["nodeName"] = "f1-s1-l1"
    made = [placements.job(namespace, "train", **NOWHERE), placements.deployment(namespace, "serve", 1), bare, running]
    control_plane.apply([annotated(each, "pod=1", topology=name) for each in made], check=True)
    control_plane.apply(annotated(placements.pod(namespace, "other", **NOWHERE), "superpod=1"), check=True)

    def waiting() -> bool:
        found = control_plane.get("pods", "-n", namespace)["items"]
        names = {pod["metadata"]["name"] for pod in found} - {"running", "other"}
        if len(names) != 3:  # one of each workload, and the bare one
            raise NotYet(str(names))
        return True

    control_plane.wait_for("the Pods of all workloads", waiting)
    return f"Deployment {namespace}/serve, Job {namespace}/train, Pod {namespace}/bare"


def test_deletion_is_warned_of(control_plane: ControlPlane, namespace: str) -> None:
    """Who deletes a topology reads which workloads name it; they go on, and new ones cannot name it."""
    serve(control_plane, "going")
    listed = named_by_all(control_plane, namespace, "going")

    answer = control_plane.kubectl("delete", KIND, "going")

    await_word(control_plane, "going", known=False)
    labelled = control_plane.kubectl("label", "job", "train", "-n", namespace, "example.org/team=b")
    remedy = f"{REMEDY} topology.deletion: deny refuses this."
    assert answer_of(answer) == (0, f'Warning: topology "going" is named by {listed}. {remedy}\n')
    assert labelled.returncode == 0


def test_levels_that_go_are_warned_of(control_plane: ControlPlane, namespace: str) -> None:
    """Who takes a level out of a topology reads which workloads name it; who only labels it reads nothing."""
    serve(control_plane, "changing")
    listed = named_by_all(control_plane, namespace, "changing")
    less = json.dumps({"spec": {"levels": LEVELS[KAI][:1]}})

    labelled = control_plane.kubectl("label", KIND, "changing", "example.org/team=b")
    answer = control_plane.kubectl("patch", KIND, "changing", "--type=merge", "-p", less)

    remedy = f"{REMEDY} topology.deletion: deny refuses this."
    first, *others = listed.split(", ")
    told = f'topology "changing" loses {RACK}, and is named by {first} and {len(others)} more. {remedy}'
    assert answer_of(labelled) == (0, "")
    assert answer_of(answer) == (0, f"Warning: {told}\n")


def test_deletion_is_refused_where_configured(control_plane: ControlPlane, service: Service, namespace: str) -> None:
    """With `topology.deletion: deny` it stays, until nobody names it."""
    serve(control_plane, "staying")
    listed = named_by_all(control_plane, namespace, "staying")
    with service.configured(topology={**topologynodes.SETTINGS, "deletion": "deny"}):
        refused = control_plane.kubectl("delete", KIND, "staying")
        control_plane.kubectl("delete", "job/train", "deploy/serve", "pod/bare", "-n", namespace, "--wait=false")
        for gone in (["job/train", "pod/bare"], ["pods", "-l", "job-name=train"]):
            control_plane.kubectl("wait", "--for=delete", *gone, "-n", namespace, "--timeout=120s")
        deleted = control_plane.kubectl("delete", KIND, "staying")

    refusal = denied(
        "Workloads still name this topology.",
        f'  topology "staying" is named by {listed}',
        REMEDY,
        entry="cluster-topologies",
    )
    assert answer_of(refused) == (1, refusal)
    assert answer_of(deleted) == (0, "")


@pytest.mark.parametrize("make", [placements.deployment, placements.job])
def test_topology_that_goes_changes_no_workload(
    control_plane: ControlPlane, namespace: str, make: Callable[..., Manifest]
) -> None:
    """The same manifest, applied again when its topology is gone, leaves the workload as it was."""
    serve(control_plane, "gone")
    manifest = annotated(make(namespace, **NOWHERE), "pod=1", topology="gone")
    control_plane.apply(manifest, check=True)
    before = control_plane.get(manifest["kind"], "main", "-n", namespace)["spec"]
    control_plane.kubectl("delete", KIND, "gone", check=True)
    await_word(control_plane, "gone", known=False)

    answer = control_plane.apply({**manifest, "metadata": {**manifest["metadata"], "labels": {"a": "b"}}})

    assert answer.returncode == 0
    assert control_plane.get(manifest["kind"], "main", "-n", namespace)["spec"] == before


def test_gang_whose_topology_is_gone_waits_with_a_word(control_plane: ControlPlane, namespace: str) -> None:
    """Its Pods stay behind the gate, and an Event says what to do; with the topology back they start."""
    serve(control_plane, "back")
    job = annotated(
        placements.job(namespace, schedulingGates=[{"name": "example.org/other"}]), "pod=2", topology="back"
    )
    control_plane.objects.create(job, user="alice")
    placements.gated(control_plane, namespace, "main", 1)
    control_plane.kubectl("delete", KIND, "back", check=True)

    said = placements.event(control_plane, namespace, "main", "Waiting", "is not known")
    (pod,) = control_plane.get("pods", "-n", namespace, "-l", "app=main")["items"]
    gates = [{"name": gate["name"]} for gate in pod["spec"]["schedulingGates"] if gate["name"] != "example.org/other"]
    control_plane.kubectl(
        "patch", "pod", pod["metadata"]["name"], "-n", namespace, "--type=merge", "-p",
        json.dumps({"spec": {"schedulingGates": gates}}), check=True,
    )  # fmt: skip
    serve(control_plane, "back")

    assert said.startswith('Topology "back" is not known: create it again'), said
    assert scheduled(control_plane, namespace, "main", 1) == ["f1-s2-l1"]


def test_kind_goes_and_comes_again(control_plane: ControlPlane, service: Service) -> None:
    """Without KAI's kind the service goes on, with Kueue's; installed again, KAI's topologies are found again."""
    for name, api_version in (("lost", KAI), ("kept", KUEUE)):
        control_plane.objects.apply(topology(name, api_version))
        await_word(control_plane, name)

    crds.remove(control_plane, crds.KAI_TOPOLOGY)

    await_word(control_plane, "lost", known=False)
    await_word(control_plane, "kept")
    control_plane.wait_for(
        "the service to be ready", lambda: answers(f"{service.health}/readyz", control_plane.ca_file)
    )
    crds.install(control_plane, crds.KAI_TOPOLOGY)
    serve(control_plane, "lost")
