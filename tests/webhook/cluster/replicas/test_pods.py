"""The Pods of replicas: what each says that it answers, and the certificate that it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.api.fakeapi import FakeApi, Json
from support.patience import until

from certs.material import new_authority
from certs.serving import ServingContext
from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.pods import ReplicaPods
from webhook.registration.configurations import Announcement

PODS = "/api/v1/namespaces/cks/pods"
NAME = "cks-admission.cks.svc"


def pod(
    name: str, port: int | None = 1, *, ready: bool = True, phase: str = "Running", restarts: int = 0, webhook: int = 1
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
        self.server = TestServer(web.Application())
        self.server.app.router.add_get("/paths", self._paths)

    async def _paths(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.answer) if isinstance(self.answer, int) else web.json_response(self.answer)


@pytest.fixture
async def pods(server: FakeApi, api: Connection) -> AsyncIterator[ReplicaPods]:
    """The Pods, followed and asked, of which one has ended."""
    server.put(PODS, pod("ended", phase="Succeeded"))
    found = ReplicaPods(api, "cks", "app=cks", NAME, lambda: None)
    assert found.announcements() is None
    await found.start()
    task = asyncio.create_task(found.ask())
    yield found
    task.cancel()
    await found.stop()


async def test_each_pod_is_asked_once_for_each_start(server: FakeApi, pods: ReplicaPods) -> None:
    """What a Pod says holds until its container starts anew; one that ended, or has no address, says nothing."""
    replica = Replica(["/validate/labels"])
    async with replica.server as served:
        server.put(PODS, pod("a", served.port))
        server.put(PODS, pod("b", phase="Pending", ready=False))
        server.put(PODS, pod("c", phase="Failed"))
        labels = frozenset({"/validate/labels"})
        expected = {Announcement("a", ready=True, paths=labels), Announcement("b", ready=False, paths=None)}
        await until(lambda: set(pods.announcements() or ()) == expected)
        first = replica.asked
        replica.answer = ["/validate/labels", "/validate/new"]
        server.put(PODS, pod("a", served.port, restarts=1))
        both = labels | {"/validate/new"}
        await until(lambda: Announcement("a", ready=True, paths=both) in (pods.announcements() or ()))

        assert (first, replica.asked, pods.ready) == (1, 2, True)


async def test_a_replica_that_fails_is_asked_again(server: FakeApi, pods: ReplicaPods) -> None:
    """While it says nothing, nothing is known of what it answers."""
    replica = Replica(503)
    async with replica.server as served:
        server.put(PODS, pod("failing", served.port, ready=False))
        await until(lambda: replica.asked > 0)
        unsure = Announcement("failing", ready=False, paths=None)
        before = unsure in (pods.announcements() or ())
        replica.answer = ["/validate/labels"]
        await until(lambda: unsure not in (pods.announcements() or ()))

        assert before


async def test_handshakes_show_who_serves_what(server: FakeApi, pods: ReplicaPods) -> None:
    """The leaf of each Pod with an address; None for one where nobody listens."""
    leaf = new_authority(datetime.now(UTC)).issue([NAME], datetime.now(UTC))
    context = ServingContext()
    context.swap(leaf.cert_pem, leaf.key_pem)

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context.context)
    async with listening:
        server.put(PODS, pod("a", webhook=listening.sockets[0].getsockname()[1]))
        server.put(PODS, pod("b"))
        server.put(PODS, pod("c", phase="Pending"))
        await until(lambda: len(pods.announcements() or ()) == 3)
        shown = await pods.handshakes()

    assert sorted(shown, key=str) == sorted([leaf.certificate, None], key=str)
