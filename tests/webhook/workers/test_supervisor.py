"""The supervisor with small processes that play workers: who is started when, restarted, given up, asked and ended."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_aiohttp import AiohttpClient
from structlog.testing import capture_logs
from support.builders import Json
from support.patience import PATIENCE, until

from webhook.cluster.api.clock import Clock
from webhook.configuration.settings import SettingsError
from webhook.workers.health import Roster
from webhook.workers.supervisor import Pace, StartError, Supervisor, SupervisorError, reserve
from webhook.workers.worker import WorkerProcess

_HOST = "127.0.0.1"
_FAKE = Path(__file__).parents[2] / "support" / "service" / "fakeworker.py"
_QUICK = Pace(start=0.01, look=0.05)  # and as patient as ever with one that is silent
_COUNTED = "# HELP reviews_total Reviews.\n# TYPE reviews_total counter\nreviews_total {}\n"


def _counting(*reviews: int) -> list[Json]:
    """Plans of processes that have counted so many."""
    return [{"metrics": [200, _COUNTED.format(count)]} for count in reviews]


class _Crew:
    """A supervisor at work. plans: what the processes of each worker do, one after the other, the last one for ever.

    starting: called with the number of each worker that is being started.
    """

    def __init__(self, directory: Path, plans: Sequence[Sequence[Json]], within: float, pace: Pace) -> None:
        self._plans = [iter(plan[:-1]) for plan in plans]
        self._last = [plan[-1] for plan in plans]
        self.pauses: list[float] = []
        self.starting: Callable[[int], object] = lambda _number: None
        self.written: list[bytes] = []
        self.roster = Roster(len(plans))
        self._supervisor = Supervisor(
            self.roster, self._command, directory, self.written.append, pace=pace, clock=self._clock()
        )
        self._stopping: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
        self.running = asyncio.create_task(self._supervisor.run(self._stopping, within))

    def _command(self, number: int, socket: Path) -> list[str]:
        self.starting(number)
        plan = next(self._plans[number - 1], self._last[number - 1])
        return [sys.executable, "-I", "-S", str(_FAKE), str(socket), json.dumps(plan)]

    def _clock(self) -> Clock:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            await asyncio.sleep(0)

        return Clock(sleep=sleep, random=lambda: 1.0)

    @property
    def workers(self) -> dict[int, WorkerProcess]:
        """The workers that run, by their numbers."""
        return {number: worker for number, worker in self.roster.workers() if worker.running}

    async def ready(self, *numbers: int) -> None:
        """Wait until these workers have been seen ready."""
        await until(lambda: all(n in self.workers and self.workers[n].was_ready for n in numbers))

    async def restarted(self, worker: WorkerProcess, number: int = 1) -> None:
        """Wait until another process has taken the place of this one, and is ready."""
        await until(lambda: self.workers.get(number) not in (None, worker))
        await self.ready(number)

    def stop(self, received: signal.Signals = signal.SIGTERM) -> None:
        """Have a signal arrive."""
        if not self._stopping.done():
            self._stopping.set_result(received)

    async def ended(self, received: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, and wait for its end."""
        self.stop(received)
        async with asyncio.timeout(PATIENCE):
            await self.running


@asynccontextmanager
async def _crew(
    directory: Path, *plans: Sequence[Json], within: float = PATIENCE, pace: Pace = _QUICK
) -> AsyncIterator[_Crew]:
    crew = _Crew(directory, plans, within, pace)
    try:
        yield crew
    finally:
        if not crew.running.done():
            await crew.ended()


@pytest.fixture
def log() -> Iterator[list[Any]]:
    """What the supervisor logs."""
    with capture_logs() as lines:
        yield lines


async def test_a_dead_worker_is_replaced_as_often_as_it_takes(tmp_path: Path, log: list[Any]) -> None:
    """Workers that were ready are started again and again, after pauses that grow; the log says how each ended."""
    async with _crew(tmp_path, [{}]) as crew:
        for _ in range(7):
            await crew.ready(1)
            worker = crew.workers[1]
            worker.signal(signal.SIGKILL)
            await crew.restarted(worker)

    assert crew.pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    assert crew.roster.metrics.worker_restarts._value.get() == 7
    ends = [line for line in log if line["event"] == "worker ended"]
    assert {(line["worker"], line["reason"], line["log_level"]) for line in ends} == {
        (1, "SIGKILL, perhaps for lack of memory", "error")
    }
    assert len(ends) == 7


