"""The end of the real process: nothing that was sent is lost, and it does not take longer than it must."""

import asyncio
import itertools
import signal
from pathlib import Path

import pytest
from support.builders import pod
from support.patience import until
from support.service.processes import Service, until_closed
from support.service.reviews import answer_of, body, refused_body
from support.service.wire import JSON, connected, head

_CONNECTIONS = 8


class _Load:
    """Callers that send reviews one after the other on connections that they keep, as the API server does.

    A caller ends where an answer says that its connection closes; the API server would go to another replica.
    """

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.answered: list[str] = []

    async def call(self, service: Service, number: int) -> None:
        """One caller."""
        async with service.connection() as wire:
            for count in itertools.count():
                uid = f"{number}-{count}"
                self.sent.append(uid)
                reply = await wire.call(refused_body(uid=uid), "/validate?timeout=10s")
                answer = answer_of(reply.body)
                assert (reply.status, answer["uid"], answer["allowed"]) == (200, uid, False)
                self.answered.append(uid)
                if reply.closes:
                    assert await wire.ended()
                    return


async def test_sigterm_under_load_loses_nothing(tmp_path: Path) -> None:
    """From SIGTERM on readiness says no while the port is still open; every review that was sent has its own answer."""
    async with Service(tmp_path, listen={"drainSeconds": 5.0}) as service:
        port = await service.port()
        load = _Load()
        running = asyncio.gather(*(load.call(service, number) for number in range(_CONNECTIONS)))
        await until(lambda: len(load.answered) >= 20 * _CONNECTIONS)

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
    assert sorted(load.answered) == sorted(load.sent)
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
