"""The clocks of reviews, policies that count as slow, turns, by which no tenant waits for another, and children."""

from __future__ import annotations

import asyncio
import math
import os
import re
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support import virtualtime
from support.service.reviews import NeedsNamespaces, rule

from policies.engine.facts import NamespaceKey
from policies.engine.interruption import Missing, PostponedError, TimeLimitError
from webhook import heavy
from webhook.child import Child, ChildError, End
from webhook.heavy import Allowance, Claim, NoTurnError, Slice, SlowPolicies, Turns, Use, turn_end, turn_order
from webhook.limits import Limits
from webhook.metrics import MOST, OTHERS, Metrics


def _spin_aside() -> None:
    def spin() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    other = threading.Thread(target=spin)
    other.start()
    other.join()


@pytest.mark.parametrize("wait", [lambda: time.sleep(0.2), _spin_aside], ids=["sleep", "thread"])
def test_time_of_others_does_not_count(wait: Callable[[], None]) -> None:
    """A process that the kernel does not run for a while has not spent its slice, nor one whose other thread reads."""
    clock = Slice()

    def look() -> bool:
        wait()
        return clock()

    assert clock.run(look) is False


def test_the_slice_is_for_all_evaluations_of_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one evaluation has used is not there for the next one; what others use meanwhile is not counted."""
    time = 0.0
    monkeypatch.setattr(heavy, "thread_time", lambda: time)
    monkeypatch.setattr(heavy, "monotonic", lambda: time)
    clock = Slice()
    seen: list[object] = []
    for used, by_others in ((0.9 * heavy.SLICE, 1.0), (0.0, 1.0), (0.2 * heavy.SLICE, 0.0)):

        def look(used: float = used) -> None:
            nonlocal time
            time += used
            seen.append(clock())
            raise Missing(NamespaceKey("team"))

        try:
            clock.run(look)
        except (Missing, PostponedError) as error:
            seen.append(type(error))
        time += by_others

    assert seen == [False, Missing, False, Missing, PostponedError]


def test_an_allowance_ends_everything_that_follows() -> None:
    """After the end of the time each look says so with the same error, which knows the policy."""
    allowance = Allowance(3600)
    assert allowance() is False
    allowance.end()
    with pytest.raises(TimeLimitError) as caught:
        allowance()
    caught.value.blame("dear")
    with pytest.raises(TimeLimitError) as again:
        allowance()

    assert again.value is caught.value
    assert str(caught.value).startswith("it took longer than ")
    assert allowance.policy == "dear"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the module sees, in a list of one."""
    now = [1000.0]
    monkeypatch.setattr(heavy, "monotonic", lambda: now[0])
    return now


def test_a_policy_is_skipped_after_it_was_slow_again_and_again(clock: list[float]) -> None:
    """Three times in a minute are too many; it is skipped for five minutes, and whoever is to know is told."""
    told: list[str] = []
    policies = SlowPolicies(Metrics(), skips=lambda: True, tell=told.append)
    seen = []
    for seconds in (0, 50, 50, 5):
        clock[0] += seconds
        policies.overtime("dear")
        seen.append((policies.skipped, len(told)))
    clock[0] += 300

    assert seen == [*[(frozenset(), 0)] * 3, (frozenset({"dear"}), 1)]
    assert (policies.skipped, told) == (frozenset(), ["dear"])


def test_a_change_of_policies_ends_the_skipping(clock: list[float]) -> None:
    """A policy that was mended is evaluated again, and has to be slow as often as the first time to be skipped."""
    policies = SlowPolicies(Metrics(), skips=lambda: True)
    for _ in range(heavy.TIMES):
        policies.overtime("dear")
    policies.forgive()
    clock[0] += 1
    policies.overtime("dear")

    assert policies.skipped == frozenset()


def test_a_policy_is_named_once_a_minute_and_kept(clock: list[float]) -> None:
    """Unless it is to be skipped it stays, and is told of at most once a minute; a dry run tells nobody."""
    told: list[str] = []
    policies = SlowPolicies(Metrics(), tell=told.append)
    for _ in range(20):
        policies.overtime("dear")
        clock[0] += 5
    assert (policies.skipped, told) == (frozenset(), ["dear", "dear"])

    for _ in range(heavy.TIMES):
        policies.overtime("other", dry_run=True)
    assert told == ["dear", "dear"]


