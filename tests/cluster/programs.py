"""The programs of the control plane, with their versions and the values that their release builds set.

To move to another version, change it in tools/<module>/go.mod (for Kubernetes its staging modules too) and run
`go mod tidy` there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = Path(__file__).parent / "tools"


@dataclass(frozen=True)
class Program:
    """A program, the module that pins it, and what its own release build would stamp into it."""

    module: str
    package: str
    stamps: tuple[tuple[str, str], ...]
    minutes: float
    """How long a cold build took on two cores."""


def kubernetes_version() -> str:
    """Return the version of Kubernetes, without the v."""
    return _pinned("kubernetes", "k8s.io/kubernetes")


def _pinned(module: str, path: str) -> str:
    """Return the version of `path` that a tools module requires, without the v: the one place where it is written."""
    text = (SOURCES / module / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{module}/go.mod requires no {path}")
    return match[1]


def _kubernetes_stamps() -> tuple[tuple[str, str], ...]:
    """Without these the programs call themselves v0.0.0-master, and every check of a version fails."""
    version = kubernetes_version()
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


def _all() -> dict[str, Program]:
    stamps = _kubernetes_stamps()
    kwok = (("sigs.k8s.io/kwok/pkg/consts.Version", _pinned("kwok", "sigs.k8s.io/kwok")),)
    commands = "k8s.io/kubernetes/cmd"
    return {
        "kube-apiserver": Program("kubernetes", f"{commands}/kube-apiserver", stamps, 4),
        "kubectl": Program("kubernetes", f"{commands}/kubectl", stamps, 0.5),
        "kube-controller-manager": Program("kubernetes", f"{commands}/kube-controller-manager", stamps, 1),
        "kube-scheduler": Program("kubernetes", f"{commands}/kube-scheduler", stamps, 0.5),
        "etcd": Program("etcd", "go.etcd.io/etcd/server/v3", (), 1),
        "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", kwok, 2),
        "helm": Program("helm", "helm.sh/helm/v3/cmd/helm", _helm_stamps(), 1),
        "cert-manager": Program("certmanager", "cks-admission.dev/tools/certmanager", (), 4),
    }


PROGRAMS: Mapping[str, Program] = _all()
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
