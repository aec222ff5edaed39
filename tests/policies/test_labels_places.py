"""Reserved labels in every place that labels are copied from: whatever kind they come in, nobody slips one past."""

import pytest
from support.builders import FACTS, WORKLOADS, Json, at, merged, request, resource

from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelGuard

_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL), Exemptions())
_KEY = "foo.coreweave.cloud/bar"
_OWN = "metadata.labels"
_JOBS = "spec.replicatedJobs[0].template"
_LWS = "spec.leaderWorkerTemplate"

# Kind and the place of a pod template in it.
_TEMPLATES = [
    ("v1", "PodTemplate", "template"),
    ("v1", "ReplicationController", "spec.template"),
    ("apps/v1", "Deployment", "spec.template"),
    ("apps/v1", "ReplicaSet", "spec.template"),
    ("apps/v1", "StatefulSet", "spec.template"),
    ("apps/v1", "DaemonSet", "spec.template"),
    ("apps/v1", "ControllerRevision", "data.spec.template"),
    ("apps/v1", "ControllerRevision", f"data.{_LWS}.leaderTemplate"),
    ("apps/v1", "ControllerRevision", f"data.{_LWS}.workerTemplate"),
    ("argoproj.io/v1alpha1", "Rollout", "spec.template"),
    ("batch/v1", "Job", "spec.template"),
    ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", f"{_LWS}.leaderTemplate"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", f"{_LWS}.workerTemplate"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", f"{_JOBS}.spec.template"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", "spec.replicatedJobs[3].template.spec.template"),
    ("kubeflow.org/v2beta1", "MPIJob", "spec.mpiReplicaSpecs.Launcher.template"),
    ("kubeflow.org/v1", "PyTorchJob", "spec.pytorchReplicaSpecs.Worker.template"),
    ("kubeflow.org/v1", "TFJob", "spec.tfReplicaSpecs.PS.template"),
    ("kubeflow.org/v1", "XGBoostJob", "spec.xgbReplicaSpecs.Master.template"),
    ("kubeflow.org/v1", "PaddleJob", "spec.paddleReplicaSpecs.Worker.template"),
    ("kubeflow.org/v1", "JAXJob", "spec.jaxReplicaSpecs.Worker.template"),
    ("kubeflow.org/v1", "Notebook", "spec.template"),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", f"spec.template.{_JOBS}.spec.template"),
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", f"spec.template.{_JOBS}.spec.template"),
    ("serving.knative.dev/v1", "Service", "spec.template"),
    ("serving.knative.dev/v1", "Configuration", "spec.template"),
    ("ray.io/v1", "RayCluster", "spec.headGroupSpec.template"),
    ("ray.io/v1", "RayCluster", "spec.workerGroupSpecs[1].template"),
    ("ray.io/v1", "RayJob", "spec.rayClusterSpec.headGroupSpec.template"),
    ("ray.io/v1", "RayJob", "spec.rayClusterSpec.workerGroupSpecs[0].template"),
    ("ray.io/v1", "RayJob", "spec.submitterPodTemplate"),
    ("ray.io/v1", "RayService", "spec.rayClusterConfig.headGroupSpec.template"),
    ("ray.io/v1", "RayService", "spec.rayClusterConfig.workerGroupSpecs[0].template"),
    ("batch.volcano.sh/v1alpha1", "Job", "spec.tasks[2].template"),
    ("sunk.coreweave.com/v1alpha1", "NodeSet", "spec.template"),
]
# Kind and the place of a job template, whose metadata ends on Jobs or JobSets.
_JOB_TEMPLATES = [
    ("batch/v1", "CronJob", "spec.jobTemplate"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", _JOBS),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "spec.template"),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", f"spec.template.{_JOBS}"),
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", "spec.template"),
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", f"spec.template.{_JOBS}"),
]
_EPHEMERAL = "spec.volumes[0].ephemeral.volumeClaimTemplate"
# Kind and the place of a claim template.
_CLAIM_TEMPLATES = [
    ("apps/v1", "StatefulSet", "spec.volumeClaimTemplates[0]"),
    ("apps/v1", "StatefulSet", "spec.volumeClaimTemplates[2]"),
    ("apps/v1", "ControllerRevision", "data.spec.volumeClaimTemplates[0]"),
    ("apps/v1", "ControllerRevision", f"data.{_LWS}.volumeClaimTemplates[0]"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", f"{_LWS}.volumeClaimTemplates[0]"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", "spec"),
    ("v1", "Pod", _EPHEMERAL),
    ("v1", "Pod", "spec.volumes[4].ephemeral.volumeClaimTemplate"),
    *((version, kind, f"{path}.{_EPHEMERAL}") for version, kind, path in _TEMPLATES),
]
# Kinds with a table row, kinds without one, and kinds that only travel through subresources.
_OWN_METADATA = [
    *dict.fromkeys((version, kind) for version, kind, _ in [*_TEMPLATES, *_JOB_TEMPLATES, *_CLAIM_TEMPLATES]),
    ("v1", "Binding"),
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("compute.coreweave.com/v1alpha1", "NodePool"),
    ("example.org/v1", "Widget"),
    ("longhorn.io/v1beta2", "Node"),
]
_PLACES = [
    pytest.param(version, kind, path, id=f"{kind}.{version.rpartition('/')[0]}-{path}")
    for version, kind, path in [
        *((version, kind, _OWN) for version, kind in _OWN_METADATA),
        *(
            (version, kind, f"{path}.{_OWN}")
            for version, kind, path in [*_TEMPLATES, *_JOB_TEMPLATES, *_CLAIM_TEMPLATES]
        ),
        ("compute.coreweave.com/v1alpha1", "NodePool", "spec.nodeLabels"),
    ]
]
_KEPT = [("v1", "Node"), ("v1", "Namespace")]