def test_what_was_given_up_is_not_tried_again_at_once(clock: list[float]) -> None:
    """For some seconds the reviews of that tenant for that rule are not tried in the event loop."""
    policies = SlowPolicies(Metrics())
    rules = [rule(NeedsNamespaces(), name="dear"), rule(NeedsNamespaces(), name="cheap")]
    policies.postpone("dear", "team")

    assert policies.expects(rules, "team") is True
    assert policies.expects(rules[1:], "team") is False
    assert policies.expects(rules, "other") is False
    clock[0] += heavy.REMEMBERED
    assert policies.expects(rules, "team") is False


def test_the_memory_is_bounded(clock: list[float]) -> None:
    """Neither namespaces nor policies without end fill the memory or the metrics."""
    del clock
    metrics = Metrics()
    policies = SlowPolicies(metrics)
    for number in range(2000):
        policies.postpone("dear", f"team-{number}")
        policies.overtime(f"policy-{number}")
    exposed = metrics.expose().decode()

    assert policies.expects([rule(NeedsNamespaces(), name="dear")], "team-999") is True
    assert policies.expects([rule(NeedsNamespaces(), name="dear")], "team-1999") is False
    assert exposed.count("cks_admission_policy_overtime_total{") == MOST + 1
    metrics.rules.in_force({"policy-1"})
    left = re.findall(r'cks_admission_policy_overtime_total\{policy="(.+)"\}', metrics.expose().decode())
    assert left == ["policy-1", OTHERS]


def _later() -> float:
    return asyncio.get_running_loop().time() + 3600


async def _wait_for(queue: Turns, count: int) -> None:
    while queue.waiting < count:  # noqa: ASYNC110 - nobody is told of it but this test
        await asyncio.sleep(0)


def test_tenants_take_turns() -> None:
    """Whoever asks ten times before another asks once does not come ten times first."""

    async def scenario() -> str:
        queue, order = Turns(), []

        async def work(tenant: str) -> None:
            async with queue.turn(tenant, _later()):
                order.append(tenant)
                await asyncio.sleep(1)

        await asyncio.gather(*map(work, "aaaabbc"))
        assert queue.waiting == 0
        return "".join(order)

    assert virtualtime.run(scenario()) == "abcabaa"


def test_a_turn_ends_for_another_tenant() -> None:
    """A turn is told once to end when another tenant's share of time begins, and not for a further one of the same."""

    async def scenario() -> list[float]:
        loop, queue, ends = asyncio.get_running_loop(), Turns(), list[float]()

        async def work(tenant: str, seconds: float) -> None:
            with suppress(NoTurnError):
                async with queue.turn(tenant, loop.time() + seconds):
                    pass

        async with queue.turn("a", _later()) as turn:
            turn.end = lambda: ends.append(loop.time())
            first = asyncio.create_task(work("a", 60))
            await asyncio.sleep(10)
            others = asyncio.gather(work("b", 8), work("b", 8))
            await asyncio.sleep(6)
        await asyncio.gather(first, others)
        return ends

    assert virtualtime.run(scenario()) == [14.0]


async def test_no_turn_after_the_deadline() -> None:
    """Waiting counts towards the time of the review; who gives up is forgotten, and the next one has the turn."""
    queue, done = Turns(), []
    async with queue.turn("a", _later()):
        with pytest.raises(NoTurnError, match="no time was left"):
            async with queue.turn("b", asyncio.get_running_loop().time()):
                raise AssertionError
        assert queue.waiting == 0
    async with queue.turn("c", _later()):
        done.append("c")

    assert done == ["c"]


async def test_who_waits_may_be_cancelled() -> None:
    """A cancelled call leaves no gap: the turn goes to the next one."""
    queue, order = Turns(), []

    async def work(tenant: str) -> None:
        async with queue.turn(tenant, _later()):
            order.append(tenant)

    async with queue.turn("a", _later()):
        first, second = (asyncio.create_task(work(tenant)) for tenant in "bc")
        await _wait_for(queue, 2)
        first.cancel()
    async with asyncio.timeout(60):
        await second

    assert order == ["c"]


async def test_the_queue_is_bounded() -> None:
    """Neither one tenant nor all together fill the memory with reviews that wait."""
    queue = Turns()

    async def work(tenant: str) -> None:
        async with queue.turn(tenant, _later()):
            pass

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(queue.turn("a", _later()))
        tasks = [asyncio.create_task(work("a")) for _ in range(heavy.WAITING_OF_ONE)]
        await _wait_for(queue, heavy.WAITING_OF_ONE)
        with pytest.raises(NoTurnError, match="too many"):
            await work("a")
        tasks += [asyncio.create_task(work(f"t{number}")) for number in range(heavy.WAITING - heavy.WAITING_OF_ONE)]
        await _wait_for(queue, heavy.WAITING)
        with pytest.raises(NoTurnError, match="too many"):
            await work("b")
    await asyncio.gather(*tasks)
    assert queue.waiting == 0


