"""What bounds a call: its time-out, the number of calls at once, and the end of the process."""

import asyncio
import time
from urllib.parse import quote

import pytest
from support.builders import pod
from support.patience import until
from support.service.reviews import NeedsNamespaces, answer_of, body, rule, served
from support.service.servers import Directory, Serve, time_at_rest
from support.service.wire import connected, head

from policies.engine.ruleset import RuleSet
from webhook.http.app import MARGIN
from webhook.http.decision import Served


def _asking(directory: Directory) -> Served:
    """A rule that needs the labels of the Namespace `team`."""
    return Served(RuleSet([rule(NeedsNamespaces("team"))]), directory.facts(), directory)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 10.0),
        ("?timeout=5s", 5.0),
        ("?timeout=1.5s", 1.5),
        ("?timeout=2500ms", 2.5),
        ("?timeout=2m", 30.0),
        ("?timeout=999999999999s", 30.0),
    ],
)
async def test_the_callers_time_out_is_the_deadline(serve: Serve, query: str, seconds: float) -> None:
    """What a look-up may take is the caller's time-out, or the API's default, at most its longest, less a margin."""
    directory = Directory({"team": {}})
    running = await serve(_asking(directory))

    with time_at_rest():
        reply = await running.post(body(pod()), f"/validate{query}")

    assert reply.status == 200
    ((_, given),) = directory.asked
    assert given == pytest.approx(seconds - MARGIN)


@pytest.mark.parametrize("written", ["", "10", "s", "-1s", "1h", "1e3s", "10s\n", "ten", "10S"])
async def test_a_time_out_that_is_no_duration_is_refused(serve: Serve, written: str) -> None:
    """A `timeout` that cannot be read is 400, and shown as it was found."""
    running = await serve(served(rule()))

    reply = await running.post(body(pod()), f"/validate?timeout={quote(written)}")

    text = f"The query parameter timeout is {written!r}; write a duration such as 10s.\n"
    assert (reply.status, reply.text) == (400, text)


async def test_a_body_that_the_service_did_not_read_in_time(serve: Serve) -> None:
    """If bytes of a body wait when its time is over, the service was the slow one: 503, and the caller comes again."""
    running = await serve(served(rule()))
    sent = body(pod())

    async with connected(running.port) as wire:
        await wire.send(head("/validate?timeout=200ms", len(sent)) + sent[:100])
        await until(lambda: running.state.in_flight == 1)
        await wire.send(sent[100:200])
        time.sleep(0.3)  # noqa: ASYNC251 - nothing else is done meanwhile, which is the point
        reply = await wire.reply()

    assert (reply.status, reply.headers["retry-after"], reply.text) == (
        503,
        "1",
        "Too much at once: the body was not read within listen.bodySeconds or ?timeout=; try again.\n",
    )
    assert 'cks_admission_no_room_total{limit="time"} 1.0' in running.metrics.expose().decode().splitlines()


async def test_a_call_over_capacity_is_told_to_come_again(serve: Serve) -> None:
    """One call more than may be handled at once is 503 with Retry-After, which the API server obeys."""
    directory = Directory({"team": {}}, asyncio.Event())
    running = await serve(_asking(directory), 1)
    assert directory.hold

    first = asyncio.create_task(running.post(body(pod())))
    await directory.reading.wait()
    second = await running.post(body(pod()))
    in_flight = running.state.in_flight
    directory.hold.set()

    assert (second.status, second.headers["retry-after"], second.text) == (
        503,
        "1",
        "Too much at once: over listen.maxInFlight calls; try again.\n",
    )
    assert in_flight == 1
    assert answer_of((await first).body)["allowed"] is True
    assert (await running.post(body(pod()))).status == 200
    assert running.state.in_flight == 0


async def test_a_call_whose_body_is_still_coming_takes_no_place(serve: Serve) -> None:
    """A slow sender keeps nobody out: only a whole body takes a place."""
    running = await serve(served(rule()), 1)

    async with connected(running.port) as slow:
        await slow.send(head(length=5000) + b"{")
        await until(lambda: running.state.in_flight)
        assert (await running.post(body(pod()))).status == 200
