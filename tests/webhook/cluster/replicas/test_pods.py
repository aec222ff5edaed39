"""The Pods of replicas: what each says that it answers, and the certificate that it shows."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.api.fakeapi import FakeApi, Json
from support.patience import PATIENCE, until

from certs.material import new_authority
from certs.serving import ServingContext
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import UnreachableError
from webhook.cluster.replicas.pods import ReplicaPods, certificates
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


_NOW = datetime.now(UTC)


@asynccontextmanager
async def _listening(said: bytes = b"", context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port for one caller."""
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with suppress(OSError):
            await reader.read()  # until the client has gone
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        server.close()


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
    leaf = new_authority(_NOW).issue([NAME], _NOW)
    context = ServingContext()
    context.swap(leaf.cert_pem, leaf.key_pem)

    async with _listening(context=context.context) as port:
        server.put(PODS, pod("a", webhook=port))
        server.put(PODS, pod("b"))
        server.put(PODS, pod("c", phase="Pending"))
        await until(lambda: len(pods.announcements() or ()) == 3)
        shown = await pods.handshakes()

    assert sorted(shown, key=str) == sorted([leaf.certificate, None], key=str)


async def test_the_whole_chain_is_read() -> None:
    """What a server shows is taken as it is, trusted or not, leaf first."""
    authority = new_authority(_NOW)
    leaf = authority.issue(["svc.cloud.svc"], _NOW)
    serving = ServingContext()
    serving.swap(leaf.cert_pem + authority.cert_pem, leaf.key_pem)

    async with _listening(context=serving.context) as port:
        shown = await certificates("127.0.0.1", port, "svc.cloud.svc", PATIENCE)

    assert shown == (leaf.certificate, authority.certificate)


async def test_who_speaks_no_tls() -> None:
    """An answer that is none, and no answer at all, are each a reason."""
    async with _listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(UnreachableError, match=r"^no TLS: WRONG_VERSION_NUMBER$"):
            await certificates("127.0.0.1", port, "localhost", PATIENCE)
    async with _listening() as port:
        with pytest.raises(UnreachableError, match=r"^no answer within 0 s$"):
            await certificates("127.0.0.1", port, "localhost", 0.1)
    with pytest.raises(UnreachableError, match=r"^the connection was refused$"):
        await certificates("127.0.0.1", port, "localhost", PATIENCE)


def test_a_server_that_says_no_farewell() -> None:
    """It is not waited for, and its connection is closed all the same."""
    leaf = new_authority(_NOW).issue(["localhost"], _NOW)
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        with serving.context.wrap_socket(listening.accept()[0], server_side=True):
            ended.wait(PATIENCE)

    with socket.create_server(("127.0.0.1", 0)) as listening, warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        server = threading.Thread(target=serve, args=[listening])
        server.start()
        try:
            asyncio.run(certificates("127.0.0.1", listening.getsockname()[1], "localhost", PATIENCE))
        finally:
            ended.set()
            server.join()
        gc.collect()

    assert [str(each.message) for each in left_open] == []
