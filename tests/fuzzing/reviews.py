"""AdmissionReviews of all kinds that rules know, some of them spoilt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from support.builders import Json, at, daemon_set, deployment, owner, pod, resource, template
from support.service.reviews import RESERVED, review

from fuzzing import change

_GPU = {"nvidia.com/gpu": "8"}
_PLACEMENT = {
    "kai.scheduler/topology": "coreweave",
    "kai.scheduler/topology-required-placement": "superpod=3",
    "kai.scheduler/topology-preferred-placement": "rack",
}
_INTERRUPTABLE = {"qos.coreweave.cloud/interruptable": "true"}
_TERMS = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
        ],
    }
}
_RESERVED_TOLERATION = [{"key": "node.coreweave.cloud/reserved", "operator": "Exists"}]

SEEDS: tuple[Json, ...] = (
    pod(),
    pod(_GPU, labels=_INTERRUPTABLE),
    pod(_GPU, metadata={"annotations": _PLACEMENT, **owner("Job")}, affinity=_TERMS),
    pod(labels=RESERVED, tolerations=_RESERVED_TOLERATION),
    deployment(_GPU, template_labels={"app": "trainer", **_INTERRUPTABLE}),
    deployment(labels=RESERVED, metadata={"annotations": _PLACEMENT}, affinity=_TERMS),
    deployment(kind="StatefulSet", template_labels=_INTERRUPTABLE),
    daemon_set(tolerations=_RESERVED_TOLERATION),
    resource(
        "batch/v1", "Job", at("spec.template", template(_GPU, labels=_INTERRUPTABLE, affinity=_TERMS)),
        at("spec.completions", 8), at("spec.completionMode", "Indexed"), annotations=_PLACEMENT,
    ),
    resource("batch/v1", "CronJob", at("spec.jobTemplate.spec.template", template(labels=RESERVED))),
    resource(
        "jobset.x-k8s.io/v1alpha2", "JobSet", at("spec.replicatedJobs[1].template.spec.template", template(_GPU)),
        annotations=_PLACEMENT,
    ),
    resource("kubeflow.org/v1", "PyTorchJob", at("spec.pytorchReplicaSpecs.Worker.template", template(_GPU))),
    resource(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        at("spec.leaderWorkerTemplate.workerTemplate", template(_GPU)), annotations=_PLACEMENT,
    ),
    resource("ray.io/v1", "RayCluster", at("spec.workerGroupSpecs[1].template", template(_GPU))),
    resource("v1", "ConfigMap", {"data": {"size": "1"}}, labels=RESERVED),
    resource("v1", "Namespace", labels={"ns.coreweave.cloud/org": "control-plane"}),
    resource("v1", "Node", {"spec": {"taints": [{"key": "is_gpu", "effect": "NoSchedule"}]}}, labels=RESERVED),
    resource("compute.coreweave.com/v1alpha1", "NodePool", at("spec.nodeLabels", RESERVED)),
)  # fmt: skip


class Review(NamedTuple):
    """The bytes of a review on one line. created: the object, if the review is a plain CREATE of it by alice."""

    body: bytes
    created: Json | None


def reviews(random: Random, count: int) -> Iterator[Review]:
    """So many reviews: of ten, six with a changed object, two changed as a whole, one torn, one as it should be."""
    for _ in range(count):
        obj = random.choice(SEEDS)
        match random.randrange(10):
            case 0:
                yield Review(_line(review(obj)), obj)
            case 1:
                yield Review(change.torn(random, _line(review(obj))).replace(b"\n", b" ").strip() or b"-", None)
            case 2 | 3:
                yield Review(_line(change.value(random, review(obj, _old(random, obj)), random.randint(1, 3))), None)
            case _:
                yield _of_an_object(random, obj)


def _of_an_object(random: Random, obj: Json) -> Review:
    altered = change.value(random, obj, random.randint(1, 4))
    if isinstance(altered, dict) and random.random() < 0.5:
        return Review(_line(review(altered)), altered)
    return Review(_line(review(altered, _old(random, obj))), None)


def _old(random: Random, obj: Json) -> Any:
    """The object before an update: as it is, changed, or none."""
    return random.choice((obj, None, change.value(random, obj, 1)))


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
