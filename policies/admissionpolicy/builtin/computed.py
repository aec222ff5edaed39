"""Defaults of fields that depend on other fields of the object, but for those of Pods.

Each function changes a value of its type in place and leaves alone what has another type. They run before the constant
defaults of the type. Source: pkg/apis/*/*/defaults.go and conversion.go in k8s.io/kubernetes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from policies.engine.request import JsonObject, mapping
from policies.kubernetes.release import Release

_ROLLING: Final = "RollingUpdate"
_LOAD_BALANCER, _NODE_PORT, _CLUSTER_IP = "LoadBalancer", "NodePort", "ClusterIP"
_RBAC = "rbac.authorization.k8s.io"
_EXACT = "ExactCount"
_GENERATION = "deprecated.daemonset.template.generation"
_LARGEST_INT = 2**31 - 1
_SESSION_SECONDS = 10_800
_PERIOD = 15
_ON_BY_DEFAULT = (1, 37)
"""The release since which MaxUnavailableStatefulSet is on."""
_SCALE_UP: JsonObject = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": _PERIOD},
        {"type": "Percent", "value": 100, "periodSeconds": _PERIOD},
    ],
}
_SCALE_DOWN: JsonObject = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": _PERIOD}],
}


def _rolling(strategy: object, fields: Mapping[str, Any]) -> None:
    """The fields of a rolling update, which is the strategy if none is named."""
    if not isinstance(strategy, dict) or strategy.get("type") not in (None, "", _ROLLING):
        return
    rolling = strategy.setdefault("rollingUpdate", {})
    if isinstance(rolling, dict):
        for name, value in fields.items():
            rolling.setdefault(name, value)


def _deployment(obj: JsonObject, _: Release) -> None:
    _rolling(mapping(obj, "spec").get("strategy"), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _daemon_set(obj: JsonObject, _: Release) -> None:
    """The rolling update, and the annotation that an old field has become (conversion.go)."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations", {}), dict):
        metadata["annotations"] = {_GENERATION: "1", **metadata.get("annotations", {})}
    _rolling(mapping(obj, "spec").get("updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})


def _stateful_set(obj: JsonObject, release: Release) -> None:
    claims = mapping(obj, "spec").get("volumeClaimTemplates")
    for claim in claims if isinstance(claims, list) else ():
        if isinstance(claim, dict):
            claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    strategy = mapping(obj, "spec").get("updateStrategy")
    if not isinstance(strategy, dict) or (strategy.get("type") and "rollingUpdate" not in strategy):
        return
    since = {"maxUnavailable": 1} if (release.major, release.minor) >= _ON_BY_DEFAULT else {}
    _rolling(strategy, {"partition": 0, **since})
    strategy.setdefault("type", _ROLLING)


def _job(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _LARGEST_INT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    _label(obj, mapping(mapping(mapping(spec, "template"), "metadata"), "labels"))


def _label(obj: JsonObject, labels: JsonObject) -> None:
    """The labels of a template, if the object has none of its own."""
    metadata = obj.get("metadata")
    if labels and isinstance(metadata, dict) and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _replication_controller(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    labels = mapping(mapping(mapping(spec, "template"), "metadata"), "labels")
    if labels and isinstance(spec, dict):
        spec.setdefault("selector", dict(labels))
    _label(obj, labels)


def _service(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    type_ = spec.get("type", _CLUSTER_IP)
    if spec.get("sessionAffinity") == "ClientIP":
        client = mapping(mapping(spec, "sessionAffinityConfig"), "clientIP")
        if "timeoutSeconds" not in client:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _SESSION_SECONDS}}
    elif spec.get("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    if type_ in {_LOAD_BALANCER, _NODE_PORT} or (type_ == _CLUSTER_IP and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if type_ in {_LOAD_BALANCER, _NODE_PORT, _CLUSTER_IP}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if type_ == _LOAD_BALANCER:
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _service_port(obj: JsonObject, _: Release) -> None:
    if obj.get("targetPort") in (None, 0, ""):
        obj["targetPort"] = obj.get("port", 0)


def _namespace(obj: JsonObject, _: Release) -> None:
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        metadata["labels"] = {**mapping(metadata, "labels"), "kubernetes.io/metadata.name": metadata["name"]}


def _node_status(obj: JsonObject, _: Release) -> None:
    if "allocatable" not in obj and isinstance(obj.get("capacity"), dict):
        obj["allocatable"] = dict(obj["capacity"])


def _limit_range_item(obj: JsonObject, _: Release) -> None:
    if obj.get("type") != "Container":
        return
    default = {**mapping(obj, "max"), **mapping(obj, "default")}
    request = {**mapping(obj, "min"), **default, **mapping(obj, "defaultRequest")}
    obj |= {name: amounts for name, amounts in (("default", default), ("defaultRequest", request)) if amounts}


def _secret(obj: JsonObject, _: Release) -> None:
    """What is given as text becomes data (conversion.go)."""
    texts = obj.pop("stringData", None)
    if isinstance(texts, dict):
        data = {name: b64encode(str(text).encode()).decode() for name, text in texts.items()}
        obj["data"] = {**mapping(obj, "data"), **data}


def _autoscaler(obj: JsonObject, _: Release) -> None:
    behavior = mapping(obj, "spec").get("behavior")
    if isinstance(behavior, dict):
        for name, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            if isinstance(behavior.get(name, {}), dict):
                behavior[name] = {**rules, **behavior.get(name, {})}


def _network_policy(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict) and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _subject(obj: JsonObject, _: Release) -> None:
    if obj.get("kind") in {"User", "Group"}:
        obj.setdefault("apiGroup", _RBAC)


def _device_request(obj: JsonObject, _: Release) -> None:
    if obj.setdefault("allocationMode", _EXACT) == _EXACT:
        obj.setdefault("count", 1)


def _old_device_request(obj: JsonObject, release: Release) -> None:
    """The same, but for a request that has others in it."""
    if obj.get("deviceClassName"):
        _device_request(obj, release)


def _definition(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    names, status = mapping(spec, "names"), obj.get("status")
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    versions = mapping({"": spec}, "").get("versions")
    stored = [version for version in versions or () if isinstance(version, dict) and version.get("storage") is True]
    if isinstance(status, dict) and not status.get("storedVersions") and stored:
        status["storedVersions"] = [stored[0].get("name")]


COMPUTED: Mapping[str, Callable[[JsonObject, Release], None]] = {
    "apps.v1.DaemonSet": _daemon_set,
    "apps.v1.Deployment": _deployment,
    "apps.v1.StatefulSet": _stateful_set,
    "autoscaling.v2.HorizontalPodAutoscaler": _autoscaler,
    "batch.v1.Job": _job,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.NodeStatus": _node_status,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.Secret": _secret,
    "core.v1.Service": _service,
    "core.v1.ServicePort": _service_port,
    "networking.v1.NetworkPolicy": _network_policy,
    "rbac.v1.Subject": _subject,
    "resource.v1.DeviceSubRequest": _device_request,
    "resource.v1.ExactDeviceRequest": _device_request,
    "resource.v1beta1.DeviceRequest": _old_device_request,
    "resource.v1beta1.DeviceSubRequest": _device_request,
    "resource.v1beta2.DeviceSubRequest": _device_request,
    "resource.v1beta2.ExactDeviceRequest": _device_request,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": _definition,
}
"""By short name of the type."""