async def test_a_worker_that_never_gets_ready_ends_it_all(tmp_path: Path, log: list[Any]) -> None:
    """Five deaths in a row before readiness are enough: the others are ended in order, and the text says why."""
    async with _crew(tmp_path, [{}], [{"readyz": [503, "not ready\n"]}, {"exit": 3}]) as crew:
        await crew.ready(1)
        await until(lambda: 2 in crew.workers and crew.workers[2].answered)
        crew.workers[2].signal(signal.SIGTERM)
        with pytest.raises(SupervisorError) as error:
            async with asyncio.timeout(PATIENCE):
                await crew.running

    reason = "worker 2 ended 5 times in a row before it was ready, the last time by exit code 3"
    assert str(error.value) == f"{reason}; its own messages say why"
    assert crew.pauses == [0.8, 1.6, 3.2, 6.4]
    assert crew.workers == {}
    assert [line["reason"] for line in log if line["event"] == "worker ended"] == ["SIGTERM", *["exit code 3"] * 4]
    assert log[-1] == {"event": "giving up", "reason": str(error.value), "log_level": "critical"}


async def test_deaths_before_readiness_are_counted_in_a_row(tmp_path: Path) -> None:
    """A worker that was ready in between is given all its chances again."""
    dies = {"exit": 1}
    async with _crew(tmp_path, [{}, *[dies] * 4, {}, *[dies] * 4, {}]) as crew:
        for _ in range(2):
            await crew.ready(1)
            worker = crew.workers[1]
            worker.signal(signal.SIGKILL)
            await crew.restarted(worker)

    assert len(crew.pauses) == 10


@pytest.mark.parametrize("code", [1, 2, 3])
async def test_what_is_wrong_at_first_is_said_once(code: int, tmp_path: Path) -> None:
    """The first worker goes ahead; where it ends before it serves, its text is shown and its exit code passed on."""
    wrong = [{"exit": code, "says": "Error: tls: no such file\n"}]
    async with _crew(tmp_path, wrong, wrong, wrong) as crew:
        with pytest.raises(StartError) as error:
            async with asyncio.timeout(PATIENCE):
                await crew.running

    assert error.value.code == code
    assert crew.written == [b"Error: tls: no such file\n"]
    assert crew.pauses == []


