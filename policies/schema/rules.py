"""What the API server demands of fields together, by type.

Each function notes what is wrong with the fields of one map. Sources: ValidateObjectMeta and
pkg/apis/meta/v1/validation in k8s.io/apimachinery;
pkg/apis/{apps,autoscaling,batch,core,networking,policy,rbac}/validation in k8s.io/kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from policies.admissionpolicy.builtin.reader import quantity_of
from policies.engine.request import mapping
from policies.golang.quote import utf8
from policies.kubernetes.name import dns_label, dns_subdomain, label_value, path_segment
from policies.schema.flaw import FORMATS, Flaws, Format, Place, below, config_key, port_name
from policies.schema.shape import Rule


def items(value: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a field, empty if there is none."""
    return value.get(name) or []


def maps(value: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The maps in the list in a field, with their indexes. A null stands for an empty map."""
    return ((index, item or {}) for index, item in enumerate(value.get(name) or ()))


def unique(values: Iterable[tuple[Place, Any]], flaws: Flaws) -> None:
    """Each value that was there before is a duplicate; those that are empty do not count."""
    known = set()
    for place, value in values:
        if value in known:
            flaws.duplicate(place, value)
        elif value:
            known.add(value)


_TOTAL = 256 * 1024
"""The bytes that annotations may have together (TotalAnnotationSizeLimitB)."""
_WIDEST = 4  # bytes of a character
_LABEL_KEY, _LABEL_VALUE = FORMATS["label-key"], FORMATS["label-value"]
_SUBDOMAIN, _LABEL = FORMATS["dns-subdomain"], FORMATS["dns-label"]
_RBAC = "rbac.authorization.k8s.io"
_LABELS = (("", "Namespace"), ("", "Service"), ("apps", "StatefulSet"))
_SEGMENTS = (
    *((_RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *(("", "Event"), ("apiregistration.k8s.io", "APIService"), ("events.k8s.io", "Event")),
    *(("networking.k8s.io", "IPAddress"), ("policy", "PodDisruptionBudget")),
)
_FORMS: Mapping[tuple[str, str], Format] = {
    **dict.fromkeys(_LABELS, _LABEL),
    **dict.fromkeys(_SEGMENTS, path_segment),
}
"""The forms of names by group and kind; of all other kinds they are DNS subdomains."""
_LONGEST = {("batch", "CronJob"): (52, "must be no more than 52 characters")}
_REMEDY = "give it a name"


def judge_metadata(value: Mapping[str, Any], group: str, kind: str, flaws: Flaws) -> None:
    """Note what is wrong with an object's name, labels and annotations."""
    place: Place = (None, "metadata")
    own = mapping(value, "metadata")
    name = own.get("name") or ""
    if not name and not own.get("generateName"):
        flaws.required((place, "name"), "name or generateName is required", _REMEDY)
    for problem in _FORMS.get((group, kind), _SUBDOMAIN)(name) if name else ():
        flaws.invalid((place, "name"), name, problem)
    longest, text = _LONGEST.get((group, kind), (None, ""))
    if longest is not None and len(name) > longest:
        flaws.invalid((place, "name"), name, text)
    namespace = own.get("namespace") or ""
    for problem in _LABEL(namespace) if namespace else ():
        flaws.invalid((place, "namespace"), namespace, problem)
    of_labels(own, place, flaws)
    of_annotations(own, place, flaws)


def of_labels(metadata: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Note keys and values of labels that have another form."""
    for key, value in mapping(metadata, "labels").items():
        for problem in _LABEL_KEY(key):
            flaws.invalid(below(place, "labels", key), key, problem)
        for problem in _LABEL_VALUE(value or ""):
            flaws.invalid(below(place, "labels", key), value, problem)


def of_annotations(metadata: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Note keys of annotations that have another form, and values that are too large together."""
    whole = mapping(metadata, "annotations")
    for key in whole:
        for problem in _LABEL_KEY(key.lower()):
            flaws.invalid(below(place, "annotations", key), key, problem)
    if sum(len(key) + len(value or "") for key, value in whole.items()) <= _TOTAL // _WIDEST:
        return
    if sum(len(utf8(key)) + len(utf8(value or "")) for key, value in whole.items()) > _TOTAL:
        flaws.too_long((place, "annotations"), _TOTAL)


_AMONG, _PRESENCE, _COMPARED = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
_BAD_OPERATOR = "not a valid selector operator"
_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
_REFUSED = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def requirement(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A requirement of labels has an operator, and values where it compares with some."""
    _requirement(value, place, flaws, (*_AMONG, *_PRESENCE))


def node_requirement(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A requirement of Nodes, which may also compare numbers."""
    _requirement(value, place, flaws, (*_AMONG, *_PRESENCE, *_COMPARED))
    if value.get("operator") in _COMPARED and len(items(value, "values")) != 1:
        flaws.required((place, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _requirement(value: Mapping[str, Any], place: Place, flaws: Flaws, operators: tuple[str, ...]) -> None:
    operator = value.get("operator") or ""
    if operator not in operators:
        flaws.invalid((place, "operator"), operator, _BAD_OPERATOR, f"write one of {', '.join(operators)}")
    elif operator in _AMONG and not items(value, "values"):
        flaws.required((place, "values"), _NEEDED)
    elif operator in _PRESENCE and items(value, "values"):
        flaws.forbidden((place, "values"), _REFUSED)


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a label selector matches labels."""
    for key, value in mapping(selector, "matchLabels").items():
        if key not in labels or (labels[key] or "") != (value or ""):
            return False
    return all(_meets(item, labels) for item in items(selector, "matchExpressions") if isinstance(item, dict))


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = requirement.get("key") or "", items(requirement, "values")
    match requirement.get("operator"):
        case "In":
            return not values or (key in labels and labels[key] in values)
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True  # the operator is a flaw of its own, as is a lack of values


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
_PROBES = ("livenessProbe", "startupProbe")


def container(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Names of ports are unique, and probes that must succeed once do."""
    ports = maps(value, "ports")
    unique(((below(place, "ports", index, "name"), port.get("name")) for index, port in ports), flaws)
    for name in _PROBES:
        successes = mapping(value, name).get("successThreshold")
        if successes not in (None, 0, 1):
            flaws.invalid(below(place, name, "successThreshold"), successes, "must be 1")


def variable(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A variable has a value or one source."""
    source = value.get("valueFrom")
    name = value.get("name")
    if name and "=" in name:
        flaws.invalid(
            (place, "name"),
            name,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )
    if source is None:
        return
    count = sum(source.get(name) is not None for name in _SOURCES)
    if not count:
        flaws.invalid((place, "valueFrom"), "", _ONE_SOURCE)
    elif value.get("value"):
        flaws.invalid((place, "valueFrom"), "", "may not be specified when `value` is not empty")
    elif count > 1:
        flaws.invalid((place, "valueFrom"), "", "may not have more than one field specified at a time")


def handler(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A probe or hook does one thing."""
    given = [name for name in _HANDLERS if value.get(name) is not None]
    if not given:
        flaws.required(place, "must specify a handler type")
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 handler type")


def resources(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Nothing requests more than its limit, and what cannot be shared has equal limits."""
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


_CONTAINERS = ("containers", "initContainers")
_EMPTY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def template(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """The labels and annotations of a template are those of Pods."""
    of_labels(mapping(value, "metadata"), (place, "metadata"), flaws)
    of_annotations(mapping(value, "metadata"), (place, "metadata"), flaws)


def pod(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Names of containers and volumes are unique, what is mounted is there, and ports of the host are free."""
    for fields in (_CONTAINERS, ("volumes",)):
        named = ((field, index, item) for field in fields for index, item in maps(value, field))
        unique(((below(place, field, index, "name"), item.get("name")) for field, index, item in named), flaws)
    volumes = {volume.get("name") for _, volume in maps(value, "volumes")}
    for field in _CONTAINERS:
        for index, container in maps(value, field):
            _mounts(container, below(place, field, index), volumes, flaws)
    if value.get("hostNetwork"):
        _host_ports(value, place, flaws)
    else:
        _host_conflicts(value, place, flaws)


def _mounts(container: Mapping[str, Any], place: Place, volumes: Collection[Any], flaws: Flaws) -> None:
    for field in ("volumeMounts", "volumeDevices"):
        for index, mount in maps(container, field):
            if (name := mount.get("name")) and name not in volumes:
                flaws.missing(below(place, field, index, "name"), name, filter(None, volumes))
    paths = set()
    for index, mount in maps(container, "volumeMounts"):
        if (path := mount.get("mountPath")) in paths:
            flaws.invalid(below(place, "volumeMounts", index, "mountPath"), path, "must be unique")
        elif path:
            paths.add(path)


def _host_ports(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    for index, container in maps(value, "containers"):
        for number, port in maps(container, "ports"):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                at = below(place, "containers", index, "ports", number, "hostPort")
                flaws.invalid(at, host, "must match `containerPort` when `hostNetwork` is true")


def _host_conflicts(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    known = set()
    for index, container in maps(value, "containers"):
        for number, port in maps(container, "ports"):
            if not (host := port.get("hostPort")):
                continue
            key = port.get("protocol") or "TCP", port.get("hostIP") or "", host
            if key in known:
                at = below(place, "containers", index, "ports", number, "hostPort")
                flaws.duplicate(at, "/".join(map(str, key)))
            known.add(key)


def toleration(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A toleration's operator goes with its key and value, and its seconds with its effect."""
    operator, text = value.get("operator") or "", value.get("value") or ""
    if not value.get("key") and operator != "Exists":
        flaws.invalid((place, "operator"), operator, _EMPTY_KEY)
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        flaws.invalid(
            (place, "effect"), value.get("effect") or "", "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    if operator in ("Equal", "") and (wrong := label_value(text)):
        flaws.invalid((place, "operator"), text, ";".join(wrong))
    elif operator == "Exists" and text:
        flaws.invalid((place, "operator"), text, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Equal", "", "Exists", "Lt", "Gt"):
        flaws.unsupported((place, "operator"), operator, ("Equal", "Exists"))


def spread(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A spread says by how much domains may differ."""
    if (skew := value.get("maxSkew") or 0) <= 0:
        flaws.invalid((place, "maxSkew"), skew, "must be greater than zero")
    if value.get("minDomains") is not None and value.get("whenUnsatisfiable") == "ScheduleAnyway":
        text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        flaws.invalid((place, "minDomains"), value["minDomains"], text)


_ORDER = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""The order in which the API server looks at types."""


def _rank(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def volume(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A volume is of one type; of none it is an empty directory."""
    given = sorted((name for name in value if name != "name" and value[name] is not None), key=_rank)
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 volume type")


def claim(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A claim says how much it wants."""
    requests = mapping(mapping(value, "resources"), "requests")
    if requests.get("storage") is None:
        flaws.required(below(place, "resources", "storage"), "", "write resources.requests.storage")


_MISMATCH = "`selector` does not match template `labels`"
_RECREATE = "may not be specified when strategy `type` is 'Recreate'"
_NEVER, _ON_FAILURE, _ALWAYS = "Never", "OnFailure", "Always"


def deployment(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A Deployment selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "deployment")
    _restarts(value, place, flaws, "ReplicaSet")
    strategy = mapping(value, "strategy")
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        flaws.forbidden(below(place, "strategy", "rollingUpdate"), _RECREATE)
    elif rolling and rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        at = below(place, "strategy", "rollingUpdate", "maxUnavailable")
        flaws.invalid(at, rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    if deadline is not None and 0 <= deadline <= ready:
        flaws.invalid((place, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def replica_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A ReplicaSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "replicaset")
    _restarts(value, place, flaws, "ReplicaSet")


def stateful_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A StatefulSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "statefulset")
    for _, claim in maps(value, "volumeClaimTemplates"):  # each is a volume, too
        flaws.found(below(place, "template"), mapping(claim, "metadata").get("name"))
    _restarts(value, place, flaws, "StatefulSet")


def daemon_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A DaemonSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "daemonset")
    _restarts(value, place, flaws, "DaemonSet")


def replication_controller(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A ReplicationController selects the Pods of its template, by default by all their labels."""
    template = mapping(value, "template")
    labels = mapping(mapping(template, "metadata"), "labels")
    selector = value.get("selector") or {}
    if not selector and not labels:
        flaws.required((place, "selector"))
    elif not selects({"matchLabels": selector}, labels):
        flaws.invalid(below(place, "template", "metadata", "labels"), labels, _MISMATCH)
    _restarts(value, place, flaws, "ReplicationController")


def _selector(value: Mapping[str, Any], place: Place, flaws: Flaws, kind: str) -> None:
    """The selector is not empty, and matches."""
    selector = value.get("selector")
    labels = mapping(mapping(mapping(value, "template"), "metadata"), "labels")
    if selector is None:  # selects nothing
        flaws.invalid(below(place, "template", "metadata", "labels"), labels or None, _MISMATCH)
        return
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        flaws.invalid((place, "selector"), selector, f"empty selector is invalid for {kind}")
        return
    if not selects(selector, labels):
        remedy = "give the template the labels of spec.selector"
        flaws.invalid(below(place, "template", "metadata", "labels"), labels or None, _MISMATCH, remedy)


def _restarts(value: Mapping[str, Any], place: Place, flaws: Flaws, kind: str) -> None:
    spec, at = mapping(mapping(value, "template"), "spec"), below(place, "template", "spec")
    if spec.get("restartPolicy") in (_NEVER, _ON_FAILURE):
        flaws.unsupported((at, "restartPolicy"), spec["restartPolicy"], (_ALWAYS,))
    if spec.get("activeDeadlineSeconds") is not None:
        flaws.forbidden((at, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def job(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Pods of a Job end, and what counts by index needs an index."""
    spec, at = mapping(mapping(value, "template"), "spec"), below(place, "template", "spec")
    policy = spec.get("restartPolicy") or _ALWAYS
    if policy == _ALWAYS:
        detail = f'valid values: "{_ON_FAILURE}", "{_NEVER}"'
        flaws.required((at, "restartPolicy"), detail, "write restartPolicy: Never or OnFailure")
    elif policy == _ON_FAILURE and value.get("podFailurePolicy") is not None:
        text = f'only "{_NEVER}" is supported when podFailurePolicy is specified'
        flaws.invalid((at, "restartPolicy"), policy, text)
    indexed = value.get("completionMode") == "Indexed"
    if indexed and value.get("completions") is None and value.get("parallelism") is not None:  # else both default
        flaws.required((place, "completions"), "when completion mode is Indexed")
    for name in () if indexed else ("backoffLimitPerIndex", "maxFailedIndexes"):
        if value.get(name) is not None:
            flaws.invalid((place, name), value[name], "requires indexed completion mode")


def autoscaler(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """The most is not less than the least."""
    least, most = value.get("minReplicas"), value.get("maxReplicas")
    if least is not None and (most or 0) < least:
        flaws.invalid((place, "maxReplicas"), most or 0, "must be greater than or equal to `minReplicas`")
    for index, metric in maps(value, "metrics"):
        kind = metric.get("type") or ""
        field = kind[:1].lower() + kind[1:]
        if kind in ("Object", "Pods", "Resource", "ContainerResource", "External") and metric.get(field) is None:
            text = "must populate information for the given metric source"
            flaws.required(below(place, "metrics", index, field), text)


def budget(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A budget says what must be there or what may be missing."""
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        flaws.invalid(place, dict(value), "minAvailable and maxUnavailable cannot be both set")


_KEYS_OF_SECRETS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that Secrets of a type have."""
_ACCOUNT = "kubernetes.io/service-account.name"


def config_map(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Keys have the form of file names, and none is in both maps."""
    binary = mapping(value, "binaryData")
    _keys(value, "binaryData", place, flaws)
    _keys(value, "data", place, flaws)
    for key in mapping(value, "data"):
        if key in binary:
            flaws.invalid(below(place, "data", key), key, "duplicate of key present in binaryData")


def secret(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Keys have the form of file names, and those of its type are there."""
    _keys(value, "data", place, flaws)
    keys = {**mapping(value, "data"), **mapping(value, "stringData")}
    for key in mapping(value, "stringData"):
        for problem in config_key(key):
            flaws.invalid(below(place, "data", key), key, problem)
    type_ = value.get("type")
    for key in _KEYS_OF_SECRETS.get(type_ or "", ()):
        if key not in keys:
            flaws.required(below(place, "data", key))
    if type_ == "kubernetes.io/basic-auth" and not {"username", "password"} & keys.keys():
        for key in ("username", "password"):
            flaws.required(below(place, "data", key))
    if type_ == "kubernetes.io/service-account-token":
        annotations = mapping(mapping(value, "metadata"), "annotations")
        if not annotations.get(_ACCOUNT):
            flaws.required(below(place, "metadata", "annotations", _ACCOUNT))


def _keys(value: Mapping[str, Any], field: str, place: Place, flaws: Flaws) -> None:
    for key in mapping(value, field):
        for problem in config_key(key):
            flaws.invalid(below(place, field, key), key, problem)


def role_rule(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A rule is about resources or about URLs."""
    if value.get("nonResourceURLs"):
        if any(value.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            flaws.invalid((place, "nonResourceURLs"), value["nonResourceURLs"], text)
        return
    for name, noun in (("apiGroups", "api group"), ("resources", "resource")):
        if not value.get(name):
            flaws.required((place, name), f"resource rules must supply at least one {noun}")


def cluster_binding(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A service account in a binding for the cluster has a Namespace; in others it is that of the binding."""
    for index, subject in maps(value, "subjects"):
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            flaws.required(below(place, "subjects", index, "namespace"))


_CLUSTER_IP, _EXTERNAL_NAME = "ClusterIP", "ExternalName"


def service(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A Service has ports, with names where there are several, or is the name of something outside."""
    type_, ports = value.get("type") or _CLUSTER_IP, items(value, "ports")
    if not ports and value.get("clusterIP") != "None" and type_ != _EXTERNAL_NAME:
        flaws.required((place, "ports"))
    if type_ == _EXTERNAL_NAME:
        _external(value, place, flaws)
    numbered = maps(value, "ports")
    unique(((below(place, "ports", index, "name"), port.get("name")) for index, port in numbered), flaws)
    known = set()
    for index, port in maps(value, "ports"):
        if len(ports) > 1 and not port.get("name"):
            flaws.required(below(place, "ports", index, "name"), "", "ports need names where there are several")
        if type_ == _CLUSTER_IP and port.get("nodePort"):
            flaws.forbidden(below(place, "ports", index, "nodePort"), "may not be used when `type` is 'ClusterIP'")
        key = port.get("protocol") or "TCP", port.get("port")
        if key in known:
            flaws.duplicate(below(place, "ports", index), f"{key[0]}/{key[1]}")
        known.add(key)


def _external(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    name = (value.get("externalName") or "").removesuffix(".")
    if not name:
        flaws.required((place, "externalName"))
    for problem in dns_subdomain(name) if name else ():
        flaws.invalid((place, "externalName"), name, problem)


def path(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A path of an Ingress says how it is compared, and begins at the root."""
    type_, text = value.get("pathType"), value.get("path") or ""
    if type_ is None:
        flaws.required((place, "pathType"), "pathType must be specified", "write pathType: Prefix or Exact")
    elif not text.startswith("/") and (text or type_ in ("Exact", "Prefix")):
        flaws.invalid((place, "path"), text, "must be an absolute path")


def backend(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A backend is a Service with one port, or another resource."""
    service, resource = value.get("service"), value.get("resource")
    if service is not None and resource is not None:
        flaws.invalid(place, "", "cannot set both resource and service backends")
    elif service is not None:
        _service(service, place, flaws)
    elif resource is None:
        flaws.invalid(place, "", "resource or service backend is required")


def _service(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    at, port = (place, "service"), mapping(value, "port")
    name, number = port.get("name"), port.get("number")
    for problem in dns_label(value["name"]) if value.get("name") else ():
        flaws.invalid((at, "name"), value["name"], problem)
    if name and number:
        flaws.invalid(place, "", "cannot set both port name & port number")
    elif not name and not number:
        flaws.required(place, "port name or number is required")
    for problem in port_name(name) if name else ():
        flaws.invalid(below(at, "port", "name"), name, problem)


OF_TYPES: Mapping[str, tuple[Rule, ...]] = {
    "apps.v1.DaemonSetSpec": (daemon_set,),
    "apps.v1.DeploymentSpec": (deployment,),
    "apps.v1.ReplicaSetSpec": (replica_set,),
    "apps.v1.StatefulSetSpec": (stateful_set,),
    "autoscaling.v1.HorizontalPodAutoscalerSpec": (autoscaler,),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (autoscaler,),
    "batch.v1.JobSpec": (job,),
    "core.v1.ConfigMap": (config_map,),
    "core.v1.Container": (container,),
    "core.v1.EnvVar": (variable,),
    "core.v1.LifecycleHandler": (handler,),
    "core.v1.NodeSelectorRequirement": (node_requirement,),
    "core.v1.PersistentVolumeClaimSpec": (claim,),
    "core.v1.PodSpec": (pod,),
    "core.v1.PodTemplateSpec": (template,),
    "core.v1.Probe": (handler,),
    "core.v1.ReplicationControllerSpec": (replication_controller,),
    "core.v1.ResourceRequirements": (resources,),
    "core.v1.Secret": (secret,),
    "core.v1.ServiceSpec": (service,),
    "core.v1.Toleration": (toleration,),
    "core.v1.TopologySpreadConstraint": (spread,),
    "core.v1.Volume": (volume,),
    "networking.v1.HTTPIngressPath": (path,),
    "networking.v1.IngressBackend": (backend,),
    "policy.v1.PodDisruptionBudgetSpec": (budget,),
    "rbac.v1.PolicyRule": (role_rule,),
    "rbac.v1.ClusterRoleBinding": (cluster_binding,),
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": (requirement,),
}
"""By short name of the type."""
