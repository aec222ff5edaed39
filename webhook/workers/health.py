"""The workers of a supervisor, and their state together: whether all are ready, and the sums of their metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiohttp import hdrs, web

from webhook import metrics
from webhook.http import probes
from webhook.metrics import Metrics
from webhook.workers import exposition
from webhook.workers.worker import WorkerProcess


class Roster:
    """A place for each worker by its number, from 1; served on the health port.

    metrics: the supervisor's own. draining: set when the service is to end.
    """

    def __init__(self, count: int) -> None:
        self.metrics = Metrics()
        self.draining = False
        # A worker, or why there is none just now.
        self._places: dict[int, WorkerProcess | str] = dict.fromkeys(range(1, count + 1), "it has not been started yet")
        self._lasting = b""  # what those counted that have left

    @property
    def numbers(self) -> range:
        """The numbers of all workers that should run."""
        return range(1, len(self._places) + 1)

    def workers(self) -> Iterator[tuple[int, WorkerProcess]]:
        """The workers that run, with their numbers."""
        return ((number, place) for number, place in self._places.items() if isinstance(place, WorkerProcess))

    def enter(self, number: int, worker: WorkerProcess) -> None:
        """Add a worker that was started."""
        self._places[number] = worker

    def leave(self, number: int, worker: WorkerProcess) -> None:
        """Take out a worker that has ended. What it counted stays, so that sums never go back."""
        self._lasting = exposition.total([self._lasting, exposition.lasting(worker.metrics)])
        self._places[number] = f"it has ended by {worker.ending()} and will be started again"

    def health_app(self) -> web.Application:
        """`/livez`, `/readyz` with the reasons of all workers, `/metrics` with their sums."""
        return probes.application(self.livez, self.readyz, self.expose_metrics)

    async def livez(self, _http: web.Request) -> web.Response:
        """The supervisor answers. It restarts workers itself, and ends where that does not help."""
        return web.Response(text="ok\n")

    async def readyz(self, _http: web.Request) -> web.Response:
        """Whether reviews may be sent here. The kernel gives them to any worker, so all have to be ready."""
        if self.draining:
            return web.Response(status=503, text="not ready\n- draining: the service is shutting down\n")
        told = await asyncio.gather(*(_readiness(place) for place in self._places.values()))
        lines = "".join(
            f"- worker {number}: {line}\n" for number, (_, of) in zip(self._places, told, strict=True) for line in of
        )
        ready = all(is_ready for is_ready, _ in told)
        return web.Response(status=200 if ready else 503, text=("ok\n" if ready else "not ready\n") + lines)

    async def expose_metrics(self, _http: web.Request) -> web.Response:
        """The sums over all workers, those that have ended included, for Prometheus."""
        told = await asyncio.gather(*(worker.count() for _, worker in self.workers()))
        self.metrics.workers.set(sum(told))
        texts = [self.metrics.expose(), self._lasting, *(worker.metrics for _, worker in self.workers())]
        body = await asyncio.to_thread(exposition.total, texts)  # takes a while where policies are many
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: metrics.CONTENT_TYPE})


async def _readiness(place: WorkerProcess | str) -> tuple[bool, list[str]]:
    """Whether a worker is ready, and what it says of that."""
    if isinstance(place, str):
        return False, [place]
    reply = await place.ready()
    if reply is None:
        return False, ["it does not answer" if place.answered else "it is starting"]
    _, *lines = reply.body.decode().splitlines()
    return reply.status == 200, [line.removeprefix("- ") for line in lines]
