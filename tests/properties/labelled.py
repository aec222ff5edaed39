"""Objects with labels, reserved and other, at every sort of place and beside it."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.builders import Json

from properties.shapes import odd, some_of

_CLAIM = r"/spec/volumes/\d+/ephemeral/volumeClaimTemplate/metadata/labels"
# Kind, and the places of labels besides the object's own, as expressions for paths with slashes.
PLACES = {
    "v1 ConfigMap": [],
    "v1 Node": [],
    "v1 Namespace": [],
    "v1 Pod": [_CLAIM],
    "apps/v1 Deployment": ["/spec/template/metadata/labels", f"/spec/template{_CLAIM}"],
    "apps/v1 StatefulSet": [
        "/spec/template/metadata/labels",
        f"/spec/template{_CLAIM}",
        r"/spec/volumeClaimTemplates/\d+/metadata/labels",
        "/spec/selector/matchLabels",
    ],
    "batch/v1 CronJob": [
        "/spec/jobTemplate/metadata/labels",
        "/spec/jobTemplate/spec/template/metadata/labels",
        f"/spec/jobTemplate/spec/template{_CLAIM}",
    ],
    "kubeflow.org/v2beta1 MPIJob": [
        "/spec/mpiReplicaSpecs/[^/]+/template/metadata/labels",
        f"/spec/mpiReplicaSpecs/[^/]+/template{_CLAIM}",
    ],
    "batch.volcano.sh/v1alpha1 Job": [
        r"/spec/tasks/\d+/template/metadata/labels",
        rf"/spec/tasks/\d+/template{_CLAIM}",
    ],
    "compute.coreweave.com/v1alpha1 NodePool": ["/spec/nodeLabels"],
}
RESERVED = ["a.coreweave.cloud/x", "coreweave.com/y", "qos.coreweave.cloud/interruptable", "ns.coreweave.cloud/org"]
_KEYS = st.sampled_from([*RESERVED, "app", "notcoreweave.cloud/x", "coreweave.com.example.org/y"])
_VALUES: SearchStrategy[Any] = st.one_of(st.sampled_from(["", "1", "2"]), st.none(), st.builds(list))
_LABELS = st.dictionaries(_KEYS, _VALUES, max_size=3)


def _map(**parts: SearchStrategy[Any]) -> SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional={key: odd(value) for key, value in parts.items()})


_METADATA = _map(labels=_LABELS)
_VOLUMES = some_of(_map(ephemeral=_map(volumeClaimTemplate=_map(metadata=_METADATA))))
_TEMPLATE = _map(metadata=_METADATA, spec=_map(volumes=_VOLUMES))
_SPEC = _map(
    template=_TEMPLATE,
    volumes=_VOLUMES,
    selector=_map(matchLabels=_LABELS),
    volumeClaimTemplates=some_of(_map(metadata=_METADATA)),
    jobTemplate=_map(metadata=_METADATA, spec=_map(template=_TEMPLATE)),
    mpiReplicaSpecs=st.dictionaries(st.sampled_from(["Launcher", "Worker"]), odd(_map(template=_TEMPLATE)), max_size=2),
    tasks=some_of(_map(template=_TEMPLATE)),
    nodeLabels=_LABELS,
)
labelled_objects = _map(metadata=_METADATA, spec=_SPEC)
kinds = st.sampled_from(sorted(PLACES))
