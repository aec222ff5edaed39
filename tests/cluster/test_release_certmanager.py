"""The chart with the real cert-manager: it issues the certificate, and its injector writes the caBundle."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from cluster import crds, load, toolchain
from cluster.controlplane import ControlPlane
from cluster.load import Load
from cluster.polling import NotYet, wait_for, wait_until
from cluster.process import Component
from cluster.release import NAME, NAMESPACE, Release, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.manifests import Manifest

KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
# An entry of its own, which there is not without it.
MUTATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{annotations: {"team": "x"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
"""


@pytest.fixture(scope="module")
def cluster(audited: ControlPlane, vacant: Release) -> Iterator[ControlPlane]:
    """The control plane without a release, and with cert-manager."""
    del vacant
    program = toolchain.ensure(("cert-manager",)) / "cert-manager"
    crds.install(audited, *crds.other_projects("cert-manager.io"))
    command = [str(program), str(audited.kubeconfig("admin"))]
    environment = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"}
    component = Component("cert-manager", command, audited.directory / "logs" / "cert-manager.log", environment)
    try:
        yield audited
        component.check()
    finally:
        component.terminate()
        component.end(10.0)


@pytest.fixture(scope="module")
def writing(cluster: ControlPlane) -> Load:
    """Writers of what nothing forbids."""
    return Load(cluster, [write for write in load.WRITES if not write.refusal])


@pytest.fixture(scope="module")
def installed(pytestconfig: pytest.Config, vacant: Release, writing: Load) -> Iterator[Release]:
    """The release, installed while others write, who go on to the end; the figures are printed."""
    certificates = {"mode": "certManager"}
    vacant.values = {"replicas": 2, "certificates": certificates, "policies": {"load.yaml": load.POLICIES}}
    with writing:
        with writing.phase("installation"):
            vacant.install()
            vacant.wait_until_asked()
        yield vacant
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", "writes beside cert-manager:", *writing.phases, sep="\n  ", file=sys.stderr)


def configurations(cluster: ControlPlane) -> list[Manifest]:
    """Return both webhook configurations."""
    return [cluster.get(kind, NAME, "--show-managed-fields") for kind in KINDS]


def entries(cluster: ControlPlane) -> set[tuple[str, str]]:
    """Return the entries of both, each as its kind and its name."""
    return {(each["kind"], entry["name"]) for each in configurations(cluster) for entry in each["webhooks"]}


def test_an_installation_blocks_nobody(writing: Load, installed: Release) -> None:
    """From the first entry on the API server trusts what the Pods show: no write fails that should pass."""
    del installed
    (phase,) = [each for each in writing.phases if each.name == "installation"]

    assert phase.failures == []


def test_a_new_entry_blocks_nobody(writing: Load, installed: Release, cluster: ControlPlane) -> None:
    """An entry that comes later is trusted from its first moment on, too, whatever time the injector takes."""
    before = entries(cluster)
    with writing.phase("another entry") as phase:
        installed.install(policies={"team.yaml": MUTATING})

        wait_until(
            "the new policy",
            lambda: cluster.get("configmap", "load-0-plain", "-n", load.NAMESPACE),
            lambda made: made["metadata"].get("annotations", {}).get("team") == "x",
        )
        writing.settle(3.0)

    assert phase.failures == []
    parts = ("policies", "system-policies", "essential-policies")
    added = {("MutatingWebhookConfiguration", f"{part}.cks-admission.dev") for part in parts}
    assert entries(cluster) - before == added


def test_service_and_injector_leave_each_other_alone(writing: Load, installed: Release, cluster: ControlPlane) -> None:
    """Once all is written nobody writes again, and every entry has the CA of cert-manager's Secret."""

    def settled() -> list[Manifest]:
        before = configurations(cluster)
        writing.settle(15.0)
        after = configurations(cluster)
        versions = [[each["metadata"]["resourceVersion"] for each in found] for found in (before, after)]
        if versions[0] != versions[1]:  # the last of what was to be written, or a fight, which does not end
            raise NotYet(str(after))
        return after

    after = wait_for("15 s in which nobody writes", settled)

    secret = cluster.get("secret", f"{NAME}-tls", "-n", NAMESPACE)["data"]["ca.crt"]
    managers = [{entry["manager"] for entry in each["metadata"]["managedFields"]} for each in after]
    assert managers == [{"cks-admission", "cert-manager-cainjector"}] * 2
    bundles = {entry["clientConfig"]["caBundle"] for each in after for entry in each["webhooks"]}
    assert bundles == {secret}
    assert [events(each, "registration repaired") for each in installed.kubelet.ready("manage")] == [[]]


def test_a_renewal_blocks_nobody(writing: Load, installed: Release, cluster: ControlPlane) -> None:
    """A certificate that cert-manager issues anew is served by the same Pods, and no write notices."""
    before = {each.name: len(events(each, "certificate served")) for each in installed.kubelet.ready()}
    with writing.phase("renewal") as phase:
        cluster.kubectl("delete", "secret", f"{NAME}-tls", "-n", NAMESPACE, user="admin", check=True)

        wait_until(
            "the new certificate",
            lambda: {each.name: len(events(each, "certificate served")) for each in installed.kubelet.ready()},
            lambda now: now.keys() == before.keys() and not any(now[name] <= count for name, count in before.items()),
        )
        writing.settle(3.0)

    assert phase.failures == []
