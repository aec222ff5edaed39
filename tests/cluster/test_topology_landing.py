"""Workloads of every kind, annotated word for word as in the documents, land together on a real scheduler.

Each needs six Nodes of one rack, and one of two racks has them. Kubernetes' own controllers and those of JobSet and
LeaderWorkerSet make Pods; for other kinds this test makes what their controllers would. What becomes of the example
without the service is measured by `python -m benchmarks placement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from cluster import controllers, crds, gangs, manifests, racks, workloads
from cluster.controllers import NAMESPACE
from cluster.placements import REQUIRED, asking, fixed, refusal_of
from cluster.racks import PODS, Racks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

RUNS = 10
# "For Distributed Training"
SAME_RACK = yaml.safe_load("""
# Strict same-rack, all GPUs need high-bandwidth all-reduce
annotations:
  kai.scheduler/topology: "cluster-topology"
  kai.scheduler/topology-required-placement: "cloud.provider.com/topology-rack"
""")["annotations"]
# "LeaderWorkerSet Behavior", without its label runai/queue, which leaves all to Run:ai.
SAME_BLOCK = yaml.safe_load("""
annotations:
    kai.scheduler/topology: "cluster-topology"
    kai.scheduler/topology-required-placement: "cloud.provider.com/topology-block"
    kai.scheduler/topology-preferred-placement: "cloud.provider.com/topology-rack"
""")["annotations"]


@pytest.fixture(scope="module")
def example(control_plane: ControlPlane, service: Service) -> Iterator[Racks]:
    """Two racks, of which one has six Nodes free, and the kinds, which the service looks for when it starts."""
    groups = {(each.api_version, each.kind) for each in OTHERS.values()}
    others = [manifests.custom_resource(kind, *version.split("/")) for version, kind in groups]
    kinds = (*controllers.KINDS.values(), *others)
    with racks.standing(control_plane), crds.installed(control_plane, *kinds), service.configured():
        control_plane.namespace(NAMESPACE)
        yield Racks(control_plane, NAMESPACE)


@pytest.fixture
def two_racks(example: Racks, request: pytest.FixtureRequest) -> Iterator[Racks]:
    """The racks, filled anew, and empty again at the end."""
    example.arrange(1000 + request.session.items.index(request.node))
    yield example
    example.control_plane.objects.delete_all("jobsets", "leaderworkersets", "replicasets", namespace=NAMESPACE)
    example.empty()


def template(app: str, gpus: int = racks.GPUS, **spec: object) -> Manifest:
    """Return a template of Pods that run until they are deleted."""
    job = gangs.job(NAMESPACE, app, "plain", pods=1, gpus=gpus, **{**racks.ON_THEM, **spec})
    made: Manifest = job["spec"]["template"]
    if not gpus:
        made["spec"]["containers"] = workloads.POD_SPEC["containers"]
    return made


def annotated(api_version: str, kind: str, annotations: Mapping[str, str], spec: Manifest) -> Manifest:
    """Return a workload."""
    metadata = {"name": "main", "namespace": NAMESPACE, "annotations": dict(annotations)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def test_gang_is_together_whatever_the_order_of_nodes(two_racks: Racks) -> None:
    """With the annotations of the documents all Pods are in one rack, each time; those of a plain Job are split."""
    landings = []
    for run in range(RUNS):
        two_racks.arrange(run)
        landings.append(two_racks.land("gate"))

    two_racks.arrange(RUNS)
    assert (landings, two_racks.land("plain")) == (["together"] * RUNS, "split")


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "ReplicaSet", "ReplicationController"])
def test_kubernetes_own_kinds_land_together(two_racks: Racks, kind: str) -> None:
    """All six Pods are in the rack that has six Nodes free."""
    counts = {"parallelism": PODS, "completions": PODS} if kind == "Job" else {"replicas": PODS}
    own = template("worker", restartPolicy="Never" if kind == "Job" else "Always")
    spec: Manifest = {**counts, "template": own}
    if kind != "Job":
        labels = {"app": "worker"}
        spec["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    more = {"serviceName": "main"} if kind == "StatefulSet" else {}

    two_racks.control_plane.objects.create(annotated(version, kind, SAME_RACK, {**spec, **more}), user="alice")

    assert two_racks.places("worker", PODS) == ["a"] * PODS
    two_racks.control_plane.objects.delete_all("replicationcontrollers", namespace=NAMESPACE)


def test_neighbours_in_rank_share_a_rack(two_racks: Racks) -> None:
    """A Job of 16 over two racks of eight has ranks 0 to 7 in one of them and 8 to 15 in the other."""
    two_racks.arrange(two_racks.run + 500, dict.fromkeys(racks.OCCUPIED, 0))
    pods = racks.IN_RACK * 2
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template("worker")}

    two_racks.control_plane.objects.create(annotated("batch/v1", "Job", SAME_BLOCK, spec), user="alice")

    assert two_racks.places("worker", pods) == ["a"] * 8 + ["b"] * 8
    by_rank = two_racks.groups("batch.kubernetes.io/job-completion-index")
    found = [by_rank[str(rank)][0] for rank in range(pods)]
    assert found in (["a"] * 8 + ["b"] * 8, ["b"] * 8 + ["a"] * 8)


def job_set(annotations: Mapping[str, str], **spec: Any) -> Manifest:
    """Return a JobSet of a launcher that needs no GPU, and of twice three workers."""
    jobs = {"launcher": (template("launcher", gpus=0), 1), "worker": (template("worker"), 3)}
    jobs["later"] = jobs["worker"]
    replicated = [
        {
            "name": name,
            "replicas": 1,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": of}
            },
        }
        for name, (of, pods) in jobs.items()
    ]
    whole = {"replicatedJobs": replicated, "network": {"enableDNSHostnames": False}, **spec}
    return annotated("jobset.x-k8s.io/v1alpha2", "JobSet", annotations, whole)


def annotations_of(stored: Manifest) -> list[Any]:
    """Return the annotations that each pod template of a JobSet has."""
    jobs = stored["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["metadata"].get("annotations") for job in jobs]


@pytest.mark.parametrize("order", ["AnyOrder", "InOrder"])
def test_job_set_lands_together(two_racks: Racks, order: str) -> None:
    """So are the Pods of all Jobs that JobSet's controller makes, of whose templates the launcher's is left alone."""
    with controllers.running(two_racks.control_plane, "jobset"):
        made = job_set(SAME_RACK, startupPolicy={"startupPolicyOrder": order})
        stored = two_racks.control_plane.objects.create(made, user="alice")

        assert two_racks.places("worker", PODS) == ["a"] * PODS
        assert len(two_racks.places("launcher", 1)) == 1
        assert annotations_of(stored) == [None, SAME_RACK, SAME_RACK]


def test_job_set_keeps_its_placement(example: Racks) -> None:
    """Another domain is refused in words; JobSet's own webhook would say only that a field is immutable."""
    cluster, where = example.control_plane, ("main", "-n", NAMESPACE)
    before = cluster.objects.create(job_set(asking("superpod=1")), user="alice")

    answer = cluster.kubectl("annotate", "--overwrite", "jobset", *where, f"{REQUIRED}=superpod=2")

    assert refusal_of(answer) == fixed("JobSet", f'{REQUIRED}]: "superpod=2" was "superpod=1" before.')
    assert cluster.get("jobset", *where)["metadata"]["annotations"] == before["metadata"]["annotations"]
    cluster.objects.delete("jobset", "main", namespace=NAMESPACE)


