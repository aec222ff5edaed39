"""The Pod that a workload stands for, with what its controller adds, and the way back from it into the template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.builders import CLUSTER_SCOPED, WORKLOADS, Json, at, deployment, merged, pod, request, resource, template
from support.templates import written

from policies.admissionpolicy.derivation import (
    CONTROLLERS,
    FILLED_BY_ADMISSION,
    FILLED_BY_CONTROLLERS,
    UNDERIVED,
    DerivedPod,
    controller_of,
    derive,
    template_paths,
)
from policies.cel.reads import Reads
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource
from policies.objects.fieldpath import Location, parse, render
from policies.objects.workload import BUILT_IN, Workload, table, workload

SPEC: Json = {
    "containers": [
        {
            "name": "main",
            "image": "example.org/train:1",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
    ],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "serviceAccountName": "default",
    "serviceAccount": "default",
}
LOST = [
    {"key": f"node.kubernetes.io/{how}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for how in ("not-ready", "unreachable")
]


def only(asked: AdmissionRequest) -> DerivedPod:
    """The one Pod that is derived from a request."""
    (found,) = derive(asked, WORKLOADS)
    return found


def test_the_pod_and_its_request() -> None:
    """A Deployment's template becomes the CREATE of a Pod by the same user, with the API server's defaults."""
    asked = request(
        deployment(template_labels={"app": "web"}, metadata={"name": "web", "uid": "1"}), user="alice", groups=["dev"]
    )

    found = only(asked)

    assert found == DerivedPod(
        AdmissionRequest(
            uid=asked.uid,
            kind=GroupVersionKind("", "v1", "Pod"),
            resource=GroupVersionResource("", "v1", "pods"),
            name="web-xxxxx",
            namespace="default",
            operation="CREATE",
            user_info=asked.user_info,
            object={
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "web-xxxxx",
                    "generateName": "web-",
                    "namespace": "default",
                    "labels": {"app": "web"},
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": kind,
                            "name": name,
                            "controller": controls,
                            "blockOwnerDeletion": controls,
                            "uid": "",
                        }
                        for kind, name, controls in (("ReplicaSet", "web-0", True), ("Deployment", "web", False))
                    ],
                },
                "spec": {**SPEC, "tolerations": LOST},
            },
        ),
        None,
        GroupVersionKind("apps", "v1", "Deployment"),
        ("spec", "template"),
        WORKLOADS["apps", "Deployment"],
        asked.object or {},
    )


def test_metadata_is_what_controllers_copy() -> None:
    """Labels, annotations and finalizers of a template end on its Pods, and nothing else of its metadata."""
    copied = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e"]}
    names = {"name": "x", "namespace": "y", "generateName": "z", "uid": "1"}
    others: Json = {**names, "ownerReferences": [{}], "creationTimestamp": None}
    asked = request(merged(deployment(), at("spec.template", {"metadata": {**copied, **others}})))

    labels = {"app": "trainer", "a": "b"}
    expected = {"name": "trainer-xxxxx", "generateName": "trainer-", "namespace": "default", **copied, "labels": labels}
    metadata = only(asked).pod["metadata"]
    owners = [reference["kind"] for reference in metadata.pop("ownerReferences")]
    assert (metadata, owners) == (expected, ["ReplicaSet", "Deployment"])


@pytest.mark.parametrize(
    ("metadata", "prefix"),
    [({"name": "web"}, "web-"), ({"name": "", "generateName": "web-"}, "web-"), ({"name": ""}, None)],
)
def test_the_owners_name_is_the_prefix(metadata: Json, prefix: str | None) -> None:
    """A workload that has no name yet lends what its own name will begin with."""
    asked = request(deployment(metadata=metadata))

    assert only(asked).pod["metadata"].get("generateName") == prefix


@pytest.mark.parametrize(
    "row",
    [row for row in BUILT_IN if row.templates and (row.group, row.kind) not in UNDERIVED],
    ids=lambda row: f"{row.group}/{row.kind}",
)
def test_every_kind_with_templates(row: Workload) -> None:
    """Each template of each namespaced kind of the table becomes a Pod, found where it stands."""
    paths = [render(pattern).replace("[*]", "[0]").replace(".*", ".worker") for pattern in row.templates]
    obj = resource(f"{row.group}/v1".lstrip("/"), row.kind, *(at(path, written(row, template())) for path in paths))

    found = derive(request(obj), WORKLOADS)

    assert [render(each.template) for each in found] == ([] if row.kind in CLUSTER_SCOPED else paths)
    tolerations = {} if row.kind == "DaemonSet" else {"tolerations": LOST}
    assert [each.pod["spec"] for each in found] == [{**SPEC, **tolerations}] * len(found)


WORKLOAD = deployment()
NOT_DERIVED: dict[str, AdmissionRequest] = {
    "a Pod": request(pod()),
    "a kind without templates": request(resource("v1", "ConfigMap")),
    "a ControllerRevision": request(resource("apps/v1", "ControllerRevision", at("data.spec.template", template()))),
    "a deletion": request(None, old=WORKLOAD),
    "a subresource": request(WORKLOAD, old=deployment({"cpu": "1"}), sub_resource="status"),
    "an unchanged template": request({**WORKLOAD, "status": {}}, old=WORKLOAD),
    "an object that waits for its finalizers": request(
        deployment(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    ),
    "a template that is no map": request(resource("apps/v1", "Deployment", at("spec.template", "x"))),
    "no template": request(resource("apps/v1", "Deployment")),
    "a new object of a workload in the table": request(
        deployment(
            metadata={"ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1", "kind": "JobSet", "controller": True}]}
        )
    ),
    "a cluster-scoped workload": request(
        resource(
            "trainer.kubeflow.org/v1alpha1",
            "ClusterTrainingRuntime",
            at("spec.template.spec.replicatedJobs[0].template.spec.template", template()),
        )
    ),
}


@pytest.mark.parametrize("asked", NOT_DERIVED.values(), ids=NOT_DERIVED)
def test_nothing_is_derived(asked: AdmissionRequest) -> None:
    """No Pod would be created from it, or none whose template is new."""
    assert derive(asked, WORKLOADS) == ()


def test_an_update_judges_the_templates_that_changed() -> None:
    """On UPDATE a template is judged where it is not what stands in the old object, as an update and as a creation."""
    kind = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    worker, leader = "spec.leaderWorkerTemplate.workerTemplate", "spec.leaderWorkerTemplate.leaderTemplate"
    old = resource(*kind, at(worker, template()), at(leader, template()))
    new = resource(*kind, at(worker, template({"cpu": "1"})), at(leader, template()))

    found = only(request(new, old=old))

    change, creation = found.requests
    before = next(pod.pod for pod in derive(request(old), WORKLOADS) if render(pod.template) == worker)
    assert (render(found.template), change.operation, creation.operation) == (worker, "UPDATE", "CREATE")
    assert (change.old_object, creation.old_object) == (before, None)
    assert change.object == creation.object != change.old_object


def test_a_template_that_is_new_in_an_update_is_a_creation() -> None:
    """A template where there was none before has no old Pod."""
    new = merged(WORKLOAD, at("spec.template", {"metadata": {"labels": {"a": "b"}}}))

    found = only(request(new, old=resource("apps/v1", "Deployment")))

    assert [asked.operation for asked in found.requests] == ["CREATE"]


PLACES: dict[str, tuple[Location, str]] = {
    "a container": (("spec", "containers", 0, "image"), "spec.template.spec.containers[0].image"),
    "a label": (("metadata", "labels", "a.b/c"), "spec.template.metadata.labels[a.b/c]"),
    "the Pod": ((), "spec.template"),
    "metadata": (("metadata",), "spec.template.metadata"),
    "the name": (("metadata", "generateName"), "metadata.name"),
    "the namespace": (("metadata", "namespace"), "metadata.namespace"),
}


@pytest.mark.parametrize(("location", "expected"), PLACES.values(), ids=PLACES)
def test_places(location: Location, expected: str) -> None:
    """A place in the Pod is one in the template; its name and namespace are the workload's."""
    assert render(only(request(deployment())).place(location)) == expected


