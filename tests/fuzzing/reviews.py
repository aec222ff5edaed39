"""AdmissionReviews of all kinds that rules know, some of them spoilt; the same changes for the same Random."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from support.builders import Json, at, daemon_set, deployment, owner, pod, resource, template
from support.service.reviews import RESERVED, review

Place = tuple[Any, Any]
"""A map or list, and the key or index of a value in it."""

JUNK: tuple[Any, ...] = (
    None, {}, [], "", "x", 0, -1, 1.5, True, False, 2**63, -(2**70), 1e308, "\x00", "ü" * 70, "a" * 5000, "\u2028",
    "\ud7ff", "a\nb\tc", "${x}", "1" * 400, ["x"], [None], [[]], [{}], {"": ""}, {"x": None}, {"a/b": {"~1": "~0"}},
)  # fmt: skip
INSERTS = (
    "\n", "\t", "'", '"', "\\", "{", "}", "[", ":", "- ", "#", "&a ", "*a", "!!int ", "|", "\u0000", "ü", "%", "<<: ",
)  # fmt: skip
DEPTH = 200


def changed(random: Random, original: Any, changes: int) -> Any:
    """A copy of a JSON value with so many changes, each at a random place."""
    held = [deepcopy(original)]
    for _ in range(changes):
        container, key = random.choice(list(_places(held)))
        random.choice(_CHANGES)(random, container, key)
    return held[0]


def _places(container: Any) -> Iterator[Place]:
    """Every place in a map or list, at any depth."""
    pairs = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
    for key, inner in pairs:
        yield container, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _put_junk(random: Random, container: Any, key: Any) -> None:
    container[key] = deepcopy(random.choice(JUNK))


def _removed(_random: Random, container: Any, key: Any) -> None:
    if isinstance(container, dict):
        del container[key]
    else:
        container[key] = None


def _nest(random: Random, container: Any, key: Any) -> None:
    for _ in range(random.randint(1, DEPTH)):
        container[key] = [container[key]] if random.random() < 0.5 else {"x": container[key]}


def _repeat(random: Random, container: Any, key: Any) -> None:
    inner = container[key]
    if isinstance(inner, list):
        container[key] = inner * random.randint(2, 60)
    elif isinstance(inner, dict):
        container[key] = {**inner, **{f"k{number}": "v" for number in range(random.randint(1, 60))}}
    else:
        container[key] = [inner] * random.randint(2, 60)


def _rename(random: Random, container: Any, key: Any) -> None:
    if isinstance(container, dict):
        container[text(random, str(key))] = container.pop(key)


def _edit(random: Random, container: Any, key: Any) -> None:
    container[key] = text(random, str(container[key]))


_CHANGES = (_put_junk, _put_junk, _removed, _nest, _repeat, _rename, _edit)


def text(random: Random, original: str) -> str:
    """A text with one edit: something inserted, a part left out, or a part twice."""
    start, end = sorted(random.randint(0, len(original)) for _ in range(2))
    match random.randrange(3):
        case 0:
            return original[:start] + random.choice(INSERTS) + original[start:]
        case 1:
            return original[:start] + original[end:]
        case _:
            return original[:end] + original[start:]


def torn(random: Random, original: bytes) -> bytes:
    """Bytes with one fault: cut off, one byte changed, a part left out or twice, or no UTF-8."""
    start, end = sorted(random.randint(0, len(original)) for _ in range(2))
    match random.randrange(5):
        case 0:
            return original[:start]
        case 1:
            return original[:start] + bytes([random.randrange(256)]) + original[start + 1 :]
        case 2:
            return original[:start] + original[end:]
        case 3:
            return original[:end] + original[start:]
        case _:
            return original[:start] + b"\xc3\x28\xff" + original[start:]


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
                yield Review(as_bytes(review(obj)), obj)
            case 1:
                yield Review(torn(random, as_bytes(review(obj))).replace(b"\n", b" ").strip() or b"-", None)
            case 2 | 3:
                yield Review(as_bytes(changed(random, review(obj, _old(random, obj)), random.randint(1, 3))), None)
            case _:
                altered = changed(random, obj, random.randint(1, 4))
                if isinstance(altered, dict) and random.random() < 0.5:
                    yield Review(as_bytes(review(altered)), altered)
                else:
                    yield Review(as_bytes(review(altered, _old(random, obj))), None)


def _old(random: Random, obj: Json) -> Any:
    """The object before an update: as it is, changed, or none."""
    return random.choice((obj, None, changed(random, obj, 1)))


def as_bytes(value: Any) -> bytes:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
