"""The Pod that we derive from a template is the one that the API server makes of it, field by field."""

from __future__ import annotations

import copy
import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from support import limits

from cluster import workloads
from cluster.apicalls import Caller
from cluster.polling import NotYet
from cluster.programs import release
from cluster.schemacorpus import resource_path
from policies.admissionpolicy.builtin.plugins import admitted
from policies.admissionpolicy.derivation import defaulted, derive
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource
from policies.kubernetes.release import named
from policies.objects.fieldpath import Wildcard, parse
from policies.objects.workload import BUILT_IN, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

DIGEST = "sha256:" + "0a" * 32
IMAGES = [
    "app",
    "app:1",
    "app:latest",
    f"app@{DIGEST}",
    f"app:latest@{DIGEST}",
    "App:latest",
    "registry.example.test:5000/team/app",
    "registry.example.test:5000/team/app:latest",
    "localhost/app:v1",
    "UPPER/app",
    "a" * 64,
    "app@sha256:0a0a",
    "docker.io/app:latest",
    "index.docker.io/app",
    "app:",
    "[::1]:5000/app:latest",
    "a__b--c/d.e:latest",
]
PROBE = {"httpGet": {"port": 80}}


def _main(**fields: Any) -> Manifest:
    return {"name": "main", "image": "example.test/main:1", **fields}


def _spec(*containers: Manifest, **fields: Any) -> Manifest:
    return {"containers": list(containers) or [_main()], **fields}


def _volumes(**sources: Any) -> Manifest:
    return _spec(volumes=[{"name": name.lower(), name: source} for name, source in sources.items()])


def _limits(**amounts: Any) -> Manifest:
    return _main(resources={"limits": amounts})


def _affinity(term: Manifest) -> Manifest:
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    return {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
    }


def _field(path: str) -> Manifest:
    return {"fieldRef": {"fieldPath": path}}


_TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["tier", "absent"],
    "mismatchLabelKeys": ["tenant"],
}
_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["tier"],
}

