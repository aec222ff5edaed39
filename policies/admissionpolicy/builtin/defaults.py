"""An object that somebody sends, as the API server hands it to admission: read into its type, with defaults.

Left out is what depends on other objects of the cluster, on the time, or on chance, such as addresses and uids.

The defaults of single fields are a table, `defaults.json` beside this module: by type, those of all releases, and under
the name of a release those that came with it. Names of types in k8s.io/api are short. With them count the defaults in
the OpenAPI definitions (`+default` in Go). Those that depend on other fields are functions: each changes a value of its
type in place, before the constant defaults, and leaves alone what has another type.
Sources, in k8s.io/kubernetes v1.36.3: defaults.go, zz_generated.defaults.go and conversion.go in pkg/apis/*/*, and for
Pods pkg/registry/core/pod/strategy.go (label keys of affinity and of topology spread, AppArmor). tests/cluster has
test_defaults.py and test_pod_defaults.py, which compare objects of all kinds with those of a real API server.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import json

from policies.admissionpolicy.builtin.reader import MILLI, Reader, canonical, quantity_of
from policies.admissionpolicy.builtin.table import QUANTITY, OpenApi, types_of
from policies.admissionpolicy.schema import Schema, SchemaNode
from policies.cel.library.quantity import EXACT, Large, Quantity, compare
from policies.cel.values import ABSENT
from policies.engine.patch import copied
from policies.engine.request import GroupVersionKind, JsonObject, as_map, mapping, mappings
from policies.kubernetes.release import NEWEST, RELEASES, Release

_ROLLING: Final = "RollingUpdate"
_LOAD_BALANCER, _NODE_PORT, _CLUSTER_IP = "LoadBalancer", "NodePort", "ClusterIP"
_RBAC = "rbac.authorization.k8s.io"
_EXACT = "ExactCount"
_GENERATION = "deprecated.daemonset.template.generation"
_LARGEST_INT = 2**31 - 1
_SESSION_SECONDS = 10_800
_PERIOD = 15
_GROUPS = ("containers", "initContainers", "ephemeralContainers")
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_HUGE_PAGES = "hugepages-"
_OVERCOMMITTED = frozenset({"cpu", "memory"})
_IMAGE = re.compile(
    r"(?:(?=[^/]*[A-Z.:]|localhost/)[a-zA-Z0-9.:\[\]-]+/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::(?P<tag>[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}))?(?P<digest>@sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128}))?"
)
_ID = re.compile("[a-f0-9]{64}")
_WHOLE_SINCE = (1, 37)  # PodLevelResourcesFixDefaulting is on
_ON_BY_DEFAULT = (1, 37)  # MaxUnavailableStatefulSet is on
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
    if obj.get("kind") in ("User", "Group"):
        obj.setdefault("apiGroup", _RBAC)


def _device_request(obj: JsonObject, _: Release) -> None:
    if obj.setdefault("allocationMode", _EXACT) == _EXACT:
        obj.setdefault("count", 1)


def _old_device_request(obj: JsonObject, release: Release) -> None:
    if obj.get("deviceClassName"):
        _device_request(obj, release)


def _definition(obj: JsonObject, _: Release) -> None:
    spec = obj.get("spec")
    names, status = mapping(spec, "names"), obj.get("status")
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    versions = as_map(spec).get("versions")
    stored = [version for version in versions or () if isinstance(version, dict) and version.get("storage") is True]
    if isinstance(status, dict) and not status.get("storedVersions") and stored:
        status["storedVersions"] = [stored[0].get("name")]


def _pod(pod: JsonObject, release: Release) -> None:
    """What only a Pod gets, and no template."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    # Limits without a request are requested (SetDefaults_Pod). Empty limits count as absent.
    for container in _containers(spec, "containers", "initContainers"):
        resources = container.get("resources")
        limits = mapping(resources, "limits")
        if isinstance(resources, dict) and limits:
            requests = resources.setdefault("requests", {})
            if isinstance(requests, dict):
                resources["requests"] = {**limits, **requests}
    _set_pod_resources(spec, is_whole=(release.major, release.minor) >= _WHOLE_SINCE)
    for container in _containers(spec, "containers", "initContainers") if spec.get("hostNetwork") is True else ():
        for port in mappings(container, "ports"):
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])
    period = spec.get("terminationGracePeriodSeconds")
    if isinstance(period, int) and period < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _select_label_keys(mapping(pod.get("metadata"), "labels"), spec)
    if mapping(spec, "os").get("name") != "windows":
        _set_app_armor(mapping(pod.get("metadata"), "annotations"), spec)


