"""What README and guides show of kubectl, typed as it stands there, on a cluster with a service."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from support import shown
from support.packmodes import OFF
from support.shown import ROOT
from support.terminal import Output, Terminal, cks_admission

from cluster import toolchain
from cluster.pages import enter, kubectl
from cluster.service import registered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cluster.controlplane import ControlPlane

PAGES = {page.name: page for page in shown.pages() if page.clustered()}
ALONE = ("packs", "registration")
"""Pages about a cluster without a service, which come before the others."""

# Policies of pages, which other tests would meet.
_UNDONE = {
    "packs": "cks-admission export native --config cks.yaml | kubectl delete -f -",
    "cli": "kubectl delete -f native.yaml",
}
_TAINTS = [
    {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"},
    {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"},
    {"key": "node.coreweave.cloud/reserved", "value": "5f9c1a", "effect": "NoExecute"},
]
_PLACE = {"node.coreweave.cloud/state": "production", "node.coreweave.cloud/rack": "1"}
_CAPACITY = ROOT / "policies" / "examples" / "placement-capacity"


@pytest.fixture(scope="module")
def populated(judged: ControlPlane) -> Iterator[ControlPlane]:
    """A GPU Node that Slurm has locked, a CPU Node, and the policy of the guide with its numbers."""
    judged.node("gpu-1", _PLACE, _TAINTS, {"nvidia.com/gpu": 8})
    judged.node("cpu-1", taints=[{"key": "is_cpu_compute", "effect": "NoSchedule"}])
    judged.namespace("cks-admission")
    manifests = [
        manifest
        for name in ("topologies", "policy")
        for manifest in yaml.safe_load_all((_CAPACITY / f"{name}.yaml").read_text(encoding="utf-8"))
    ]
    judged.objects.apply(manifests)
    yield judged
    judged.objects.delete_manifests(manifests)
    judged.objects.delete("node", "gpu-1", "cpu-1")


@pytest.fixture(scope="module")
def served(populated: ControlPlane) -> Iterator[ControlPlane]:
    """The same with a service that knows the Nodes."""
    with registered(populated, guard={"taints": "deny"}, packs=dict(OFF)):
        _await_policy(populated)
        yield populated


def _await_policy(cluster: ControlPlane) -> None:
    """Wait until the API server knows the policy of the guide."""
    job = yaml.safe_load((PAGES["policies"].examples / "train.yaml").read_text(encoding="utf-8"))

    cluster.wait_until(
        "the API server to know the policy",
        lambda: cluster.objects.applied(job, user="alice", dry_run=True),
        lambda answer: "placement-capacity" in answer.body.get("message", ""),
    )


@pytest.mark.parametrize("name", ALONE)
def test_pages_without_a_service(
    name: str, populated: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a cluster gets that has no service yet is what the page shows."""
    _type(name, populated, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", [name for name in shown.ON_A_SERVICE if name not in ALONE])
def test_pages_with_a_service(name: str, served: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command prints what the page shows below it."""
    _type(name, served, tmp_path, monkeypatch)


def _type(name: str, cluster: ControlPlane, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type a page in a folder with its files, and delete what was made."""
    page = PAGES[name]
    page.lay(folder)
    (folder / "sa.kubeconfig").symlink_to(cluster.kubeconfig("alice"))
    monkeypatch.chdir(folder)
    programs = {"cks-admission": cks_admission, "kubectl": kubectl(cluster), "helm": _helm}
    terminal = Terminal(folder, programs)
    try:
        for line, output in (command for block in page.clustered() for command in block):
            enter(terminal, line, output)
    finally:
        cluster.objects.delete_all("deployments", "daemonsets", "jobs", "pods", namespace="default")
        if name in _UNDONE:
            terminal.enter(_UNDONE[name])


def _helm(arguments: Sequence[str], _stdin: str) -> Output:
    program = toolchain.ensure(("helm",)) / "helm"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return Output(done.stdout, done.stderr, done.returncode)