SPECS: dict[str, Manifest] = {
    "least": _spec(),
    "all that has a default is set": _spec(
        _main(imagePullPolicy="Never", terminationMessagePath="/x", terminationMessagePolicy="FallbackToLogsOnError"),
        restartPolicy="Never",
        terminationGracePeriodSeconds=0,
        dnsPolicy="Default",
        schedulerName="other",
        enableServiceLinks=False,
        securityContext={"runAsUser": 0, "runAsNonRoot": False},
    ),
    "zero values": _spec(
        _main(
            command=[],
            args=None,
            stdin=False,
            tty=True,
            env=[{"name": "a", "value": ""}],
            ports=[],
            workingDir="",
            securityContext={"privileged": False, "capabilities": {"add": [], "drop": ["ALL"]}},
            volumeMounts=[],
            resources={"limits": {}, "requests": None},
        ),
        hostNetwork=False,
        hostPID=False,
        shareProcessNamespace=False,
        nodeSelector={},
        tolerations=[{"key": "a", "operator": "Exists", "value": "", "effect": ""}],
        affinity={"nodeAffinity": {}, "podAffinity": None},
        volumes=[],
        initContainers=None,
        hostname="",
        nodeName="",
    ),
    "images": _spec(*({"name": f"c{number}", "image": image} for number, image in enumerate(IMAGES))),
    "init containers and a sidecar": _spec(
        initContainers=[_main(name="a", image="a"), _main(name="b", restartPolicy="Always", livenessProbe=PROBE)]
    ),
    "ports": _spec(_main(ports=[{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 0}])),
    "ports of the host": _spec(
        _main(ports=[{"containerPort": 80}, {"containerPort": 81, "hostPort": 81, "protocol": "UDP"}]),
        hostNetwork=True,
        initContainers=[_main(name="init", ports=[{"containerPort": 90}])],
    ),
    "probes": _spec(
        _main(
            livenessProbe={"httpGet": {"port": "http", "path": "", "httpHeaders": [{"name": "a", "value": "b"}]}},
            readinessProbe={"grpc": {"port": 9000}, "periodSeconds": 0, "timeoutSeconds": 4},
            startupProbe={"exec": {"command": ["true"]}, "failureThreshold": 30, "terminationGracePeriodSeconds": 3},
        ),
        _main(name="tcp", livenessProbe={"tcpSocket": {"port": 1, "host": ""}, "initialDelaySeconds": 0}),
    ),
    "lifecycle": _spec(
        _main(
            lifecycle={"postStart": {"httpGet": {"port": 80}}, "preStop": {"httpGet": {"port": 1, "scheme": "HTTPS"}}}
        ),
        _main(
            name="other", lifecycle={"postStart": {"exec": {"command": ["x"]}}, "preStop": {"sleep": {"seconds": 3}}}
        ),
    ),
    "environment": _spec(
        _main(
            env=[
                {"name": "a", "valueFrom": _field("metadata.name")},
                {"name": "b", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "c", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1024Ki"}}},
                {"name": "d", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
                {"name": "e", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
            ],
            envFrom=[{"secretRef": {"name": "s"}}, {"prefix": "", "configMapRef": {"name": "c", "optional": True}}],
        )
    ),
    "requests from limits": _spec(
        _limits(cpu="1", memory="1Gi"),
        _main(name="b", resources={"limits": {"cpu": 2, "memory": "2Gi"}, "requests": {"cpu": "100m"}}),
        initContainers=[_main(name="c", resources={"limits": {"nvidia.com/gpu": 1}})],
    ),
    "quantities": _spec(
        _limits(cpu="1000m", memory="1024Mi", **{"ephemeral-storage": "1e3"}),
        _main(name="b", resources={"limits": {"cpu": 0.5, "memory": 2147483648}, "requests": {"memory": "1.5Gi"}}),
        _main(name="c", resources={"requests": {"cpu": "0.0001", "memory": "1000Ki", "ephemeral-storage": "2048"}}),
        _main(name="d", resources={"requests": {"cpu": "0", "memory": "0Gi", "ephemeral-storage": "1.5G"}}),
        _main(name="e", resources={"requests": {"cpu": "1e3", "memory": "128974848", "ephemeral-storage": "12e6"}}),
    ),
    "an empty volume": _spec(volumes=[{"name": "a"}, {"name": "b", "emptyDir": {}}, {"name": "c", "emptyDir": None}]),
    "files": _volumes(
        configMap={"name": "c", "items": [{"key": "k", "path": "p"}]},
        secret={"secretName": "s", "defaultMode": 256, "optional": False},
        downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        hostPath={"path": "/x"},
        emptyDir={"medium": "Memory", "sizeLimit": "1024Mi"},
        image={"reference": "example.test/model"},
        csi={"driver": "d", "readOnly": False, "volumeAttributes": {}},
        persistentVolumeClaim={"claimName": "c", "readOnly": False},
    ),
    "projected": _volumes(
        projected={
            "sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"serviceAccountToken": {"path": "other", "expirationSeconds": 7200, "audience": ""}},
                {"configMap": {"name": "c", "items": []}},
                {"secret": {"name": "s", "optional": True}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}},
                            {"path": "b", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
                        ]
                    }
                },
            ]
        }
    ),
    "disks": _volumes(
        iscsi={"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:storage", "lun": 0},
        rbd={"monitors": ["10.0.0.1"], "image": "i"},
        azureDisk={"diskName": "d", "diskURI": "https://a.blob.core.windows.net/b/c.vhd"},
        scaleIO={"gateway": "https://x", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}},
        nfs={"server": "s", "path": "/", "readOnly": True},
        fc={"targetWWNs": ["50060e801049cfd1"], "lun": 0},
        cephfs={"monitors": ["10.0.0.1"], "path": ""},
    ),
    "a claim": _spec(
        volumes=[
            {
                "name": "scratch",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1024Gi"}},
                        }
                    }
                },
            }
        ]
    ),
    "a service account": _spec(serviceAccountName="default"),
    "a service account by its old name": _spec(serviceAccount="default", automountServiceAccountToken=False),
    "a negative grace period": _spec(terminationGracePeriodSeconds=-3),
    "the Pod's resources": _spec(
        _limits(cpu="1"),
        _main(name="b", resources={"requests": {"cpu": "500m", "memory": "1Gi"}}),
        resources={"limits": {"cpu": "4", "memory": "4096Mi"}},
        initContainers=[
            _main(name="c", resources={"requests": {"cpu": "1"}}, restartPolicy="Always"),
            _main(name="d", resources={"requests": {"memory": "2Gi", "cpu": "100m"}}),
        ],
    ),
    "the Pod's limits alone": _spec(resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
    "the Pod's requests alone": _spec(_limits(cpu="1"), resources={"requests": {"memory": "1Gi", "cpu": "2"}}),
    "the Pod's huge pages": _spec(
        _main(resources={"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}}),
        resources={"limits": {"cpu": "2", "memory": "2Gi"}},
    ),
    "affinity by label keys": _spec(affinity=_affinity(_TERM)),
    "topology spread": _spec(
        topologySpreadConstraints=[_SPREAD, {**_SPREAD, "topologyKey": "b", "matchLabelKeys": []}]
    ),
    "node affinity": _spec(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
                ],
            }
        }
    ),
    "tolerations": _spec(tolerations=[{"operator": "Exists"}]),
    "security": _spec(
        _main(securityContext={"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}),
        securityContext={"fsGroup": 0, "supplementalGroups": [], "sysctls": [{"name": "a.b", "value": ""}]},
    ),
    "AppArmor by annotation": _spec(
        _main(name="profiled"), _main(name="free", securityContext={}), _main(name="local"), _main(name="bad")
    ),
    "AppArmor as the Pod's": _spec(
        _main(name="profiled"), securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}
    ),
    "scheduling gates": _spec(
        schedulingGates=[{"name": "example.test/gate"}], priorityClassName="system-node-critical"
    ),
    "DNS and hosts": _spec(
        dnsConfig={"options": [{"name": "ndots", "value": "2"}, {"name": "x"}], "searches": []},
        hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a"]}],
        readinessGates=[{"conditionType": "example.test/ready"}],
        subdomain="sub",
        setHostnameAsFQDN=False,
        os={"name": "linux"},
    ),
    "claims of devices": _spec(
        _main(resources={"claims": [{"name": "gpu"}]}),
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
    ),
}
PROFILES = {"profiled": "runtime/default", "free": "unconfined", "local": "localhost/mine"}
LABELS = {"app": "web", "tier": "front", "tenant": "a"}
_SYSTEM = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion")
_BY_PRIORITY = ("priority", "preemptionPolicy")


