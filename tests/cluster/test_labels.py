"""Reserved labels and dated exceptions as people see them: through kubectl, on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from cluster import manifests, workloads
from cluster.service import ORGANIZATION
from policies.labels import USE_OWN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

pytestmark = pytest.mark.usefixtures("service")

RESERVED = "foo.coreweave.cloud/bar"
SENTENCE = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
FORBIDDEN = "Error from server (Forbidden): "
ONLY_OWN = (
    f'Only "{ORGANIZATION}" may stand at ns.coreweave.cloud/org: the id of the organization whose cluster this is.'
)
NODE = "labels-1"
INTERRUPTABLE = {"qos.coreweave.cloud/interruptable": "true"}
CONTROL_PLANE = {"ns.coreweave.cloud/org": "control-plane"}


class Denied(NamedTuple):
    """What a person reads below the sentence: the places, and the remedy; entry: the webhook's."""

    lines: tuple[str, ...]
    remedy: str = USE_OWN_PREFIX
    entry: str = "labels"

    @property
    def text(self) -> str:
        """What follows the place that kubectl names."""
        lines = "\n  ".join((SENTENCE, *self.lines))
        return f'admission webhook "{self.entry}.cks-admission.dev" denied the request: {lines}\n{self.remedy}\n'


def of_cluster(label: str, remedy: str = USE_OWN_PREFIX) -> Denied:
    """A refusal about a label of a Node or a Namespace."""
    return Denied((f"metadata.labels: {label}",), remedy, "cluster-labels")


@pytest.fixture(scope="module", autouse=True)
def node(control_plane: ControlPlane) -> Iterator[None]:
    """Give this module a Node that carries a reserved label, as all Nodes of a real cluster do."""
    control_plane.node(NODE, labels={"node.coreweave.cloud/state": "production"})
    yield
    control_plane.objects.delete("node", NODE)


def verifier(control_plane: ControlPlane, namespace: str) -> Path:
    """Return the kubeconfig of a service account that may label Nodes, once the API server goes by its binding."""
    account = control_plane.service_account(namespace, "verifier", role="cluster-admin")

    def granted() -> bool:
        return control_plane.kubectl("auth", "can-i", "patch", "nodes", user=account).returncode == 0

    control_plane.wait_for("the rights of the account", granted)
    return account


_STATUS = f'-p {{"metadata":{{"labels":{{"{RESERVED}":"true"}}}}}} --subresource=status'
_PROMOTION = f"-p {json.dumps({'metadata': {'labels': CONTROL_PLANE}}, separators=(',', ':'))}"
_PROMOTED = of_cluster('ns.coreweave.cloud/org="control-plane"', ONLY_OWN)
_LEAVE = "Leave these labels in place: the cluster's own controllers work by them."
COMMANDS = {
    "a label on a Node": (f"label node {NODE} {RESERVED}=true", of_cluster(f'{RESERVED}="true"')),
    "through the status of a Node": (f"patch node {NODE} {_STATUS}", of_cluster(f'{RESERVED}="true"')),
    "through the status of a Namespace": (f"patch namespace NAMESPACE {_STATUS}", of_cluster(f'{RESERVED}="true"')),
    "through the status of a Pod": (
        f"patch pod main -n NAMESPACE {_STATUS}",
        Denied((f'metadata.labels: {RESERVED}="true"',)),
    ),
    "another value": (
        f"label --overwrite node {NODE} node.coreweave.cloud/state=triage",
        of_cluster('node.coreweave.cloud/state="triage"'),
    ),
    "removal from a Node, by which controllers work": (
        f"label node {NODE} node.coreweave.cloud/state-",
        of_cluster('node.coreweave.cloud/state="production" must not be removed', _LEAVE),
    ),
    "promotion of a Namespace": (f"patch namespace NAMESPACE {_PROMOTION}", _PROMOTED),
    "promotion through its status": (f"patch namespace NAMESPACE {_PROMOTION} --subresource=status", _PROMOTED),
    "somebody else's Namespace": (
        "label --overwrite namespace NAMESPACE ns.coreweave.cloud/org=other",
        of_cluster('ns.coreweave.cloud/org="other"', ONLY_OWN),
    ),
}


