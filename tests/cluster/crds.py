"""CustomResourceDefinitions of other projects' kinds, reduced to the fields that matter for placement.

Sources: the definitions of JobSet, LeaderWorkerSet, KAI Scheduler, Kueue, Grove, Kubeflow's Trainer and Slinky's
operator. Pod templates accept any field here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster import manifests
from cluster.kubectl import KubectlError
from cluster.polling import NotYet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

_TEXT: Manifest = {"type": "string"}
_NUMBER: Manifest = {"type": "integer"}
_ANYTHING: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _map(required: Sequence[str] = (), **properties: Manifest) -> Manifest:
    found: Manifest = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def _list(items: Manifest, key: str = "") -> Manifest:
    found: Manifest = {"type": "array", "items": items}
    return {**found, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else found


def _topology(**more: Manifest) -> Manifest:
    key = {**_TEXT, "minLength": 1, "maxLength": 316}
    return _map(["levels"], levels={**_list(_map(["nodeLabel"], nodeLabel=key, **more)), "minItems": 1, "maxItems": 16})


_REPLICATED_JOB = _map(["name", "template"], name=_TEXT, replicas=_NUMBER, template=_ANYTHING)
_GROUP = _map(["workerTemplate"], size=_NUMBER, leaderTemplate=_ANYTHING, workerTemplate=_ANYTHING)


def _definition(kind: str, plural: str, group: str, versions: Sequence[str], spec: Manifest, scope: str) -> Manifest:
    return manifests.custom_resource(kind, group, *versions, scope=scope, plural=plural, schema=_map(spec=spec))


JOB_SET = _definition(
    "JobSet", "jobsets", "jobset.x-k8s.io", ["v1alpha2"],
    _map(replicatedJobs=_list(_REPLICATED_JOB, "name")), "Namespaced",
)  # fmt: skip
LEADER_WORKER_SET = _definition(
    "LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io", ["v1"],
    _map(replicas=_NUMBER, leaderWorkerTemplate=_GROUP), "Namespaced",
)  # fmt: skip
KAI_TOPOLOGY = _definition(
    "Topology", "topologies", "kai.scheduler", ["v1alpha1"], _topology(alias={**_TEXT, "maxLength": 63}), "Cluster"
)
KUEUE_TOPOLOGY = _definition("Topology", "topologies", "kueue.x-k8s.io", ["v1beta1", "v1beta2"], _topology(), "Cluster")
GROVE_TOPOLOGY, GROVE_TOPOLOGY_BEFORE = (
    _definition(
        kind, plural, "grove.io", ["v1alpha1"],
        _map(["levels"], levels=_list(_map(["domain", "key"], domain=_TEXT, key=_TEXT))), "Cluster",
    )
    for kind, plural in (
        ("ClusterTopologyBinding", "clustertopologybindings"), ("ClusterTopology", "clustertopologies"),
    )
)  # fmt: skip
_PACK: Manifest = {"type": "object", "properties": {"required": _TEXT, "preferred": _TEXT}}
_CONSTRAINT = {"type": "object", "properties": {"topologyName": _TEXT, "packDomain": _TEXT, "pack": _PACK}}
_CLIQUE = _map(
    ["name", "spec"], name=_TEXT, labels=_ANYTHING, annotations=_ANYTHING, topologyConstraint=_CONSTRAINT,
    spec=_map(["podSpec"], roleName=_TEXT, replicas=_NUMBER, podSpec=_ANYTHING),
)  # fmt: skip
POD_CLIQUE_SET = _definition(
    "PodCliqueSet", "podcliquesets", "grove.io", ["v1alpha1"],
    _map(
        replicas=_NUMBER,
        template=_map(
            ["cliques"], cliques=_list(_CLIQUE, "name"), topologyConstraint=_CONSTRAINT,
            podCliqueScalingGroups=_list(_map(["name"], name=_TEXT, topologyConstraint=_CONSTRAINT)),
        ),
    ), "Namespaced",
)  # fmt: skip
_OF_KAI = _map(topology=_TEXT, requiredTopologyLevel=_TEXT, preferredTopologyLevel=_TEXT)
POD_GROUP = _definition(
    "PodGroup", "podgroups", "scheduling.run.ai", ["v2alpha2"],
    _map(
        minMember=_NUMBER, topologyConstraint=_OF_KAI,
        subGroups=_list(_map(["name"], name=_TEXT, minMember=_NUMBER, topologyConstraint=_OF_KAI)),
    ), "Namespaced",
)  # fmt: skip
TRAIN_JOB = _definition(
    "TrainJob", "trainjobs", "trainer.kubeflow.org", ["v1alpha1"],
    _map(
        ["runtimeRef"], runtimeRef=_map(["name"], name=_TEXT), labels=_ANYTHING, annotations=_ANYTHING,
        podTemplateOverrides=_list(_ANYTHING),
        runtimePatches=_list(_map(["manager"], manager=_TEXT, trainingRuntimeSpec=_ANYTHING), "manager"),
    ), "Namespaced",
)  # fmt: skip
NODE_SET = _definition(
    "NodeSet", "nodesets", "slinky.slurm.net", ["v1beta1"],
    _map(controllerRef=_map(["name"], name=_TEXT), replicas=_NUMBER, slurmd=_ANYTHING, template=_ANYTHING),
    "Namespaced",
)  # fmt: skip
ALL = (
    *(JOB_SET, LEADER_WORKER_SET, KAI_TOPOLOGY, KUEUE_TOPOLOGY, GROVE_TOPOLOGY, GROVE_TOPOLOGY_BEFORE),
    *(POD_CLIQUE_SET, POD_GROUP, TRAIN_JOB, NODE_SET),
)


def install(control_plane: ControlPlane, *definitions: Manifest) -> None:
    """Install definitions (by admin), and wait until objects of their kinds can be written."""
    control_plane.objects.apply(list(definitions))

    def served() -> bool:
        control_plane.objects.forget()
        try:
            control_plane.get(",".join(each["metadata"]["name"] for each in definitions))
        except KubectlError as error:
            raise NotYet(str(error)) from error
        return True

    control_plane.wait_for("the kinds to be served", served)


def remove(control_plane: ControlPlane, *definitions: Manifest) -> None:
    """Remove definitions (by admin), with all objects of their kinds."""
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    control_plane.kubectl("delete", *names, user="admin", check=True)  # which waits until they are gone


def kinds_of(objects: Iterable[Mapping[str, Any]]) -> list[Manifest]:
    """Return a definition of each kind among objects that is not Kubernetes' own, of which nothing is said."""
    versions: dict[tuple[str, str], set[str]] = {}
    for each in objects:
        group, _, version = each["apiVersion"].rpartition("/")
        if ("." in group and not group.endswith(".k8s.io")) or group == "jobset.x-k8s.io":
            versions.setdefault((each["kind"], group), set()).add(version)
    scopes = {"ClusterTrainingRuntime": "Cluster"}
    return [
        manifests.custom_resource(*kind, *sorted(served), scope=scopes.get(kind[0], "Namespaced"))
        for kind, served in sorted(versions.items())
    ]


def other_projects(group: str) -> list[Manifest]:
    """Return the kinds of cert-manager or of the Prometheus operator, of which nothing is said."""
    kinds = {
        "cert-manager.io": ("Certificate", "CertificateRequest", "Issuer"),
        "monitoring.coreos.com": ("PodMonitor", "ServiceMonitor", "PrometheusRule"),
    }
    of_clusters = {"cert-manager.io": ("ClusterIssuer",)}
    return [
        *(manifests.custom_resource(kind, group, "v1") for kind in kinds[group]),
        *(manifests.custom_resource(kind, group, "v1", scope="Cluster") for kind in of_clusters.get(group, ())),
    ]


@contextmanager
def installed(control_plane: ControlPlane, *definitions: Manifest) -> Iterator[None]:
    """The definitions, to the end of the block."""
    install(control_plane, *definitions)
    yield
    remove(control_plane, *definitions)