def _select_label_keys(labels: JsonObject, spec: JsonObject) -> None:
    """Add requirements with the Pod's own labels for `matchLabelKeys` and `mismatchLabelKeys`."""
    for term in (*mappings(spec, "topologySpreadConstraints"), *affinity_terms(spec)):
        selector = term.get("labelSelector")
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            keys = term.get(field)
            known = selector.get("matchExpressions", []) if isinstance(selector, dict) else None
            if not isinstance(selector, dict) or not isinstance(keys, list) or not isinstance(known, list):
                continue
            own = [key for key in keys if isinstance(key, str) and key in labels]
            requirements = [{"key": key, "operator": operator, "values": [labels[key]]} for key in own]
            if missing := [requirement for requirement in requirements if requirement not in known]:
                selector["matchExpressions"] = [*known, *missing]


def _set_app_armor(annotations: JsonObject, spec: JsonObject) -> None:
    """Copy AppArmor profiles from old annotations into fields, unless the Pod has the same one."""
    of_pod = mapping(spec, "securityContext").get("appArmorProfile")
    for container in _containers(spec):
        match annotations.get(f"{_APP_ARMOR}{container.get('name')}"):
            case "runtime/default":
                profile = {"type": "RuntimeDefault"}
            case "unconfined":
                profile = {"type": "Unconfined"}
            case str(text) if (name := text.removeprefix("localhost/").strip()) and text == f"localhost/{name}":
                profile = {"type": "Localhost", "localhostProfile": name}
            case _:
                continue
        context = container.get("securityContext", {})
        if profile != of_pod and isinstance(context, dict) and "appArmorProfile" not in context:
            container["securityContext"] = {**context, "appArmorProfile": profile}


def _pod_spec(spec: JsonObject, _: Release) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _container(container: JsonObject, _: Release) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image")))


def _volume(volume: JsonObject, _: Release) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _image_volume(source: JsonObject, _: Release) -> None:
    source.setdefault("pullPolicy", _pull_policy(source.get("reference")))


def _pull_policy(image: object) -> str:
    """Always for the tag `latest`, explicit or implied, otherwise IfNotPresent."""
    name = _IMAGE.fullmatch(image) if isinstance(image, str) and not _ID.fullmatch(image) else None
    is_latest = name is not None and (name["tag"] or ("" if name["digest"] else "latest")) == "latest"
    return "Always" if is_latest else "IfNotPresent"


def _containers(spec: JsonObject, *groups: str) -> Iterator[JsonObject]:
    for group in groups or _GROUPS:
        yield from mappings(spec, group)


