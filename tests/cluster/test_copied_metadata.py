"""The guard cannot be bypassed: objects from which controllers copy labels are judged when a person writes them."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from cluster import crds, manifests, workloads
from cluster.bypass import target
from policies.objects.fieldpath import Wildcard
from policies.objects.workload import BUILT_IN, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("service")

KEY = "foo.coreweave.cloud/bar"
RESERVED = {KEY: "true"}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def native(namespace: str) -> dict[str, tuple[Manifest, str]]:
    """Return Kubernetes' own kinds with a reserved label where it would be copied, and the path to it."""
    rows = target.read(namespace, KEY)["copied"]
    return {name: (row, row.pop("path")) for name, row in rows.items()}


def test_selector_brings_no_label_of_pods_to_claims(control_plane: ControlPlane, namespace: str) -> None:
    """A label that Pods alone may have is refused in a StatefulSet's selector, which is copied to its claims."""
    labels = {"qos.coreweave.cloud/interruptable": "true"}
    template, claim = workloads.template(labels), {"metadata": {"name": "data"}, "spec": CLAIM_SPEC}
    spec: dict[str, Any] = {"template": template, "volumeClaimTemplates": [claim]}

    refused = control_plane.apply(workloads.apps("StatefulSet", namespace, selector={"matchLabels": labels}, **spec))
    admitted = control_plane.apply(workloads.apps("StatefulSet", namespace, **spec))

    places = [line.strip() for line in refused.stderr.splitlines() if line.startswith("  ")]
    assert places == ['spec.selector.matchLabels: qos.coreweave.cloud/interruptable="true"']
    assert (admitted.returncode, admitted.stderr) == (0, "")


@pytest.mark.parametrize("case", list(native("")))
def test_row_is_refused_and_leaves_nothing(control_plane: ControlPlane, namespace: str, case: str) -> None:
    """Alice's object is refused with the path, and no object with the label is left behind."""
    manifest, path = native(namespace)[case]

    answer = control_plane.apply(manifest)

    assert f'\n  {path}: {KEY}="true"' in answer.stderr
    assert carriers(control_plane, namespace) == []


def test_forged_revision_cannot_be_rolled_back_to(control_plane: ControlPlane, namespace: str) -> None:
    """A ControllerRevision that would bring a reserved label in by a rollback never comes to exist."""
    control_plane.apply(workloads.apps("DaemonSet", namespace), check=True)
    owner = control_plane.get("daemonset", "main", "-n", namespace)
    forged, _ = native(namespace)["ControllerRevision"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "main", "uid": owner["metadata"]["uid"]}
    forged["metadata"] |= {"labels": {"app": "main"}, "ownerReferences": [{**reference, "controller": True}]}

    answer = control_plane.apply(forged)
    undone = control_plane.kubectl("rollout", "undo", "daemonset/main", "-n", namespace)

    assert f'data.spec.template.metadata.labels: {KEY}="true"' in answer.stderr
    assert undone.returncode == 1
    assert carriers(control_plane, namespace) == []


def test_binding_is_no_way_round(control_plane: ControlPlane, namespace: str) -> None:
    """The API server copies a Binding's labels to the Pod, so they are judged on pods/binding."""
    control_plane.apply(workloads.pod(namespace, schedulerName="nobody"), check=True)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": workloads.metadata("main", namespace, RESERVED),
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/main/binding"

    answer = control_plane.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(binding))

    assert f'metadata.labels: {KEY}="true"' in answer.stderr
    assert carriers(control_plane, namespace) == []


NATIVE_GROUPS = ("", "apps", "batch", "resource.k8s.io")
CUSTOM = [row for row in BUILT_IN if row.group not in NATIVE_GROUPS]


def filled(row: Workload, namespace: str, labels: dict[str, str]) -> tuple[Manifest, list[str]]:
    """Return an object of the kind with labels at every place, and the paths to them."""
    places = [
        *((*template, *row.shape.labels) for template in row.templates),
        *((*holder, "metadata", "labels") for holder in (*row.jobs, *row.claims)),
        *row.copied_labels,
        *row.pod_labels,
    ]
    manifest: Manifest = {
        "apiVersion": f"{row.group}/v1",
        "kind": row.kind,
        "metadata": workloads.metadata("main", namespace),
    }
    paths = []
    for place in places:
        here: Any = manifest
        path = ""
        for position, step in enumerate(place):
            last = position == len(place) - 1
            following = None if last else place[position + 1]
            if isinstance(step, Wildcard):
                key: Any = 0 if step is Wildcard.ITEMS else "Worker"
                path += "[0]" if key == 0 else ".Worker"
                if isinstance(here, list) and not here:
                    here.append({})
            else:
                key, path = step, f"{path}.{step}" if path else step
            if last:
                here[key] = dict(labels)
                break
            empty: Any = [] if following is Wildcard.ITEMS else {}
            here = here[key] if isinstance(here, list) else here.setdefault(key, empty)
        paths.append(path)
    return manifest, paths


@pytest.fixture(scope="module")
def custom_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """Install a definition of every custom kind in the table."""
    scopes = dict.fromkeys(("ClusterTrainingRuntime", "NodePool"), "Cluster")
    definitions = [
        manifests.custom_resource(row.kind, row.group, "v1", scope=scopes.get(row.kind, "Namespaced")) for row in CUSTOM
    ]
    with crds.installed(control_plane, *definitions):
        yield


@pytest.mark.usefixtures("custom_kinds")
@pytest.mark.parametrize("row", CUSTOM, ids=[f"{row.kind}.{row.group}" for row in CUSTOM])
def test_custom_kind(control_plane: ControlPlane, namespace: str, row: Workload) -> None:
    """A custom workload is refused with all its places at once, and passes without reserved labels."""
    manifest, paths = filled(row, namespace, RESERVED)
    clean, _ = filled(row, namespace, {"example.org/x": "true"})

    control_plane.wait_until(
        "the custom kind to be served",
        lambda: control_plane.objects.applied(clean, user="alice", dry_run=True),
        lambda answer: answer.code < HTTPStatus.BAD_REQUEST,
    )
    answer = control_plane.apply(manifest)

    lines = [line.strip() for line in answer.stderr.splitlines() if line.startswith("  ")]
    assert lines == sorted(f'{path}: {KEY}="true"' for path in paths)


def carriers(control_plane: ControlPlane, namespace: str) -> list[str]:
    """Return every object of the Namespace that carries the reserved label."""
    kinds = "pods,replicasets,deployments,statefulsets,daemonsets,jobs,cronjobs,replicationcontrollers,podtemplates,"
    kinds += "controllerrevisions,persistentvolumeclaims,resourceclaims,resourceclaimtemplates"
    found = control_plane.get(kinds, "-n", namespace)["items"]
    return [f"{item['kind']}/{item['metadata']['name']}" for item in found if KEY in json.dumps(item)]
