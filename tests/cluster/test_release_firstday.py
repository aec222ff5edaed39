"""The guide of the first day, typed as it stands there: install, look, exempt, enforce, roll back, upgrade."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support import shown
from support.service.commands import run

from cluster import kubelet
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.release import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.release import Release

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "first-day.md"
FILES = ROOT / "docs" / "examples" / "first-day"
TEAMS = ("monitoring", "team-a")

# What changes nothing is typed again until it prints what is shown: a reload takes seconds, a registration some more.
_ASKS = re.compile(r"--dry-run=server$|^kubectl -n \S+ (?:exec|logs) ")
# Where objects stand in what the API server returns depends on what else is there.
_LINES = re.compile(r"(?<=there\.yaml:)\d+|(?<=\(line )\d+")


@pytest.fixture
def release(vacant: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    """A cluster where things run, the files of the page, and in the end nothing of all that."""
    shutil.copytree(FILES, tmp_path / "files")
    for file in (tmp_path / "files").glob("*.yaml"):
        file.write_text(shown.ahead(file.read_text(encoding="utf-8")), encoding="utf-8")
    (tmp_path / "files" / "helm").symlink_to(ROOT / "helm")
    monkeypatch.chdir(tmp_path / "files")
    monkeypatch.setitem(kubelet.COMMANDS, "0.2.0", kubelet.COMMANDS["next"])
    cluster = vacant.control_plane
    for name in TEAMS:
        cluster.namespace(name)
    cluster.objects.apply(list(yaml.safe_load_all(Path("cluster.yaml").read_text(encoding="utf-8"))))
    yield vacant
    vacant.uninstall()
    for name in TEAMS:
        cluster.objects.delete_all("deployments", "daemonsets", "replicasets", "pods", namespace=name)
    cluster.kubectl("delete", "configmap", "exceptions", "-n", NAMESPACE, "--ignore-not-found", check=True)


def test_the_first_day(release: Release) -> None:
    """Each command prints what the page shows below it, from the first installation to the way back of an upgrade."""
    page = shown.blocks(PAGE.read_text(encoding="utf-8"))

    for line, output in (command for block in page for command in block):
        enter(release, line, output)


def enter(release: Release, line: str, output: str) -> None:
    """Type a command of the page. Raises GaveUpError, with the output, if the page shows another one."""

    def as_shown() -> bool:
        printed = answer(release, line)
        if not shown.is_as_shown(_LINES.sub("N", printed), _LINES.sub("N", output)):
            raise NotYet(f"\n{printed}instead of\n{output}")
        return True

    wait_for(line, as_shown, PATIENCE if _ASKS.search(line) else 0.0)


def answer(release: Release, line: str) -> str:
    """Run a command, and return what it prints on a terminal."""
    command, _, file = line.partition(" > ")
    command, _, searched = command.partition(" | grep ")
    program, *arguments = shlex.split(command)
    stdout, stderr = PROGRAMS[program](release, arguments)
    if file:
        Path(file).write_text(stdout, encoding="utf-8")
        return stderr
    if searched:
        pattern = shlex.split(searched)[0]
        stdout = "".join(text for text in stdout.splitlines(keepends=True) if pattern in text)
    return stderr + stdout


def helm(release: Release, arguments: list[str]) -> tuple[str, str]:
    """Run helm, with what this machine needs where values are given, and one replica: others prove more of them."""
    values = ["--values", str(release.file({"replicas": 1}))] if "-f" in arguments else []
    done = release.helm(*arguments, *values)
    return done.stdout, done.stderr


def kubectl(release: Release, arguments: list[str]) -> tuple[str, str]:
    """Run kubectl as alice. `exec` and `logs` go to the kubelet of the tests, which has no API."""
    pods = release.kubelet
    if "exec" in arguments:
        executed = pods.execute(pods.ready()[0], *arguments[arguments.index("--") + 2 :])
        return executed.stdout, executed.stderr
    if "logs" in arguments:
        logs = [(f"[pod/{pod.name}/webhook] ", pod.log.read_text(encoding="utf-8")) for pod in pods.ready()]
        return "".join(name + line for name, log in logs for line in log.splitlines(keepends=True)), ""
    done = release.control_plane.kubectl(*arguments)
    return done.stdout, done.stderr


def cks_admission(_release: Release, arguments: list[str]) -> tuple[str, str]:
    """Run the command in this process."""
    result = run(*arguments)
    return result.stdout, result.stderr


PROGRAMS = {"helm": helm, "kubectl": kubectl, "cks-admission": cks_admission}
