"""The controllers of JobSet and of LeaderWorkerSet, their own programs, beside a control plane."""

from __future__ import annotations

import base64
import os
import shutil
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import yaml

from cluster import manifests, toolchain
from cluster.polling import PATIENCE, NotYet, answers
from cluster.process import Component
from cluster.workspace import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

Project = Literal["jobset", "lws"]

NAMESPACE = "controllers"
_ENDING_SECONDS = 5.0

_KINDS: Mapping[Project, tuple[str, str, str]] = {
    "jobset": ("JobSet", "jobset.x-k8s.io", "v1alpha2"),
    "lws": ("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1"),
}
# All fields are kept: what they mean is between the manifests of tests and the controllers.
KINDS: Mapping[Project, Manifest] = {project: manifests.custom_resource(*kind) for project, kind in _KINDS.items()}


@contextmanager
def running(control_plane: ControlPlane, project: Project) -> Iterator[None]:
    """The controllers of a project, to the end of the block. The kind has to be there."""
    control_plane.namespace(NAMESPACE)
    account = control_plane.service_account(NAMESPACE, project, role="cluster-admin")
    ports = free_ports(["webhook", "health"])
    directory = control_plane.directory / project
    program = toolchain.ensure((project,)) / project
    command = [str(program), f"--config={_configuration(control_plane, project, directory, ports)}"]
    environment = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "KUBECONFIG": str(account)}
    component = Component(project, command, control_plane.directory / "logs" / f"{project}.log", environment)
    hooks = _webhooks(control_plane, project, ports["webhook"])
    try:
        url = f"http://127.0.0.1:{ports['health']}/readyz"
        control_plane.wait_for(f"the controllers of {project}", lambda: answers(url, control_plane.ca_file))
        # They say that they are ready before they serve webhooks.
        control_plane.wait_for(f"the webhooks of {project}", lambda: _is_open(ports["webhook"]))
        control_plane.objects.apply(hooks)
        yield
    except AssertionError as error:
        raise component.error(f"may be why: {error}") from error
    finally:
        control_plane.objects.delete_manifests(hooks)
        component.terminate()
        component.end(_ENDING_SECONDS)


def _is_open(port: int) -> bool:
    """Whether something listens at a port. Raises NotYet."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError as error:
        raise NotYet(str(error)) from error
    return True


def _configuration(control_plane: ControlPlane, project: Project, directory: Path, ports: Mapping[str, int]) -> Path:
    """Write the configuration, and the certificate with which webhooks are served."""
    directory.mkdir(exist_ok=True)
    pair = control_plane._authority.serving(project)
    for source, name in zip(pair, ("tls.crt", "tls.key"), strict=True):
        shutil.copy(source, directory / name)
    written = {
        "apiVersion": f"config.{project}.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": ports["webhook"], "certDir": str(directory)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports['health']}"},
        "clientConnection": {"qps": 200, "burst": 400},
    }
    path = directory / "configuration.yaml"
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    return path


def _webhooks(control_plane: ControlPlane, project: Project, port: int) -> Manifest:
    """The webhooks that set defaults and label Pods, as the project's own manifests register them."""
    kind, of_kind, in_version = _KINDS[project]
    name = kind.lower()
    paths = {
        f"/mutate-{of_kind.replace('.', '-')}-{in_version}-{name}": (of_kind, in_version, f"{name}s"),
        "/mutate--v1-pod": ("", "v1", "pods"),
    }
    authority = base64.b64encode(control_plane.ca_file.read_bytes()).decode()
    entries = [
        {
            "name": f"m{resource}.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"caBundle": authority, "url": f"https://127.0.0.1:{port}{path}"},
            "rules": [
                {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [resource]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        }
        for path, (group, version, resource) in paths.items()
    ]
    metadata = {"name": f"{project}-mutating-webhook-configuration"}
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": entries}