def test_job_set_obeys_its_job_templates(example: Racks) -> None:
    """An annotation on one job template is for that one, GPUs or not."""
    manifest = job_set({})
    manifest["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": asking("superpod=1")}

    stored = example.control_plane.objects.create(manifest, user="alice")

    assert annotations_of(stored) == [asking("superpod=1"), None, None]
    example.control_plane.objects.delete("jobset", "main", namespace=NAMESPACE)


@pytest.mark.parametrize(
    ("annotations", "startup"),
    [
        pytest.param(SAME_RACK, "LeaderCreated", id="required"),
        pytest.param(SAME_BLOCK, "LeaderCreated", id="preferred"),
        pytest.param(SAME_RACK, "LeaderReady", id="required-in-stages"),
        pytest.param(SAME_BLOCK, "LeaderReady", id="preferred-LeaderReady"),
    ],
)
def test_replicas_of_a_leader_worker_set_land_together(
    two_racks: Racks, annotations: Mapping[str, str], startup: str
) -> None:
    """Each replica, which the LeaderWorkerSet's controllers make of a leader and its workers, is in one rack."""
    size = 3
    group = {
        "size": size,
        "leaderTemplate": template("leader", restartPolicy="Always"),
        "workerTemplate": template("worker", restartPolicy="Always"),
        "restartPolicy": "RecreateGroupOnPodRestart",
    }
    rollout = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": group,
        "startupPolicy": startup,
        # What the webhook of LeaderWorkerSets sets, without which its controller may panic.
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rollout},
    }
    with controllers.running(two_racks.control_plane, "lws"):
        made = annotated("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", annotations, spec)
        two_racks.control_plane.objects.create(made, user="alice")

        leaders, workers = two_racks.places("leader", 2), two_racks.places("worker", 4)
        by_group = two_racks.groups("leaderworkerset.sigs.k8s.io/group-index")
        assert (len(leaders), len(workers)) == (2, 4)
        assert {index: (len(places), len(set(places))) for index, places in by_group.items()} == {
            "0": (size, 1),
            "1": (size, 1),
        }


