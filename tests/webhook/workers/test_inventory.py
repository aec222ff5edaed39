"""The inventory of a supervisor and its real workers, on a small API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named, status
from support.patience import PATIENCE
from support.rackgangs import RACK, gang, question, rack
from support.service.installation import kubeconfig
from support.service.processes import Service
from support.service.wire import connected, head

from webhook.workers.question import SOCKET, Asker

PODS = "/api/v1/pods"
_STATUS = {
    "allocatable": {"pods": "10", "nvidia.com/gpu": "8"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


def sockets(directory: Path) -> Path:
    """The supervisor's directory of sockets, the only one there."""
    (path,) = (path for path in directory.glob("cks-*") if path.is_dir())
    return path


async def shown(service: Service, path: str, text: str) -> str:
    """What the supervisor's health port answers, once it holds a text."""
    port = int((await service.event("supervising"))["health"].rpartition(":")[2])
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            async with connected(port) as wire:
                await wire.send(head(path, 0, method="GET"))
                if text in (reply := (await wire.reply()).text):
                    return reply
            await asyncio.sleep(0.02)


async def test_the_supervisor_keeps_it_for_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods are followed once; what is in the way is a note of readiness, numbers are shown, workers are answered."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with FakeApi() as server:
        server.put(NAMESPACES, named("team"))
        server.put(NODES, named("a", {RACK.keys[0]: "r1"}, status=_STATUS))
        server.put(PODS, named("b", namespace="team", spec={"nodeName": "a"}))
        server.fail(PODS, 403, status(403, "pods is forbidden"), times=9999)
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(server.url)), encoding="utf-8")
        cluster = {"kubeconfig": str(tmp_path / "kubeconfig")}
        policies = {"configMaps": False, "native": False}
        async with Service(tmp_path, listen={"workers": 2}, cluster=cluster, policies=policies) as service:
            unready = await shown(service, "/readyz", "ok\n")
            server.failures.clear()
            await shown(service, "/metrics", 'cks_admission_inventory_objects{kind="pod"} 1.0')
            (choice,) = await Asker(sockets(tmp_path) / SOCKET).read(question(gang(pods=2)), PATIENCE)
            watches = server.watches(PODS)

    (note,) = [line for line in unready.splitlines() if "inventory" in line]
    assert note.startswith("- inventory: no domain is chosen: pods: the API server refused GET /api/v1/pods at ")
    assert note.endswith("; a ClusterRole must allow the service's account to list and watch pods")
    assert (choice.outcome, choice.required) == ("fits", rack("r1"))
    assert len(watches) == 1
