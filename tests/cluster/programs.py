"""The programs of the control plane, with their versions and the values that their release builds set.

To move to another version, change it in tools/<module>/go.mod (for Kubernetes its staging modules too) and run
`go mod tidy` there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = Path(__file__).parent / "tools"
_MODULES = {"1.36": "kubernetes", "1.37": "kubernetes-1.37"}
"""By release of Kubernetes, the module that pins it."""
_DEFAULT = "1.36"


@dataclass(frozen=True)
class Program:
    """A program, the module that pins it, and what its own release build would stamp into it."""

    module: str
    package: str
    stamps: tuple[tuple[str, str], ...]
    minutes: float
    """How long a cold build took on two cores."""


def release(environment: Mapping[str, str] = os.environ) -> str:
    """Return the release of Kubernetes that the variable KUBERNETES names, such as 1.36.

    Raises ValueError for one that no module pins.
    """
    named = environment.get("KUBERNETES") or _DEFAULT
    if named not in _MODULES:
        raise ValueError(f"KUBERNETES is {named}; it can be {' or '.join(_MODULES)}")
    return named


def kubernetes_version(of: str) -> str:
    """Return the version of Kubernetes in a release, without the v."""
    return _pinned(_MODULES[of], "k8s.io/kubernetes")


def module_of(release_name: str) -> str:
    """Return the folder of the module that pins a release."""
    return _MODULES[release_name]


def _pinned(module: str, path: str) -> str:
    """Return the version of `path` that a tools module requires, without the v: the one place where it is written."""
    text = (SOURCES / module / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{module}/go.mod requires no {path}")
    return match[1]


def _kubernetes_stamps(version: str) -> tuple[tuple[str, str], ...]:
    """Without these the programs call themselves v0.0.0-master, and every check of a version fails."""
    major, minor, _ = version.split(".", 2)
    values = (("gitVersion", f"v{version}"), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean"))
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple((f"{package}.{name}", value) for package in packages for name, value in values)


def _helm_stamps() -> tuple[tuple[str, str], ...]:
    """As Helm's Makefile has it: `helm template` assumes the Kubernetes that Helm's own client belongs to."""
    minor = _pinned("helm", "k8s.io/client-go").split(".")[1]
    versions = tuple(
        (f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}", value)
        for package in ("chartutil", "lint/rules")
        for part, value in (("Major", "1"), ("Minor", minor))
    )
    return (("helm.sh/helm/v3/internal/version.version", f"v{_pinned('helm', 'helm.sh/helm/v3')}"), *versions)


def programs(of: str) -> Mapping[str, Program]:
    """Return the programs by name: the control plane of a release, and the same others for all releases."""
    kwok = (("sigs.k8s.io/kwok/pkg/consts.Version", _pinned("kwok", "sigs.k8s.io/kwok")),)
    return {
        "kube-apiserver": _kubernetes(of, "kube-apiserver", 4),
        "kubectl": _kubernetes(_DEFAULT, "kubectl", 0.5),
        "kube-controller-manager": _kubernetes(of, "kube-controller-manager", 1),
        "kube-scheduler": _kubernetes(of, "kube-scheduler", 0.5),
        "etcd": Program("etcd", "go.etcd.io/etcd/server/v3", (), 1),
        "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", kwok, 2),
        "helm": Program("helm", "helm.sh/helm/v3/cmd/helm", _helm_stamps(), 1),
        "jobset": Program("jobset", "sigs.k8s.io/jobset", (), 3),
        "lws": Program("lws", "sigs.k8s.io/lws/cmd", (), 3),
        "cert-manager": Program("certmanager", "cks-admission.dev/tools/certmanager", (), 4),
    }


def _kubernetes(of: str, name: str, minutes: float) -> Program:
    return Program(_MODULES[of], f"k8s.io/kubernetes/cmd/{name}", _kubernetes_stamps(kubernetes_version(of)), minutes)


CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
