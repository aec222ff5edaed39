"""Ways around the guard that no webhook closes: they are shown to exist, and doctor names them."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NamedTuple

import pytest

from certs.material import new_authority
from cluster import crds, manifests, workloads
from cluster.polling import NotYet
from cluster.service import Service, registered
from cluster.test_doctor import Installation, https

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

DEFINITION = "gadgets.labels.test"


@contextmanager
def converting(label: str) -> Iterator[Manifest]:
    """Serve the webhook to the end of the block. Yields the conversion of a CustomResourceDefinition."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Convert the objects of a ConversionReview."""
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps({**review, "request": None, "response": _converted(review["request"], label)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    authority = new_authority(datetime.now(UTC))
    with https(authority.issue(["127.0.0.1"], datetime.now(UTC)), Handler) as port:
        bundle = base64.b64encode(authority.cert_pem).decode()
        client = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": bundle}
        yield {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}


def _converted(request: Manifest, label: str) -> Manifest:
    objects = []
    for each in request["objects"]:
        labels = {**each["metadata"].get("labels", {}), label: "converted"}
        objects.append(
            {**each, "apiVersion": request["desiredAPIVersion"], "metadata": {**each["metadata"], "labels": labels}}
        )
    return {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}


def gadgets(conversion: Manifest) -> Manifest:
    """Return a definition of a kind with a conversion, of requests in v1 to v2, which is stored."""
    definition = manifests.custom_resource("Gadget", "labels.test", "v2", "v1", schema={"type": "object"})
    definition["spec"]["conversion"] = conversion
    return definition


LABEL = "foo.coreweave.cloud/bar"
POLICY = "writes-labels"
_TEXTS = {
    "MutatingAdmissionPolicy": f"its expressions name reserved labels: {LABEL}",
    "CustomResourceDefinition": "its conversion webhook, {url}, may change the labels of its objects after admission",
}


class Written(NamedTuple):
    """A service, and what alice wrote: a policy for a Namespace, and a definition with a conversion."""

    control_plane: ControlPlane
    service: Service
    namespace: str
    url: str


def mutating(namespace: str) -> list[Manifest]:
    """A policy that adds a reserved label to Pods, and its binding."""
    return manifests.mutating(
        POLICY,
        manifests.rule("pods", operations=["CREATE"]),
        f'Object{{metadata: Object.metadata{{labels: {{"{LABEL}": "mutated"}}}}}}',
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        failurePolicy="Fail",
    )


@pytest.fixture(scope="module")
def written(control_plane: ControlPlane) -> Iterator[Written]:
    """Let alice write both, and run a service of its own."""
    namespace = "label-writers"
    control_plane.namespace(namespace)
    policy = mutating(namespace)
    with converting(LABEL) as conversion:
        definition = gadgets(conversion)
        control_plane.objects.apply(policy, user="alice")
        control_plane.objects.apply(definition, user="alice")
        crds.install(control_plane, definition)
        try:
            with registered(control_plane) as service:
                url = conversion["webhook"]["clientConfig"]["url"]
                yield Written(control_plane, service, namespace, url)
        finally:
            control_plane.objects.delete_manifests(policy)
            crds.remove(control_plane, definition)


def test_a_policy_writes_past_the_guard(written: Written) -> None:
    """A Pod of alice's own is refused with the label that her policy adds; the one of her Job's controller has it."""
    control_plane, namespace = written.control_plane, written.namespace

    def refused() -> str:
        answer = control_plane.objects.applied(workloads.pod(namespace, "own"), user="alice", dry_run=True)
        if answer.code < 300:
            raise NotYet("the policy is not in force yet")
        return str(answer.body["message"])

    message = control_plane.wait_for("the policy to be in force", refused)
    control_plane.objects.apply(workloads.job(namespace), user="alice")

    def labels() -> dict[str, str]:
        pods = control_plane.get("pods", "-n", namespace)["items"]
        if not pods:
            raise NotYet("no Pod")
        return dict(pods[0]["metadata"]["labels"])

    assert f"metadata.labels: {LABEL}" in message
    assert control_plane.wait_for("the Job's Pod", labels)[LABEL] == "mutated"


def test_a_conversion_writes_past_the_guard(written: Written) -> None:
    """An object of alice's own gets the label when it is stored, after she was allowed to write it without."""
    gadget = {
        "apiVersion": "labels.test/v1",
        "kind": "Gadget",
        "metadata": {"name": "own", "namespace": written.namespace},
    }

    written.control_plane.objects.apply(gadget, user="alice")

    stored = written.control_plane.get("gadgets.v2.labels.test/own", "-n", written.namespace)
    assert stored["metadata"]["labels"] == {LABEL: "converted"}


def test_doctor_names_both(written: Written) -> None:
    """A policy that names reserved labels is a problem; a conversion, which may do anything, is a warning."""
    remedy = "remove it, or name it in labels.trusted if it is the cloud's"

    faults = Installation(written.control_plane, written.service).faults("--no-probe")

    assert faults["label writers"] == [
        ("problem", f"MutatingAdmissionPolicy {POLICY}", _TEXTS["MutatingAdmissionPolicy"], remedy),
        (
            "warning",
            "CustomResourceDefinitions",
            f"conversion webhooks may change the labels of {DEFINITION} after admission",
            "name those in labels.trusted that are the cloud's",
        ),
    ]
