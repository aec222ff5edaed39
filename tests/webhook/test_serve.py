"""The service as a real process: how it comes up, why it may not, what it measures of itself, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.builders import pod
from support.patience import PATIENCE, until
from support.service.commands import run, start
from support.service.processes import Service, free_port, until_closed
from support.service.reviews import REFUSAL, answer_of, body, refused_body
from support.service.wire import JSON, connected, head

from webhook.certificates import Upkeep
from webhook.http.app import KEEP_ALIVE
from webhook.metrics import Metrics
from webhook.serve import measure_lag, measured_collections
from webhook.version import VERSION

_NO_PEM = "it has no PEM block (no line like -----BEGIN CERTIFICATE-----)"
_FOREIGN = "it was not made here, so it is not overwritten; use an empty directory, or move the file away"

_PAIR = "cert", "key"
_LEVELS = "'debug', 'info', 'warning', 'error'"
_ANYWHERE = ("--host", "127.0.0.1", "--health-host", "127.0.0.1", "--health-port", "0", "--port", "0")


def test_connections_are_kept_for_longer_than_the_api_server_keeps_them() -> None:
    """The API server drops idle connections after 90 s; one that the server drops first could lose a review."""
    assert KEEP_ALIVE > 90


class _Certificates:
    """Certificates whose first looks fail with what nobody foresaw, and which can never be saved."""

    ca_bundle = b""
    looks = installed = 0

    def look(self) -> None:
        self.looks += 1
        if self.looks < 3:
            raise OSError("no locks available")

    async def save(self) -> None:
        raise OSError("no answer that anybody could read")

    def install(self, _trusted: object) -> None:
        self.installed += 1


async def test_no_failure_ends_the_upkeep() -> None:
    """Certificates are looked at again after a failure of any kind, and shown though not saved, or one would expire."""
    certificates: Any = _Certificates()
    running = asyncio.create_task(Upkeep(certificates, None, Metrics(), 0.001).run())
    await until(lambda: certificates.installed > 1 or running.done())
    running.cancel()
    await asyncio.wait([running])

    assert certificates.installed > 1


async def test_the_service_comes_up_ready(tmp_path: Path) -> None:
    """Once it says that it is serving, it is ready, and it says where and with which rules."""
    async with Service(tmp_path) as service:
        event = await service.event("serving")
        ready, alive, metrics = [await service.ask(path) for path in ("/readyz", "/livez", "/metrics")]

    rules = ["labels", "guard", "topology", "topology-objects", "tolerations", "sunk", "selectors"]
    assert (event["version"], event["rules"]) == (VERSION, rules)
    assert event["admission"].startswith("https://127.0.0.1:")
    assert event["health"].startswith("http://127.0.0.1:")
    assert (ready.status, alive.status, metrics.status) == (200, 200, 200)
    assert "cks_admission_certificate_expiry_timestamp_seconds 1" in metrics.text


async def test_the_port_opens_when_the_rules_are_in_place(tmp_path: Path) -> None:
    """Whoever gets through first, trying from before the start, has a reserved label refused."""
    run("certs", "issue", "--directory", str(tmp_path / "certs"))
    with free_port() as port:
        service = Service(tmp_path, listen={"host": "127.0.0.1", "port": port})
        context = service.context()

        async def first() -> str:
            while True:
                try:
                    async with connected(port, context) as wire:
                        return str(answer_of((await wire.call(refused_body())).body)["status"]["message"])
                except ConnectionRefusedError:
                    await asyncio.sleep(0.001)

        trying = asyncio.create_task(first())
        async with service:
            async with asyncio.timeout(PATIENCE):
                message = await trying

    assert message == REFUSAL


async def test_whatever_happens_the_logs_are_json(tmp_path: Path) -> None:
    """Bad calls, callers that hang up, bytes that are no TLS: every line on stderr stays one JSON object."""
    async with Service(tmp_path) as service:
        async with service.connection() as wire:
            await wire.call(b'{"request": null')
            await wire.send(b"hello\r\n\r\n")
            await wire.reply()
        async with service.connection() as wire:
            await wire.call(body(pod()), headers=b"Content-Type: a/\xff\r\n")
            await wire.send(head(length=500) + b"{")
        async with connected(await service.port()) as wire:
            await wire.send(b"GET / HTTP/1.1\r\n\r\n")
            await wire.ended()
        await service.answer(refused_body())
        service.signal(signal.SIGINT)
        code = await service.ended()
        await until(lambda: service.events[-1]["event"] == "stopped")

    assert (service.noise, code) == ([], 0)


def _deafen(service: Service) -> asyncio.ReadTransport:
    """Read the log no more, and fill its pipe, whose end is returned."""
    process: Any = service.process
    log = process._transport.get_pipe_transport(2)
    assert isinstance(log, asyncio.ReadTransport)
    log.pause_reading()
    pipe = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(pipe, b"." * 4095 + b"\n"):
            pass
    os.close(pipe)
    return log


async def test_a_log_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reviews and probes are answered; the lost lines are counted, and told once somebody reads again."""
    async with Service(tmp_path) as service, service.connection() as wire:
        log = _deafen(service)
        for number in range(40):
            assert (await wire.call(refused_body(uid=f"unheard {number}"))).status == 200
        measured = (await service.ask("/metrics")).text
        alive = await service.ask("/livez")
        log.resume_reading()
        await until(lambda: "." * 4095 in service.noise)
        assert (await wire.call(refused_body(uid="heard"))).status == 200
        told = await service.event("log lines lost")
        await until(lambda: "heard" in [event["uid"] for event in service.events if event["event"] == "review"])

    assert "\ncks_admission_log_lines_lost_total 40.0\n" in measured
    assert (alive.status, told["lines"]) == (200, 40)


