"""Reserved labels as people see them: through kubectl, on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cluster import workloads
from cluster.service import ORGANIZATION
from policies.labels import USE_OWN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.service import Service

pytestmark = pytest.mark.usefixtures("service")

RESERVED = "foo.coreweave.cloud/bar"
SENTENCE = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."

ONLY_OWN = (
    f'Only "{ORGANIZATION}" may stand at ns.coreweave.cloud/org: the id of the organization whose cluster this is.'
)
NODE = "labels-1"
INTERRUPTABLE = {"qos.coreweave.cloud/interruptable": "true"}


@pytest.fixture(scope="module", autouse=True)
def node(control_plane: ControlPlane) -> Iterator[None]:
    """Give this module a Node that carries a reserved label, as all Nodes of a real cluster do."""
    control_plane.node(NODE, labels={"node.coreweave.cloud/state": "production"})
    yield
    control_plane.objects.delete("node", NODE)


def denied(name: str, *lines: str, remedy: str = USE_OWN_PREFIX) -> str:
    """Return what follows `Error from server (Forbidden): ` on kubectl's stderr."""
    places = "".join(f"\n  {line}" for line in lines)
    return f'admission webhook "{name}.cks-admission.dev" denied the request: {SENTENCE}{places}\n{remedy}\n'


def verifier(control_plane: ControlPlane, namespace: str) -> Path:
    """Return the kubeconfig of a service account that may label Nodes, once the API server goes by its binding."""
    account = control_plane.service_account(namespace, "verifier", role="cluster-admin")

    def granted() -> bool:
        return control_plane.kubectl("auth", "can-i", "patch", "nodes", user=account).returncode == 0

    control_plane.wait_for("the rights of the account", granted)
    return account


def test_label_on_a_node_is_refused_in_words(control_plane: ControlPlane) -> None:
    """Alice labels a Node, and reads what is wrong, where, what was found and what to do."""
    answer = control_plane.kubectl("label", "node", NODE, f"{RESERVED}=true")

    expected = denied("cluster-labels", f'metadata.labels: {RESERVED}="true"')
    assert (answer.returncode, answer.stderr) == (1, f"Error from server (Forbidden): {expected}")


def test_all_places_are_named_at_once(control_plane: ControlPlane, namespace: str) -> None:
    """A Deployment with reserved labels in two places is refused on apply, with both."""
    labels = {"foo.coreweave.com/bar": "true"}
    deployment = workloads.apps("Deployment", namespace, {RESERVED: "true"}, template=workloads.template(labels))

    answer = control_plane.apply(deployment)

    expected = denied(
        "labels", f'metadata.labels: {RESERVED}="true"', 'spec.template.metadata.labels: foo.coreweave.com/bar="true"'
    )
    assert answer.stderr == f'Error from server (Forbidden): error when creating "STDIN": {expected}'
    assert control_plane.get("deployments", "-n", namespace)["items"] == []


@pytest.mark.parametrize("resource", ["node", "namespace", "pod"])
def test_status_subresource_is_no_way_round(control_plane: ControlPlane, namespace: str, resource: str) -> None:
    """Labels can be written through /status as well, and are refused there as well."""
    control_plane.apply(workloads.pod(namespace), check=True)
    name = {"node": NODE, "namespace": namespace, "pod": "main"}[resource]
    patch = f'{{"metadata": {{"labels": {{"{RESERVED}": "true"}}}}}}'

    answer = control_plane.kubectl("patch", resource, name, "-n", namespace, "--subresource=status", "-p", patch)

    entry = "labels" if resource == "pod" else "cluster-labels"
    assert answer.stderr == "Error from server (Forbidden): " + denied(entry, f'metadata.labels: {RESERVED}="true"')


def test_any_kind_is_guarded(control_plane: ControlPlane, namespace: str) -> None:
    """A ConfigMap's labels are nobody's business but reserved ones."""
    answer = control_plane.apply(workloads.config_map(namespace, labels={RESERVED: "true"}))

    expected = denied("labels", f'metadata.labels: {RESERVED}="true"')
    assert answer.stderr == f'Error from server (Forbidden): error when creating "STDIN": {expected}'


@pytest.mark.parametrize("key", ["notcoreweave.cloud/x", "coreweave.cloud.example.org/x", "coreweave.cloud"])
def test_lookalikes_pass(control_plane: ControlPlane, namespace: str, key: str) -> None:
    """The match is on whole DNS labels of the prefix."""
    answer = control_plane.apply(workloads.config_map(namespace, labels={key: "true"}))

    assert (answer.returncode, answer.stderr) == (0, "")


