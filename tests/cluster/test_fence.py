"""What the token of the placer's account can do to Pods, with the rights and the policy that the chart gives it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from chart.rendering import render

from cluster import manifests
from cluster.apicalls import Caller
from policies.topology.placement import GATE, PLACEMENT
from webhook.cluster.placer.gatekeeper import CHANGED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane

Json = dict[str, Any]
_OWN = "cks-admission"
_ACCOUNT = "cks-admission-placer"
_USER = f"system:serviceaccount:{_OWN}:{_ACCOUNT}"
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{_OWN}", "system:authenticated")
_OTHER_GATE = "kueue.x-k8s.io/topology"
_JSON_PATCH = "application/json-patch+json"
_PLACEMENT = f"/metadata/annotations/{PLACEMENT.replace('/', '~1')}"
_AFFINITY: Json = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["b"]}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n3"]}]},
        }
    ],
}
_PEERS: Json = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack", "labelSelector": {}}]}
_OPEN: list[Json] = [
    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
    {"op": "remove", "path": "/spec/schedulingGates/0"},
]
_PLACE: list[Json] = [
    {"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": _AFFINITY}},
    {"op": "add", "path": _PLACEMENT, "value": "Its domain is rack b."},
]


class Attempt(NamedTuple):
    """A patch of a Pod, and a part of what the API server says; empty if it does it. gates: of the Pod before."""

    patch: Sequence[Json]
    says: str = ""
    gates: Sequence[str] = (GATE,)
    subresource: str = ""


def _also(op: str, path: str, value: Any = None) -> list[Json]:
    """The right patch with one operation more."""
    return [*_OPEN, *_PLACE, {"op": op, "path": path, **({} if value is None else {"value": value})}]


_ATTEMPTS: Mapping[str, Attempt] = {
    "open": Attempt([*_OPEN, *_PLACE]),
    "open without a placement": Attempt(_OPEN),
    "open beside a gate of others": Attempt([*_OPEN, *_PLACE], gates=(GATE, _OTHER_GATE)),
    "a Pod that is open": Attempt(_PLACE[1:], "may change Pods behind the gate", gates=()),
    "a Pod behind a gate of others": Attempt(
        [{"op": "remove", "path": "/spec/schedulingGates"}], "may change Pods behind the gate", gates=(_OTHER_GATE,)
    ),
    "affinity without opening": Attempt(_PLACE, "only by the request that opens its gate"),
    "a gate of others": Attempt(
        [{"op": "remove", "path": "/spec/schedulingGates"}], "may not open gates of others", gates=(_OTHER_GATE, GATE)
    ),
    "the image": Attempt(_also("replace", "/spec/containers/0/image", "evil"), "may not change images"),
    "the image of an init container": Attempt(
        _also("replace", "/spec/initContainers/0/image", "evil"), "may not change images"
    ),
    "a label": Attempt(_also("add", "/metadata/labels/x", "1"), "may not change labels"),
    "no labels": Attempt(_also("remove", "/metadata/labels"), "may not change labels"),
    "another annotation": Attempt(_also("add", "/metadata/annotations/x", "1"), "may change no annotation but"),
    "an annotation with another value": Attempt(
        _also("replace", "/metadata/annotations/note", "2"), "may change no annotation but"
    ),
    "an annotation less": Attempt(_also("remove", "/metadata/annotations/note"), "may change no annotation but"),
    "a finalizer": Attempt(_also("add", "/metadata/finalizers", ["x.example/y"]), "owners and finalizers"),
    "an owner": Attempt(
        _also("add", "/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]),
        "owners and finalizers",
    ),
    "a toleration": Attempt(_also("add", "/spec/tolerations/-", {"operator": "Exists"}), "may not change tolerations"),
    "a node selector": Attempt(_also("add", "/spec/nodeSelector", {"rack": "a"}), "may not change the node selector"),
    "a deadline": Attempt(_also("add", "/spec/activeDeadlineSeconds", 1), "may not change deadlines"),
    # Of gated Pods, too, the API server lets nobody change these. The policy says so for releases that will.
    "affinity to Pods": Attempt(_also("add", "/spec/affinity/podAffinity", _PEERS), "pod updates may not change"),
    "anti-affinity to Pods": Attempt(
        _also("add", "/spec/affinity/podAntiAffinity", _PEERS), "pod updates may not change"
    ),
    # RBAC keeps these from the account, and the policy from whoever grants them to it.
    "the status": Attempt(
        [{"op": "add", "path": "/status/message", "value": "x"}], "may open the gates", subresource="/status"
    ),
    "an ephemeral container": Attempt(
        [{"op": "add", "path": "/spec/ephemeralContainers", "value": [{"name": "e", "image": "x"}]}],
        "may open the gates",
        subresource="/ephemeralcontainers",
    ),
}


class Pods:
    """Makes Pods, and tries to change them as the placer's account."""

    def __init__(self, caller: Caller, namespace: str) -> None:
        """Prepare it. caller: the administrator."""
        self.caller = caller
        self.where = f"/api/v1/namespaces/{namespace}/pods"
        self._made = 0

    def manifest(self, gates: Sequence[str], **more: Any) -> Json:
        """A Pod with a name of its own, behind gates."""
        self._made += 1
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{self._made}", "labels": {"app": "train"}, "annotations": {"note": "1"}},
            "spec": {
                "schedulingGates": [{"name": gate} for gate in gates],
                "initContainers": [{"name": "first", "image": "i"}],
                "containers": [container],
                **more,
            },
        }

    def path(self, gates: Sequence[str], **more: Any) -> str:
        """The path of a new Pod."""
        return f"{self.where}/{self.caller.make(self.where, self.manifest(gates, **more))['metadata']['name']}"

    def placer(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """What the API server answers the placer's account."""
        return self.caller.send(method, path, body, user=_USER, groups=_GROUPS, content_type=content_type)

    def patch(self, path: str, patch: Sequence[Json]) -> Answer:
        """The answer to a JSON patch of that account."""
        return self.placer("PATCH", path, patch, _JSON_PATCH)


@pytest.fixture(scope="module")
def fenced(control_plane: ControlPlane) -> Iterator[Pods]:
    """The account with its roles and the policy in force; beside its role, it may do all to Pods."""
    rendered = render()
    namespace = "fenced"
    for name in (_OWN, namespace):
        control_plane.namespace(name)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    own = [each for each in rendered.objects if each["metadata"]["name"] == _ACCOUNT]
    account = manifests.service_account_subject(_OWN, _ACCOUNT)
    more = manifests.cluster_role_binding("more-for-the-placer", "cluster-admin", account)
    made = [each for each in own if each["kind"] in kinds or each["kind"].startswith("ValidatingAdmissionPolicy")]
    control_plane.objects.apply([*made, more])
    with Caller(control_plane) as caller:
        pods = Pods(caller, namespace)

        control_plane.wait_until(
            "the policy to be in force",
            lambda: pods.placer("POST", f"{pods.where}?dryRun=All", pods.manifest(())),
            lambda answer: (
                answer.code != HTTPStatus.CREATED and "may open the gates" in str(answer.body.get("message"))
            ),
        )
        yield pods
    control_plane.objects.delete_all("pods", namespace=namespace)
    control_plane.objects.delete_manifests([*made, more])


@pytest.mark.parametrize("name", _ATTEMPTS)
def test_a_patch_of_the_placer(fenced: Pods, name: str) -> None:
    """The right patch passes, whatever else is in it is refused with what is not allowed, and the Pod stays."""
    patch, says, gates, subresource = _ATTEMPTS[name]
    path = fenced.path(gates)
    before = fenced.caller.send("GET", path).body
    answer = fenced.patch(path + subresource, patch)
    after = fenced.caller.send("GET", path).body

    if not says:
        assert answer.code == HTTPStatus.OK, answer.body
        assert [gate["name"] for gate in after["spec"].get("schedulingGates", ())] == [
            gate for gate in gates if gate != GATE
        ]
        return
    invalid = says.startswith("pod updates")
    assert answer.code == (HTTPStatus.UNPROCESSABLE_ENTITY if invalid else HTTPStatus.FORBIDDEN), answer.body
    assert says in answer.body["message"]
    assert answer.body["message"].count("The placer may") <= 1
    # Controllers may write the status meanwhile.
    assert [(pod["spec"], pod["metadata"].get("annotations")) for pod in (after, before)] == [
        (before["spec"], before["metadata"].get("annotations"))
    ] * 2


def test_a_pod_is_opened_once(fenced: Pods) -> None:
    """After the request that opened a Pod the account cannot change it any more."""
    path = fenced.path((GATE,))

    assert fenced.patch(path, [*_OPEN, *_PLACE]).code == HTTPStatus.OK
    again = fenced.patch(path, [{"op": "replace", "path": _PLACEMENT, "value": "x"}])
    assert "may change Pods behind the gate" in again.body["message"]


def test_a_pod_that_has_changed_is_told_apart(fenced: Pods) -> None:
    """Where a test of the patch fails, the API server says so in the words by which the placer knows it."""
    answer = fenced.patch(fenced.path((_OTHER_GATE,)), [*_OPEN, *_PLACE])

    assert (answer.code, CHANGED in answer.body["message"]) == (HTTPStatus.UNPROCESSABLE_ENTITY, True), answer.body


def test_requests_that_are_no_patches(fenced: Pods) -> None:
    """With all rights on Pods the account can still not create, delete, bind, evict or enter one."""
    path = fenced.path((GATE,))
    name = path.rpartition("/")[2]
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n1"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    whole = fenced.caller.send("GET", path).body
    whole["metadata"]["labels"] = {}
    refused = [
        fenced.placer("POST", fenced.where, fenced.manifest(())),
        fenced.placer("DELETE", path),
        fenced.placer("DELETE", fenced.where),
        fenced.placer("POST", f"{path}/binding", binding),
        fenced.placer("POST", f"{path}/eviction", eviction),
        fenced.placer("POST", f"{path}/exec?command=sh"),
        fenced.placer("GET", f"{path}/portforward?ports=80"),
        fenced.placer("PUT", path, whole),
    ]

    said = [str(answer.body.get("message")) for answer in refused]
    assert [text for text in said if "The placer may" not in text] == []


def test_large_pods_stay_below_the_cost_limits(fenced: Pods) -> None:
    """A Pod of twelve containers with 400 variables each is opened like any other."""
    variables = [{"name": f"E{number}", "value": "v" * 40} for number in range(400)]
    containers = [{"name": f"c{number}", "image": "i", "env": variables} for number in range(12)]
    path = fenced.path((GATE,), containers=containers)

    assert fenced.patch(path, [*_OPEN, *_PLACE]).code == HTTPStatus.OK


def test_an_account_of_somebody_else_is_not_asked(fenced: Pods) -> None:
    """The policy is for one account: another one changes labels as its rights say."""
    path = fenced.path(())
    body = {"metadata": {"labels": {"x": "1"}}}

    assert fenced.caller.send("PATCH", path, body, content_type="application/merge-patch+json").code == HTTPStatus.OK


def test_the_expressions_have_no_type_errors(fenced: Pods) -> None:
    """The API server has no warning about the policy."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    status = fenced.caller.send("GET", f"{policies}/{_ACCOUNT}").body.get("status") or {}

    assert json.dumps(status.get("typeChecking", {}).get("expressionWarnings", [])) == "[]"