async def test_files_of_a_certificate_may_come_later(tmp_path: Path) -> None:
    """A service whose certificate is not there yet says so at /readyz, and is ready once it is."""
    cert, key = tmp_path / "certs" / "tls.crt", tmp_path / "certs" / "tls.key"
    async with Service(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as service:
        before = await service.ask("/readyz")
        run("certs", "issue", "--directory", str(tmp_path / "certs"))
        await service.event("certificate served")
        after = await service.ask("/readyz")
        refusal = await service.answer(refused_body())

    reason = f"not ready\n- certificate: no certificate is served yet: {cert} does not exist\n"
    assert (before.status, before.text, after.status) == (503, reason, 200)
    assert refusal["allowed"] is False


@pytest.mark.parametrize("option", ["--port", "--health-port"])
def test_a_port_in_use_is_named(tmp_path: Path, option: str) -> None:
    """A port that somebody else has is exit code 3 with the port and what to look for, and nothing is left open."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start("serve", *_ANYWHERE, option, str(port), "--certs-dir", str(tmp_path), "--log-level", "error")

    (error,) = done.stderr.decode().splitlines()
    assert error.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert error.endswith("; is another process using it?")
    assert (done.stdout, done.returncode) == (b"", 3)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with two configurations and a certificate that cannot be used."""
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("lisen: {}\n", encoding="utf-8")
    Path("rules.yaml").write_text("workloads: [{group: apps, kind: Deployment}]\n", encoding="utf-8")
    Path("foreign").mkdir()
    Path("foreign", "tls.crt").write_text("hello\n", encoding="utf-8")


def _errors(text: str) -> list[str]:
    """What a text on stderr says beside events and hints at the usage."""
    return [line for line in text.splitlines() if line and not line.startswith(("{", "Usage:", "Try "))]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        ("--port 70000", "command line: listen.port: input should be less than or equal to 65535, found 70000", 2),
        ("--config bad.yaml", "bad.yaml:1: lisen: unknown key; did you mean listen?", 2),
        ("--log-level loud", f"Invalid value for '--log-level': 'loud' is not one of {_LEVELS}.", 2),
        *((f"--tls-{half} a", "tls: certFile and keyFile belong together; give both or neither", 2) for half in _PAIR),
        ("--config rules.yaml", "workloads: Deployment of group 'apps' is in the table of workloads twice", 2),
        ("--register", "registration.apply needs a cluster: set cluster.kubeconfig or cluster.inCluster", 2),
        ("--certs-dir foreign", f"foreign: tls.crt: {_NO_PEM}; {_FOREIGN}", 3),
    ],
)
def test_what_keeps_it_from_starting_is_named(arguments: str, error: str, code: int) -> None:
    """A service that cannot start ends with one line about the cause: 2 for wrong usage, 3 for what failed."""
    done = run("serve", *_ANYWHERE, *arguments.split())

    assert (done.stdout, _errors(done.stderr), done.exit_code) == ("", [f"Error: {error}"], code)


def _value(metrics: Metrics, name: str, **labels: str) -> float:
    value = metrics.registry.get_sample_value(name, labels)
    return 0.0 if value is None else value


async def test_the_lag_of_the_event_loop_is_seen() -> None:
    """Work that holds up the event loop is measured with at least most of its time."""
    metrics = Metrics()
    measuring = asyncio.create_task(measure_lag(metrics))
    name = "cks_admission_loop_lag_seconds"
    await until(lambda: _value(metrics, f"{name}_count") >= 1)
    before = _value(metrics, f"{name}_sum")

    time.sleep(0.5)  # noqa: ASYNC251 - this is what is measured
    count = _value(metrics, f"{name}_count")
    await until(lambda: _value(metrics, f"{name}_count") > count)
    measuring.cancel()

    assert _value(metrics, f"{name}_sum") - before >= 0.3


