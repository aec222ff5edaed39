"""Kubernetes' own scheduling of workloads keeps gangs together where its feature gates are on, and is not used else.

Run it with KUBERNETES=1.37 as well: there a Job has the constraint itself, in 1.36 the PodGroup that is made for it.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from cluster import manifests, placements, programs, toolchain
from cluster.controlplane import ControlPlane
from cluster.gangs import APIS, GATES
from cluster.placements import REQUIRED, annotated
from cluster.polling import NotYet
from cluster.service import Service, registered
from cluster.topologynodes import HERE, RACK, SETTINGS, TAINT
from policies.topology.placement import GATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.manifests import Manifest

GPUS = 8
PODS = 8
# Rack 2 alone has room. The names are in another order than the racks, so that a walk over Nodes crosses them.
RACKS = ["2", "1", "2", "3", "2", "2", "1", "3", "2", "3", "2", "1", "2", "3", "2", "1"]
ON = {**SETTINGS, "workloadScheduling": "on"}
HELD = "example.org/held"
NEWER = programs.release() != "1.36"


@pytest.fixture(scope="module")
def gated() -> Iterator[ControlPlane]:
    """Run a control plane with the gates on, and Nodes of one GPU machine each in three racks."""
    with ControlPlane(toolchain.ensure(programs.CONTROL_PLANE), gates=GATES, apis=APIS) as running:
        for number, rack in enumerate(RACKS):
            labels = {**HERE, RACK: rack}
            running.objects.create(manifests.node(f"w{number}", labels, [TAINT], {"nvidia.com/gpu": GPUS}))
        yield running


@pytest.fixture(scope="module")
def asked(gated: ControlPlane) -> Iterator[Service]:
    """Run a service there that makes use of it, and knows already that it can."""
    with registered(gated, topology=ON) as service:
        assert found_out(service)["constraints"] == ("Job" if NEWER else "PodGroup")
        yield service


def found_out(service: Service) -> dict[str, Any]:
    """Return what the service logs about the scheduling of workloads."""

    def said() -> dict[str, Any]:
        events = service.events("workload scheduling")
        if not events:
            raise NotYet("nothing is logged yet")
        return events[-1]

    return service.control_plane.wait_for("the service to find out about the scheduling of workloads", said)


def training(name: str = "train", **spec: Any) -> Manifest:
    """Return an Indexed Job whose Pods take a Node each and belong in one rack."""
    job = placements.job("default", name, pods=PODS, gpus=GPUS)
    job["spec"] |= {"completionMode": "Indexed", **spec}
    return annotated(job, "rack")


def nodes(control_plane: ControlPlane) -> list[str]:
    """Return the Nodes of the Job's Pods, when all have one."""

    def bound() -> list[str]:
        pods = control_plane.get("pods", "-n", "default", "-l", "job-name=train")["items"]
        found = [pod["spec"].get("nodeName", "") for pod in pods]
        if len(found) < PODS or not all(found):
            raise NotYet(f"bound to {found}")
        return found

    return control_plane.wait_for("the Pods of the Job to be scheduled", bound)


def test_kubernetes_places_the_gang(gated: ControlPlane, asked: Service) -> None:
    """A Job that requires a rack gets Kubernetes' constraint, and its Pods land in the only rack with room."""
    del asked
    applied = gated.apply(training())

    racks = {RACKS[int(name.removeprefix("w"))] for name in nodes(gated)}
    job = gated.get("job", "train", "-n", "default")
    groups = gated.get("podgroups", "-n", "default")["items"]

    assert "kube-scheduler starts all Pods in one rack, or none of them" in applied.stderr
    assert racks == {"2"}
    pods = gated.get("pods", "-n", "default", "-l", "job-name=train")["items"]
    assert job["spec"]["template"]["metadata"]["annotations"][REQUIRED] == "rack"
    assert [pod["spec"].get("schedulingGates") for pod in pods] == [None] * PODS
    assert [group["spec"]["schedulingConstraints"] for group in groups] == [{"topology": [{"key": RACK}]}]
    assert ("scheduling" in job["spec"]) is NEWER


def test_a_replaced_manifest_keeps_the_constraint(gated: ControlPlane, asked: Service) -> None:
    """An update without the field, which the API server would refuse, gets it back, and the annotations with it."""
    del asked
    gated.apply(training("kept", suspend=True), check=True)
    before = gated.get("job", "kept", "-n", "default")
    plain = copy.deepcopy(before)
    plain["spec"].pop("scheduling", None)
    del plain["metadata"]["resourceVersion"], plain["spec"]["template"]["metadata"]["annotations"]

    replaced = gated.kubectl("replace", "-f", "-", input=json.dumps(plain))
    after = gated.get("job", "kept", "-n", "default")

    assert replaced.returncode == 0, replaced.stderr
    assert after["spec"].get("scheduling") == before["spec"].get("scheduling")
    assert after["spec"]["template"] == before["spec"]["template"]
    gated.objects.delete("job", "kept", namespace="default")


def test_with_the_gates_off_another_way_is_taken(control_plane: ControlPlane, service: Service, namespace: str) -> None:
    """The service says which gates are off, and the Job's Pods wait behind the gate instead."""
    with service.configured(topology=ON):
        reason = found_out(service)["reason"]
        job = training()
        job["metadata"]["namespace"] = namespace
        # Nodes of other tests may have room for it; another's gate keeps ours shut.
        job["spec"]["template"]["spec"]["schedulingGates"] = [{"name": HELD}]
        control_plane.objects.create(job, user="alice")
        placements.gated(control_plane, namespace, "train", PODS)

    found = control_plane.get("job", "train", "-n", namespace)
    pods = control_plane.get("pods", "-n", namespace)["items"]

    assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": HELD}, {"name": GATE}]] * PODS
    assert reason.startswith("the API server serves no PodGroups of scheduling.k8s.io: turn on the feature gates")
    assert "scheduling" not in found["spec"]
