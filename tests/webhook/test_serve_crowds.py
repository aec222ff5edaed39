"""Callers that stand around: hundreds of connections that do nothing, or nothing whole, keep nobody out."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml
from support.builders import pod
from support.patience import until
from support.service.processes import Service
from support.service.reviews import RESERVED, answer_of, body
from support.service.wire import Wire, connected, head

_CHART = Path(__file__).parents[1] / "chart" / "golden" / "default.yaml"
_COUNT = 600
_GUARDED = body(pod(labels=RESERVED))
_PART_OF_A_HEAD = b"POST /validate/labels HTTP/1.1\r\nHost: localhost\r\n"
_PART_OF_A_BODY = head("/validate/labels?timeout=30s", 5_000_000) + b"{"


async def _behave(wire: Wire, sent: bytes, *, calls: bool) -> None:
    """Send something, perhaps behind a whole call."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):  # it had to make way for another
        if calls:
            await wire.call(b"{}", "/validate/labels")
        await wire.send(sent)


@asynccontextmanager
async def _standing(
    service: Service, count: int = 1, sent: bytes = b"", *, calls: bool = False, tls: bool = True
) -> AsyncIterator[list[Wire]]:
    """Connections that behave in a way, held open: those that did not have to make way during their handshake."""
    port = await service.port()
    context = service.context() if tls else None
    contexts = [connected(port, context) for _ in range(count)]
    wires: list[Wire] = []
    try:
        for start in range(0, count, 50):
            some = [each.__aenter__() for each in contexts[start : start + 50]]
            opened = await asyncio.gather(*some, return_exceptions=True)
            assert [each for each in opened if not isinstance(each, Wire | ConnectionResetError)] == []
            wires += [each for each in opened if isinstance(each, Wire)]
        await asyncio.gather(*(_behave(wire, sent, calls=calls) for wire in wires))
        yield wires
    finally:
        await asyncio.gather(*(each.__aexit__(None, None, None) for each in contexts), return_exceptions=True)


async def _metric(service: Service, name: str) -> float:
    text = (await service.ask("/metrics")).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


async def _serves(service: Service) -> None:
    """The guard answers on a new connection, and the process is alive."""
    assert (await service.answer(_GUARDED, "/validate/labels"))["allowed"] is False
    assert (await service.ask("/livez")).status == 200


@pytest.mark.parametrize(
    ("sent", "calls", "tls"),
    [
        pytest.param(b"", False, False, id="only-tcp"),
        pytest.param(b"", False, True, id="only-tls"),
        pytest.param(_PART_OF_A_HEAD, False, True, id="a-part-of-a-head"),
        pytest.param(_PART_OF_A_BODY, False, True, id="a-byte-of-a-body"),
        pytest.param(b"", True, True, id="a-whole-call-and-then-nothing"),
        pytest.param(_PART_OF_A_BODY, True, True, id="a-whole-call-and-a-part"),
    ],
)
async def test_callers_that_stand_around_keep_nobody_out(
    tmp_path: Path, sent: bytes, *, calls: bool, tls: bool
) -> None:
    """Six hundred of them, more than there are connections and places, and the guard answers whoever comes."""
    limits = {"maxConnections": 500, "maxConnectionsPerAddress": 400, "maxInFlight": 100}
    async with Service(tmp_path, listen=limits) as service:
        async with _standing(service, _COUNT, sent, calls=calls, tls=tls):
            for _ in range(5):
                await _serves(service)
            assert await _metric(service, "cks_admission_connections ") <= 400
            reached = {
                limit: await _metric(service, f'cks_admission_no_room_total{{limit="{limit}"}}')
                for limit in ("address", "handshakes")
            }
            assert reached["address"] >= (_COUNT - 400 if tls else 0)
            assert reached["handshakes"] >= (0 if tls else 1)
        await _serves(service)
    told = [event["limit"] for event in service.events if event["event"] == "too many connections"]
    assert ("address" if tls else "handshakes") in told


async def test_a_head_that_does_not_end_ends_its_connection(tmp_path: Path) -> None:
    """A head that comes too slowly, and one that is too long, end the connection; one that never began does not."""
    async with (
        Service(tmp_path) as service,
        _standing(service, sent=_PART_OF_A_HEAD) as (slow,),
        _standing(service, 2) as (idle, long),
    ):
        await long.send(
            b"POST /validate HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 4000) for n in range(12))
        )
        assert await long.ended()
        assert await slow.ended()
        assert answer_of((await idle.call(_GUARDED)).body)["allowed"] is False


async def test_a_handshake_that_stands_still_ends(tmp_path: Path) -> None:
    """A connection without a handshake is closed after seconds."""
    async with Service(tmp_path) as service, _standing(service, tls=False) as (silent,):
        assert await silent.ended()
        assert await _metric(service, "cks_admission_connections ") == 0


async def test_a_body_that_does_not_come_ends_before_its_caller_gives_up(tmp_path: Path) -> None:
    """A body has a time of its own, however long its caller waits."""
    async with (
        Service(tmp_path, listen={"bodySeconds": 0.2}) as service,
        _standing(service, sent=_PART_OF_A_BODY) as (slow,),
    ):
        reply = await slow.reply()

    text = "The body did not arrive within 0.2 s (listen.bodySeconds, or the caller's ?timeout=).\n"
    assert (reply.status, reply.text) == (408, text)


