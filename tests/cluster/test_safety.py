"""A policy that refuses everything and fails closed: what a cluster needs passes, with the service and without it."""

from __future__ import annotations

import base64
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cluster import manifests, workloads
from cluster.polling import NotYet
from cluster.service import NAMESPACE, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest
    from cluster.service import Service

TEAM = "team-safety"
OLD_NODE = "old"
NEVER = yaml.safe_dump_all(
    [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "never"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
                    ]
                },
                "validations": [{"expression": "false", "message": "Never.", "reason": "Forbidden"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "never"},
            "spec": {"policyName": "never", "validationActions": ["Deny"]},
        },
    ]
)
DENIED = "ValidatingAdmissionPolicy 'never' with binding 'never' denied request: Never."
UNREACHABLE = 'failed calling webhook "policies.cks-admission.dev"'
OPT_IN = {"namespaces": [], "bootstrap": False}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of policies, empty while the service is started and awaited."""
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="module")
def served(judged: ControlPlane, directory: Path) -> Iterator[Service]:
    """A service with the policy, and a Namespace with a Node from before."""
    with serving(judged, directory) as service:
        cluster = service.control_plane
        cluster.namespace(TEAM)
        cluster.node(OLD_NODE)
        cluster.apply(workloads.config_map(TEAM, "old"), check=True)
        (directory / "never.yaml").write_text(NEVER, encoding="utf-8")
        _await_refusal(service, workloads.config_map(TEAM, "canary"))
        yield service
    judged.objects.delete("deployment", "main", namespace="kube-system")
    judged.objects.delete("node", OLD_NODE, "joining")


def _await_refusal(service: Service, manifest: Manifest) -> None:
    def refused() -> bool:
        answer = service.control_plane.objects.applied(manifest, user="alice", dry_run=True)
        if DENIED not in answer.body.get("message", ""):
            raise NotYet(f"{answer}")
        return True

    service.control_plane.wait_for("the policy to be in force", refused)


class _Killed:
    """The service is killed to the end of the block."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> None:
        self._service.kill()

    def __exit__(self, *_: object) -> None:
        self._service.start()


def _signing_request(name: str) -> Manifest:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }


