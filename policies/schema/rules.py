"""What the API server demands of fields together, by type.

Each function notes what is wrong with the fields of one map. Sources: ValidateObjectMeta and
pkg/apis/meta/v1/validation in k8s.io/apimachinery;
pkg/apis/{apps,autoscaling,batch,core,networking,policy,rbac}/validation in k8s.io/kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from policies.admissionpolicy.builtin.reader import quantity_of
from policies.engine.match import SelectorRequirement
from policies.engine.request import mapping
from policies.golang.strconv import utf8
from policies.kubernetes.name import Format, dns_label, dns_subdomain, label_value, path_segment
from policies.schema.flaw import FORMATS, Flaws, Place, below

_Json = Mapping[str, Any]
Rule = Callable[[_Json, Place, Flaws], None]
"""Notes what is wrong with the fields of a map together."""

# The bytes that annotations may have together (TotalAnnotationSizeLimitB), and those of a character.
_TOTAL, _WIDEST = 256 * 1024, 4
_LABEL_KEY, _LABEL_VALUE = FORMATS["label-key"], FORMATS["label-value"]
_SUBDOMAIN, _LABEL = FORMATS["dns-subdomain"], FORMATS["dns-label"]
_RBAC = "rbac.authorization.k8s.io"
_SEGMENTS = (
    *((_RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *(("", "Event"), ("apiregistration.k8s.io", "APIService"), ("events.k8s.io", "Event")),
    *(("networking.k8s.io", "IPAddress"), ("policy", "PodDisruptionBudget")),
)
# The forms of names by group and kind; of all other kinds they are DNS subdomains.
_FORMS: Mapping[tuple[str, str], Format] = {
    **dict.fromkeys((("", "Namespace"), ("", "Service"), ("apps", "StatefulSet")), _LABEL),
    **dict.fromkeys(_SEGMENTS, path_segment),
}

_AMONG, _PRESENCE, _COMPARED = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
_OPERATORS = (*_AMONG, *_PRESENCE)
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS = ("containers", "initContainers")
# The order in which the API server looks at types of volumes.
_VOLUMES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_WHOLE = re.compile("-?[1-9][0-9]*|0")
_OF_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_MISMATCH = "`selector` does not match template `labels`"
_NEVER, _ON_FAILURE, _ALWAYS = "Never", "OnFailure", "Always"
_CLUSTER_IP, _EXTERNAL_NAME = "ClusterIP", "ExternalName"
# The keys that Secrets of a type have.
_KEYS_OF_SECRETS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT = "kubernetes.io/service-account.name"


# Types are right where these rules are asked, but fields may be missing or null.


def _items(value: _Json, name: str) -> list[Any]:
    return value.get(name) or []


def _maps(value: _Json, name: str) -> Iterator[tuple[int, _Json]]:
    """The maps in the list in a field, with their indexes. A null stands for an empty map."""
    return ((index, item or {}) for index, item in enumerate(value.get(name) or ()))


def _unique(values: Iterable[tuple[Place, Any]], flaws: Flaws) -> None:
    """Each value that was there before is a duplicate; those that are empty do not count."""
    known = set()
    for place, value in values:
        if value in known:
            flaws.duplicate(place, value)
        elif value:
            known.add(value)


def _formed(form: Format, place: Place, text: Any, flaws: Flaws) -> None:
    """A text has a form; an empty one counts as none."""
    if text:
        flaws.misformed(form, place, text)


def judge_metadata(value: _Json, group: str, kind: str, flaws: Flaws) -> None:
    """Note what is wrong with an object's name, labels and annotations."""
    place: Place = (None, "metadata")
    own = mapping(value, "metadata")
    name = own.get("name") or ""
    if not name and not own.get("generateName"):
        flaws.required((place, "name"), "name or generateName is required", "give it a name")
    _formed(_FORMS.get((group, kind), _SUBDOMAIN), (place, "name"), name, flaws)
    if (group, kind) == ("batch", "CronJob") and len(name) > 52:
        flaws.invalid((place, "name"), name, "must be no more than 52 characters")
    _formed(_LABEL, (place, "namespace"), own.get("namespace"), flaws)
    _labels_and_annotations(own, place, flaws)