ALL = Reads(whole=frozenset({""}))
SETTLED = {"spec.nodeSelector", "spec.overhead", "spec.tolerations"}
MOUNTS = {f"spec.{containers}[*].volumeMounts" for containers in ("containers", "initContainers")}
VOLUMES = {"spec.volumes", "spec.volumes[*].name", "spec.volumes[*].projected"}
FILLED: dict[str, tuple[Json, set[str]]] = {
    "a plain template": ({}, SETTLED),
    "no token": ({"automountServiceAccountToken": False}, SETTLED | VOLUMES | MOUNTS),
    "volumes": ({"volumes": [{"name": "a"}]}, SETTLED | {"spec.volumes"}),
    "a runtime class": ({"runtimeClassName": "kata"}, set()),
    "a priority class": ({"priorityClassName": "high"}, SETTLED | {"spec.priorityClassName"}),
}


@pytest.mark.parametrize(("spec", "settled"), FILLED.values(), ids=FILLED)
def test_what_admission_would_fill(spec: Json, settled: set[str]) -> None:
    """What the template settles itself is not left to admission."""
    found = only(request(deployment(**spec)))

    assert found.unknown_to({"object": ALL, "request": ALL}) == (FILLED_BY_ADMISSION - settled) | {"request.name"}


def test_what_the_controller_would_fill() -> None:
    """A DaemonSet's Pods get an affinity, whatever the template has."""
    found = only(request(deployment(kind="DaemonSet")))

    assert "spec.affinity" in found.unknown_to({"object": ALL, "request": ALL})