@pytest.mark.parametrize(("command", "denied"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_is_refused_in_words(
    control_plane: ControlPlane, namespace: str, command: str, denied: Denied
) -> None:
    """Alice reads what is wrong, where, what was found and what to do."""
    control_plane.apply(workloads.pod(namespace), check=True)

    answer = control_plane.kubectl(*command.replace("NAMESPACE", namespace).split())

    assert (answer.returncode, answer.stderr) == (1, FORBIDDEN + denied.text)


_TWICE = workloads.apps(
    "Deployment", "", {RESERVED: "true"}, template=workloads.template({"foo.coreweave.com/bar": "true"})
)
MANIFESTS = {
    "two places at once": (
        _TWICE,
        Denied((f'metadata.labels: {RESERVED}="true"', 'spec.template.metadata.labels: foo.coreweave.com/bar="true"')),
    ),
    "any kind": (
        workloads.config_map("", labels={RESERVED: "true"}),
        Denied((f'metadata.labels: {RESERVED}="true"',)),
    ),
    "where it has no effect": (
        workloads.apps("Deployment", "", INTERRUPTABLE),
        Denied(
            ('metadata.labels: qos.coreweave.cloud/interruptable="true" has no effect on any Pod here',),
            "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
        ),
    ),
    "a new Namespace of the control plane": (manifests.namespace("promoted", CONTROL_PLANE), _PROMOTED),
}


@pytest.mark.parametrize(("manifest", "denied"), MANIFESTS.values(), ids=MANIFESTS)
def test_an_object_is_refused_in_words(
    control_plane: ControlPlane, namespace: str, manifest: Manifest, denied: Denied
) -> None:
    """Nothing of it comes to exist."""
    answer = control_plane.apply(manifest, "-n", namespace)

    assert answer.stderr == f'{FORBIDDEN}error when creating "STDIN": {denied.text}'
    assert control_plane.objects.find(manifest["kind"].lower(), manifest["metadata"]["name"], "-n", namespace) == {}


def test_lookalikes_pass(control_plane: ControlPlane, namespace: str) -> None:
    """The match is on whole DNS labels of the prefix."""
    keys = ("notcoreweave.cloud/x", "coreweave.cloud.example.org/x", "coreweave.cloud")
    answer = control_plane.apply(workloads.config_map(namespace, labels=dict.fromkeys(keys, "true")))

    assert (answer.returncode, answer.stderr) == (0, "")


def test_existing_label_blocks_no_unrelated_update(control_plane: ControlPlane, namespace: str) -> None:
    """What the cloud labelled stays usable: alice adds a label of her own; from a ConfigMap she may take the other."""
    control_plane.objects.apply(workloads.config_map(namespace, labels={RESERVED: "true"}))

    def labels() -> dict[str, str]:
        return dict(control_plane.get("configmap", "main", "-n", namespace)["metadata"]["labels"])

    answers = [control_plane.kubectl("label", "configmap", "main", "-n", namespace, "team=a")]
    before = labels()
    answers += [
        control_plane.kubectl("label", "node", NODE, "example.org/team=a"),
        control_plane.kubectl("label", "configmap", "main", "-n", namespace, f"{RESERVED}-"),
    ]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3
    assert (before, labels()) == ({RESERVED: "true", "team": "a"}, {"team": "a"})


def test_interruptable_passes_where_it_reaches_pods(control_plane: ControlPlane, namespace: str) -> None:
    """On a Pod, a template, and a Job whose template has it, for it is copied up; and controllers write it down."""
    never = workloads.template(INTERRUPTABLE, restartPolicy="Never")
    made = [
        workloads.pod(namespace, labels=INTERRUPTABLE),
        workloads.apps("Deployment", namespace, template=workloads.template(INTERRUPTABLE)),
        workloads.job(namespace, template=never),
    ]
    answers = [control_plane.apply(each) for each in made]

    def written() -> list[str]:
        found = control_plane.get("pods,replicasets,jobs", "-n", namespace)["items"]
        carrying = [item["kind"] for item in found if INTERRUPTABLE.items() <= item["metadata"]["labels"].items()]
        return sorted(carrying) if len(carrying) == 5 else []

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3
    found = control_plane.wait_for("the Pods of Deployment and Job", written)
    assert found == ["Job", "Pod", "Pod", "Pod", "ReplicaSet"]


def test_who_may_label_a_node(control_plane: ControlPlane, namespace: str) -> None:
    """The kubelet at home and accounts of the control plane's Namespaces may; groups or rights alone do not do."""
    control_plane.namespace("hpc-verification", CONTROL_PLANE)
    answers = {
        key: control_plane.kubectl("label", "node", NODE, f"node.coreweave.cloud/{key}=12", user=user)
        for key, user in {
            "kubelet": control_plane.kubelet(NODE),
            "verified": verifier(control_plane, "hpc-verification"),
            "stranger": control_plane.identity("alice", ["system:nodes"]),
            "forged": verifier(control_plane, namespace),
        }.items()
    }

    denied = {key: FORBIDDEN + of_cluster(f'node.coreweave.cloud/{key}="12"').text for key in ("stranger", "forged")}
    assert {key: answer.stderr for key, answer in answers.items()} == {"kubelet": "", "verified": "", **denied}


def test_a_namespace_is_not_promoted_by_finalize(control_plane: ControlPlane, namespace: str) -> None:
    """Neither does /finalize let the label in that exempts it; that of one's own organization may be written."""
    manifest = control_plane.get("namespace", namespace)
    manifest["metadata"]["labels"] |= CONTROL_PLANE
    path = f"/api/v1/namespaces/{namespace}/finalize"

    answer = control_plane.kubectl("replace", "--raw", path, "-f", "-", input=json.dumps(manifest))
    labels = control_plane.get("namespace", namespace)["metadata"]["labels"]
    own = control_plane.kubectl("label", "namespace", namespace, f"ns.coreweave.cloud/org={ORGANIZATION}")

    assert _PROMOTED.text.rstrip("\n") in answer.stderr
    assert "ns.coreweave.cloud/org" not in labels
    assert (own.returncode, own.stderr) == (0, "")


_ENDED = 'The exception "exceptions[1]" from labels ended on 2020-12-31 (OPS-1234: moved off by then).'
_DENIED = Denied((f'metadata.labels: {RESERVED}="true"',), f"{USE_OWN_PREFIX}\n{_ENDED}").text


@pytest.mark.parametrize(
    ("label", "used", "refusal"),
    [
        pytest.param("moving", {"labels": "exceptions[0]"}, "", id="one that lasts"),
        pytest.param("moved", {}, f'{FORBIDDEN}error when creating "STDIN": {_DENIED}', id="one that has ended"),
    ],
)
def test_an_exception(
    control_plane: ControlPlane, service: Service, namespace: str, label: str, used: dict[str, str], refusal: str
) -> None:
    """It lets pass what it selects, which is logged; once it has ended, the refusal says since when and why it was."""
    answer = control_plane.apply(
        workloads.config_map(namespace, labels={RESERVED: "true", "example.org/legacy": label})
    )

    logged = [event["exceptions"] for event in service.events("review") if event["namespace"] == namespace]
    assert (answer.returncode, answer.stderr, logged) == (int(bool(refusal)), refusal, [used])