def _pods(namespace: str) -> dict[str, Manifest]:
    return {
        case: {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{number}",
                "namespace": namespace,
                "labels": LABELS,
                "annotations": {
                    f"container.apparmor.security.beta.kubernetes.io/{name}": PROFILES[name]
                    for name in (container["name"] for container in spec["containers"])
                    if name in PROFILES
                },
            },
            "spec": spec,
        }
        for number, (case, spec) in enumerate(SPECS.items())
    }


def _without_admission(pod: Manifest, ours: Manifest) -> Manifest:
    """The API server's Pod without its token, what its own bookkeeping has filled in, and priorities that we leave."""
    pod = copy.deepcopy(pod)
    spec, own = pod["spec"], ours["spec"]
    del pod["status"]
    for field in _SYSTEM:
        pod["metadata"].pop(field, None)
    for field in _BY_PRIORITY:
        if field not in own:
            spec.pop(field, None)
    for holder, field, kept in (
        (spec, "volumes", [each for each in spec.get("volumes", []) if not _is_token(each)]),
        *(
            (each, "volumeMounts", [mount for mount in each.get("volumeMounts", []) if not _is_token(mount)])
            for each in (*spec["containers"], *spec.get("initContainers", []))
        ),
    ):
        holder.pop(field, None)
        if kept:
            holder[field] = kept
    return pod


def _is_token(named: Manifest) -> bool:
    return str(named["name"]).startswith("kube-api-access-")


def _documents(text: str) -> Iterator[Manifest]:
    """The objects that kubectl prints one after the other."""
    decoder, position = json.JSONDecoder(), 0
    while text[position:].strip():
        found, end = decoder.raw_decode(text[position:].lstrip())
        position = len(text) - len(text[position:].lstrip()) + end
        yield found


@pytest.fixture(scope="module")
def created(control_plane: ControlPlane) -> dict[str, Manifest]:
    """The Pods as the API server would create them, all in one dry run."""
    pods = _pods("default")
    listed = {"apiVersion": "v1", "kind": "List", "items": list(pods.values())}
    arguments = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", "-")
    answer = control_plane.kubectl(*arguments, user="admin", input=json.dumps(listed))
    assert answer.returncode == 0, answer.stderr
    found = {pod["metadata"]["name"]: pod for pod in _documents(answer.stdout)}
    return {case: found[pod["metadata"]["name"]] for case, pod in pods.items()}


@pytest.mark.parametrize("case", SPECS)
def test_defaults_are_the_api_servers(case: str, created: dict[str, Manifest]) -> None:
    """What we fill in is, in the whole object, what the API server fills in before and after admission."""
    ours = admitted(defaulted(_pods("default")[case], named(release())))

    assert _without_admission(created[case], ours) == ours