async def test_a_first_worker_that_says_nothing_is_spoken_for(tmp_path: Path) -> None:
    """Killed before it serves, or ended as if all was well: the supervisor says so."""
    async with _crew(tmp_path, [{"exit": 0}], [{}]) as crew:
        with pytest.raises(SupervisorError) as error:
            async with asyncio.timeout(PATIENCE):
                await crew.running

    assert str(error.value) == "the first worker ended by exit code 0 before it served"


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Where no process can be started there is nothing to try again."""
    supervisor = Supervisor(
        Roster(2), lambda _number, _socket: [str(tmp_path / "nothing")], tmp_path, print, pace=_QUICK
    )

    with pytest.raises(SupervisorError) as error:
        await supervisor.run(asyncio.get_running_loop().create_future(), 1.0)

    assert str(error.value) == "worker 1 cannot be started: No such file or directory"


async def test_a_worker_that_hangs_is_replaced(tmp_path: Path, log: list[Any]) -> None:
    """One that is there and answers nothing would keep its share of the calls for ever: it is killed, and told once.

    It takes its time to be gone: what it started holds its standard error for many looks more. Nobody is taken for one
    that hangs where only the machine stands still for some seconds.
    """
    gone = tmp_path / "gone"
    async with _crew(tmp_path, [{"leaves": str(gone)}, {}], pace=Pace(start=0.01, look=0.05, hung=6.0)) as crew:
        await crew.ready(1)
        hanging = crew.workers[1]
        hanging.signal(signal.SIGSTOP)
        await until(lambda: any(line["event"] == "worker hangs" for line in log))
        await asyncio.sleep(0.5)
        gone.touch()
        await crew.restarted(hanging)

    told = [(line["event"], line["log_level"]) for line in log if line.get("pid") == hanging.pid]
    assert told == [("worker started", "info"), ("worker hangs", "error"), ("worker ended", "error")]


async def test_the_end_is_passed_on(tmp_path: Path) -> None:
    """Workers get the signal that the supervisor got, and nobody is started any more."""
    async with _crew(tmp_path, [{}], [{}]) as crew:
        await crew.ready(1, 2)
        workers = list(crew.workers.values())
        await crew.ended(signal.SIGINT)

    assert [worker.code for worker in workers] == [-signal.SIGINT] * 2
    assert crew.pauses == []


@pytest.mark.parametrize("steps", range(8))
async def test_a_signal_amid_a_start_leaves_nobody_behind(steps: int, tmp_path: Path, log: list[Any]) -> None:
    """At whichever step of a start the signal comes, all that were started have ended when the supervisor does."""
    loop = asyncio.get_running_loop()

    def stop(left: int) -> None:
        if left:
            loop.call_soon(stop, left - 1)
        else:
            crew.stop()

    async with _crew(tmp_path, [{}], [{}]) as crew:
        crew.starting = lambda number: stop(steps) if number == 2 else None
        async with asyncio.timeout(PATIENCE):
            await crew.running

    for pid in (line["pid"] for line in log if line["event"] == "worker started"):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_worker_that_does_not_end_is_killed(tmp_path: Path, log: list[Any]) -> None:
    """After the time that draining may take nobody is waited for."""
    async with _crew(tmp_path, [{"stays": True}], [{}], within=0.2) as crew:
        await crew.ready(1, 2)
        workers = dict(crew.workers)
        await crew.ended()

    assert {number: worker.code for number, worker in workers.items()} == {1: -signal.SIGKILL, 2: -signal.SIGTERM}
    # The other one may be told of as well, where its end was not noticed in time.
    killed = {line["worker"]: line for line in log if line["event"] == "worker killed"}
    assert killed[1] == {
        "event": "worker killed",
        "worker": 1,
        "pid": workers[1].pid,
        "reason": "still there after 0.2 s",
        "log_level": "error",
    }


async def test_lines_of_several_workers_stay_whole(tmp_path: Path) -> None:
    """However long lines are, those of one worker do not run into those of another; an unfinished one is finished."""
    texts = [letter * 100_000 for letter in ("a", "b")]
    async with _crew(tmp_path, [{"says": f"{texts[0]}\n1\n"}], [{"says": f"{texts[1]}\n2"}]) as crew:
        await crew.ready(1, 2)

    lines = b"".join(crew.written).decode().splitlines()
    assert sorted(lines) == sorted([*texts, "1", "2"])
    assert [chunk for chunk in crew.written if not chunk.endswith(b"\n")] == []


async def test_readiness_is_that_of_all(tmp_path: Path, aiohttp_client: AiohttpClient) -> None:
    """One that is not ready makes all unready, with its reasons; notes are passed on from all; the end comes first."""
    notes = {"readyz": [200, "ok\n- policies: one is not used\n"]}
    unready = {"readyz": [503, "not ready\n- certificate: there is none\n- cluster: nodes are not listed yet\n"]}
    begin = tmp_path / "begin"
    async with _crew(tmp_path, [{**notes, "waits": str(begin)}, unready], [{}]) as crew:
        client = await aiohttp_client(crew.roster.health_app())

        async def ready() -> tuple[int, str]:
            response = await client.get("/readyz")
            return response.status, await response.text()

        async def answered(*silent: int) -> tuple[int, str]:
            """What it says once all workers but these have answered in time, which is short."""
            async with asyncio.timeout(PATIENCE):
                while True:
                    status, text = await ready()
                    late = re.findall(r"worker (\d+): it does not answer", text)
                    if {*map(int, late)} <= {*silent}:
                        return status, text

        waiting = await ready()
        begin.touch()
        await crew.ready(1, 2)
        both = await answered()
        first = crew.workers[1]
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: crew.workers.get(1) not in (None, first) and crew.workers[1].answered)
        one = await answered()
        crew.workers[2].signal(signal.SIGSTOP)
        silent = await answered(2)
        alive = (await client.get("/livez")).status
        crew.workers[2].signal(signal.SIGKILL)
        await crew.ended()
        draining = await ready()

    why = "- worker 1: certificate: there is none\n- worker 1: cluster: nodes are not listed yet\n"
    assert waiting[0] == 503
    assert "- worker 2: it has not been started yet\n" in waiting[1]
    assert both == (200, "ok\n- worker 1: policies: one is not used\n")
    assert one == (503, f"not ready\n{why}")
    assert silent == (503, f"not ready\n{why}- worker 2: it does not answer\n")
    assert alive == 200
    assert draining == (503, "not ready\n- draining: the service is shutting down\n")


async def test_metrics_that_are_none(tmp_path: Path, aiohttp_client: AiohttpClient) -> None:
    """A worker that answers with an error counts as one that tells nothing, while it lives and when it has ended."""
    async with _crew(tmp_path, [{"metrics": [500, "500: it failed"]}, *_counting(2)]) as crew:
        client = await aiohttp_client(crew.roster.health_app())
        await crew.ready(1)
        failing = await client.get("/metrics")
        first = crew.workers[1]
        first.signal(signal.SIGKILL)
        await crew.restarted(first)
        text = await (await client.get("/metrics")).text()

    assert failing.status == 200
    assert "reviews_total 2.0" in text


async def test_sums_never_go_back(tmp_path: Path, aiohttp_client: AiohttpClient) -> None:
    """What a worker counted stays when it has ended or does not answer; the new one's counts come to it."""
    async with _crew(tmp_path, _counting(5, 2), [{}]) as crew:
        client = await aiohttp_client(crew.roster.health_app())

        async def counted() -> dict[str, float]:
            text = await (await client.get("/metrics")).text()
            wanted = {"reviews_total", "cks_admission_workers", "cks_admission_worker_restarts_total"}
            samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
            return {sample.name: sample.value for sample in samples if sample.name in wanted}

        await crew.ready(1, 2)
        before = await counted()
        first = crew.workers[1]
        first.signal(signal.SIGKILL)
        await crew.restarted(first)
        after = await counted()

    names = ("reviews_total", "cks_admission_workers", "cks_admission_worker_restarts_total")
    assert before == dict(zip(names, (5, 2, 0), strict=True))
    assert after == dict(zip(names, (7, 2, 1), strict=True))


