"""Guides for who runs the cluster, typed as they stand there: the first day, and what comes after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support import shown
from support.terminal import Output, Terminal, cks_admission

from cluster import kubelet, pages
from cluster.release import NAME, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.terminal import Program

    from cluster.release import Release

PAGES = {page.name: page for page in shown.pages() if page.clustered()}
TEAMS = ("monitoring", "team-a")


@pytest.fixture
def release(vacant: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    """A cluster where things run, the files of the pages, and in the end nothing of all that."""
    for name in shown.ON_A_RELEASE:
        PAGES[name].lay(tmp_path)
    (tmp_path / "alice.kubeconfig").symlink_to(vacant.control_plane.kubeconfig("alice"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(kubelet.COMMANDS, "0.2.0", kubelet.COMMANDS["next"])
    cluster = vacant.control_plane
    for name in TEAMS:
        cluster.namespace(name)
    cluster.objects.apply(list(yaml.safe_load_all(Path("cluster.yaml").read_text(encoding="utf-8"))))
    yield vacant
    if cluster.objects.find("deployment", NAME, "-n", NAMESPACE):
        vacant.uninstall()
    vacant.await_end()
    for name in TEAMS:
        cluster.objects.delete_all("deployments", "daemonsets", "replicasets", "pods", namespace=name)
    cluster.kubectl("delete", "configmap", "exceptions", "-n", NAMESPACE, "--ignore-not-found", check=True)


def test_the_guides(release: Release, tmp_path: Path) -> None:
    """Each command prints what its page shows below it, from the first installation to the removal."""
    terminal = Terminal(tmp_path, {"helm": helm(release), "kubectl": kubectl(release), "cks-admission": cks_admission})

    for name in shown.ON_A_RELEASE:
        for line, output in (command for block in PAGES[name].clustered() for command in block):
            pages.enter(terminal, line, output)


def helm(release: Release) -> Program:
    """helm, with what this machine needs where values are given, and one replica: others prove more of them."""

    def run(arguments: list[str], _stdin: str) -> Output:
        values = ["--values", str(release.file({"replicas": 1}))] if "-f" in arguments else []
        done = release.helm(*arguments, *values, check=False)
        return Output(done.stdout, done.stderr, done.returncode)

    return run


def kubectl(release: Release) -> Program:
    """Kubectl as alice. `exec` and `logs` go to the kubelet of the tests, which has no API."""
    ask = pages.kubectl(release.control_plane)

    def run(arguments: list[str], stdin: str) -> Output:
        if "exec" in arguments:
            deployment = next(word for word in arguments if word.startswith("deployment/"))
            component = next((one for one in ("manage", "placer") if deployment.endswith(f"-{one}")), "webhook")
            pod = release.kubelet.ready(component)[0]
            done = release.kubelet.execute(pod, *arguments[arguments.index("--") + 2 :])
            return Output(done.stdout, done.stderr, done.returncode)
        if "logs" in arguments:
            logs = [(f"[pod/{pod.name}/webhook] ", pod.log) for pod in release.kubelet.ready()]
            texts = [(name, log.read_text(encoding="utf-8")) for name, log in logs]
            return Output("".join(name + line for name, text in texts for line in text.splitlines(keepends=True)))
        return ask(arguments, stdin)

    return run
