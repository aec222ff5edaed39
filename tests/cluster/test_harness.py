"""The code that starts the control plane reports what went wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import toolchain
from cluster.golang import ToolchainError
from cluster.polling import wait_for
from cluster.programs import judged_as, kubernetes_version, programs
from cluster.workspace import workspace
from policies.kubernetes.release import FINAL, NEWEST

_TESTS = Path(__file__).parents[1]
_STUBBORN = "trap '' TERM; echo started; while true; do sleep 0.1; done"


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits to be collected does not."""
    answer = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(answer.stdout.strip()) and not answer.stdout.startswith("Z")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_components_die_with_their_parent(tmp_path: Path) -> None:
    """When the test run itself is killed, no component stays behind."""
    program = (
        "import os, sys, time; from pathlib import Path; from cluster.process import Component\n"
        f"command, log = ['/bin/sh', '-c', {_STUBBORN!r}], Path({str(tmp_path / 'log')!r})\n"
        "component = Component('script', command, log, os.environ)\n"
        "print(component.pid, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_for("the script to start", (tmp_path / "log").read_text)
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)

    assert wait_for("the component to be killed", lambda: not alive(pid))


def test_abandoned_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a run that was killed goes when the next run begins; one in use stays, and goes at its end."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned = tmp_path / "cks-admission-cluster-killed"
    abandoned.mkdir()
    (abandoned / "in-use").touch()
    with workspace() as in_use:
        for directory in (abandoned, in_use):
            os.utime(directory, (0, 0))
        with workspace() as own:
            assert set(tmp_path.iterdir()) == {in_use, own}
    assert list(tmp_path.iterdir()) == []


def test_the_release_of_kubernetes_can_be_chosen() -> None:
    """KUBERNETES names the release, without it the newest; each is the proven one, with a folder of its own."""
    assert {release: kubernetes_version(release.name) for release in FINAL} == {
        release: release.proven for release in FINAL
    }
    assert judged_as({}) == NEWEST
    assert toolchain.fingerprint(programs("1.36")) != toolchain.fingerprint(programs("1.37"))
    with pytest.raises(ToolchainError, match=r"^KUBERNETES is 1\.2; it can be 1\.36 or 1\.37$"):
        toolchain.ensure(["etcd"], environment={"KUBERNETES": "1.2"})
