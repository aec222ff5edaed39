"""Requests and objects with sensible defaults, so that a test states only what matters to it."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import FactUnavailable, Key, Missing
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, Operation, UserInfo
from policies.objects.workload import BUILT_IN, table

Json = dict[str, Any]

TODAY = date(2026, 3, 1)
FACTS = StaticFacts(TODAY)
WORKLOADS = table(BUILT_IN)
CLUSTER_SCOPED = frozenset({"ClusterTrainingRuntime", "Namespace", "Node", "NodePool"})
EVERYBODY = ("system:authenticated",)

_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


class NamespacesToAsk(StaticFacts, frozen=True):
    """Facts without any Namespace yet, so that each look-up raises Missing."""

    def known(self, key: Key[Any]) -> Any:
        """Raise Missing."""
        if isinstance(key, NamespaceKey):
            raise Missing(key)
        return super().known(key)


class NamespacesLost(StaticFacts, frozen=True):
    """Facts whose Namespaces could not be read."""

    def known(self, key: Key[Any]) -> Any:
        """Raise FactUnavailable."""
        if isinstance(key, NamespaceKey):
            return FactUnavailable(f"namespace {key.name} could not be read")
        return super().known(key)


def request(
    obj: Json | None = None,
    *,
    old: Json | None = None,
    operation: Operation | None = None,
    user: str = "alice",
    groups: Sequence[str] = EVERYBODY,
    namespace: str | None = None,
    name: str | None = None,
    resource: str | None = None,
    sub_resource: str = "",
    dry_run: bool = False,
) -> AdmissionRequest:
    """A request of alice's to write `obj`, an UPDATE if there is an old object. They determine kind and names."""
    described = obj if obj is not None else old or {}
    group, _, version = str(described.get("apiVersion", "v1")).rpartition("/")
    kind = str(described.get("kind", "Pod"))
    metadata = described.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name", "") if name is None else name
    if namespace is None:
        namespace = "" if kind in CLUSTER_SCOPED else metadata.get("namespace", "default")
    return AdmissionRequest(
        uid="7f6e1a5c-0b7e-4b0e-9a53-0d6c4f6f2a11",
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, resource or f"{kind.lower()}s"),
        sub_resource=sub_resource,
        name=name or "",
        namespace=(name or "") if kind == "Namespace" else namespace or "",
        operation=operation or ("DELETE" if obj is None else "CREATE" if old is None else "UPDATE"),
        user_info=UserInfo(user, "", tuple(groups)),
        object=obj,
        old_object=old,
        dry_run=dry_run,
    )


def at(path: str, value: Any) -> Any:
    """Maps and lists around a value, so that it stands at a path such as `spec.tasks[0].template`."""
    for step in reversed(_STEP.findall(path)):
        value = [{} for _ in range(int(step[1:-1]))] + [value] if step.startswith("[") else {step: value}
    return value


def merged(*objects: Json) -> Json:
    """One object from several. Maps are merged; of other values the last one counts."""
    result: Json = {}
    for obj in objects:
        for key, value in obj.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def resource(
    api_version: str, kind: str, *parts: Json, labels: Any = None, name: str = "trainer", **metadata: Any
) -> Json:
    """An object of any kind, made of parts such as those of `at`."""
    own = {"name": name, **({} if labels is None else {"labels": labels}), **metadata}
    return merged({"apiVersion": api_version, "kind": kind, "metadata": own}, *parts)


def pod_spec(limits: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    """A Pod's spec with one container, and whatever else is given."""
    container = {
        "name": "main",
        "image": "example.org/train:1",
        **({"resources": {"limits": limits}} if limits else {}),
    }
    return {"containers": [container], **fields}


def node_affinity(*terms: Any) -> Json:
    """An affinity that requires one of these terms of a Node."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def template(limits: Mapping[str, Any] | None = None, *, labels: Any = None, **fields: Any) -> Json:
    """A pod template; the fields are those of its spec."""
    return {
        "metadata": {"labels": {"app": "trainer"} if labels is None else labels},
        "spec": pod_spec(limits, **fields),
    }


def pod(
    limits: Mapping[str, Any] | None = None, *, labels: Any = None, metadata: Json | None = None, **fields: Any
) -> Json:
    """A Pod; the fields are those of its spec."""
    return resource("v1", "Pod", {"spec": pod_spec(limits, **fields)}, labels=labels, **(metadata or {}))


def deployment(
    limits: Mapping[str, Any] | None = None,
    *,
    labels: Any = None,
    template_labels: Any = None,
    metadata: Json | None = None,
    kind: str = "Deployment",
    **fields: Any,
) -> Json:
    """A Deployment, or another kind of the group `apps`; the fields are those of its Pods' spec."""
    spec = {
        "selector": {"matchLabels": {"app": "trainer"}},
        "template": template(limits, labels=template_labels, **fields),
    }
    return resource("apps/v1", kind, {"spec": spec}, labels=labels, **(metadata or {}))


def daemon_set(
    limits: Mapping[str, Any] | None = None, *, labels: Any = None, metadata: Json | None = None, **fields: Any
) -> Json:
    """A DaemonSet; the fields are those of its Pods' spec."""
    return deployment(limits, labels=labels, metadata=metadata, kind="DaemonSet", **fields)


def owner(kind: str = "ReplicaSet", *, controller: bool = True) -> Json:
    """Metadata that names an owner."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "9d1c", "controller": controller}
    return {"ownerReferences": [reference]}