def test_existing_label_blocks_no_unrelated_update(control_plane: ControlPlane, namespace: str) -> None:
    """What the cloud labelled stays usable: alice annotates it and adds a label of her own, and the label stays."""
    labels = {RESERVED: "true"}
    control_plane.objects.apply(workloads.config_map(namespace, labels=labels))

    labelled = control_plane.kubectl("label", "configmap", "main", "-n", namespace, "team=a")
    noded = control_plane.kubectl("label", "node", NODE, "example.org/team=a")

    assert (labelled.returncode, labelled.stderr, noded.returncode, noded.stderr) == (0, "", 0, "")
    assert control_plane.get("configmap", "main", "-n", namespace)["metadata"]["labels"] == {**labels, "team": "a"}


def test_change_of_a_value_is_refused(control_plane: ControlPlane) -> None:
    """An existing reserved label keeps its value."""
    answer = control_plane.kubectl("label", "--overwrite", "node", NODE, "node.coreweave.cloud/state=triage")

    expected = denied("cluster-labels", 'metadata.labels: node.coreweave.cloud/state="triage"')
    assert answer.stderr == f"Error from server (Forbidden): {expected}"


def test_removal_is_refused_on_a_node(control_plane: ControlPlane) -> None:
    """Controllers work by a Node's labels, so nobody takes one away."""
    answer = control_plane.kubectl("label", "node", NODE, "node.coreweave.cloud/state-")

    remedy = "Leave these labels in place: the cluster's own controllers work by them."
    line = 'metadata.labels: node.coreweave.cloud/state="production" must not be removed'
    assert answer.stderr == "Error from server (Forbidden): " + denied("cluster-labels", line, remedy=remedy)


def test_removal_is_allowed_on_a_config_map(control_plane: ControlPlane, namespace: str) -> None:
    """Elsewhere a reserved label that was there may go."""
    control_plane.objects.apply(workloads.config_map(namespace, labels={RESERVED: "true"}))

    answer = control_plane.kubectl("label", "configmap", "main", "-n", namespace, f"{RESERVED}-")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "labels" not in control_plane.get("configmap", "main", "-n", namespace)["metadata"]


def test_interruptable_passes_where_it_reaches_pods(control_plane: ControlPlane, namespace: str) -> None:
    """On a Pod, on a template, and on a Job whose template has it, for the API server copies it up."""
    answers = [
        control_plane.apply(workloads.pod(namespace, labels=INTERRUPTABLE)),
        control_plane.apply(workloads.apps("Deployment", namespace, template=workloads.template(INTERRUPTABLE))),
        control_plane.apply(
            workloads.job(namespace, template=workloads.template(INTERRUPTABLE, restartPolicy="Never"))
        ),
    ]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3
    labels = control_plane.get("job", "main", "-n", namespace)["metadata"]["labels"]
    assert labels["qos.coreweave.cloud/interruptable"] == "true"


def test_interruptable_on_a_deployment_alone_is_refused_with_the_place(
    control_plane: ControlPlane, namespace: str
) -> None:
    """A label that would have no effect is refused, with the path to put it at."""
    answer = control_plane.apply(workloads.apps("Deployment", namespace, INTERRUPTABLE))

    expected = denied(
        "labels",
        'metadata.labels: qos.coreweave.cloud/interruptable="true" has no effect on any Pod here',
        remedy="Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
    )
    assert answer.stderr == f'Error from server (Forbidden): error when creating "STDIN": {expected}'


def test_controllers_still_work(control_plane: ControlPlane, namespace: str) -> None:
    """A Deployment's controllers write its ReplicaSet and its Pods with the template's labels."""
    deployment = workloads.apps("Deployment", namespace, template=workloads.template(INTERRUPTABLE))
    control_plane.apply(deployment, check=True)

    def pods() -> list[str]:
        found = control_plane.get("pods,replicasets", "-n", namespace)["items"]
        carrying = [item["kind"] for item in found if INTERRUPTABLE.items() <= item["metadata"]["labels"].items()]
        return sorted(carrying) if len(carrying) == 2 else []

    assert control_plane.wait_for("a Pod of the Deployment", pods) == ["Pod", "ReplicaSet"]