def _judge(obj: Json, old: Json | None = None) -> tuple[Violation | More, ...]:
    return tuple(_GUARD.validate(request(obj, old=old), FACTS))


def _refused(path: str, value: str, problem: str = "", remedy: str = "") -> tuple[Violation, ...]:
    summary = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
    own = "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar."
    return (Violation("labels", path, f'{_KEY}="{value}"', problem, summary, remedy or own),)


@pytest.mark.parametrize(("version", "kind", "path"), _PLACES)
def test_a_place_is_guarded(version: str, kind: str, path: str) -> None:
    """A reserved label is refused with its path wherever it is new or changed, and passes where it was there."""
    bare = resource(version, kind, at(path, {"app": "trainer"}))
    labelled = resource(version, kind, at(path, {"app": "trainer", _KEY: "1"}))
    changed = resource(version, kind, at(path, {_KEY: "2"}))

    assert _judge(bare) == ()
    assert _judge(labelled) == _refused(path, "1")
    assert _judge(labelled, bare) == _refused(path, "1")
    assert _judge(labelled, resource(version, kind)) == _refused(path, "1")
    assert _judge(changed, labelled) == _refused(path, "2")
    assert _judge(merged(labelled, at(path, {"app": "other"})), labelled) == ()


@pytest.mark.parametrize(("version", "kind", "path"), _PLACES)
def test_a_removal_is_refused_on_nodes_and_namespaces_only(version: str, kind: str, path: str) -> None:
    """A reserved label may go from anywhere but the own labels of a Node or a Namespace."""
    labelled = resource(version, kind, at(path, {"app": "trainer", _KEY: "1"}))
    remedy = "Leave these labels in place: the cluster's own controllers work by them."
    expected = _refused(path, "1", "must not be removed", remedy) if (version, kind) in _KEPT else ()

    assert _judge(resource(version, kind, at(path, {"app": "trainer"})), labelled) == expected
    assert _judge(resource(version, kind), labelled) == expected


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        pytest.param("example.org/v1", "Deployment", "spec.template.metadata.labels", id="kind-of-another-group"),
        pytest.param("v1", "Service", "spec.template.metadata.labels", id="core-service"),
        pytest.param("apps/v1", "Deployment", "spec.selector.matchLabels", id="selector"),
        pytest.param("v1", "Pod", "spec.nodeSelector", id="node-selector"),
        pytest.param("v1", "Pod", "metadata.annotations", id="annotations"),
        pytest.param("batch/v1", "Job", "spec.jobTemplate.metadata.labels", id="no-place-of-this-kind"),
        pytest.param("v1", "ConfigMap", "data", id="config-map"),
    ],
)
def test_other_places_are_free(version: str, kind: str, path: str) -> None:
    """A reserved key passes where it is no label that anybody copies."""
    assert _judge(resource(version, kind, at(path, {_KEY: "1"}))) == ()


def test_a_label_in_one_place_does_not_excuse_another() -> None:
    """A label is compared with what stood at the same place, not with the rest of the old object."""
    old = resource("batch.volcano.sh/v1alpha1", "Job", at("spec.tasks[0].template.metadata.labels", {_KEY: "1"}))
    task = {"template": {"metadata": {"labels": {_KEY: "1"}}}}
    new = merged(old, {"spec": {"tasks": [task, task]}}, at(_OWN, {_KEY: "1"}))

    assert _judge(new, old) == (*_refused(_OWN, "1"), *_refused("spec.tasks[1].template.metadata.labels", "1"))
