"""The other modes of the chart, each installed and used on a control plane that presents a client certificate.

Each has as many replicas as its proof needs; what three of them do together is proven of the release that stays.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from certs.material import new_authority
from cluster import load, manifests
from cluster.controlplane import ControlPlane
from cluster.kubelet import COMMAND
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.release import NAME, NAMESPACE, Release, events

if TYPE_CHECKING:
    from pathlib import Path

    from certs.material import Authority

SECRET = "given-pair"
RENDERED = {"mode": "rendered"}


def give(cluster: ControlPlane, authority: Authority) -> None:
    """Put a pair by a CA into the operator's Secret."""
    leaf = authority.issue(["127.0.0.1"], datetime.now(UTC))
    contents = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": authority.cert_pem}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {key: base64.b64encode(content).decode() for key, content in contents.items()},
    }
    cluster.objects.apply([manifests.namespace(NAMESPACE), secret])


def test_only_the_api_server_is_answered(audited: ControlPlane, vacant: Release) -> None:
    """With the CA of its client certificate configured, the API server is answered, and nobody without one."""
    release = vacant
    with release.released(replicas=1, clientCa={"bundle": audited.ca_file.read_text(encoding="utf-8")}):
        pod, *_ = release.kubelet.ready()
        context = ssl.create_default_context(cadata=release.secret()["ca-bundle.crt"].decode())
        context.check_hostname = False  # the certificate is for the balancer
        connection = http.client.HTTPSConnection(f"{pod.address}:{pod.ports[0]}", timeout=PATIENCE, context=context)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            answered(connection)
        connection.close()

        assert "are not allowed" in release.refusal({"foo.coreweave.cloud/bar": "true"})


def test_a_given_secret_is_followed(audited: ControlPlane, vacant: Release) -> None:
    """A pair in the operator's Secret is served, and another by another CA that takes its place, in the same Pods."""
    release = vacant
    give(audited, new_authority(datetime.now(UTC), name="first"))
    with release.released(replicas=2, certificates={"mode": "secret", "secretName": SECRET}):
        before = {each.name for each in release.kubelet.ready()}
        second = new_authority(datetime.now(UTC), name="second")
        give(audited, second)

        def followed() -> bool:
            entry = audited.get("validatingwebhookconfiguration", NAME)["webhooks"][0]
            served = [len(events(each, "certificate served")) for each in release.kubelet.ready()]
            if base64.b64decode(entry["clientConfig"]["caBundle"]) != second.cert_pem or min(served, default=0) < 2:
                raise NotYet(f"{served}, {entry['clientConfig']}")
            return True

        wait_for("the second pair, and its CA in the webhook configurations", followed)
        release.wait_until_asked()

        assert {each.name for each in release.kubelet.ready()} == before


def test_rendered_registration(audited: ControlPlane, vacant: Release) -> None:
    """Webhook configurations that the chart rendered get the caBundle from the service, and nothing else of it."""
    vacant.values = {"replicas": 1, "registration": RENDERED}
    vacant.install()
    wait_for("a refusal", lambda: "are not allowed" in vacant.refusal({"foo.coreweave.cloud/bar": "1"}))
    found = audited.get("validatingwebhookconfiguration", NAME, "--show-managed-fields")
    fields = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    vacant.install()

    assert "are not allowed" in vacant.refusal({"foo.coreweave.cloud/bar": "1"})
    vacant.uninstall()

    owned = {key for entry in fields["cks-admission"]["f:webhooks"].values() for key in entry}
    assert owned == {".", "f:clientConfig", "f:name"}
    assert vacant.refusal({"foo.coreweave.cloud/bar": "1"}) == ""


def test_without_access_to_the_cluster(audited: ControlPlane, vacant: Release, tmp_path: Path) -> None:
    """Without a token and without a right, policies come from mounted files, and change with them."""
    authority = new_authority(datetime.now(UTC), name="given")
    give(audited, authority)
    file = tmp_path / "load.yaml"
    file.write_text(load.POLICIES, encoding="utf-8")
    command = [str(COMMAND), "export", "webhook-configuration", "--policies", str(file)]
    exported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    values = {
        "replicas": 1,
        "cluster": {"access": False},
        "certificates": {"mode": "secret", "secretName": SECRET, "caBundle": authority.cert_pem.decode()},
        "registration": {**RENDERED, "configurations": exported},
    }
    release = vacant
    with release.released(**values):
        pod, *_ = release.kubelet.ready()
        changed = load.POLICIES.replace("Huge ones are not wanted.", "Too huge.")
        release.install(policies={"load.yaml": changed})
        wait_for("the other words", lambda: "Too huge." in release.refusal({"size": "huge"}))

        assert not (pod.root / "etc/cks-admission/serviceaccount").exists()


def answered(connection: http.client.HTTPConnection) -> int:
    """Send a call, and return the status that it is answered with."""
    connection.request("POST", "/validate", "{}")
    return connection.getresponse().status