READS: dict[str, tuple[Reads, set[str]]] = {
    "an image": (Reads(frozenset({"spec.containers[*].image"})), set()),
    "resources": (Reads(frozenset({"spec.containers[*].resources.limits"})), set()),
    "a service account": (Reads(frozenset({"spec.serviceAccountName"})), set()),
    "that there is a spec": (Reads(present=frozenset({"", "spec"})), set()),
    "a field of volumes": (
        Reads(frozenset({"spec.volumes[*].hostPath"}), frozenset({"spec", "spec.volumes"})),
        set(),
    ),
    "the names of volumes": (Reads(frozenset({"spec.volumes[*].name"})), {"spec.volumes[*].name"}),
    "tolerations": (Reads(frozenset({"spec.tolerations[*].key"})), set()),
}


@pytest.mark.parametrize(("reads", "expected"), READS.values(), ids=READS)
def test_what_a_rule_cannot_know(reads: Reads, expected: set[str]) -> None:
    """A rule is in the dark only about open fields that it looks at."""
    found = only(request(deployment(volumes=[{"name": "a", "emptyDir": {}}])))

    assert found.unknown_to({"object": reads, "request": Reads()}) == expected


def test_templates_are_read_whole() -> None:
    """Templates are decoded whole, since any change counts, with what Pods get from their workload."""
    rows = [workload("", "Pod", [""]), workload("apps", "Deployment", ["spec.template"]), workload("", "Node")]

    assert template_paths(table([*rows, workload("x.org", "Set", ["spec.sets[*].template"])])) == frozenset(
        {
            "spec.template",
            "spec.sets[*].template",
            "metadata.name",
            "metadata.generateName",
            "metadata.namespace",
            "metadata.annotations",
            "metadata.ownerReferences",
        }
    )


_ADDED = (Path(__file__).parent / "controllers.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "case", yaml.safe_load(_ADDED.replace("TEMPLATE", json.dumps(template()))), ids=lambda case: str(case["name"])
)
def test_labels_and_owners(case: Json) -> None:
    """A derived Pod has the labels that its controller would add, and names its controller and its workload."""
    metadata = only(request(case["object"])).pod["metadata"]
    owners = [f"{owner['apiVersion']} {owner['kind']} {owner['name']}" for owner in metadata["ownerReferences"]]

    assert (metadata["labels"], owners) == ({"app": "trainer", **case["labels"]}, case["owners"])


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


def test_the_table_is_about_kinds_and_fields_that_there_are() -> None:
    """Each row is for a kind with templates, the templates that it names are the kind's, and all paths can be read."""
    kinds = table(BUILT_IN)
    rows = [(kind, row) for kind, rows in CONTROLLERS.items() for row in rows]
    named = {(kind, parse(row.template)[0]) for kind, row in rows if row.template}

    assert named <= {(kind, pattern[0]) for kind, row in kinds.items() for pattern in row.templates if pattern}
    assert all(map(parse, FILLED_BY_ADMISSION.union(template_paths(kinds), *FILLED_BY_CONTROLLERS.values())))
    assert controller_of(("x", "Unknown"), ("spec", "template")) == controller_of(
        ("apps", "DaemonSet"), ("spec", "template")
    )