def _listening(port: int, *options: int) -> socket.socket:
    made = socket.socket()
    for option in options:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    made.bind((_HOST, port))
    made.listen()
    return made


def test_calls_go_to_workers() -> None:
    """The reserved socket takes no connection: without a worker there is none, with some each may get it."""
    with reserve(_HOST, 0) as reserved:
        address = reserved.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with (
            _listening(address[1], socket.SO_REUSEPORT) as first,
            _listening(address[1], socket.SO_REUSEPORT) as second,
            socket.create_connection(address),
        ):
            called, _, _ = select([first, second], [], [], PATIENCE)

    assert len(called) == 1


@pytest.mark.parametrize("options", [[], [socket.SO_REUSEPORT]], ids=["alone", "shared"])
def test_somebody_elses_port_is_refused(options: list[int]) -> None:
    """Not even one whose owner would share it is taken: he would get some of the calls, and we some of his."""
    with _listening(0, *options) as taken, pytest.raises(OSError, match="already in use"):
        reserve(_HOST, taken.getsockname()[1])


def test_a_port_is_free_again_afterwards() -> None:
    """Whoever comes next can have it."""
    with reserve(_HOST, 0) as reserved:
        port = reserved.getsockname()[1]
    with reserve(_HOST, port) as again:
        assert again.getsockname() == (_HOST, port)


def test_a_system_that_shares_no_ports_is_told() -> None:
    """The text names the setting and the way out."""
    with pytest.MonkeyPatch.context() as system:
        system.delattr(socket, "SO_REUSEPORT")
        with pytest.raises(SettingsError) as error:
            reserve(_HOST, 0)

    assert str(error.value) == "listen.workers: this system has no SO_REUSEPORT, by which processes share a port; use 1"
