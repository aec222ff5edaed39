"""The Events of looks that come again and again."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import FakeApi, status
from support.api.times import Times

from webhook.cluster.api.client import Connection
from webhook.cluster.api.events import Subject
from webhook.cluster.replicas.checks import MOST, RepeatedEvents

_EVENTS = "/api/v1/namespaces/team/events"


async def _look(notices: RepeatedEvents, *names: str) -> None:
    """A look that has something to say about each of these Pods."""
    with notices.look():
        for name in names:
            if notices.is_due(name):
                await notices.write(name, Subject("v1", "Pod", "team", name, name), "DomainLost", "So.", occasion=name)


def _told(server: FakeApi) -> list[str]:
    """The names of the Pods that an Event was sent for."""
    return [json.loads(seen.body)["involvedObject"]["name"] for seen in server.seen if seen.method == "POST"]


async def test_each_is_told_once_while_it_is_there(server: FakeApi, api: Connection, times: Times) -> None:
    """What a look finds again is not told again, unless a look in between did not find it."""
    notices = RepeatedEvents(api, times.clock)

    for names in (["a", "b"], ["a", "b", "c"], ["a"], ["a", "b"]):
        await _look(notices, *names)

    assert _told(server) == ["a", "b", "c", "b"]


async def test_a_refusal_ends_the_events_of_a_look(server: FakeApi, api: Connection, times: Times) -> None:
    """Without the right one Event is tried in each look; with it, all are written. Each change of the answer is logged.

    So is what worked in between and fails again.
    """
    notices = RepeatedEvents(api, times.clock)
    numbers = []

    with capture_logs() as logs:
        for look, code in enumerate((403, 403, 500, 0, 403)):
            if code:
                server.fail(_EVENTS, code, status(code, "no"))
            await _look(notices, *(f"{'late' if look == 4 else 'early'}-{number}" for number in range(20)))
            numbers.append(len(_told(server)))

    right = "; a ClusterRole must allow the service's account to create events"
    forbidden, broken = (f"the API server refused POST {_EVENTS} at {server.url} ({code}: no)" for code in (403, 500))
    assert numbers == [1, 2, 3, 23, 24]
    assert logs == [
        {"event": "could not write Events", "log_level": "warning", "reason": reason}
        for reason in (forbidden + right, broken, forbidden + right)
    ]


@pytest.mark.parametrize(("code", "numbers"), [(409, [3, 3]), (404, [3, 3]), (500, [1, 4])])
async def test_what_an_answer_means(
    code: int, numbers: list[int], server: FakeApi, api: Connection, times: Times
) -> None:
    """An Event that is there, or whose Namespace is gone, is settled; any other failure waits for the next look."""
    server.fail(_EVENTS, code, status(code, "no"))
    notices = RepeatedEvents(api, times.clock)

    sent = []
    for _ in range(2):
        await _look(notices, "a", "b", "c")
        sent.append(len(_told(server)))

    assert sent == numbers


async def test_a_look_that_breaks_off_forgets_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """What was told before stays told, and so does what the broken look itself told."""
    notices = RepeatedEvents(api, times.clock)
    await _look(notices, "a", "b")

    async def broken() -> None:
        with notices.look():
            await notices.write("c", Subject("v1", "Pod", "team", "c", "c"), "DomainLost", "So.", occasion="c")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await broken()
    await _look(notices, "a", "b", "c")

    assert _told(server) == ["a", "b", "c"]


async def test_many_are_told_bit_by_bit(server: FakeApi, api: Connection, times: Times) -> None:
    """One look writes so many at most, and the next one goes on."""
    notices = RepeatedEvents(api, times.clock)
    names = [str(number) for number in range(MOST + 10)]

    numbers = []
    for _ in range(3):
        await _look(notices, *names)
        numbers.append(len(_told(server)))

    assert numbers == [MOST, MOST + 10, MOST + 10]
