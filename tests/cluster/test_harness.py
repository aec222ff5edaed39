"""The code that starts the control plane reports what went wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import jsonlog, toolchain, upstream
from cluster.golang import ToolchainError
from cluster.polling import GaveUpError, NotYet, wait_for
from cluster.process import Component, ComponentError
from cluster.programs import CONTROL_PLANE, judged_as, kubernetes_version, programs
from cluster.workspace import workspace
from policies.kubernetes.release import NEWEST, RELEASES

_TESTS = Path(__file__).parents[1]
_STUBBORN = "trap '' TERM; echo started; while true; do sleep 0.1; done"


def shell(directory: Path, script: str) -> Component:
    """Return a component that is a shell script."""
    return Component("script", ["/bin/sh", "-c", script], directory / "script.log", dict(os.environ))


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits to be collected does not."""
    answer = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(answer.stdout.strip()) and not answer.stdout.startswith("Z")


def test_ended_component_quotes_its_log(tmp_path: Path) -> None:
    """A component that ends is an error that gives its exit code and its last words."""
    component = shell(tmp_path, "echo no such flag; exit 3")

    component.end(timeout=60)

    with pytest.raises(ComponentError) as error:
        component.check()
    assert str(error.value) == "script ended with 3. The end of its log:\nno such flag"


def test_deaf_component_is_killed(tmp_path: Path) -> None:
    """A component that does not listen to SIGTERM is gone all the same."""
    component = shell(tmp_path, _STUBBORN)
    wait_for("the script to start", lambda: component.log.read_text(encoding="utf-8"))

    component.terminate()
    component.end(timeout=0.5)

    with pytest.raises(ComponentError, match="script ended with -9"):
        component.check()


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


def test_what_is_written_just_now_is_not_read(tmp_path: Path) -> None:
    """Of a log that goes on, whole lines with objects are read, and neither half a line nor a line without one."""
    log = tmp_path / "log"
    log.write_text('{"event": "one"}\nError: no object\n{"event": "two"}\n{"event": "th', encoding="utf-8")

    assert jsonlog.entries(log) == [{"event": "one"}, {"event": "two"}]


def test_giving_up_says_what_was_seen() -> None:
    """A wait that ends in vain names what it waited for and what it saw last."""
    seen: list[str] = []

    def probe() -> bool:
        seen.append(f"sign {len(seen)}")
        raise NotYet(seen[-1])

    with pytest.raises(GaveUpError) as error:
        wait_for("a wonder", probe, timeout=0.15)
    assert str(error.value) == f"waited 0.15 s for a wonder; seen last: {seen[-1]}"


def test_incomplete_assets_are_named(tmp_path: Path) -> None:
    """A KUBEBUILDER_ASSETS that lacks programs is an error that lists them; a complete one is used as it is."""
    for name in ("etcd", "kubectl", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path)}

    assert toolchain.ensure(["etcd", "kubectl"], environment=environment) == tmp_path
    with pytest.raises(ToolchainError) as error:
        toolchain.ensure(CONTROL_PLANE, environment=environment)
    assert str(error.value) == (
        f"KUBEBUILDER_ASSETS is {tmp_path}, and these programs are missing there: kube-controller-manager, "
        "kube-scheduler, kwok. Add them, or unset the variable and they are built."
    )


def test_the_release_of_kubernetes_can_be_chosen() -> None:
    """KUBERNETES names the release, without it the newest; each is the proven one, with a folder of its own."""
    assert {release: kubernetes_version(release.name) for release in RELEASES} == {
        release: release.proven for release in RELEASES
    }
    assert judged_as({}) == NEWEST
    assert toolchain.fingerprint(programs("1.36")) != toolchain.fingerprint(programs("1.37"))
    with pytest.raises(ToolchainError, match=r"^KUBERNETES is 1\.2; it can be 1\.36 or 1\.37$"):
        toolchain.ensure(["etcd"], environment={"KUBERNETES": "1.2"})


def test_what_changed_upstream_is_listed() -> None:
    """Functions are compared without comments and white space, and gates as they are in each version."""
    old = "func a() { return 1 }\n// One.\nfunc (s *S[T]) b(x int) int {\n\treturn x\n}\nfunc (S) gone() {\n}\n"
    new = "func a() { return 2 }\nfunc (s *S[T]) b(x int) int {\n\t// The same.\n\treturn x\n}\nfunc more() {\n}\n"
    gate = (
        '\tgeneric.Gate: {\n\t\t{Version: version.MustParse("1.36"), Default: false, PreRelease: featuregate.Alpha},\n'
        '\t\t{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.Beta},\n\t},\n'
    )

    changes = upstream.difference(upstream.functions(old), upstream.functions(new))
    stages = [str(upstream.gates(gate, minor).get("Gate")) for minor in (35, 36, 37, 38)]

    assert changes == upstream.Difference(gone=("S.gone",), new=("more",), changed=("a",))
    assert str(changes) == "  - S.gone\n  + more\n  ~ a"
    assert stages == ["None", "off, Alpha", "on, Beta", "on, Beta"]


def test_tools_are_cached_below_the_users_cache(tmp_path: Path) -> None:
    """XDG_CACHE_HOME says where the binaries are kept; they are found there without a build."""
    directory = tmp_path / "cks-admission" / "tools" / toolchain.fingerprint(programs(NEWEST.name))
    directory.mkdir(parents=True)
    (directory / "helm").touch(mode=0o755)

    assert toolchain.ensure(["helm"], environment={"XDG_CACHE_HOME": str(tmp_path)}) == directory
    assert toolchain.cache_directory({"HOME": "/home/alice"}) == Path("/home/alice/.cache/cks-admission/tools")
