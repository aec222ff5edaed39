"""What controllers add to the Pods of each kind, as a derived Pod shows it."""

from __future__ import annotations

import pytest
from support.builders import WORKLOADS, Json, at, deployment, request, resource, template

from policies.admissionpolicy.controller import CONTROLLERS, INDEX, controller_of, fields_of, filled
from policies.admissionpolicy.derivation import derive
from policies.engine.request import AdmissionRequest
from policies.objects.fieldpath import parse
from policies.objects.workload import BUILT_IN, table

_JOB = {"batch.kubernetes.io/job-name": "train", "job-name": "train"}


def _labels_and_owners(asked: AdmissionRequest) -> list[tuple[Json, list[str]]]:
    """The labels of the derived Pods, and their owners with the one in control first."""
    return [
        (
            derived.pod["metadata"].get("labels", {}),
            [
                f"{owner['apiVersion']} {owner['kind']} {owner['name']}"
                for owner in derived.pod["metadata"]["ownerReferences"]
            ],
        )
        for derived in derive(asked, WORKLOADS)
    ]


def _workload(version: str, kind: str, *fields: Json) -> Json:
    return resource(version, kind, at("metadata", {"name": "train"}), *fields)


ADDED: dict[str, tuple[Json, list[tuple[Json, list[str]]]]] = {
    "a Job": (
        _workload("batch/v1", "Job", at("spec.template", template())),
        [(_JOB, ["batch/v1 Job train"])],
    ),
    "an Indexed Job": (
        _workload("batch/v1", "Job", at("spec.template", template()), at("spec.completionMode", "Indexed")),
        [({**_JOB, INDEX: "0"}, ["batch/v1 Job train"])],
    ),
    "a CronJob": (
        _workload("batch/v1", "CronJob", at("spec.jobTemplate.spec.template", template())),
        [
            (
                {"batch.kubernetes.io/job-name": "train-0", "job-name": "train-0"},
                ["batch/v1 Job train-0", "batch/v1 CronJob train"],
            )
        ],
    ),
    "a JobSet": (
        _workload(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            at("spec.replicatedJobs", [{"name": "workers", "template": {"spec": {"template": template()}}}]),
        ),
        [
            (
                {
                    "jobset.sigs.k8s.io/jobset-name": "train",
                    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
                    "jobset.sigs.k8s.io/job-index": "0",
                    "batch.kubernetes.io/job-name": "train-workers-0",
                    "job-name": "train-workers-0",
                    INDEX: "0",
                },
                ["batch/v1 Job train-workers-0", "jobset.x-k8s.io/v1alpha2 JobSet train"],
            )
        ],
    ),
    "a PyTorchJob": (
        _workload("kubeflow.org/v1", "PyTorchJob", at("spec.pytorchReplicaSpecs.Worker.template", template())),
        [
            (
                {
                    "training.kubeflow.org/job-name": "train",
                    "training.kubeflow.org/operator-name": "pytorchjob-controller",
                    "training.kubeflow.org/replica-type": "worker",
                    "training.kubeflow.org/replica-index": "0",
                },
                ["kubeflow.org/v1 PyTorchJob train"],
            )
        ],
    ),
    "an MPIJob's launcher": (
        _workload("kubeflow.org/v2beta1", "MPIJob", at("spec.mpiReplicaSpecs.Launcher.template", template())),
        [
            (
                {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "launcher"},
                ["batch/v1 Job train-launcher", "kubeflow.org/v2beta1 MPIJob train"],
            )
        ],
    ),
    "a RayJob's cluster": (
        _workload(
            "ray.io/v1",
            "RayJob",
            at("spec.rayClusterSpec.workerGroupSpecs", [{"groupName": "gpu", "template": template()}]),
        ),
        [
            (
                {
                    "ray.io/is-ray-node": "yes",
                    "ray.io/cluster": "train-0",
                    "ray.io/node-type": "worker",
                    "ray.io/group": "gpu",
                },
                ["ray.io/v1 RayCluster train-0", "ray.io/v1 RayJob train"],
            )
        ],
    ),
    "a LeaderWorkerSet's workers": (
        _workload(
            "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", at("spec.leaderWorkerTemplate.workerTemplate", template())
        ),
        [
            (
                {
                    "leaderworkerset.sigs.k8s.io/name": "train",
                    "leaderworkerset.sigs.k8s.io/group-index": "0",
                    "leaderworkerset.sigs.k8s.io/worker-index": "1",
                },
                ["apps/v1 StatefulSet train", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet train"],
            )
        ],
    ),
    "a Volcano Job without a queue": (
        _workload("batch.volcano.sh/v1alpha1", "Job", at("spec.tasks", [{"name": "worker", "template": template()}])),
        [
            (
                {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "worker"},
                ["batch.volcano.sh/v1alpha1 Job train"],
            )
        ],
    ),
}


@pytest.mark.parametrize(("obj", "expected"), ADDED.values(), ids=ADDED)
def test_labels_and_owners(obj: Json, expected: list[tuple[Json, list[str]]]) -> None:
    """A derived Pod has the labels that its controller would add, and names its controller and its workload."""
    of_the_template = {"app": "trainer"}

    assert _labels_and_owners(request(obj)) == [({**of_the_template, **labels}, owners) for labels, owners in expected]


def test_a_controllers_label_takes_the_place_of_the_templates() -> None:
    """A label that a controller sets cannot be chosen by who writes the template."""
    obj = _workload(
        "batch/v1", "Job", at("spec.template", {**template(), "metadata": {"labels": {"job-name": "x", "a": "b"}}})
    )

    assert _labels_and_owners(request(obj)) == [({"a": "b", **_JOB}, ["batch/v1 Job train"])]


def test_nobody_owns_the_pods_of_a_pod_template() -> None:
    """No controller makes Pods of a PodTemplate."""
    (derived,) = derive(request(resource("v1", "PodTemplate", {"template": template()})), WORKLOADS)

    assert "ownerReferences" not in derived.pod["metadata"]


def test_the_topology_annotations_of_a_workload_hold_for_its_pods() -> None:
    """The nearest topology annotation counts: the template's, the job template's, the workload's."""
    required, preferred, topology = (
        f"kai.scheduler/topology{end}" for end in ("-required-placement", "-preferred-placement", "")
    )
    job = {"metadata": {"annotations": {preferred: "job", required: "job"}}}
    own = {**template(), "metadata": {"annotations": {required: "template"}}}
    obj = resource(
        "batch/v1",
        "CronJob",
        at("metadata", {"name": "nightly", "annotations": {topology: "workload", preferred: "workload", "a": "b"}}),
        at("spec.jobTemplate", {**job, "spec": {"template": own}}),
    )

    (derived,) = derive(request(obj), WORKLOADS)

    assert derived.pod["metadata"]["annotations"] == {topology: "workload", preferred: "job", required: "template"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{metadata.name}-x", "web-x"),
        ("{spec.tasks[*].name}", "b"),
        ("{spec.none}", None),
        ("{spec.number}", None),
        ("plain", "plain"),
    ],
)
def test_a_text_with_fields(text: str, expected: str | None) -> None:
    """Fields stand in braces, lists are taken at the template's own place, and what is no text gives none."""
    obj = {"metadata": {"name": "web"}, "spec": {"tasks": [{"name": "a"}, {"name": "b"}], "number": 5}}

    assert filled(text, obj, ("spec", "tasks", 1, "template")) == expected


def test_a_workload_without_a_name_lends_the_start_of_one() -> None:
    """With a generateName, names begin with it."""
    asked = request(deployment(metadata={"name": "", "generateName": "web-"}, kind="StatefulSet"))

    assert _labels_and_owners(asked)[0][1] == ["apps/v1 StatefulSet web-0"]


def test_the_table_is_about_kinds_and_fields_that_there_are() -> None:
    """Each row is for a kind with templates, the templates that it names are the kind's, and all paths can be read."""
    kinds = table(BUILT_IN)
    rows = [(kind, row) for kind, rows in CONTROLLERS.items() for row in rows]
    named = {(kind, parse(row.template)[0]) for kind, row in rows if row.template}

    assert named <= {(kind, pattern[0]) for kind, row in kinds.items() for pattern in row.templates if pattern}
    assert all(parse(field) for _, row in rows for field in fields_of(row))
    assert controller_of(("x", "Unknown"), ("spec", "template")) == controller_of(
        ("apps", "DaemonSet"), ("spec", "template")
    )
