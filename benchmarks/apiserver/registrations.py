"""What the API server asks during a row of the table: nobody, the service, or policies of its own."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import yaml
from cluster import service
from cluster.controlplane import ControlPlane
from cluster.process import ComponentError

from benchmarks import policysets
from benchmarks.apiserver.writes import NAMESPACE, USER, Write

NONE, SERVICE = "without", "service"

# The policy that refuses images from elsewhere is registered last, so that its refusal shows that all are in force.
LAST = f"{policysets.PREFIX}registry"
ALLOWED, FOREIGN = "registry.example.org/", "registry.example.net/"

Registration = Callable[[ControlPlane, Write], AbstractContextManager[None]]


def registrations(directory: Path) -> Mapping[str, Registration]:
    """Each row's registration by its name. directory: where the policies are written."""
    few, twenty = (_limited(path) for path in (policysets.few(directory / "few"), policysets.twenty(directory / "all")))
    return {
        NONE: lambda _cluster, _pod: nullcontext(),
        SERVICE: lambda cluster, _pod: _service(cluster),
        "service, packs": lambda cluster, _pod: _service(cluster, packs={}),
        "service, 3 policies": lambda cluster, _pod: _service(cluster, few),
        "service, 20 policies": lambda cluster, _pod: _service(cluster, twenty),
        "native, 3 policies": lambda cluster, pod: _native(cluster, few, pod),
        "native, 20 policies": lambda cluster, pod: _native(cluster, twenty, pod),
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


def _is_refused(cluster: ControlPlane, pod: Mapping[str, Any]) -> bool:
    answer = cluster.objects.applied(dict(pod), user=USER, namespace=NAMESPACE, dry_run=True)
    if answer.code not in (http.client.OK, http.client.CREATED, http.client.UNPROCESSABLE_ENTITY):
        raise ComponentError(f"the API server answers with {answer}")
    return answer.code == http.client.UNPROCESSABLE_ENTITY
