"""The real service with several workers: one port, one health port, one end, and none of them left behind."""

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.builders import Json, pod
from support.patience import PATIENCE, until
from support.service.processes import Service, until_closed
from support.service.reviews import answer_of, body, refused_body
from support.service.wire import JSON, Reply, connected, head

_HOST = "127.0.0.1"


class _Workers(Service):
    """The service with two workers; its health port is the supervisor's."""

    def __init__(self, directory: Path, *arguments: str, **settings: Json) -> None:
        listen = {"workers": 2, **settings.pop("listen", {})}
        super().__init__(directory, *arguments, listen=listen, **settings)

    async def port(self) -> int:
        """The TLS port, once all workers serve."""
        await self.ready()
        return int((await self.event("supervising"))["admission"].rpartition(":")[2])

    async def ask(self, path: str) -> Reply:
        """A probe of the health port."""
        port = int((await self.event("supervising"))["health"].rpartition(":")[2])
        async with connected(port) as wire:
            await wire.send(head(path, 0, method="GET"))
            return await wire.reply()

    async def ready(self) -> None:
        """Wait until readiness says so."""
        async with asyncio.timeout(2 * PATIENCE):  # two starts, one after the other
            while (await self.ask("/readyz")).status != 200:
                assert self.process.returncode is None, (self.events, self.noise)
                await asyncio.sleep(0.02)

    async def reasons(self) -> Reply:
        """What readiness says once each worker has answered in time, so that the reasons are its own."""
        async with asyncio.timeout(PATIENCE):
            while True:
                reply = await self.ask("/readyz")
                if ": it " not in reply.text:
                    return reply

    async def answered(self) -> float:
        """The reviews that have been answered, by all workers."""
        families = text_string_to_metric_families((await self.ask("/metrics")).text)
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == "cks_admission_requests_total")

    async def review(self, port: int, uids: Iterable[str]) -> None:
        """Send reviews, each on a connection of its own, and look at the answers."""
        for uid in uids:
            async with connected(port, self.context()) as wire:
                reply = await wire.call(refused_body(uid=uid))
                answer = answer_of(reply.body)
                assert (reply.status, answer["uid"], answer["allowed"]) == (200, uid, False)

    def deafen(self) -> asyncio.ReadTransport:
        """Read the log no more, and fill its pipe, whose end is returned."""
        process: Any = self.process
        log = process._transport.get_pipe_transport(2)
        assert isinstance(log, asyncio.ReadTransport)
        log.pause_reading()
        pipe = os.open(f"/proc/{self.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while os.write(pipe, b"." * 4095 + b"\n"):
                pass
        os.close(pipe)
        return log

    async def all_gone(self) -> None:
        """Wait until no process is left: all of them hold the supervisor's standard output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await self.process.stdout.read() == b""

    def of_workers(self, name: str) -> list[int | None]:
        """Which worker logged each event of this name; None is the supervisor."""
        return [event.get("worker") for event in self.events if event["event"] == name]


async def test_workers_share_a_port_and_are_one_service(tmp_path: Path) -> None:
    """Both answer on one port; a killed one is replaced, meanwhile the other answers, and no count goes back."""
    file, away = tmp_path / "cks.yaml", tmp_path / "away.yaml"
    async with _Workers(tmp_path) as service:
        port = await service.port()
        await service.review(port, (f"before {number}" for number in range(40)))
        before = await service.answered()
        listed = await service.ask("/paths")
        serving = set(service.of_workers("review"))

        # Without its configuration no other one gets ready, however long what follows takes.
        file.rename(away)
        os.kill((await service.event("worker started"))["pid"], signal.SIGKILL)
        ended = await service.event("worker ended")
        unready = await service.ask("/readyz")
        await service.review(port, (f"meanwhile {number}" for number in range(10)))
        meanwhile = await service.answered()
        away.rename(file)
        await service.event("worker started", 3)
        await service.ready()
        await service.review(port, (f"after {number}" for number in range(40)))
        after = await service.answered()
        service.signal(signal.SIGTERM)
        code = await service.ended()
        await service.all_gone()

    assert serving == {1, 2}
    assert (ended["worker"], ended["reason"]) == (1, "SIGKILL, perhaps for lack of memory")
    assert unready.status == 503
    assert unready.text.startswith("not ready\n- worker 1: ")
    assert (before, meanwhile, after) == (40, 50, 90)
    assert (listed.status, '"/validate/labels"' in listed.text) == (200, True)
    assert code == 0
    assert set(service.noise) <= {f"Error: {file}: cannot be read: [Errno 2] No such file or directory: '{file}'"}


async def test_sigterm_drains_all_workers(tmp_path: Path) -> None:
    """Readiness says no, reviews under way are answered after the port has closed, and all end with code 0."""
    sent = refused_body(uid="slow")
    async with _Workers(tmp_path, listen={"drainSeconds": 5.0, "bodySeconds": 30}) as service:
        port = await service.port()
        async with connected(port, service.context()) as wire:
            await wire.send(head("/validate?timeout=30s", len(sent), JSON) + sent[:100])
            while "\ncks_admission_requests_in_flight 1.0\n" not in (await service.ask("/metrics")).text:
                pass
            service.signal(signal.SIGTERM)
            await until(lambda: set(service.of_workers("stopping")) == {None, 1, 2})
            ready = await service.ask("/readyz")
            async with connected(port, service.context()) as late:
                reply = await late.call(body(pod(), uid="late"))
            await until_closed(port)
            await wire.send(sent[100:])
            slow = await wire.reply()
        code = await service.ended()
        await service.all_gone()

    assert (ready.status, ready.text) == (503, "not ready\n- draining: the service is shutting down\n")
    assert (answer_of(reply.body)["uid"], reply.closes) == ("late", True)
    assert (answer_of(slow.body)["uid"], slow.closes) == ("slow", True)
    assert code == 0
    assert service.of_workers("stopping") in ([None, 1, 2], [None, 2, 1])
    assert service.of_workers("stopped") in ([1, 2, None], [2, 1, None])


async def test_a_log_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reviews and probes are answered; the lost lines are counted, and told once somebody reads again."""
    async with _Workers(tmp_path) as service:
        port = await service.port()
        log = service.deafen()
        await service.review(port, (f"unheard {number}" for number in range(40)))
        async with asyncio.timeout(PATIENCE):
            while "\ncks_admission_log_lines_lost_total 40.0\n" not in (await service.ask("/metrics")).text:
                pass
        alive = await service.ask("/livez")
        log.resume_reading()
        await until(lambda: "." * 4095 in service.noise)
        await service.review(port, ["heard"])
        told = await service.event("log lines lost")
        await until(lambda: "heard" in [event["uid"] for event in service.events if event["event"] == "review"])

    assert (alive.status, told["lines"]) == (200, 40)


async def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    """Whoever will not wait for the end of the drain sends the signal again, and no worker is left."""
    async with _Workers(tmp_path, listen={"drainSeconds": 300}) as service:
        port = await service.port()
        service.signal(signal.SIGTERM)
        await until(lambda: set(service.of_workers("stopping")) == {None, 1, 2})
        service.signal(signal.SIGTERM)
        code = await service.ended()
        await service.all_gone()
        await until_closed(port)

    assert code == -signal.SIGTERM


async def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    """A supervisor that is killed leaves no workers: they drain and end by themselves."""
    async with _Workers(tmp_path) as service:
        port = await service.port()
        service.signal(signal.SIGKILL)
        await service.ended()
        await service.all_gone()
        await until_closed(port)


async def test_what_is_wrong_is_said_once_and_tried_once(tmp_path: Path) -> None:
    """Where the configuration is wrong, the first worker's own text and exit code are those of the service."""
    async with _Workers(tmp_path, registration={"apply": True}) as service:
        code = await service.ended(2 * PATIENCE)
        await service.all_gone()

    problem = "registration.apply needs a cluster: set cluster.kubeconfig or cluster.inCluster"
    assert code == 2
    assert service.noise == [f"Error: {problem}"]
    assert service.of_workers("worker started") == [1]


@pytest.mark.parametrize("section", ["listen", "health"])
async def test_a_port_in_use_is_told(section: str, tmp_path: Path) -> None:
    """Before any worker is started it is known whether the ports can be had."""
    async with await asyncio.start_server(lambda _reader, _writer: None, _HOST, 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with _Workers(tmp_path, **{section: {"host": _HOST, "port": port}}) as service:
            code = await service.ended()
            await service.all_gone()

    assert code == 3
    assert service.noise[-1].startswith(f"Error: cannot listen on {_HOST}:{port}: ")
    assert service.noise[-1].endswith("is another process using it?")
    assert service.of_workers("worker started") == []


async def test_readiness_names_the_worker_that_is_not_ready(tmp_path: Path) -> None:
    """Each worker's reasons stand there with its number; the process lives nevertheless."""
    files = {"certFile": str(tmp_path / "tls.crt"), "keyFile": str(tmp_path / "tls.key")}
    async with _Workers(tmp_path, tls=files) as service:
        await until(lambda: sorted(number or 0 for number in service.of_workers("serving")) == [1, 2])
        ready = await service.reasons()
        alive = await service.ask("/livez")

    first, *lines = ready.text.splitlines()
    assert (ready.status, first, len(lines)) == (503, "not ready", 2)
    assert [line.partition("certificate: ")[0] for line in lines] == ["- worker 1: ", "- worker 2: "]
    assert (alive.status, alive.text) == (200, "ok\n")
