"""The Pods of replicas: what each says that it answers, and the certificate that it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.api.fakeapi import Json
from support.api.guardedapi import GuardedApi
from support.patience import until

from certs.authority import new_authority
from certs.serving import ServingContext
from webhook.cluster.api.client import connect
from webhook.cluster.replicas.pods import ReplicaPods
from webhook.registration.announcement import Announcement

PODS = "/api/v1/namespaces/cks/pods"
NAME = "cks-admission.cks.svc"


def pod(
    name: str, port: int = 1, *, ready: bool = True, phase: str = "Running", restarts: int = 0, webhook: int = 1
) -> Json:
    """A Pod with the label of replicas, whose health port is one on this host."""
    ports = [{"name": "webhook", "containerPort": webhook}, {"name": "health", "containerPort": port}]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"app": "cks"}},
        "spec": {"containers": [{"name": "webhook", "ports": ports}]},
        "status": {
            "phase": phase,
            "podIP": "" if phase == "Pending" else "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"containerID": "c", "restartCount": restarts}],
        },
    }


class Replica:
    """A health port that says which paths are answered. answer: a body, or an HTTP status."""

    def __init__(self, answer: list[str] | int) -> None:
        self.answer = answer
        self.asked = 0
        self._server = TestServer(web.Application())
        self._server.app.router.add_get("/paths", self._paths)

    async def start(self) -> int:
        """Open a port and return it."""
        await self._server.start_server()
        assert self._server.port is not None
        return self._server.port

    async def stop(self) -> None:
        """Close it."""
        await self._server.close()

    async def _paths(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.answer) if isinstance(self.answer, int) else web.json_response(self.answer)


@asynccontextmanager
async def replica(answer: list[str] | int) -> AsyncIterator[tuple[Replica, int]]:
    """A replica with its port."""
    made = Replica(answer)
    try:
        yield made, await made.start()
    finally:
        await made.stop()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[GuardedApi]:
    """An API server with one Pod, which has ended."""
    async with GuardedApi() as server:
        server.put(PODS, pod("ended", phase="Succeeded"))
        kubeconfig: dict[str, Any] = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
            "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
            "users": [{"name": "me", "user": {"token": "my-token"}}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        yield server


@asynccontextmanager
async def following(tmp_path: Path) -> AsyncIterator[ReplicaPods]:
    """The Pods, followed and asked."""
    connection = await connect(str(tmp_path / "kubeconfig"), in_cluster=False)
    pods = ReplicaPods(connection, "cks", "app=cks", NAME, lambda: None)
    assert pods.announcements() is None
    await pods.start()
    task = asyncio.create_task(pods.run())
    try:
        yield pods
    finally:
        task.cancel()
        await pods.stop()
        await connection.close()


async def test_each_pod_is_asked_once_for_each_start(api: GuardedApi, tmp_path: Path) -> None:
    """What a Pod says holds until its container starts anew; one that ended, or has no address, says nothing."""
    async with replica(["/validate/labels"]) as (asked, port), following(tmp_path) as pods:
        api.put(PODS, pod("a", port))
        api.put(PODS, pod("b", phase="Pending", ready=False))
        api.put(PODS, pod("c", phase="Failed"))
        labels = frozenset({"/validate/labels"})
        expected = {Announcement("a", ready=True, paths=labels), Announcement("b", ready=False, paths=None)}
        await until(lambda: set(pods.announcements() or ()) == expected)
        first = asked.asked
        asked.answer = ["/validate/labels", "/validate/new"]
        api.put(PODS, pod("a", port, restarts=1))
        both = labels | {"/validate/new"}
        await until(lambda: Announcement("a", ready=True, paths=both) in (pods.announcements() or ()))

        assert (first, asked.asked, pods.ready) == (1, 2, True)


async def test_a_replica_that_fails_is_asked_again(api: GuardedApi, tmp_path: Path) -> None:
    """While it says nothing, nothing is known of what it answers."""
    async with replica(503) as (failing, port), following(tmp_path) as pods:
        api.put(PODS, pod("failing", port, ready=False))
        await until(lambda: failing.asked > 0)
        unsure = Announcement("failing", ready=False, paths=None)
        before = unsure in (pods.announcements() or ())
        failing.answer = ["/validate/labels"]
        await until(lambda: unsure not in (pods.announcements() or ()))

        assert before


async def test_handshakes_show_who_serves_what(api: GuardedApi, tmp_path: Path) -> None:
    """The leaf of each Pod with an address; None for one where nobody listens."""
    leaf = new_authority(datetime.now(UTC)).issue([NAME], datetime.now(UTC))
    context = ServingContext()
    context.swap(leaf.cert_pem, leaf.key_pem)

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context.context)
    try:
        async with following(tmp_path) as pods:
            api.put(PODS, pod("a", webhook=listening.sockets[0].getsockname()[1]))
            api.put(PODS, pod("b"))
            api.put(PODS, pod("c", phase="Pending"))
            await until(lambda: len(pods.announcements() or ()) == 3)
            shown = await pods.handshakes()
    finally:
        listening.close()

    assert sorted(shown, key=str) == sorted([leaf.certificate, None], key=str)