def affinity_terms(spec: JsonObject) -> list[JsonObject]:
    """The terms of a Pod's affinity to other Pods."""
    terms = []
    affinity = mapping(spec, "affinity")
    for kind in (mapping(affinity, "podAffinity"), mapping(affinity, "podAntiAffinity")):
        terms += mappings(kind, "requiredDuringSchedulingIgnoredDuringExecution")
        weighted = mappings(kind, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [mapping(term, "podAffinityTerm") for term in weighted]
    return terms


def _set_pod_resources(spec: JsonObject, *, is_whole: bool) -> None:
    """Complete the Pod's own amounts from its containers (KEP-2837). is_whole: with PodLevelResourcesFixDefaulting."""
    resources = spec.get("resources")
    limits, requests = (dict(mapping(resources, kind)) for kind in ("limits", "requests"))
    if not isinstance(resources, dict) or not (limits or requests):
        return
    for name, amount in aggregate(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits or is_whole:
        for name, amount in aggregate(spec, "requests").items():
            if name in _OVERCOMMITTED:
                requests.setdefault(name, str(amount))
        for name, text in limits.items():
            if is_of_a_pod(name):
                requests.setdefault(name, text)
    # The limits that all containers have and the Pod has not, if it requests them; at least what it requests.
    each = [mapping(container.get("resources"), "limits") for container in _containers(spec)]
    together = aggregate(spec, "limits") if is_whole else {}
    for name, text in requests.items():
        request = quantity_of(text) if name in together and name not in limits else None
        if request is not None and is_of_a_pod(name) and all(name in own for own in each):
            limits[name] = str(_larger(together[name], request))
    resources |= {kind: amounts for kind, amounts in (("limits", limits), ("requests", requests)) if amounts}


def is_of_a_pod(name: str) -> bool:
    """Whether a Pod can have a resource of its own, beside its containers."""
    return name in _OVERCOMMITTED or name.startswith(_HUGE_PAGES)


Amounts = dict[str, Quantity]


def aggregate(spec: JsonObject, kind: str) -> Amounts:
    """The resources that the containers need together. Init containers run before them, beside preceding sidecars."""
    together: Amounts = {}
    for container in _containers(spec, "containers"):
        _combine(together, amounts_of(container, kind), _sum)
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in _containers(spec, "initContainers"):
        own = amounts_of(container, kind)
        if container.get("restartPolicy") == "Always":
            _combine(together, own, _sum)
            _combine(sidecars, own, _sum)
            own = sidecars
        else:
            _combine(own, sidecars, _sum)
        _combine(most, own, _larger)
    _combine(together, most, _larger)
    return together


def amounts_of(container: JsonObject, kind: str) -> Amounts:
    """The requests or limits of a container, or of a Pod."""
    return quantities(mapping(container.get("resources"), kind))


def quantities(listed: JsonObject) -> Amounts:
    """The amounts in a map; what is none is left out."""
    return {name: amount for name, value in listed.items() if (amount := quantity_of(value)) is not None}


def _combine(amounts: Amounts, others: Amounts, combined: Callable[[Quantity, Quantity], Quantity]) -> None:
    for name, other in others.items():
        amounts[name] = combined(amounts[name], other) if name in amounts else other


def _sum(left: Quantity, right: Quantity) -> Quantity:
    number = EXACT.add(left.amount.decimal, right.amount.decimal)
    return Quantity(Large(number, 0), left.form if left.amount.decimal else right.form)


def _larger(left: Quantity, right: Quantity) -> Quantity:
    return right if compare(right.amount, left.amount) > 0 else left


Computed = Callable[[JsonObject, Release], None]
COMPUTED: Mapping[str, Computed] = {
    "apps.v1.DaemonSet": _daemon_set,
    "apps.v1.Deployment": _deployment,
    "apps.v1.StatefulSet": _stateful_set,
    "autoscaling.v2.HorizontalPodAutoscaler": _autoscaler,
    "batch.v1.Job": _job,
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.ImageVolumeSource": _image_volume,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.NodeStatus": _node_status,
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.Secret": _secret,
    "core.v1.Service": _service,
    "core.v1.ServicePort": _service_port,
    "core.v1.Volume": _volume,
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


_API = "io.k8s.api."


@dataclass(frozen=True, slots=True)
class Default:
    """The value of one field. replaces_zero: whether it also stands for 0 and "", which say nothing in this field."""

    path: tuple[str, ...]
    value: Any
    replaces_zero: bool = False


@dataclass(frozen=True, slots=True)
class TypeDefaults:
    """What is filled into a value of a type.

    constants: defaults of fields. fields: those below which there is more, with the name of the type, how it is
    contained (`[` list, `{` map), or an empty name for quantities that are rounded.
    """

    constants: tuple[Default, ...]
    computed: Computed | None
    fields: tuple[tuple[str, str, str], ...]


def fill(obj: JsonObject, name: str, release: Release = NEWEST) -> None:
    """Fill in an object of a type with its canonical encoding, in place. Values of a wrong type are left alone."""
    own = of_type(name, release)
    if own.computed is not None:
        own.computed(obj, release)
    for default in own.constants:
        *parents, last = default.path
        holder: Any = obj
        for parent in parents:
            holder = holder.get(parent) if isinstance(holder, dict) else None
        # It is set if it has no value and what it would be in is there.
        if isinstance(holder, dict) and (
            holder.get(last) is None or (default.replaces_zero and holder[last] in {0, ""})
        ):
            holder[last] = copied(default.value)
    for field, shape, type_ in own.fields:
        value = obj.get(field)
        if not type_:
            if isinstance(value, dict):
                obj[field] = {key: canonical(amount, MILLI) for key, amount in value.items()}
            continue
        items: list[Any] = [] if shape else [value]
        if shape == "[" and isinstance(value, list):
            items = value
        elif shape == "{" and isinstance(value, dict):
            items = list(value.values())
        for item in items:
            if isinstance(item, dict):
                fill(item, type_, release)


@cache
def of_type(name: str, release: Release = NEWEST) -> TypeDefaults:
    """What is filled into a value of a type."""
    definition = types_of(release).types[name]
    short = name.removeprefix(_API)
    defaults = []
    for dotted, value in _constants(release).get(short, {}).items():
        *parents, field = path = dotted.split(".")
        holder = definition
        for parent in parents:
            holder = types_of(release).types[holder["properties"][parent]["$ref"]]
        # It also stands for the zero value of a field that is always written.
        defaults.append(Default(tuple(path), value, replaces_zero="omit" not in holder["properties"][field]))
    below = _filled(release)
    fields = tuple(
        (field, shape, type_)
        for field, shape, type_ in _below(definition)
        if type_ in below or (shape == "{" and not type_)
    )
    return TypeDefaults((*defaults, *_declared(definition)), COMPUTED.get(short), fields)


def _declared(definition: OpenApi) -> Iterator[Default]:
    """The defaults in a definition, but for those that are Go's zero values."""
    for field, schema in definition.get("properties", {}).items():
        value, omission = schema.get("default"), schema.get("omit", "")
        if value is not None and (omission in {"null", "written-null"} or (omission and value)):
            yield Default((field,), value)


def _below(definition: OpenApi) -> Iterator[tuple[str, str, str]]:
    for field, schema in definition.get("properties", {}).items():
        for shape, inner in (("", schema), ("[", schema.get("items")), ("{", schema.get("additionalProperties"))):
            name = inner.get("$ref") if isinstance(inner, dict) else None
            if name is not None and (name != QUANTITY or shape == "{"):
                yield field, shape, "" if name == QUANTITY else name


@cache
def _filled(release: Release) -> frozenset[str]:
    types = types_of(release).types
    users: dict[str, set[str]] = {}
    filled: set[str] = set()
    constants = _constants(release)
    for name, definition in types.items():
        short = name.removeprefix(_API)
        own = list(_below(definition))
        for _, _, type_ in own:
            users.setdefault(type_, set()).add(name)
        if short in constants or short in COMPUTED or any(_declared(definition)) or any(not t for _, _, t in own):
            filled.add(name)
    waiting = list(filled)
    while waiting:
        more = users.get(waiting.pop(), set()) - filled
        filled |= more
        waiting += more
    return frozenset(filled)


@cache
def _constants(release: Release) -> Mapping[str, Mapping[str, Any]]:
    text = resources.files("policies.admissionpolicy.builtin").joinpath("defaults.json").read_bytes()
    table = json.decode(text, type=dict[str, dict[str, dict[str, Any]]])
    constants = table[""]
    for known in RELEASES:
        if known <= release:
            for name, own in table.get(known.name, {}).items():
                constants[name] = {**constants.get(name, {}), **own}
    return constants


def kind_of(obj: Mapping[str, Any]) -> GroupVersionKind:
    """The kind that an object names."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return GroupVersionKind(group, version, str(obj.get("kind")))


def received(obj: JsonObject, schema: Schema) -> JsonObject:
    """A copy of an object as policies see it when it is created. The argument is not changed.

    A built-in kind is read into its Go type, written again and filled with the API server's defaults. A custom resource
    stays as it is written, with the defaults of its CRD. Values of a wrong type and unknown fields are left alone: they
    are refused elsewhere.
    """
    if not schema.typed:
        own: JsonObject = _with_defaults(obj, schema.root)
        return own
    encoded: JsonObject = Reader(as_json=True, lenient=True).read(ABSENT, obj, schema.root)
    return filled(encoded, schema)


def filled(obj: JsonObject, schema: Schema) -> JsonObject:
    """An object of a built-in kind with the API server's defaults; the same object if it has them all."""
    result: JsonObject = copied(obj)
    fill(result, schema.root.atom.name, schema.release)
    return obj if result == obj else result


def _with_defaults(value: Any, node: SchemaNode) -> Any:
    """A value with the defaults of a CRD's schema. A null stands for a default, if there is one."""
    atom = node.atom
    if isinstance(value, list):
        return value if node.item is None else [_with_defaults(item, node.item) for item in value]
    if not isinstance(value, dict) or atom.map is None or atom.map.omissions is not None:
        return value
    defaulted = {name: default for name, default in atom.map.defaults.items() if value.get(name) is None}
    whole = {**value, **copied(defaulted)}
    children = {key: node.child(key) for key in whole}
    return {
        key: item if (below := children[key]) is None else _with_defaults(item, below) for key, item in whole.items()
    }
