"""What the API server asks in a row of the table: nobody, an empty webhook, the service, or policies of its own."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from cluster import service
from cluster.controlplane import ControlPlane
from cluster.process import ComponentError

from benchmarks import policysets, servers
from benchmarks.apiserver.writes import NAMESPACE, USER, Write
from benchmarks.process import free_port

NONE, EMPTY, PATCH = "nobody", "an empty webhook", "an empty webhook that adds the toleration"
SERVICE, NATIVE, PACKS = "the service", "20 native policies", "the packs as native policies"
POLICY, WEBHOOK = "the guard of labels alone, by policy", "the guard of labels alone, by webhook"
_OFF = {"action": "off"}
_ALONE = {
    **dict.fromkeys(("selectors", "tolerations", "topology"), _OFF),
    "sunk": {**_OFF, "daemonSets": "off"},
    "guard": {"namespaces": "off", "taints": "off"},
    "log": {"format": "json", "level": "info"},
}

# What a policy that is registered last refuses, so that its refusal shows that all are in force: by its name, a part of
# the Pod, and what is in its place.
LAST = {
    f"{policysets.PREFIX}registry": ("registry.example.org/", "registry.example.net/"),
    "lock-toleration": ("example.org/dedicated", "sunk.coreweave.com/lock"),
}

Registration = Callable[[ControlPlane, Write], AbstractContextManager[object]]


def registrations(directory: Path) -> Mapping[str, Registration]:
    """Each row's registration by its name. directory: where the policies are written."""
    twenty = policysets.twenty(directory / "all")
    return {
        NONE: lambda _cluster, _pod: nullcontext(),
        EMPTY: lambda cluster, pod: _empty(cluster, directory, pod, "mutate"),
        PATCH: lambda cluster, pod: _empty(cluster, directory, pod, "patch"),
        SERVICE: lambda cluster, _pod: service.registered(
            cluster, packs={}, labels={}, log={"format": "json", "level": "info"}
        ),
        POLICY: lambda cluster, _pod: service.registered(cluster, **_ALONE, labels={"enforcedBy": "policy"}),
        WEBHOOK: lambda cluster, _pod: service.registered(cluster, **_ALONE, labels={"enforcedBy": "webhook"}),
        NATIVE: lambda cluster, pod: _native(cluster, twenty.iterdir(), pod),
        PACKS: lambda cluster, pod: _native(cluster, policysets.PACKS.glob("*/*/policy.yaml"), pod),
    }


@contextmanager
def _empty(cluster: ControlPlane, directory: Path, pod: Write, mutating: str) -> Iterator[None]:
    """A webhook that allows Pods at a path of the echo that mutates and, as Deployments, at one that validates."""
    port, paths = free_port(), ("validate", mutating)
    try:
        # Nobody answers yet: refusals show that the API server knows of both. The mutating one refuses first, so it is
        # registered last.
        for path in paths:
            cluster.objects.apply(_webhook(path, port, directory))
            cluster.wait_for(f"the webhook to {path}", partial(_is_refused, cluster, pod.body, path))
        with servers.echo(directory, port=port):
            yield
    finally:
        cluster.objects.delete_manifests([_webhook(path, port, directory) for path in paths])
        cluster.wait_for("the end of the webhook", lambda: not _is_refused(cluster, pod.body, "empty"))


def _webhook(path: str, port: int, directory: Path) -> dict[str, Any]:
    """The configuration of an entry at a path of a port of 127.0.0.1, for Pods, and the validating for Deployments."""
    resources = {"": "pods", "apps": "deployments"} if path == "validate" else {"": "pods"}
    bundle = base64.b64encode((directory / "ca-bundle.crt").read_bytes()).decode()
    entry = {
        "name": f"{path}.empty.example.org",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/{path}", "caBundle": bundle},
        "rules": [
            {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
            for group, resource in resources.items()
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    kind = "ValidatingWebhookConfiguration" if path == "validate" else "MutatingWebhookConfiguration"
    metadata = {"name": f"empty-{path}"}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": [entry]}


@contextmanager
def _native(cluster: ControlPlane, files: Iterable[Path], pod: Write) -> Iterator[None]:
    """The same policies as the API server's own. files: they and their bindings, and parameters of these."""
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    documents = sorted(documents, key=lambda document: document["metadata"]["name"] in LAST)
    allowed, refused = LAST[documents[-1]["metadata"]["name"]]
    foreign = yaml.safe_load(yaml.safe_dump(pod.body).replace(allowed, refused))
    cluster.objects.apply(documents)
    try:
        cluster.wait_for("the API server's own policies", lambda: _is_refused(cluster, foreign))
        yield
    finally:
        cluster.objects.delete_manifests(documents)
        cluster.wait_for("the end of these policies", lambda: not _is_refused(cluster, foreign))


def _is_refused(cluster: ControlPlane, pod: Mapping[str, Any], path: str = "") -> bool:
    """Whether the API server refuses a Pod: by policies, or because the webhook at a path does not answer."""
    answer = cluster.objects.applied(dict(pod), user=USER, namespace=NAMESPACE, dry_run=True)
    codes = (http.client.INTERNAL_SERVER_ERROR,) if path else (http.client.UNPROCESSABLE_ENTITY, http.client.FORBIDDEN)
    if answer.code not in (http.client.OK, http.client.CREATED, *codes):
        raise ComponentError(f"the API server answers with {answer}")
    return answer.code in codes and path in str(answer.body)
