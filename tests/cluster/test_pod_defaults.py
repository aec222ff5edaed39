"""The Pod that we derive from a template is the one that the API server makes of it, field by field."""

from __future__ import annotations

import copy
import http.client
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support import limits

from cluster import workloads
from cluster.apicalls import Caller
from cluster.manifests import kind_of
from cluster.polling import NotYet
from cluster.programs import release
from cluster.schemacorpus import resource_path
from policies.admissionpolicy.builtin.plugins import admitted
from policies.admissionpolicy.derivation import defaulted, derive
from policies.cel.reads import Reads
from policies.engine.request import AdmissionRequest, GroupVersionResource
from policies.kubernetes.release import named
from policies.objects.fieldpath import Wildcard, parse
from policies.objects.workload import BUILT_IN, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

SPECS: dict[str, Manifest] = yaml.safe_load(Path(__file__).with_name("podspecs.yaml").read_text(encoding="utf-8"))
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
        containers=[
            {
                **workloads.POD_SPEC["containers"][0],
                "resources": {"limits": {"cpu": "10m"}},
                "ports": [{"containerPort": 80}],
            }
        ],
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

    left_open = derived.unknown_to(dict.fromkeys(("object", "request"), Reads(whole=frozenset({""}))))
    filled = [parse(path) for path in left_open | _LATER | ({_INDEX} if kind == "Job" else set())]
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
    kind = kind_of(obj)
    return AdmissionRequest(
        uid="1",
        kind=kind,
        resource=GroupVersionResource(kind.group, kind.version, f"{kind.kind.lower()}s"),
        name=obj["metadata"]["name"],
        namespace=obj["metadata"]["namespace"],
        operation="CREATE",
        object=obj,
    )
