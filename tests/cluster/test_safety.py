"""A policy that refuses everything and fails closed: without the service a cluster comes up, with it all is judged."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from cluster import manifests, workloads
from cluster.authority import signing_request
from cluster.polling import NotYet
from cluster.service import NAMESPACE, registered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest
    from cluster.service import Service

TEAM, CALICO = "team-safety", "calico-system"
REJECTED = 'cks_admission_rejected_calls_total{status="503"}'
OLD_NODE = "old"
NEVER = yaml.safe_dump_all(
    manifests.validating(
        "never",
        manifests.EVERYTHING,
        {"expression": "false", "message": "Never.", "reason": "Forbidden"},
        failurePolicy="Fail",
    )
)
DENIED = "ValidatingAdmissionPolicy 'never' with binding 'never' denied request: Never."
UNREACHABLE = 'failed calling webhook "policies.cks-admission.dev"'
UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule", "value": "true"}
# Service accounts of components and of a tenant, and the resources that RBAC lets them write.
ACCOUNTS = {
    "calico": (CALICO, "calico-node", {"crd.projectcalico.org": ["ipamblocks"], "": ["nodes/status"]}),
    "csi": ("csi", "provisioner", {"": ["persistentvolumes"], "storage.k8s.io": ["*"]}),
    "karpenter": ("karpenter", "karpenter", {"karpenter.sh": ["nodeclaims"], "": ["nodes"]}),
    "cloud": ("kube-system", "cloud-controller-manager", {"": ["nodes", "nodes/status"]}),
    "controller": ("kube-system", "a-controller", {"*": ["*"]}),
    "tenant": (TEAM, "runner", {"*": ["*"]}),
}


class Write(NamedTuple):
    """A write: who, what, the subresource, and whether its writer may do no more than create."""

    user: str
    manifest: Manifest
    subresource: str = ""
    create: bool = False

    @property
    def name(self) -> str:
        """The write for people."""
        metadata = self.manifest["metadata"]
        place = f" in {metadata['namespace']}" if "namespace" in metadata else ""
        return f"{self.user}: {self.manifest['kind']}{self.subresource and f'/{self.subresource}'}{place}"


class Cluster(NamedTuple):
    """A control plane with a service, and the kubeconfigs of those who write."""

    service: Service
    users: dict[str, Path]

    @property
    def control_plane(self) -> ControlPlane:
        """The control plane."""
        return self.service.control_plane

    def write(self, write: Write) -> Completed:
        """Apply or create an object as its writer."""
        user = self.users.get(write.user, write.user)
        if write.create:
            text = yaml.safe_dump(write.manifest)
            return self.control_plane.kubectl("create", "--validate=false", "-f", "-", user=user, input=text)
        more = [f"--subresource={write.subresource}"] if write.subresource else []
        direct = ("--server-side", "--force-conflicts", "--validate=false")
        return self.control_plane.apply(write.manifest, *direct, *more, user=user)

    def answers(self, writes: list[Write]) -> dict[str, str]:
        """What people read for each write; empty where it passed."""
        answers = {write.name: self.write(write) for write in writes}
        return {name: answer.stderr if answer.returncode else "" for name, answer in answers.items()}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of policies, empty while the service is started and awaited."""
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="module")
def served(judged: ControlPlane, directory: Path) -> Iterator[Cluster]:
    """A service with the policy, and from before a Node, Namespaces and those who write."""
    # kwok plays kubelets, but under a name of its own.
    safety = {"namespaces": [CALICO], "users": ["kwok"]}
    with registered(judged, policies={"directories": [str(directory)]}, safety=safety) as service:
        for name in (TEAM, CALICO, "csi", "karpenter"):
            judged.namespace(name)
        judged.node(OLD_NODE)
        for kind, group, version in (("IPAMBlock", "crd.projectcalico.org", "v1"), ("NodeClaim", "karpenter.sh", "v1")):
            judged.objects.apply(manifests.custom_resource(kind, group, version, scope="Cluster"))
        users = {name: _account(judged, *account) for name, account in ACCOUNTS.items()}
        users |= {"kubelet": judged.kubelet(OLD_NODE), "joining": judged.kubelet("joining")}
        cluster = Cluster(service, users)
        judged.wait_for("the kinds to be served", partial(_is_served, cluster))
        (directory / "never.yaml").write_text(NEVER, encoding="utf-8")
        _await_refusal(service, workloads.config_map(TEAM, "canary"))
        yield cluster
    for namespace in ("kube-system", NAMESPACE, CALICO):
        judged.objects.delete("deployment", "main", namespace=namespace)
    judged.objects.delete("node", OLD_NODE, "joining")