def _lease(name: str, namespace: str = TEAM) -> Manifest:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
    metadata = workloads.metadata(name, namespace)
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _node_status(name: str) -> Manifest:
    condition = {"status": {"conditions": [{"type": "Safety", "status": "True"}]}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": workloads.metadata(name), **condition}


_DIRECT = ("--server-side", "--force-conflicts")


def _spared(cluster: ControlPlane, name: str) -> dict[str, Completed]:
    """Writes that a cluster cannot do without, with a name of their own."""
    kubelet = cluster.kubelet(name)
    answers = {
        f"create in {namespace}": cluster.apply(workloads.config_map(namespace, name))
        for namespace in ("kube-system", "kube-public", "kube-node-lease", NAMESPACE)
    }
    return answers | {
        "update in kube-system": cluster.kubectl("label", "configmap", name, "a=b", "-n", "kube-system"),
        "delete in kube-system": cluster.kubectl("delete", "configmap", name, "-n", "kube-system"),
        "label kube-system": cluster.kubectl("label", "--overwrite", "namespace", "kube-system", f"test={name}"),
        "register a Node": cluster.apply(manifests.node(name), *_DIRECT, user=kubelet),
        "status by its kubelet": cluster.apply(_node_status(name), *_DIRECT, "--subresource=status", user=kubelet),
        "status by alice": cluster.apply(_node_status(OLD_NODE), *_DIRECT, "--subresource=status"),
        "create a Lease": cluster.apply(_lease(name)),
        "heartbeat": cluster.apply(_lease(name, "kube-node-lease"), *_DIRECT, user=kubelet),
        "create a CSR": cluster.apply(_signing_request(name)),
        "approve a CSR": cluster.kubectl("certificate", "approve", name),
        "delete a CSR": cluster.kubectl("delete", "csr", name),
        "delete a Lease": cluster.kubectl("delete", "lease", name, "-n", TEAM),
        "may I": cluster.kubectl("auth", "can-i", "create", "pods", "-n", TEAM),
    }


def _ordinary(cluster: ControlPlane) -> dict[str, Completed]:
    """Writes that policies are for."""
    return {
        "create": cluster.apply(workloads.config_map(TEAM, "new")),
        "update": cluster.kubectl("label", "configmap", "old", "a=b", "-n", TEAM),
        "delete": cluster.kubectl("delete", "configmap", "old", "-n", TEAM),
        "create a Pod": cluster.apply(workloads.pod(TEAM, "new")),
        "create a Namespace": cluster.kubectl("create", "namespace", "new"),
        "label a Node": cluster.kubectl("label", "node", OLD_NODE, "a=b"),
        "delete a Node": cluster.kubectl("delete", "node", OLD_NODE),
        "create a ClusterRole": cluster.kubectl("create", "clusterrole", "new", "--verb=get", "--resource=pods"),
    }


def _failed(answers: dict[str, Completed]) -> dict[str, str]:
    return {what: answer.stderr for what, answer in answers.items() if answer.returncode != 0}


@pytest.mark.parametrize("killed", [False, True], ids=["service-up", "service-killed"])
def test_what_passes_and_what_does_not(served: Service, killed: bool) -> None:  # noqa: FBT001
    """What the cluster needs passes in either case; everything else is refused, by the policy or by its Fail."""
    state: AbstractContextManager[object] = _Killed(served) if killed else nullcontext()
    with state:
        spared, ordinary = _spared(served.control_plane, f"safe-{killed}".lower()), _ordinary(served.control_plane)

    assert _failed(spared) == {}
    why = UNREACHABLE if killed else DENIED
    assert {what: why in answer.stderr for what, answer in ordinary.items()} == dict.fromkeys(ordinary, True)


def test_nobody_asks(served: Service) -> None:
    """The API server does not even ask about what is spared, so that there is nothing that an outage could stop."""
    asked = {
        (event["resource"], event["namespace"])
        for event in served.events("review")
        if event["phase"] == "validate" and not event["resource"].startswith("pods")
    }

    assert ("configmaps", TEAM) in asked
    assert {each for each in asked if each[1].startswith(("kube-", NAMESPACE))} == set()
    spared = ("nodes/status", "coordination", "certificates", "authorization", "authentication")
    assert {each for each in asked if each[0].startswith(spared)} == set()


def test_the_control_plane_goes_on(served: Service) -> None:
    """Without the service a Node joins and becomes ready, and a Deployment of the system gets its Pods onto it."""
    cluster, name = served.control_plane, "joining"
    labels = {"kubernetes.io/hostname": name}
    deployment = workloads.apps("Deployment", "kube-system", template=workloads.template(nodeSelector=labels))
    with _Killed(served):
        cluster.apply(manifests.node(name), *_DIRECT, user=cluster.kubelet(name), check=True)
        cluster.apply(deployment, check=True)

        def running() -> str:
            pods = cluster.get("pods", "-n", "kube-system", "-l", "app=main")["items"]
            found = {(pod["spec"].get("nodeName"), pod["status"].get("phase")) for pod in pods}
            if found != {(name, "Running")}:
                raise NotYet(f"{found}, {cluster.get('node', name)['status'].get('conditions')}")
            return name

        assert cluster.wait_for("the Pods to run", running) == name
        conditions = cluster.get("node", name)["status"]["conditions"]

    assert {each["type"]: each["status"] for each in conditions}["Ready"] == "True"


def test_a_cold_start(served: Service, directory: Path) -> None:
    """An API server that starts while no replica runs gets ready: it may make what it needs and misses."""
    cluster, role = served.control_plane, "system:basic-user"
    refused = cluster.kubectl("delete", "clusterrole", role, user="admin")
    (directory / "never.yaml").write_text("# nothing for a while", encoding="utf-8")

    def deleted() -> bool:
        return cluster.kubectl("delete", "clusterrole", role, user="admin").returncode == 0

    cluster.wait_for("the policy to be gone", deleted)
    (directory / "never.yaml").write_text(NEVER, encoding="utf-8")
    _await_refusal(served, workloads.config_map(TEAM, "canary"))
    with _Killed(served):
        cluster.restart_api_server()
        remade = cluster.get("clusterrole", role)["metadata"]["name"]
        blocked = cluster.apply(workloads.config_map(TEAM, "blocked"))

    assert DENIED in refused.stderr
    assert remade == role
    assert UNREACHABLE in blocked.stderr


def test_opting_in(served: Service) -> None:
    """Where an operator wants it, all of that is judged and refused, but for what is the service's own."""
    cluster = served.control_plane
    with served.configured(safety=OPT_IN):
        _await_refusal(served, workloads.config_map("kube-system", "canary"))
        _await_refusal(served, _lease("canary"))
        answers = _spared(cluster, "opted-in")
        cluster.kubectl("delete", "configmap", "opted-in", "-n", NAMESPACE, check=True)
    _await_refusal(served, workloads.config_map(TEAM, "canary"))

    never_judged = {f"create in {NAMESPACE}", "may I"}
    assert {what for what, answer in answers.items() if answer.returncode == 0} == never_judged
    followers = {"update in kube-system", "delete in kube-system", "status by its kubelet"}
    followers |= {"approve a CSR", "delete a CSR", "delete a Lease"}
    refused = {what for what, answer in answers.items() if DENIED in answer.stderr}
    assert refused == set(answers) - never_judged - followers  # these need what was refused before them