class Other(NamedTuple):
    """A kind whose controller is not here. spec: around the template of six workers, with a launcher of no GPU.

    labels: of the worker with an index, as the controller writes them. owner: of its Pods, where it is another object.
    """

    api_version: str
    kind: str
    spec: Callable[[Manifest, Manifest], Manifest]
    labels: Callable[[int], Mapping[str, str]]
    owner: tuple[str, str] | None = None


def replicas(of: Manifest, number: int = PODS) -> Manifest:
    """Return the part of a spec that says how many Pods of a template."""
    return {"replicas": number, "template": of}


def kubeflow(index: int, kind: str) -> Mapping[str, str]:
    """Return the labels of the training operator, and of the MPI operator, which calls the type a role."""
    prefix = "training.kubeflow.org"
    of = {"job-name": "main", f"{kind}": "worker", "replica-index": str(index)}
    return {f"{prefix}/{key}": value for key, value in of.items()}


# Sources: newWorker in kubeflow/mpi-operator; SetPodTemplateLabels in kubeflow/trainer v1; labelPod in KubeRay;
# createJobPod in Volcano; the labels of Grove's api/common.
OTHERS = {
    "MPIJob": Other(
        "kubeflow.org/v2beta1", "MPIJob",
        lambda of, one: {"mpiReplicaSpecs": {"Launcher": replicas(one, 1), "Worker": replicas(of)}},
        lambda index: kubeflow(index, "job-role"),
    ),
    "PyTorchJob": Other(
        "kubeflow.org/v1", "PyTorchJob",
        lambda of, _: {"pytorchReplicaSpecs": {"Worker": replicas(of)}},
        lambda index: kubeflow(index, "replica-type"),
    ),
    "RayCluster": Other(
        "ray.io/v1", "RayCluster",
        lambda of, one: {
            "headGroupSpec": {"template": one}, "workerGroupSpecs": [{"groupName": "gpu", **replicas(of)}],
        },
        lambda _: {"ray.io/cluster": "main", "ray.io/group": "gpu", "ray.io/node-type": "worker"},
    ),
    "Volcano": Other(
        "batch.volcano.sh/v1alpha1", "Job",
        lambda of, _: {"tasks": [{"name": "worker", **replicas(of)}]},
        lambda index: {
            "volcano.sh/job-name": "main", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(index),
        },
    ),
    "PodCliqueSet": Other(
        "grove.io/v1alpha1", "PodCliqueSet",
        lambda of, _: {
            "replicas": 1,
            "template": {"cliques": [{
                "name": "worker", **of["metadata"], "spec": {"replicas": PODS, "podSpec": of["spec"]},
            }]},
        },
        lambda index: {
            "app.kubernetes.io/part-of": "main", "grove.io/podclique": "main-0-worker",
            "grove.io/podcliqueset-replica-index": "0", "grove.io/podclique-pod-index": str(index),
        },
        ("PodClique", "main-0-worker"),
    ),
    "NodeSet": Other("sunk.coreweave.com/v1alpha1", "NodeSet", lambda of, _: replicas(of), lambda _: {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_land_together(two_racks: Racks, name: str) -> None:
    """So are the workers of kinds whose Pods are made here: what they share comes from the template that is stored."""
    cluster, other = two_racks.control_plane, OTHERS[name]
    spec = other.spec(template("worker"), template("launcher", gpus=0))
    stored = cluster.objects.create(annotated(other.api_version, other.kind, SAME_RACK, spec), user="alice")
    for pod in workers(stored, other):
        cluster.objects.create(pod)

    assert two_racks.places("worker", PODS) == ["a"] * PODS
    cluster.objects.delete_manifests({**stored, "metadata": {"name": "main", "namespace": NAMESPACE}})


def workers(stored: Manifest, other: Other) -> Iterator[Manifest]:
    """The Pods that a controller makes of the workers' template: its labels, its annotations and an owner."""
    kind, owner = other.owner or (other.kind, "main")
    of = next(each for each in _maps(stored["spec"]) if "podSpec" in each.get("spec", {}) or _is_template(each))
    metadata: Manifest = of.get("metadata") or {key: of[key] for key in ("labels", "annotations")}
    spec = of["spec"].get("podSpec", of["spec"])
    who = {"apiVersion": other.api_version, "kind": kind, "name": owner, "uid": stored["metadata"]["uid"]}
    for index in range(PODS):
        own = {
            "name": f"main-worker-{index}",
            "namespace": NAMESPACE,
            "labels": {**metadata["labels"], **other.labels(index)},
            "annotations": metadata["annotations"],
            "ownerReferences": [{**who, "controller": True, "blockOwnerDeletion": True}],
        }
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec}


def _is_template(holder: Manifest) -> bool:
    return bool(holder.get("metadata", {}).get("labels", {}).get("app") == "worker")


def _maps(value: Any) -> Iterator[Manifest]:
    """All maps inside of a value."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _maps(each)
    elif isinstance(value, list):
        for each in value:
            yield from _maps(each)