class TestExemptRequesters:
    """Those who may: the kubelet at home, and the control plane's accounts."""

    def test_kubelet_labels_its_own_node(self, control_plane: ControlPlane) -> None:
        """A kubelet sets a reserved label on its own Node."""
        answer = control_plane.kubectl(
            "label", "node", NODE, "node.coreweave.cloud/rack=12", user=control_plane.kubelet(NODE)
        )

        assert (answer.returncode, answer.stderr) == (0, "")

    def test_kubelets_group_alone_is_not_enough(self, control_plane: ControlPlane) -> None:
        """Somebody in system:nodes by another name is nobody's kubelet."""
        stranger = control_plane.identity("alice", ["system:nodes"])

        answer = control_plane.kubectl(
            "label", "--overwrite", "node", NODE, "node.coreweave.cloud/rack=13", user=stranger
        )

        assert denied("cluster-labels", 'metadata.labels: node.coreweave.cloud/rack="13"') in answer.stderr

    def test_account_of_a_control_plane_namespace_passes(self, control_plane: ControlPlane) -> None:
        """A service account whose Namespace carries the control plane's label may write reserved labels."""
        control_plane.namespace("hpc-verification", {"ns.coreweave.cloud/org": "control-plane"})
        account = verifier(control_plane, "hpc-verification")

        answer = control_plane.kubectl("label", "node", NODE, "node.coreweave.cloud/verified=true", user=account)

        assert (answer.returncode, answer.stderr) == (0, "")

    def test_account_of_a_users_namespace_does_not(self, control_plane: ControlPlane, namespace: str) -> None:
        """The same rights in a user's Namespace do not do."""
        account = verifier(control_plane, namespace)

        answer = control_plane.kubectl("label", "node", NODE, "node.coreweave.cloud/forged=true", user=account)

        expected = denied("cluster-labels", 'metadata.labels: node.coreweave.cloud/forged="true"')
        assert answer.stderr == f"Error from server (Forbidden): {expected}"


class TestPromotion:
    """Nobody makes a Namespace the control plane's by writing the label that exempts it."""

    LINE = 'metadata.labels: ns.coreweave.cloud/org="control-plane"'

    def test_on_create(self, control_plane: ControlPlane) -> None:
        """A new Namespace with the label is refused."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "promoted", "labels": {"ns.coreweave.cloud/org": "control-plane"}},
        }

        answer = control_plane.apply(manifest)

        expected = denied("cluster-labels", self.LINE, remedy=ONLY_OWN)
        assert answer.stderr == f'Error from server (Forbidden): error when creating "STDIN": {expected}'
        assert control_plane.kubectl("get", "namespace", "promoted").returncode == 1

    @pytest.mark.parametrize("subresource", ["", "status"])
    def test_on_update(self, control_plane: ControlPlane, namespace: str, subresource: str) -> None:
        """An update of the Namespace or of its status with the label is refused."""
        patch = '{"metadata": {"labels": {"ns.coreweave.cloud/org": "control-plane"}}}'
        extra = [f"--subresource={subresource}"] if subresource else []

        answer = control_plane.kubectl("patch", "namespace", namespace, "-p", patch, *extra)

        assert answer.stderr == "Error from server (Forbidden): " + denied("cluster-labels", self.LINE, remedy=ONLY_OWN)

    def test_on_finalize(self, control_plane: ControlPlane, namespace: str) -> None:
        """Neither does /finalize let it in."""
        manifest = control_plane.get("namespace", namespace)
        manifest["metadata"]["labels"]["ns.coreweave.cloud/org"] = "control-plane"
        path = f"/api/v1/namespaces/{namespace}/finalize"

        answer = control_plane.kubectl("replace", "--raw", path, "-f", "-", input=json.dumps(manifest))

        assert denied("cluster-labels", self.LINE, remedy=ONLY_OWN).rstrip("\n") in answer.stderr
        assert "ns.coreweave.cloud/org" not in control_plane.get("namespace", namespace)["metadata"]["labels"]

    def test_own_organization_is_allowed(self, control_plane: ControlPlane, namespace: str, service: Service) -> None:
        """Users mark their Namespaces as their organization's; a value that is not theirs is refused."""
        assert service.events("registered")
        own = control_plane.kubectl("label", "namespace", namespace, f"ns.coreweave.cloud/org={ORGANIZATION}")
        other = control_plane.kubectl("label", "--overwrite", "namespace", namespace, "ns.coreweave.cloud/org=other")

        expected = denied("cluster-labels", 'metadata.labels: ns.coreweave.cloud/org="other"', remedy=ONLY_OWN)
        assert (own.returncode, own.stderr, other.stderr) == (0, "", f"Error from server (Forbidden): {expected}")