async def test_large_bodies_that_come_slowly_make_way(tmp_path: Path) -> None:
    """Where bytes run short, slow senders of large bodies are told to come again; one line says so, and a metric."""
    limits = {"maxBytesInFlight": 16 * 1024 * 1024, "bodySeconds": 30}
    async with Service(tmp_path, listen=limits) as service:
        async with _standing(service, 5) as wires:
            for wire in wires:
                await wire.send(head("/validate?timeout=30s", 5_000_001) + b" " * 5_000_000)
            await _serves(service)
            assert await _metric(service, "cks_admission_bytes_in_flight ") <= 16 * 1024 * 1024
            refused = [asyncio.create_task(wire.reply()) for wire in wires]
            await until(lambda: sum(task.done() for task in refused) == 3)
            replies = [task.result() for task in refused if task.done()]
            for task in refused:
                task.cancel()
        assert {(reply.status, reply.headers["retry-after"]) for reply in replies} == {(503, "1")}
        assert await _metric(service, 'cks_admission_no_room_total{limit="bytes"}') == 3
    assert len([event for event in service.events if event["event"] == "no room"]) == 1


async def test_connections_end_between_calls_and_no_call_is_lost(tmp_path: Path) -> None:
    """Connections that are used all the time are ended after a while by an answer, and every call is answered."""
    async with Service(tmp_path, listen={"connectionSeconds": 0.1}) as service:

        async def call_on(ends: int) -> int:
            """Call on one connection after the other until that many were ended; the number of answers."""
            answers = 0
            for _ in range(ends):
                async with service.connection() as wire:
                    closes = False
                    while not closes:
                        reply = await wire.call(_GUARDED)
                        assert answer_of(reply.body)["allowed"] is False
                        answers, closes = answers + 1, reply.closes
                    assert await wire.ended()
            return answers

        answers = sum(await asyncio.gather(*(call_on(3) for _ in range(8))))

        assert await _metric(service, "cks_admission_requests_total") == answers


async def test_load_is_even_after_scaling_out(tmp_path: Path) -> None:
    """Callers that keep their connections reach new replicas all the same, and soon each as often as the first."""
    directories = [tmp_path / str(number) for number in range(4)]
    for directory in directories:
        directory.mkdir()
    replicas = 1
    turns = itertools.count()
    together = asyncio.Barrier(12)  # so that a replica that gets less of the machine is not asked less
    answers: Counter[int] = Counter()

    async def call_on(services: Sequence[Service]) -> None:
        """Call on one connection until it ends, then on one to the next replica, as a Service spreads connections."""
        while True:
            number = next(turns) % replicas
            async with services[number].connection() as wire:
                closes = False
                while not closes:
                    await together.wait()
                    closes = (await wire.call(_GUARDED)).closes
                    answers[number] += 1

    def shares_are_even() -> bool:
        # A connection lives for its time give or take a quarter: one with the longest ones only would have 5/14.
        return all(1 / 6 * answers.total() < answers[number] < 5 / 14 * answers.total() for number in range(4))

    async with AsyncExitStack() as stack:
        services = [Service(directory, listen={"connectionSeconds": 0.5}) for directory in directories]
        await asyncio.gather(*map(stack.enter_async_context, services))
        await asyncio.gather(*(service.port() for service in services))
        callers = [asyncio.create_task(call_on(services)) for _ in range(together.parties)]
        await until(lambda: answers[0] > together.parties)
        replicas = len(services)
        answers.clear()
        await until(shares_are_even)
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)


def _peak(pid: int) -> int:
    """The most memory that a process has had resident, in KiB."""
    return int(Path(f"/proc/{pid}/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0])


async def test_many_large_reviews_stay_within_the_memory_limit(tmp_path: Path) -> None:
    """A dozen large reviews at once, tried again as the API server does, take less than the chart's limit."""
    # 5 MB that take 140 MB when decoded: lists in lists, where a rule reads everything.
    annotations = {"kai.scheduler/topology": "coreweave"}
    obj = pod(metadata={"name": "x", "annotations": annotations}, affinity={"x": [[{}]] * 400_000})
    sent = body(obj, old=obj)
    async with Service(tmp_path) as service:

        async def tried() -> set[int]:
            """Send it until it is answered; every status on the way."""
            statuses: set[int] = set()
            while 200 not in statuses:
                async with service.connection() as wire:
                    statuses.add((await wire.call(sent, "/validate?timeout=30s")).status)
                await asyncio.sleep(0.1)
            return statuses

        statuses = set().union(*await asyncio.gather(*(tried() for _ in range(12))))
        peak = _peak(service.process.pid)

    documents = yaml.safe_load_all(_CHART.read_text(encoding="utf-8"))
    (deployment,) = [d for d in documents if (d["kind"], d["metadata"]["name"]) == ("Deployment", "cks-admission")]
    limit: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert statuses <= {200, 503, 408}
    assert peak < int(limit.removesuffix("Mi")) * 1024