def test_runs_of_the_garbage_collector_are_counted() -> None:
    """Each run counts in its generation, within the block only."""
    metrics = Metrics()
    names = "cks_admission_gc_collections_total", "cks_admission_gc_seconds_total"
    with measured_collections(metrics):
        for _ in range(3):
            gc.collect()
    runs, seconds = (_value(metrics, name, generation="2") for name in names)
    gc.collect()

    assert runs >= 3
    assert seconds > 0
    assert (runs, seconds) == tuple(_value(metrics, name, generation="2") for name in names)


async def test_sigterm_under_load_loses_nothing(tmp_path: Path) -> None:
    """From SIGTERM on readiness says no while the port is still open; every review that was sent has its own answer."""
    async with Service(tmp_path, listen={"drainSeconds": 5.0}) as service:
        port = await service.port()
        sent: list[str] = []
        answered: list[str] = []

        async def call(number: int) -> None:
            """Send reviews on a connection until it closes; the API server would go to another replica."""
            closes = False
            async with service.connection() as wire:
                while not closes:
                    sent.append(f"{number}-{len(sent)}")
                    reply = await wire.call(refused_body(uid=sent[-1]), "/validate?timeout=10s")
                    answer, closes = answer_of(reply.body), reply.closes
                    assert (reply.status, answer["allowed"]) == (200, False)
                    answered.append(answer["uid"])
                assert await wire.ended()

        running = asyncio.gather(*(call(number) for number in range(8)))
        await until(lambda: len(answered) >= 160)

        service.signal(signal.SIGTERM)
        await service.event("stopping")
        ready = await service.ask("/readyz")
        async with connected(port, service.context()) as wire:
            late = await wire.call(body(pod(), uid="late"))
        await running
        code = await service.ended()
        await until(lambda: service.events[-1]["event"] == "stopped")

    assert (ready.status, ready.text) == (503, "not ready\n- draining: the service is shutting down\n")
    assert (answer_of(late.body)["uid"], late.closes) == ("late", True)
    assert sorted(answered) == sorted(sent)
    ending = [event["event"] for event in service.events if event["event"] in ("serving", "stopping", "stopped")]
    assert (code, ending, service.noise) == (0, ["serving", "stopping", "stopped"], [])


async def test_a_review_under_way_is_answered_after_the_port_has_closed(tmp_path: Path) -> None:
    """A caller that was slow to send its review gets its answer although nobody listens on the port any more."""
    sent = refused_body(uid="slow")
    async with Service(tmp_path, listen={"drainSeconds": 0.1}) as service:
        port = await service.port()
        async with connected(port, service.context()) as wire:
            await wire.send(head("/validate?timeout=30s", len(sent), JSON) + sent[:100])
            await service.shows("\ncks_admission_requests_in_flight 1.0\n")
            service.signal(signal.SIGTERM)
            await until_closed(port)
            await wire.send(sent[100:])
            reply = await wire.reply()
        code = await service.ended()

    assert (reply.status, answer_of(reply.body)["uid"], reply.closes) == (200, "slow", True)
    assert code == 0


async def test_a_caller_that_never_finishes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """After the grace that the configuration gives, the process ends with calls still open."""
    settings = {"drainSeconds": 0.1, "graceSeconds": 0.2}
    async with Service(tmp_path, listen=settings) as service, service.connection() as wire:
        await wire.send(head("/validate?timeout=30s", 5000, JSON) + b"{")
        await service.shows("\ncks_admission_requests_in_flight 1.0\n")
        service.signal(signal.SIGTERM)
        code = await service.ended(15)  # the caller would be given twice that

    assert code == 0
    assert service.events[-1]["event"] == "stopped"


@pytest.mark.parametrize(
    ("signals", "expected"), [([signal.SIGINT], 0), ([signal.SIGTERM, signal.SIGTERM], -signal.SIGTERM)]
)
async def test_who_will_not_wait(tmp_path: Path, signals: list[signal.Signals], expected: int) -> None:
    """On a terminal nobody waits for endpoints: Ctrl-C ends the process at once, and a second signal any wait."""
    async with Service(tmp_path, listen={"drainSeconds": 300}) as service:
        await service.event("serving")
        for number, each in enumerate(signals):
            if number:
                await service.event("stopping")
            service.signal(each)

        assert await service.ended() == expected


async def test_idle_connections_do_not_hold_up_the_end(tmp_path: Path) -> None:
    """Connections that are kept open without a call on them are closed when the port is."""
    async with Service(tmp_path, listen={"graceSeconds": 300}) as service, service.connection() as wire:
        assert (await wire.call(body(pod()))).status == 200
        service.signal(signal.SIGTERM)
        assert await wire.ended()
        code = await service.ended()

    assert code == 0