def _account(cluster: ControlPlane, namespace: str, name: str, resources: dict[str, list[str]]) -> Path:
    """The kubeconfig of a service account that may write resources, by group."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{namespace}-{name}"},
        "rules": [{"apiGroups": [group], "resources": names, "verbs": ["*"]} for group, names in resources.items()],
    }
    cluster.objects.apply(role)
    return cluster.service_account(namespace, name, role=f"{namespace}-{name}")


def _is_served(cluster: Cluster) -> bool:
    for write in _writes("essential", "early"):
        if (
            "." in write.manifest["apiVersion"].removesuffix(".k8s.io/v1")
            and (answer := cluster.write(write)).returncode
        ):
            raise NotYet(answer.stderr)
    return True


def _await_refusal(service: Service, manifest: Manifest) -> None:

    service.control_plane.wait_until(
        "the policy to be in force",
        lambda: service.control_plane.objects.applied(manifest, user="alice", dry_run=True),
        lambda answer: DENIED in answer.body.get("message", ""),
    )


@contextmanager
def _killed(cluster: Cluster) -> Iterator[None]:
    """The service is killed to the end of the block."""
    cluster.service.kill()
    try:
        yield
    finally:
        cluster.service.start()


def _object(kind: str, version: str, name: str, namespace: str = "", **fields: Any) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": workloads.metadata(name, namespace), **fields}


def _writes(part: str, name: str) -> list[Write]:
    """The writes of a part of safety.yaml, with a name of their own."""
    text = Path(__file__).with_name("safety.yaml").read_text(encoding="utf-8")
    rows = yaml.safe_load(text.replace("NAME", name).replace("REQUEST", signing_request("x")))[part]
    return [Write(**row) for row in rows]


def test_writes_without_the_service(served: Cluster) -> None:
    """While no replica runs, every essential write passes, and every other one is refused by the API server."""
    essential, ordinary = _writes("essential", "killed"), _writes("ordinary", "killed")
    with _killed(served):
        passing, refused = served.answers(essential), served.answers(ordinary)

    assert passing == dict.fromkeys(passing, "")
    assert {name: UNREACHABLE in text for name, text in refused.items()} == dict.fromkeys(refused, True)


def test_writes_with_the_service(served: Cluster) -> None:
    """While the service lives, the policy judges essential writes as all others, but not its own Namespace."""
    refused = served.answers([*_writes("essential", "alive"), *_writes("ordinary", "alive")])
    own = served.answers([Write("alice", workloads.config_map(NAMESPACE, "alive"))])

    assert {name: DENIED in text for name, text in refused.items()} == dict.fromkeys(refused, True)
    assert own == dict.fromkeys(own, "")


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_a_group_of_another_version(served: Cluster, failure_policy: str) -> None:
    """A replica that does not know a group lets the entry's failure policy decide, whatever is written."""
    cluster, selector = served.control_plane, {"matchLabels": {"skew": failure_policy.lower()}}
    own = cluster.get("validatingwebhookconfiguration", "cks-admission")["webhooks"][0]["clientConfig"]
    entry = {
        "name": "future.example.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**own, "url": f"{served.service.url}/validate/future"},
        "failurePolicy": failure_policy,
        "objectSelector": selector,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    configuration = _object("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", "skew")
    written = workloads.config_map(NAMESPACE, f"skew-{failure_policy.lower()}", selector["matchLabels"])
    calls = served.service.metric(REJECTED)
    cluster.objects.apply({**configuration, "webhooks": [entry]})

    def called() -> str:
        answer = cluster.apply(written)
        if served.service.metric(REJECTED) == calls:
            raise NotYet(answer.stderr)
        return answer.stderr

    told = cluster.wait_for("the API server to call the group", lambda: (called(),))[0]
    cluster.objects.delete("validatingwebhookconfiguration", "skew")

    assert ('failed calling webhook "future.example.org"' in told) is (failure_policy == "Fail")
    assert {event["status"] for event in served.service.events("call rejected")} == {503}


def test_a_node_joins(served: Cluster) -> None:
    """Without the service a new Node becomes ready, and the service's and the CNI's Deployments get Pods onto it."""
    cluster, name = served.control_plane, "joining"
    node = manifests.node(name, taints=[UNINITIALIZED])
    selector = {"kubernetes.io/hostname": name}
    namespaces = (NAMESPACE, CALICO, "kube-system")
    deployments = [
        Write("alice", workloads.apps("Deployment", namespace, template=workloads.template(nodeSelector=selector)))
        for namespace in namespaces
    ]
    with _killed(served):
        joined = served.answers([Write("joining", node), *deployments])
        initialized = cluster.kubectl("taint", "node", name, f"{UNINITIALIZED['key']}-", user=served.users["cloud"])

        def running() -> bool:
            pods = [pod for space in namespaces for pod in cluster.get("pods", "-n", space, "-l", "app=main")["items"]]
            phases = [(pod["spec"].get("nodeName"), pod["status"].get("phase")) for pod in pods]
            if phases != [(name, "Running")] * len(namespaces):
                raise NotYet(f"{phases}, {cluster.get('node', name)['status'].get('conditions')}")
            return True

        cluster.wait_for("the Pods to run", running)
        conditions = cluster.get("node", name)["status"]["conditions"]

    assert joined == dict.fromkeys(joined, "")
    assert (initialized.returncode, initialized.stderr) == (0, "")
    assert {condition["type"]: condition["status"] for condition in conditions}["Ready"] == "True"


def test_a_cold_start(served: Cluster, directory: Path) -> None:
    """An API server that starts while no replica runs gets ready: it may make what it needs and misses."""
    cluster, role = served.control_plane, "system:basic-user"
    refused = cluster.kubectl("delete", "clusterrole", role, user="admin")
    (directory / "never.yaml").write_text("# nothing for a while", encoding="utf-8")

    def deleted() -> bool:
        return cluster.kubectl("delete", "clusterrole", role, user="admin").returncode == 0

    def unregistered() -> bool:
        registered = cluster.get("validatingwebhookconfiguration", "cks-admission")["webhooks"]
        return "policies.cks-admission.dev" not in {entry["name"] for entry in registered}

    cluster.wait_for("the policy to be gone", deleted)
    cluster.wait_for("its entry to be gone", unregistered)  # or it would go after the policy has come back
    (directory / "never.yaml").write_text(NEVER, encoding="utf-8")
    _await_refusal(served.service, workloads.config_map(TEAM, "canary"))
    with _killed(served):
        cluster.restart_api_server()
        remade = cluster.get("clusterrole", role)["metadata"]["name"]
        blocked = cluster.apply(workloads.config_map(TEAM, "blocked"))

    assert DENIED in refused.stderr
    assert remade == role
    assert UNREACHABLE in blocked.stderr