_TIMEOUT = 5.0  # of a call, as entries that fail closed are registered


class _Cloud:
    """Tenants whose reviews take a time each. answered: how many were judged to their end, by tenant; likewise lost."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.answered: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    async def review(self, tenant: str, seconds: float, patience: float = _TIMEOUT) -> None:
        """One review, which ends when its turn or its time does."""
        deadline = asyncio.get_running_loop().time() + patience
        whole = False
        try:
            async with self.turns.turn(tenant, deadline) as turn:
                ended = asyncio.Event()
                turn.end = ended.set
                done = asyncio.get_running_loop().time() + seconds
                try:
                    async with asyncio.timeout_at(min(done, deadline)):
                        await ended.wait()
                except TimeoutError:
                    whole = done < deadline
        except NoTurnError:
            pass
        (self.answered if whole else self.lost)[tenant] += 1

    async def flood(self, tenant: str, seconds: float, callers: int, patience: float = _TIMEOUT) -> None:
        """Reviews, one after another from each caller, without end."""

        async def call() -> None:
            while True:
                await self.review(tenant, seconds, patience)
                await asyncio.sleep(0)

        await asyncio.gather(*(call() for _ in range(callers)))

    async def after(self, seconds: float, *floods: Any) -> None:
        """Floods, with the arguments of each, and their counts after a while."""
        tasks = [asyncio.create_task(self.flood(*flood)) for flood in floods]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("patience", [_TIMEOUT, 30.0])
@pytest.mark.parametrize("floods", [1, 3, 8])
def test_tenants_that_flood_keep_nobody_else_out(floods: int, patience: float) -> None:
    """However many namespaces ask all the time for all of it, every review of another one is judged to its end."""

    async def people(cloud: _Cloud) -> None:
        while True:
            await asyncio.sleep(9)
            await cloud.review("person", 0.4)

    async def scenario() -> tuple[bool, int]:
        cloud = _Cloud()
        person = asyncio.create_task(people(cloud))
        await cloud.after(200, *((f"flood-{number}", 60.0, 4, patience) for number in range(floods)))
        person.cancel()
        return cloud.answered["person"] >= 15, cloud.lost["person"]

    assert virtualtime.run(scenario()) == (True, 0)


_PERSON = ("person", 0.5)


@pytest.mark.parametrize(
    ("reviews", "answered"),
    [
        *(([*((f"flood-{n}", 60.0) for n in range(others)), _PERSON], ["person"]) for others in range(1, 8)),
        pytest.param([(f"team-{n}", 0.4) for n in range(10)], [f"team-{n}" for n in range(10)], id="quick-ones"),
        pytest.param([("team", 2.0)] * 2, ["team"] * 2, id="a-tenant-alone"),
    ],
)
def test_tenants_that_begin_at_once_share_their_time(reviews: list[tuple[str, float]], answered: list[str]) -> None:
    """Who comes last has a turn in time, who takes less than a share loses none; a tenant does not end its own turn."""

    async def scenario() -> Counter[str]:
        cloud = _Cloud()
        await asyncio.gather(*(cloud.review(*review) for review in reviews))
        return cloud.answered

    assert virtualtime.run(scenario()) == Counter(answered)


@pytest.mark.parametrize(("tenants", "callers"), [(1, 4), (4, 1), (4, 4), (8, 1)])
def test_a_flood_is_not_all_in_vain(tenants: int, callers: int) -> None:
    """Where more is asked than there is time for, most of the time goes into reviews that are judged to their end."""

    async def scenario() -> Counter[str]:
        cloud = _Cloud()
        await cloud.after(200, *((f"team-{number}", 2.4, callers) for number in range(tenants)))
        return cloud.answered

    answered = virtualtime.run(scenario())

    assert sum(answered.values()) * 2.4 > 200 / 2
    assert len(answered) == tenants


def test_the_end_of_a_turn() -> None:
    """It is an even share of the time of who waits, later for who has used much, and never too early to do anything."""
    use, turn = Use(), Claim("turn", 10.0, 40.0)
    use.add("turn", 2.0, 10.0)
    use.add("much", 4.0, 10.0)
    light, late, much = Claim("light", 9.0, 16.0), Claim("late", 10.2, 10.4), Claim("much", 10.0, 12.0)
    ends = [turn_end(turn, others, use, 10.0) for others in ([], [light], [light, light], [late], [much])]

    assert ends == [math.inf, 13.0, 12.0, 10.0 + heavy.LEAST, 16.0]


def test_the_order_of_turns() -> None:
    """Who has used least is first, then who came first; a tenant stands there once, with its first claim."""
    use = Use()
    use.add("much", 1.5, 0.0)
    use.add("some", 1.0, 0.0)
    waiting = [Claim(tenant, 0.0, 5.0) for tenant in ("much", "some", "much", "none", "new", "some")]

    assert turn_order(waiting, use, 4.0) == [waiting[number] for number in (3, 4, 1, 0)]


def test_late_claims_of_floods() -> None:
    """What has little time left comes after all that has more, if its tenant has used much."""
    use = Use()
    use.add("much", 9.0, 4.0)
    use.add("more", 10.0, 4.0)
    use.add("little", 1.0, 4.0)
    waiting = [*(Claim(tenant, 0.0, 5.0) for tenant in ("much", "little", "more")), Claim("more", 3.0, 8.0)]

    assert turn_order(waiting, use, 4.0) == [waiting[number] for number in (1, 3, 0)]


def test_use_fades() -> None:
    """Use counts half after its half-life, and what is left of nothing is forgotten."""
    use = Use()
    for number in range(1000):
        use.add(f"t{number}", 0.1, 0.0)
    use.add("team", 4.0, 0.0)
    halves = [use.of("team", heavy.HALF_LIFE * times) for times in range(3)]
    use.add("other", 1.0, heavy.HALF_LIFE * 8)

    assert halves == pytest.approx([4.0, 2.0, 1.0])
    assert use._seconds == pytest.approx({"team": 4.0 / 256, "other": 1.0})


_LIMITS = Limits(memory=64 * 2**20, seconds=1)


async def _end(*work: Callable[[], Any]) -> End:
    """The end of a child that does some work."""
    return await Child(lambda: (part() for part in work), _LIMITS).ended


def _descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough


async def test_results() -> None:
    """The child returns what its work yields, however large, and neither process nor descriptor is left."""
    before = _descriptors()
    running = Child(lambda: iter((b"x" * 5_000_000, "y")), _LIMITS)
    end = await running.ended

    assert (end.reason, list(end.results())) == ("", [b"x" * 5_000_000, "y"])
    assert list(End("killed while it wrote", end.written[:-1]).results()) == [b"x" * 5_000_000]
    assert _descriptors() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(running.pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_the_child_has_nothing_of_its_parent_but_memory() -> None:
    """Connections, the event loop and its wake-up are the parent's alone."""
    end = await _end(_descriptors, lambda: signal.getsignal(signal.SIGTERM), lambda: signal.set_wakeup_fd(-1))
    descriptors, handler, wakeup = end.results()

    assert len(descriptors) == 3  # standard error, the pipe, and the directory that was listed
    assert (handler, wakeup) == (signal.SIG_DFL, -1)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        pytest.param({}.popitem, "ended with 1", id="exception"),
        pytest.param(lambda: bytearray(4 * _LIMITS.memory), "took over 64 MiB of memory", id="memory"),
        pytest.param(os.abort, "took over 64 MiB of memory", id="memory of C++"),
        pytest.param(lambda: sum(count()), "took over 1 s", id="time"),
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended with -11", id="crash"),
    ],
)
async def test_work_that_fails(work: Callable[[], object], reason: str) -> None:
    """The end says why there is no result, and has those from before."""
    end = await _end(lambda: "first", work)

    assert (list(end.results()), end.reason) == (["first"], reason)


async def test_a_child_that_does_not_end() -> None:
    """One that heeds no request to end is killed."""
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    running = Child(lambda: map(time.sleep, (3600,)), _LIMITS)
    signal.signal(signal.SIGALRM, before)
    running.end()

    assert await running.ended == End(f"ended with -{int(signal.SIGKILL)}", b"")


async def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives no process the review fails as such, and no descriptor is lost."""
    before = _descriptors()

    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(ChildError, match="no process could be started: Resource temporarily unavailable"):
        Child(lambda: (), _LIMITS)

    assert _descriptors() == before


async def test_the_child_is_bounded() -> None:
    """A child whose parent is gone ends by itself, and none takes all memory."""

    def bounds() -> Iterator[int]:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        yield resource.getrlimit(resource.RLIMIT_CPU)[0]
        yield resource.getrlimit(resource.RLIMIT_AS)[0] - pages * resource.getpagesize()
        yield os.nice(0)

    seconds, memory, nice = (await Child(bounds, _LIMITS).ended).results()

    assert (seconds, memory <= _LIMITS.memory, nice) == (_LIMITS.seconds, True, min(os.nice(0) + 5, 19))
