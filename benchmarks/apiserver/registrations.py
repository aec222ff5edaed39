"""What the API server asks during a row of the table: nobody, the service, or policies of its own."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Callable, Iterator, Mapping
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

NONE, EMPTY, SERVICE = "nobody", "an empty webhook", "the service"

# The policy that refuses images from elsewhere is registered last, so that its refusal shows that all are in force.
LAST = f"{policysets.PREFIX}registry"
ALLOWED, FOREIGN = "registry.example.org/", "registry.example.net/"

Registration = Callable[[ControlPlane, Write], AbstractContextManager[None]]


def registrations(directory: Path) -> Mapping[str, Registration]:
    """Each row's registration by its name. directory: where the policies are written."""
    few, twenty = (_limited(path) for path in (policysets.few(directory / "few"), policysets.twenty(directory / "all")))
    return {
        NONE: lambda _cluster, _pod: nullcontext(),
        EMPTY: lambda cluster, pod: _empty(cluster, directory, pod),
        SERVICE: lambda cluster, _pod: _service(cluster, packs={}),
        "the service, no packs": lambda cluster, _pod: _service(cluster),
        "the service, 3 policies, no packs": lambda cluster, _pod: _service(cluster, few),
        "the service, 20 policies, no packs": lambda cluster, _pod: _service(cluster, twenty),
        "3 native policies": lambda cluster, pod: _native(cluster, few, pod),
        "20 native policies": lambda cluster, pod: _native(cluster, twenty, pod),
    }


def _limited(policies: Path) -> Path:
    """Limit the policies to the Namespace of the writes: the Pod that shows that the service is asked breaks them."""
    only = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    for file in policies.iterdir():
        policy, binding = yaml.safe_load_all(file.read_text(encoding="utf-8"))
        policy["spec"]["matchConstraints"]["namespaceSelector"] = only
        file.write_text(yaml.safe_dump_all([policy, binding], sort_keys=False), encoding="utf-8")
    return policies


@contextmanager
def _empty(cluster: ControlPlane, directory: Path, pod: Write) -> Iterator[None]:
    """A webhook that allows every Pod: one mutating and one validating call, no conditions."""
    port = free_port()
    try:
        # Nobody answers yet: refusals show that the API server knows of both. The mutating one refuses first, so it is
        # registered last.
        for path in ("validate", "mutate"):
            cluster.objects.apply(_webhook(path, port, directory))
            cluster.wait_for(f"the webhook to {path}", partial(_is_refused, cluster, pod.body, path))
        with servers.echo(directory, port=port):
            yield
    finally:
        cluster.objects.delete_manifests([_webhook(path, port, directory) for path in ("validate", "mutate")])
        cluster.wait_for("the end of the webhook", lambda: not _is_refused(cluster, pod.body, "empty"))


def _webhook(path: str, port: int, directory: Path) -> dict[str, Any]:
    """The configuration of an entry for Pods at a path of a port of 127.0.0.1."""
    bundle = base64.b64encode((directory / "ca-bundle.crt").read_bytes()).decode()
    entry = {
        "name": f"{path}.empty.example.org",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/{path}", "caBundle": bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    kind = "MutatingWebhookConfiguration" if path == "mutate" else "ValidatingWebhookConfiguration"
    metadata = {"name": f"empty-{path}"}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": [entry]}


@contextmanager
def _service(cluster: ControlPlane, *policies: Path, **settings: Any) -> Iterator[None]:
    """The real service, registered by itself with its defaults, but with packs only where the settings name them."""
    directories = {"directories": [str(path) for path in policies]}
    with service.registered(cluster, policies=directories, log={"format": "json", "level": "info"}, **settings):
        yield


@contextmanager
def _native(cluster: ControlPlane, policies: Path, pod: Write) -> Iterator[None]:
    """The same policies as the API server's own."""
    files = sorted(policies.iterdir(), key=lambda file: file.stem == LAST)
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    foreign = yaml.safe_load(yaml.safe_dump(pod.body).replace(ALLOWED, FOREIGN))
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
    refused = http.client.INTERNAL_SERVER_ERROR if path else http.client.UNPROCESSABLE_ENTITY
    if answer.code not in (http.client.OK, http.client.CREATED, refused):
        raise ComponentError(f"the API server answers with {answer}")
    return answer.code == refused and path in str(answer.body)
