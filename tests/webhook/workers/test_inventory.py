"""The inventory of a supervisor and its real workers, on a small API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml
from support.api.fakeapi import FakeApi, named, status
from support.patience import PATIENCE, until
from support.rackgangs import gang, question
from support.service.processes import Service
from support.service.wire import Reply, connected, head

from webhook.workers.question import Asker

_HOST = "127.0.0.1"


def kubeconfig(directory: Path, server: FakeApi) -> str:
    """A kubeconfig for the small API server."""
    path = directory / "kubeconfig"
    config = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
        "users": [{"name": "me", "user": {"token": "my-token"}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)


async def asked(service: Service, path: str) -> Reply:
    """What the supervisor's health port answers."""
    port = int((await service.event("supervising"))["health"].rpartition(":")[2])
    async with connected(port) as wire:
        await wire.send(head(path, 0, method="GET"))
        return await wire.reply()


async def test_the_supervisor_keeps_it_for_its_workers(tmp_path: Path) -> None:
    """Pods are followed once, what is in the way is a note of readiness, and the numbers are those of the service."""
    async with FakeApi() as server:
        server.put("/api/v1/nodes", named("a", {}, status={"allocatable": {"cpu": "1"}}))
        server.fail("/api/v1/pods", 403, status(403, "pods is forbidden"), times=1)
        cluster = {"kubeconfig": kubeconfig(tmp_path, server)}
        async with Service(tmp_path, listen={"workers": 2}, cluster=cluster) as service:
            async with asyncio.timeout(2 * PATIENCE):
                while (ready := await asked(service, "/readyz")).status != 200:
                    await asyncio.sleep(0.02)
                while 'inventory_objects{kind="node"} 1.0' not in (await asked(service, "/metrics")).text:
                    await asyncio.sleep(0.02)
        followed = [seen for seen in server.seen if seen.path == "/api/v1/pods"]

    assert ready.status == 200
    assert followed