def _labels_and_annotations(metadata: _Json, place: Place, flaws: Flaws) -> None:
    for key, value in mapping(metadata, "labels").items():
        flaws.misformed(_LABEL_KEY, below(place, "labels", key), key)
        _formed(_LABEL_VALUE, below(place, "labels", key), value, flaws)
    whole = mapping(metadata, "annotations")
    for key in whole:
        for problem in _LABEL_KEY(key.lower()):
            flaws.invalid(below(place, "annotations", key), key, problem)
    if sum(len(key) + len(value or "") for key, value in whole.items()) <= _TOTAL // _WIDEST:
        return
    if sum(len(utf8(key)) + len(utf8(value or "")) for key, value in whole.items()) > _TOTAL:
        flaws.too_long((place, "annotations"), _TOTAL)


def _requirement(value: _Json, place: Place, flaws: Flaws, *, of_nodes: bool = False) -> None:
    """A requirement has the values that its operator needs. Those of Nodes may also compare numbers."""
    operator, values = value.get("operator") or "", _items(value, "values")
    operators = (*_OPERATORS, *_COMPARED) if of_nodes else _OPERATORS
    if operator not in operators:
        remedy = f"write one of {', '.join(operators)}"
        flaws.invalid((place, "operator"), operator, "not a valid selector operator", remedy)
    elif operator in _AMONG and not values:
        flaws.required((place, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _PRESENCE and values:
        flaws.forbidden((place, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in _COMPARED and len(values) != 1:
        flaws.required((place, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _selects(selector: _Json, labels: _Json) -> bool:
    """Whether a label selector matches labels. A wrong operator, or a lack of values, is a flaw of its own."""
    for key, value in mapping(selector, "matchLabels").items():
        if key not in labels or (labels[key] or "") != (value or ""):
            return False
    for item in (item for item in _items(selector, "matchExpressions") if isinstance(item, dict)):
        operator, values = item.get("operator"), tuple(_items(item, "values"))
        if operator not in _OPERATORS or (operator == "In" and not values):
            continue
        if not SelectorRequirement(item.get("key") or "", operator, values).matches(labels):
            return False
    return True


def _container(value: _Json, place: Place, flaws: Flaws) -> None:
    _unique(((below(place, "ports", i, "name"), port.get("name")) for i, port in _maps(value, "ports")), flaws)
    for name in ("livenessProbe", "startupProbe"):
        successes = mapping(value, name).get("successThreshold")
        if successes not in (None, 0, 1):
            flaws.invalid(below(place, name, "successThreshold"), successes, "must be 1")


def _variable(value: _Json, place: Place, flaws: Flaws) -> None:
    name = value.get("name")
    if name and "=" in name:
        text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        flaws.invalid((place, "name"), name, text)
    source = value.get("valueFrom")
    if source is None:
        return
    count = sum(source.get(name) is not None for name in _SOURCES)
    if not count:
        flaws.invalid((place, "valueFrom"), "", _ONE_SOURCE)
    elif value.get("value"):
        flaws.invalid((place, "valueFrom"), "", "may not be specified when `value` is not empty")
    elif count > 1:
        flaws.invalid((place, "valueFrom"), "", "may not have more than one field specified at a time")


def _handler(value: _Json, place: Place, flaws: Flaws) -> None:
    given = [name for name in _HANDLERS if value.get(name) is not None]
    if not given:
        flaws.required(place, "must specify a handler type")
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 handler type")


def _resources(value: _Json, place: Place, flaws: Flaws) -> None:
    limits = mapping(value, "limits")
    for name, request in mapping(value, "requests").items():
        limit = limits.get(name)
        shared = name in _OVERCOMMITTED or "/" not in name or name.startswith("kubernetes.io/")
        if limit is None:
            if not shared:
                flaws.required((place, "limits"), "Limit must be set for non overcommitable resources")
            continue
        asked, allowed = quantity_of(request), quantity_of(limit)
        if asked is None or allowed is None or request == limit:
            continue
        if not shared and asked.amount.decimal != allowed.amount.decimal:
            flaws.invalid((place, "requests"), str(asked), f"must be equal to {name} limit of {allowed}")
        elif asked.amount.decimal > allowed.amount.decimal:
            flaws.invalid((place, "requests"), str(asked), f"must be less than or equal to {name} limit of {allowed}")


def _template(value: _Json, place: Place, flaws: Flaws) -> None:
    _labels_and_annotations(mapping(value, "metadata"), (place, "metadata"), flaws)
    _deletion_cost(value, (place, "annotations"), flaws)


def _deletion_cost(pod: _Json, place: Place, flaws: Flaws) -> None:
    """What a Pod's deletion costs is a whole number of 32 bits. place: of the annotations."""
    text = mapping(mapping(pod, "metadata"), "annotations").get(_DELETION_COST)
    if text and not (_WHOLE.fullmatch(text) and -(2**31) <= int(text) < 2**31):
        flaws.invalid((place, _DELETION_COST), text, "must be a 32bit integer")


def _pod(value: _Json, place: Place, flaws: Flaws) -> None:
    """Names of containers and volumes are unique, what is mounted is there, and ports of the host are free.

    Only init containers that go on running have probes and hooks.
    """
    _formed(_SUBDOMAIN, (place, "serviceAccountName"), value.get("serviceAccountName"), flaws)
    for index, container in _maps(value, "initContainers"):
        for field in _OF_RUNNING if container.get("restartPolicy") != _ALWAYS else ():
            if container.get(field) is not None:
                at = below(place, "initContainers", index, field)
                flaws.forbidden(at, "may not be set for init containers without restartPolicy=Always")
    for fields in (_CONTAINERS, ("volumes",)):
        named = ((field, index, item) for field in fields for index, item in _maps(value, field))
        _unique(((below(place, field, index, "name"), item.get("name")) for field, index, item in named), flaws)
    volumes = {volume.get("name") for _, volume in _maps(value, "volumes")}
    for at, container in ((below(place, f, i), c) for f in _CONTAINERS for i, c in _maps(value, f)):
        _mounts(container, at, volumes, flaws)
    known = set()  # ports of the host
    for index, container in _maps(value, "containers"):
        for number, port in _maps(container, "ports"):
            at, host = below(place, "containers", index, "ports", number, "hostPort"), port.get("hostPort")
            key = port.get("protocol") or "TCP", port.get("hostIP") or "", host
            if host and not value.get("hostNetwork") and key in known:
                flaws.duplicate(at, "/".join(map(str, key)))
            elif host and value.get("hostNetwork") and host != port.get("containerPort"):
                flaws.invalid(at, host, "must match `containerPort` when `hostNetwork` is true")
            known.add(key)


def _mounts(container: _Json, place: Place, volumes: set[Any], flaws: Flaws) -> None:
    for field, index, mount in ((f, i, m) for f in ("volumeMounts", "volumeDevices") for i, m in _maps(container, f)):
        if (name := mount.get("name")) and name not in volumes:
            flaws.missing(below(place, field, index, "name"), name, filter(None, volumes))
    paths = set()
    for index, mount in _maps(container, "volumeMounts"):
        if (path := mount.get("mountPath")) in paths:
            flaws.invalid(below(place, "volumeMounts", index, "mountPath"), path, "must be unique")
        elif path:
            paths.add(path)


def _toleration(value: _Json, place: Place, flaws: Flaws) -> None:
    operator, text, effect = value.get("operator") or "", value.get("value") or "", value.get("effect") or ""
    if not value.get("key") and operator != "Exists":
        problem = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        flaws.invalid((place, "operator"), operator, problem)
    if value.get("tolerationSeconds") is not None and effect != "NoExecute":
        flaws.invalid((place, "effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", "") and (wrong := label_value(text)):
        flaws.invalid((place, "operator"), text, ";".join(wrong))
    elif operator == "Exists" and text:
        flaws.invalid((place, "operator"), text, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Equal", "", "Exists", "Lt", "Gt"):
        flaws.unsupported((place, "operator"), operator, ("Equal", "Exists"))


def _spread(value: _Json, place: Place, flaws: Flaws) -> None:
    if (skew := value.get("maxSkew") or 0) <= 0:
        flaws.invalid((place, "maxSkew"), skew, "must be greater than zero")
    if value.get("minDomains") is not None and value.get("whenUnsatisfiable") == "ScheduleAnyway":
        text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        flaws.invalid((place, "minDomains"), value["minDomains"], text)


def _volume(value: _Json, place: Place, flaws: Flaws) -> None:
    """A volume is of one type; of none it is an empty directory."""
    given = [name for name in value if name != "name" and value[name] is not None]
    given.sort(key=lambda name: _VOLUMES.index(name) if name in _VOLUMES else len(_VOLUMES))
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 volume type")


def _claim(value: _Json, place: Place, flaws: Flaws) -> None:
    if mapping(mapping(value, "resources"), "requests").get("storage") is None:
        flaws.required(below(place, "resources", "storage"), "", "write resources.requests.storage")


def _deployment(value: _Json, place: Place, flaws: Flaws) -> None:
    _selecting("Deployment", value, place, flaws)
    strategy = mapping(value, "strategy")
    rolling = strategy.get("rollingUpdate")
    at = below(place, "strategy", "rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        flaws.forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
    elif rolling and rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        flaws.invalid((at, "maxUnavailable"), rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    if deadline is not None and 0 <= deadline <= ready:
        flaws.invalid((place, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _replication_controller(value: _Json, place: Place, flaws: Flaws) -> None:
    """A ReplicationController selects the Pods of its template, by default by all their labels."""
    labels = mapping(mapping(mapping(value, "template"), "metadata"), "labels")
    selector = value.get("selector") or {}
    if not selector and not labels:
        flaws.required((place, "selector"))
    elif not _selects({"matchLabels": selector}, labels):
        flaws.invalid(below(place, "template", "metadata", "labels"), labels, _MISMATCH)
    _restarts(value, place, flaws, "ReplicationController")


def _selecting(kind: str, value: _Json, place: Place, flaws: Flaws) -> None:
    """A workload selects the Pods of its template, which restart always."""
    selector = value.get("selector")
    labels = mapping(mapping(mapping(value, "template"), "metadata"), "labels")
    at = below(place, "template", "metadata", "labels")
    if selector is None:  # selects nothing
        flaws.invalid(at, labels or None, _MISMATCH)
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        flaws.invalid((place, "selector"), selector, f"empty selector is invalid for {kind.lower()}")
    elif not _selects(selector, labels):
        flaws.invalid(at, labels or None, _MISMATCH, "give the template the labels of spec.selector")
    if kind == "StatefulSet":
        for _, claim in _maps(value, "volumeClaimTemplates"):  # each is a volume, too
            flaws.retract(below(place, "template"), mapping(claim, "metadata").get("name"))
    _restarts(value, place, flaws, "ReplicaSet" if kind == "Deployment" else kind)


def _restarts(value: _Json, place: Place, flaws: Flaws, kind: str) -> None:
    spec, at = mapping(mapping(value, "template"), "spec"), below(place, "template", "spec")
    if spec.get("restartPolicy") in (_NEVER, _ON_FAILURE):
        flaws.unsupported((at, "restartPolicy"), spec["restartPolicy"], (_ALWAYS,))
    if spec.get("activeDeadlineSeconds") is not None:
        flaws.forbidden((at, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def _job(value: _Json, place: Place, flaws: Flaws) -> None:
    """Pods of a Job end, and what counts by index needs an index."""
    at = below(place, "template", "spec", "restartPolicy")
    policy = mapping(mapping(value, "template"), "spec").get("restartPolicy") or _ALWAYS
    if policy == _ALWAYS:
        flaws.required(at, f'valid values: "{_ON_FAILURE}", "{_NEVER}"', "write restartPolicy: Never or OnFailure")
    elif policy == _ON_FAILURE and value.get("podFailurePolicy") is not None:
        flaws.invalid(at, policy, f'only "{_NEVER}" is supported when podFailurePolicy is specified')
    indexed = value.get("completionMode") == "Indexed"
    if indexed and value.get("completions") is None and value.get("parallelism") is not None:  # else both default
        flaws.required((place, "completions"), "when completion mode is Indexed")
    for name in () if indexed else ("backoffLimitPerIndex", "maxFailedIndexes"):
        if value.get(name) is not None:
            flaws.invalid((place, name), value[name], "requires indexed completion mode")


def _autoscaler(value: _Json, place: Place, flaws: Flaws) -> None:
    least, most = value.get("minReplicas"), value.get("maxReplicas") or 0
    if least is not None and most < least:
        flaws.invalid((place, "maxReplicas"), most, "must be greater than or equal to `minReplicas`")
    for index, metric in _maps(value, "metrics"):
        kind = metric.get("type") or ""
        field = kind[:1].lower() + kind[1:]
        if kind in ("Object", "Pods", "Resource", "ContainerResource", "External") and metric.get(field) is None:
            text = "must populate information for the given metric source"
            flaws.required(below(place, "metrics", index, field), text)


def _budget(value: _Json, place: Place, flaws: Flaws) -> None:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        flaws.invalid(place, dict(value), "minAvailable and maxUnavailable cannot be both set")


def _config_keys(value: _Json, place: Place, flaws: Flaws, *fields: str) -> None:
    """Keys have the form of file names. The API server moves those of `stringData` to `data` first."""
    for field, key in ((name, key) for name in fields for key in mapping(value, name)):
        flaws.misformed(FORMATS["config-key"], below(place, "data" if field == "stringData" else field, key), key)


def _config_map(value: _Json, place: Place, flaws: Flaws) -> None:
    _config_keys(value, place, flaws, "binaryData", "data")
    binary = mapping(value, "binaryData")
    for key in mapping(value, "data"):
        if key in binary:
            flaws.invalid(below(place, "data", key), key, "duplicate of key present in binaryData")


def _secret(value: _Json, place: Place, flaws: Flaws) -> None:
    _config_keys(value, place, flaws, "data", "stringData")
    keys = {**mapping(value, "data"), **mapping(value, "stringData")}
    type_ = value.get("type") or ""
    needed = [key for key in _KEYS_OF_SECRETS.get(type_, ()) if key not in keys]
    if type_ == "kubernetes.io/basic-auth" and not {"username", "password"} & keys.keys():
        needed = ["username", "password"]
    for key in needed:
        flaws.required(below(place, "data", key))
    annotations = mapping(mapping(value, "metadata"), "annotations")
    if type_ == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        flaws.required(below(place, "metadata", "annotations", _ACCOUNT))


def _role_rule(value: _Json, place: Place, flaws: Flaws) -> None:
    if value.get("nonResourceURLs"):
        if any(value.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            flaws.invalid((place, "nonResourceURLs"), value["nonResourceURLs"], text)
        return
    for name, noun in (("apiGroups", "api group"), ("resources", "resource")):
        if not value.get(name):
            flaws.required((place, name), f"resource rules must supply at least one {noun}")


def _binding(value: _Json, place: Place, flaws: Flaws, *, of_cluster: bool = False) -> None:
    """Service accounts are named as they can be. In a binding for one Namespace they are, by default, of that one."""
    for index, subject in _maps(value, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            _formed(_SUBDOMAIN, below(place, "subjects", index, "name"), subject.get("name"), flaws)
            if of_cluster and not subject.get("namespace"):
                flaws.required(below(place, "subjects", index, "namespace"))


def _service(value: _Json, place: Place, flaws: Flaws) -> None:
    """A Service has ports, with names where there are several, or is the name of something outside."""
    type_, ports = value.get("type") or _CLUSTER_IP, list(_maps(value, "ports"))
    if not ports and value.get("clusterIP") != "None" and type_ != _EXTERNAL_NAME:
        flaws.required((place, "ports"))
    if type_ == _EXTERNAL_NAME:
        name = (value.get("externalName") or "").removesuffix(".")
        if not name:
            flaws.required((place, "externalName"))
        _formed(dns_subdomain, (place, "externalName"), name, flaws)
    _unique(((below(place, "ports", index, "name"), port.get("name")) for index, port in ports), flaws)
    known = set()
    for index, port in ports:
        at = below(place, "ports", index)
        if len(ports) > 1 and not port.get("name"):
            flaws.required((at, "name"), "", "ports need names where there are several")
        if type_ == _CLUSTER_IP and port.get("nodePort"):
            flaws.forbidden((at, "nodePort"), "may not be used when `type` is 'ClusterIP'")
        key = port.get("protocol") or "TCP", port.get("port")
        if key in known:
            flaws.duplicate(at, f"{key[0]}/{key[1]}")
        known.add(key)


def _ingress(value: _Json, place: Place, flaws: Flaws) -> None:
    if not _items(value, "rules") and value.get("defaultBackend") is None:
        flaws.invalid(place, _items(value, "rules"), "either `defaultBackend` or `rules` must be specified")


def _path(value: _Json, place: Place, flaws: Flaws) -> None:
    type_, text = value.get("pathType"), value.get("path") or ""
    if type_ is None:
        flaws.required((place, "pathType"), "pathType must be specified", "write pathType: Prefix or Exact")
    elif not text.startswith("/") and (text or type_ in ("Exact", "Prefix")):
        flaws.invalid((place, "path"), text, "must be an absolute path")


def _backend(value: _Json, place: Place, flaws: Flaws) -> None:
    service, resource = value.get("service"), value.get("resource")
    if service is not None and resource is not None:
        flaws.invalid(place, "", "cannot set both resource and service backends")
    elif service is not None:
        at, port = (place, "service"), mapping(service, "port")
        name, number = port.get("name"), port.get("number")
        _formed(dns_label, (at, "name"), service.get("name"), flaws)
        if name and number:
            flaws.invalid(place, "", "cannot set both port name & port number")
        elif not name and not number:
            flaws.required(place, "port name or number is required")
        _formed(FORMATS["port-name"], below(at, "port", "name"), name, flaws)
    elif resource is None:
        flaws.invalid(place, "", "resource or service backend is required")


OF_TYPES: Mapping[str, Rule] = {
    "apps.v1.DaemonSetSpec": partial(_selecting, "DaemonSet"),
    "apps.v1.DeploymentSpec": _deployment,
    "apps.v1.ReplicaSetSpec": partial(_selecting, "ReplicaSet"),
    "apps.v1.StatefulSetSpec": partial(_selecting, "StatefulSet"),
    "autoscaling.v1.HorizontalPodAutoscalerSpec": _autoscaler,
    "autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler,
    "batch.v1.JobSpec": _job,
    "core.v1.ConfigMap": _config_map,
    "core.v1.Container": _container,
    "core.v1.EnvVar": _variable,
    "core.v1.LifecycleHandler": _handler,
    "core.v1.NodeSelectorRequirement": partial(_requirement, of_nodes=True),
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.Pod": lambda value, place, flaws: _deletion_cost(value, below(place, "metadata", "annotations"), flaws),
    "core.v1.PodSpec": _pod,
    "core.v1.PodTemplateSpec": _template,
    "core.v1.Probe": _handler,
    "core.v1.ReplicationControllerSpec": _replication_controller,
    "core.v1.ResourceRequirements": _resources,
    "core.v1.Secret": _secret,
    "core.v1.ServiceSpec": _service,
    "core.v1.Toleration": _toleration,
    "core.v1.TopologySpreadConstraint": _spread,
    "core.v1.Volume": _volume,
    "networking.v1.HTTPIngressPath": _path,
    "networking.v1.IngressBackend": _backend,
    "networking.v1.IngressSpec": _ingress,
    "policy.v1.PodDisruptionBudgetSpec": _budget,
    "rbac.v1.PolicyRule": _role_rule,
    "rbac.v1.ClusterRoleBinding": partial(_binding, of_cluster=True),
    "rbac.v1.RoleBinding": _binding,
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": _requirement,
}
"""By short name of the type."""