@pytest.mark.parametrize("case", limits.cases(), ids=lambda case: case.name)
def test_limits_are_the_api_servers(case: limits.Case, control_plane: ControlPlane, namespace: str) -> None:
    """LimitRanges fill in and refuse, and quotas refuse, what the recorded answers say."""
    control_plane.objects.apply(
        [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in case.context]
    )

    def counted() -> bool:
        return all(one.get("status", {}).get("used") for one in control_plane.get("quota", "-n", namespace)["items"])

    control_plane.wait_for("the use of quotas", counted)
    with Caller(control_plane) as caller:
        obj = {**case.object, "metadata": {"name": "a", "namespace": namespace}}
        answer = caller.send("POST", f"{resource_path(caller, obj)}?dryRun=All", obj)

    is_made = answer.code == http.client.CREATED
    assert (limits.admission(answer.body) if is_made else limits.refusal(answer.body["message"])) == case.answer


CLAIM: Manifest = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job")
# What only a Pod that exists has: its place, the labels and names that its controller counts it by, and tolerations.
_LATER = frozenset(
    {
        "metadata.annotations",
        "metadata.finalizers",
        "metadata.generateName",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "spec.nodeName",
        "spec.tolerations",
    }
)
_INDEX = "spec.containers[*].env"  # JOB_COMPLETION_INDEX


def _workload(kind: str, namespace: str) -> Manifest:
    template = workloads.template(
        containers=[_main(resources={"limits": {"cpu": "10m"}}, ports=[{"containerPort": 80}])],
        volumes=[{"name": "files", "configMap": {"name": "c"}}],
        restartPolicy="Never" if kind == "Job" else "Always",
    )
    if kind == "Job":
        return workloads.job(namespace, template=template, completionMode="Indexed", completions=1)
    if kind == "ReplicationController":
        spec = {"selector": {"app": "main"}, "template": template}
        return {"apiVersion": "v1", "kind": kind, "metadata": workloads.metadata("main", namespace), "spec": spec}
    if kind == "StatefulSet":
        return workloads.apps(kind, namespace, template=template, volumeClaimTemplates=[CLAIM], serviceName="main")
    return workloads.apps(kind, namespace, template=template)


def _differences(left: Any, right: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places where two values differ, as patterns."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from _differences(left.get(key), right.get(key), (*at, key))
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            one, other = (each[index] if index < len(each) else {} for each in (left, right))
            yield from _differences(one, other, (*at, Wildcard.ITEMS))
    elif left != right:
        yield at


@pytest.fixture(scope="module")
def node(control_plane: ControlPlane) -> None:
    """A Node, without which a DaemonSet has no Pods."""
    control_plane.node("defaults", {"kubernetes.io/hostname": "defaults"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("node")
def test_the_pod_that_a_controller_creates(kind: str, control_plane: ControlPlane, namespace: str) -> None:
    """Where the real Pod of a workload differs from the derived one, it is in fields that are known to be open."""
    control_plane.objects.apply(_workload(kind, namespace))

    def pods() -> list[Manifest]:
        found: list[Manifest] = control_plane.get("pods", "-n", namespace)["items"]
        if not found:
            raise NotYet("no Pod")
        return found

    real = control_plane.wait_for(f"a Pod of the {kind}", pods)[0]
    (derived,) = derive(_request(control_plane.get(kind, "main", "-n", namespace)), table(BUILT_IN))

    filled = [parse(path) for path in derived.filled | _LATER | ({_INDEX} if kind == "Job" else set())]
    unexpected = [
        place for place in _differences(derived.pod, real) if not any(place[: len(known)] == known for known in filled)
    ]
    assert unexpected == []
    ours, theirs = derived.pod["metadata"], real["metadata"]
    for field in ("labels", "annotations"):
        assert ours.get(field, {}).items() <= theirs.get(field, {}).items()
    assert [_named(ours["ownerReferences"][0], kind)] == [_named(owner, kind) for owner in theirs["ownerReferences"]]


def _named(owner: Manifest, kind: str) -> Manifest:
    """An owner reference without the uid; of a Deployment's ReplicaSet, whose name has a hash, without the name."""
    made_up = {"uid", "name"} if kind == "Deployment" else {"uid"}
    return {key: value for key, value in owner.items() if key not in made_up}


def _request(obj: Manifest) -> AdmissionRequest:
    group, _, version = obj["apiVersion"].rpartition("/")
    return AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(group, version, obj["kind"]),
        resource=GroupVersionResource(group, version, f"{obj['kind'].lower()}s"),
        name=obj["metadata"]["name"],
        namespace=obj["metadata"]["namespace"],
        operation="CREATE",
        object=obj,
    )
