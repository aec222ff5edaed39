"""What the API server's admission plugins do to an object: what they set in it, and what they refuse.

Of those that are on by default: ServiceAccount, DefaultTolerationSeconds and Priority, and where their objects are
known, LimitRanger and ResourceQuota. Sources: plugin/pkg/admission and pkg/quota/v1/evaluator/core in k8s.io/kubernetes
v1.36.3, and pkg/admission/plugin/resourcequota in k8s.io/apiserver, for the words. Not counted are devices of
ResourceClaims. tests/cluster/test_pod_defaults.py compares with a real API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from policies.admissionpolicy.builtin.defaults import (
    Amounts,
    affinity_terms,
    aggregate,
    amounts_of,
    is_of_a_pod,
    quantities,
)
from policies.cel.library.quantity import EXACT, compare, read
from policies.engine.match import holds
from policies.engine.request import GroupVersionResource, JsonObject, is_mirror_pod, mapping, mappings
from policies.objects.fieldpath import Location

ACCOUNT = "default"
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_SECONDS = 300
# By the name of the class, where no PriorityClass is the default of all.
_PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Five more characters make a name of 63 (k8s.io/apiserver's pkg/storage/names).
_MOST_OF_PREFIX = 58


def admit(pod: JsonObject, *, is_daemon: bool = False) -> None:
    """Set what ServiceAccount and DefaultTolerationSeconds set; Pods of a DaemonSet tolerate lost Nodes for ever."""
    spec = pod.get("spec")
    if not isinstance(spec, dict) or is_mirror_pod(pod):
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = ACCOUNT
    written = spec.get("tolerations") or []
    if is_daemon or not isinstance(written, list):
        return
    added = [
        {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": _LOST_SECONDS}
        for key in _LOST
        if not any(
            (toleration.get("key") or "") in ("", key) and (toleration.get("effect") or "") in ("", "NoExecute")
            for toleration in mappings(spec, "tolerations")
        )
    ]
    if added:
        spec["tolerations"] = [*written, *added]


def generated(prefix: str) -> str:
    """A name like those that the API server makes of a generateName; none without one."""
    return f"{prefix[:_MOST_OF_PREFIX]}xxxxx" if prefix else ""


def admitted(obj: JsonObject) -> JsonObject:
    """The object, changed: with a name for generateName; a Pod with what plugins set, and a known class's priority."""
    metadata = mapping(obj, "metadata")
    if not metadata.get("name") and (prefix := metadata.get("generateName")):
        metadata["name"] = generated(str(prefix))
    spec = obj.get("spec")
    if (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod") and isinstance(spec, dict):
        admit(obj)
        if (priority := _PRIORITIES.get(spec.get("priorityClassName") or "")) is not None:
            spec.setdefault("priority", priority)
            spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    return obj


_RANGER, _RANGED = "kubernetes.io/limit-ranger", "LimitRanger plugin set: "
_GROUPS = (("containers", "container"), ("initContainers", "init container"))
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# What every container must say if a quota counts it; of other resources a quota counts what there is.
_DEMANDED = frozenset(f"{kind}{name}" for name in ("cpu", "memory") for kind in ("", "requests.", "limits."))
_ALIASES = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services")
_CLASS = ".storageclass.storage.k8s.io/"


class Refusal(NamedTuple):
    """What a plugin refuses. path: the field; message: in the API server's words; remedy: whose limit it is."""

    path: Location
    message: str
    remedy: str


class Limits:
    """The LimitRanges and ResourceQuotas of Namespaces."""

    def __init__(self, objects: Iterable[JsonObject] = (), namespace: str = "") -> None:
        """objects: with the API server's defaults; those of other kinds do not count. namespace: of those without."""
        self._ranges: dict[str, list[JsonObject]] = {}
        self._quotas: dict[str, list[JsonObject]] = {}
        for obj in objects:
            of_kind = {"LimitRange": self._ranges, "ResourceQuota": self._quotas}.get(str(obj.get("kind")))
            if of_kind is not None and obj.get("apiVersion") == "v1":
                of_kind.setdefault(str(mapping(obj, "metadata").get("namespace") or namespace), []).append(obj)

    def __bool__(self) -> bool:
        return bool(self._ranges or self._quotas)

    def fill(self, pod: JsonObject, namespace: str) -> None:
        """Set in a Pod the limits and requests that it lacks, and the annotation that names them."""
        for limit_range in self._ranges.get(namespace, ()):
            own: dict[str, JsonObject] = {"requests": {}, "limits": {}}
            for item in mappings(mapping(limit_range, "spec"), "limits"):
                if item.get("type") == "Container":
                    own["requests"] |= mapping(item, "defaultRequest")
                    own["limits"] |= mapping(item, "default")
            notes = []
            for field, noun in _GROUPS:
                for container in mappings(pod.get("spec"), field):
                    resources = mapping(container, "resources")
                    for kind, defaults in own.items():
                        given = mapping(resources, kind)
                        if new := sorted(defaults.keys() - given.keys()):
                            resources = {**resources, kind: {**defaults, **given}}
                            notes.append(f"{', '.join(new)} {kind[:-1]} for {noun} {container.get('name')}")
                    container["resources"] = resources
            metadata = mapping(pod, "metadata")
            if notes:
                metadata["annotations"] = {**mapping(metadata, "annotations"), _RANGER: _RANGED + "; ".join(notes)}

    def refusals(self, obj: JsonObject, resource: GroupVersionResource, namespace: str) -> Iterator[Refusal]:
        """What is refused of a new object."""
        for limit_range in self._ranges.get(namespace, ()):
            remedy = f"LimitRange {mapping(limit_range, 'metadata').get('name')!r} says so"
            for item in mappings(mapping(limit_range, "spec"), "limits"):
                for path, requests, limits in _ranged(obj, resource, str(item.get("type"))):
                    for message in _outside(item, requests, limits):
                        yield Refusal(path, message, remedy)
                    # Of requests over limits a LimitRange gave one: the API server's validation refuses the Pod.
                    for name, request in requests.items() if path[-1] == "resources" else ():
                        most = limits.get(name)
                        if most is not None and compare(request.amount, most.amount) > 0:
                            words = f'Invalid value: "{request}": must be less than or equal to {name} limit of {most}'
                            yield Refusal((*path, "requests"), words, remedy)
        for quota in self._quotas.get(namespace, ()):
            yield from _over(quota, obj, resource)


def _ranged(obj: JsonObject, resource: GroupVersionResource, type_: str) -> Iterator[tuple[Location, Amounts, Amounts]]:
    """What of an object a type of limit is about: the places, and what is requested and limited there."""
    spec = mapping(obj, "spec")
    match (resource.group, resource.resource, type_):
        case "", "pods", "Container":
            for field, _ in _GROUPS:
                for index, container in enumerate(mappings(spec, field)):
                    path = ("spec", field, index, "resources")
                    yield path, amounts_of(container, "requests"), amounts_of(container, "limits")
        case "", "pods", "Pod":
            yield ("spec",), _of_pod(spec, "requests"), _of_pod(spec, "limits")
        case "", "persistentvolumeclaims", "PersistentVolumeClaim":
            requests = amounts_of(spec, "requests")
            yield ("spec", "resources", "requests"), requests, requests
        case _:
            return


def _of_pod(spec: JsonObject, kind: str) -> Amounts:
    """What a Pod requests, or its limits: its own where it has some, else those of its containers together."""
    own = {name: amount for name, amount in amounts_of(spec, kind).items() if is_of_a_pod(name)}
    return {**aggregate(spec, kind), **own}


def _outside(item: JsonObject, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """What a LimitRange's item says of amounts that are less than its least, or more than its most."""
    type_ = item.get("type")
    request_first = (("request", requests), ("limit", limits))
    limit_first = request_first[:1] if type_ == "PersistentVolumeClaim" else request_first[::-1]
    for field, wrong, order in (("min", -1, request_first), ("max", 1, limit_first)):
        for name, bound in quantities(mapping(item, field)).items():
            text = f"{field}imum {name} usage per {type_} is {bound}"
            if name not in order[0][1]:
                yield f"{text}.  No {order[0][0]} is specified"
                continue
            for noun, amounts in order:
                if name in amounts and compare(amounts[name].amount, bound.amount) == wrong:
                    yield f"{text}, but {noun} is {amounts[name]}"
                    break
    for name, most in quantities(mapping(item, "maxLimitRequestRatio")).items():
        text = f"{name} max limit to request ratio per {type_} is {most}"
        request, limit = (own[name].amount.decimal if name in own else 0 for own in (requests, limits))
        for noun, amount in (("request", request), ("limit", limit)):
            if not amount:
                yield f"{text}, but no {noun} is specified or {noun} is 0"
                break
        else:
            if (ratio := float(limit) / float(request)) > float(most.amount.decimal):
                yield f"{text}, but provided ratio is {ratio:f}"


def _over(quota: JsonObject, obj: JsonObject, resource: GroupVersionResource) -> Iterator[Refusal]:
    """What a quota refuses: what is said nowhere though it counts it, or more than it has left."""
    name, status = mapping(quota, "metadata").get("name"), mapping(quota, "status")
    spec, of_object = mapping(quota, "spec"), mapping(obj, "spec")
    hard = quantities(mapping(status, "hard") or mapping(spec, "hard"))
    scopes = mappings(mapping(spec, "scopeSelector"), "matchExpressions")
    if isinstance(spec.get("scopes"), list):
        scopes += [{"scopeName": scope, "operator": "Exists"} for scope in spec["scopes"]]
    if not all(_in_scope(scope, of_object, resource) for scope in scopes):
        return
    if (resource.group, resource.resource) == ("", "pods") and not mapping(of_object, "resources"):
        lacking: dict[str, set[str]] = {}
        for one in (one for field, _ in _GROUPS for one in mappings(of_object, field)):
            given = _computed(amounts_of(one, "requests"), amounts_of(one, "limits"))
            for key in _DEMANDED & hard.keys() - given.keys():
                lacking.setdefault(key, set()).add(str(one.get("name")))
        words = [f"{key} for: {','.join(sorted(lacking[key]))}" for key in sorted(lacking)]
        if words:
            yield Refusal(
                ("spec",),
                f"failed quota: {name}: must specify {'; '.join(words)}",
                "write them in each container, or set defaults by a LimitRange",
            )
            return
    used = {key: read("0") for key in hard} | quantities(mapping(status, "used"))
    usage = {key: amount for key, amount in _usage(obj, resource).items() if key in hard and amount.amount.decimal}
    beyond = sorted(
        key
        for key, amount in usage.items()
        if EXACT.add(used[key].amount.decimal, amount.amount.decimal) > hard[key].amount.decimal
    )
    if beyond:
        requested, before, limited = (",".join(f"{key}={own[key]}" for key in beyond) for own in (usage, used, hard))
        message = f"exceeded quota: {name}, requested: {requested}, used: {before}, limited: {limited}"
        yield Refusal(("spec",), message, "ask for less, or ask who keeps the quota for more")


def _in_scope(scope: JsonObject, spec: JsonObject, resource: GroupVersionResource) -> bool:
    """Whether a Pod is in the scope of a quota. Nothing else is in any."""
    if (resource.group, resource.resource) != ("", "pods"):
        return False
    match str(scope.get("scopeName")):
        case "Terminating" | "NotTerminating" as name:
            return (spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating")
        case "BestEffort" | "NotBestEffort" as name:
            # Nothing in the Pod has a request or limit of processors or memory.
            own = (
                [spec] if mapping(spec, "resources") else [one for group, _ in _GROUPS for one in mappings(spec, group)]
            )
            amounts = [amounts_of(one, kind) for one in own for kind in ("requests", "limits")]
            computed = any(one[key].amount.decimal for one in amounts for key in ("cpu", "memory") if key in one)
            return computed == (name == "NotBestEffort")
        case "PriorityClass":
            return holds(scope.get("operator"), spec.get("priorityClassName") or None, tuple(scope.get("values") or ()))
        case "CrossNamespacePodAffinity":
            return any("namespaces" in term or "namespaceSelector" in term for term in affinity_terms(spec))
        case _:
            return False


def _usage(obj: JsonObject, resource: GroupVersionResource) -> Amounts:
    """What a quota counts of an object, by the names that it has for it."""
    name, spec, one = resource.resource, mapping(obj, "spec"), read("1")
    usage = {f"count/{name}.{resource.group}".rstrip("."): one}
    if resource.group:
        return usage
    if name in _ALIASES:
        usage[name] = one
    if name == "pods":
        usage |= {name: one, **_computed(_of_pod(spec, "requests"), _of_pod(spec, "limits"))}
    elif name == "services":
        ports, type_ = mappings(spec, "ports"), spec.get("type")
        if type_ == "LoadBalancer":
            usage["services.loadbalancers"] = one
            if spec.get("allocateLoadBalancerNodePorts") is False:
                ports = [port for port in ports if port.get("nodePort")]
        if type_ in ("LoadBalancer", "NodePort"):
            usage["services.nodeports"] = read(str(len(ports)))
    elif name == "persistentvolumeclaims":
        asked = amounts_of(spec, "requests")
        own = {name: one, **({"requests.storage": asked["storage"]} if "storage" in asked else {})}
        class_ = spec.get("storageClassName")
        usage |= own | ({f"{class_}{_CLASS}{key}": amount for key, amount in own.items()} if class_ else {})
    return usage


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    """The names that quotas have for what is requested and limited."""
    usage = {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    for name, amount in requests.items():
        is_plain = name in _COMPUTE or name.startswith("hugepages-")
        if is_plain or ("/" in name and "kubernetes.io/" not in name):
            usage |= {f"requests.{name}": amount, **({name: amount} if is_plain else {})}
    return usage
