"""The control plane is what tests assume of it, says what went wrong with it, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster import toolchain
from cluster.components import IDENTITIES
from cluster.golang import ToolchainError
from cluster.polling import wait_for
from cluster.programs import CONTROL_PLANE, judged_as, kubernetes_version, programs
from cluster.workspace import workspace
from policies.kubernetes.release import FINAL, NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.controlplane import ControlPlane

COMPONENTS = tuple(name for name in CONTROL_PLANE if name != "kubectl")

_NODES = ("controlplane-gpu-1", "controlplane-gpu-2")
_LABEL = {"test": "controlplane"}


@pytest.fixture(scope="module")
def gpu_nodes(control_plane: ControlPlane) -> Iterator[Sequence[str]]:
    """Two fake GPU Nodes, which other tests do not see: they carry a label to select them by, and go at the end."""
    for name in _NODES:
        control_plane.node(name, labels=_LABEL, capacity={"nvidia.com/gpu": 8})
    yield _NODES
    control_plane.objects.delete("node", *_NODES)


def whoami(control_plane: ControlPlane, user: str | Path) -> tuple[str, list[str]]:
    """Return the user and the groups that the API server sees."""
    answer = control_plane.kubectl("auth", "whoami", "-o", "json", user=user, check=True)
    info = json.loads(answer.stdout)["status"]["userInfo"]
    return info["username"], info["groups"]


def test_versions_are_the_pinned_ones(control_plane: ControlPlane) -> None:
    """Client and server say the pinned version of Kubernetes, and Dynamic Resource Allocation is served as v1."""
    versions = json.loads(control_plane.kubectl("version", "-o", "json", check=True).stdout)
    served = control_plane.kubectl("api-versions", check=True).stdout.split()

    assert {key: versions[key]["gitVersion"] for key in ("clientVersion", "serverVersion")} == {
        "clientVersion": "v1.36.3",
        "serverVersion": f"v{judged_as().proven}",
    }
    assert {"admissionregistration.k8s.io/v1", "resource.k8s.io/v1"} <= set(served)


def test_alice_is_cluster_admin_by_rbac_alone(control_plane: ControlPlane) -> None:
    """Alice may do everything and is not in system:masters, so that a refusal can only come from admission."""
    assert whoami(control_plane, "alice") == ("alice", ["system:authenticated"])
    assert control_plane.kubectl("auth", "can-i", "*", "*", "--all-namespaces").stdout == "yes\n"


@pytest.mark.parametrize("component", IDENTITIES)
def test_components_have_identities_of_their_own(control_plane: ControlPlane, component: str) -> None:
    """The credentials that a running component was started with are its own user's, without system:masters."""
    user, groups = IDENTITIES[component]
    kubeconfig = control_plane.kubeconfig(component)

    assert f"--kubeconfig={kubeconfig}" in control_plane.component(component).command
    assert whoami(control_plane, kubeconfig) == (user, [*groups, "system:authenticated"])


@pytest.mark.parametrize(
    ("target", "label", "message"),
    [
        pytest.param(
            1,
            "example.org/by",
            'nodes "controlplane-gpu-2" is forbidden: node "controlplane-gpu-1" is not allowed to modify node '
            '"controlplane-gpu-2"',
            id="another Node",
        ),
        pytest.param(
            0,
            "node-restriction.kubernetes.io/by",
            'nodes "controlplane-gpu-1" is forbidden: is not allowed to modify labels: '
            "node-restriction.kubernetes.io/by",
            id="a label of NodeRestriction's own",
        ),
    ],
)
def test_node_restriction_is_on(
    control_plane: ControlPlane, gpu_nodes: Sequence[str], target: int, label: str, message: str
) -> None:
    """A kubelet may neither write another Node nor the labels that NodeRestriction keeps from it."""
    kubelet = control_plane.kubelet(gpu_nodes[0])
    change = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": gpu_nodes[target], "labels": {label: "kubelet"}}}

    answer = control_plane.apply(change, "--server-side", user=kubelet)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert message in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads the sockets of a process from /proc")
def test_everything_listens_on_loopback_only(control_plane: ControlPlane) -> None:
    """No component can be reached from another machine."""
    listening = {name: listening_addresses(control_plane.component(name).pid) for name in COMPONENTS}

    assert listening == {name: {ipaddress.ip_address("127.0.0.1")} for name in COMPONENTS}


def listening_addresses(pid: int) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses at which a process listens."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            sockets.add(str(file.readlink()))
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    found = [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    # Four bytes each, in the order of this machine.
    words = [[int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)] for text in found]
    return {ipaddress.ip_address(b"".join(address)) for address in words}


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
