"""The workers of a supervisor, and their combined state: whether all are ready, and the sums of their metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from aiohttp import hdrs, web

from webhook import metrics
from webhook.http import probes
from webhook.metrics import Metrics
from webhook.workers import exposition
from webhook.workers.worker import WorkerProcess


class Roster:
    """The workers by number, from 1, and the health port with their state.

    metrics: the supervisor's own. draining: set when the service should end. notes: what the supervisor has to say
    that makes nobody unready.
    """

    def __init__(self, count: int) -> None:
        self.metrics = Metrics()
        self.draining = False
        self.notes: Callable[[], Iterable[str]] = tuple
        # A worker, or why there is none at the moment.
        self._places: dict[int, WorkerProcess | str] = dict.fromkeys(range(1, count + 1), "it has not been started yet")
        self._lasting = b""  # the metrics of workers that have ended

    @property
    def numbers(self) -> range:
        """The numbers of all workers."""
        return range(1, len(self._places) + 1)

    def workers(self) -> Iterator[tuple[int, WorkerProcess]]:
        """The running workers with their numbers."""
        return ((number, place) for number, place in self._places.items() if isinstance(place, WorkerProcess))

    def enter(self, number: int, worker: WorkerProcess) -> None:
        """Add a worker that was started."""
        self._places[number] = worker

    def leave(self, number: int, worker: WorkerProcess) -> None:
        """Remove a worker that has ended. Its counters are kept, so that sums never decrease."""
        self._lasting = exposition.total([self._lasting, exposition.lasting(worker.metrics)])
        self._places[number] = f"it has ended by {worker.ending()} and will be started again"

    def health_app(self) -> web.Application:
        """`/livez`, `/readyz` with the reasons of all workers, `/metrics` with their sums, `/paths` of one of them."""
        return probes.application(self.livez, self.readyz, self.expose_metrics, self.list_paths)

    async def livez(self, _http: web.Request) -> web.Response:
        """Answer for the supervisor. It restarts workers itself, and ends if that does not help."""
        return web.Response(text="ok\n")

    async def readyz(self, _http: web.Request) -> web.Response:
        """Whether reviews may be sent here. The kernel may choose any worker, so all have to be ready."""
        if self.draining:
            return web.Response(status=503, text="not ready\n- draining: the service is shutting down\n")
        told = await asyncio.gather(*(_readiness(place) for place in self._places.values()))
        lines = "".join(
            f"- worker {number}: {line}\n" for number, (_, of) in zip(self._places, told, strict=True) for line in of
        )
        lines += "".join(f"- {note}\n" for note in self.notes())
        ready = all(is_ready for is_ready, _ in told)
        return web.Response(status=200 if ready else 503, text=("ok\n" if ready else "not ready\n") + lines)

    async def list_paths(self, _http: web.Request) -> web.Response:
        """The paths of any worker, because all run the same version."""
        for _, worker in self.workers():
            if (reply := await worker.paths()) is not None:
                return web.Response(status=reply.status, body=reply.body, content_type="application/json")
        return web.Response(status=503, text="no worker answers yet\n")

    async def expose_metrics(self, _http: web.Request) -> web.Response:
        """The sums over all workers for Prometheus, including workers that have ended."""
        told = await asyncio.gather(*(worker.count() for _, worker in self.workers()))
        self.metrics.workers.set(sum(told))
        texts = [self.metrics.expose(), self._lasting, *(worker.metrics for _, worker in self.workers())]
        body = await asyncio.to_thread(exposition.total, texts)  # slow if there are many policies
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: metrics.CONTENT_TYPE})


async def _readiness(place: WorkerProcess | str) -> tuple[bool, list[str]]:
    """Whether a worker is ready, and its reasons and notes."""
    if isinstance(place, str):
        return False, [place]
    reply = await place.ready()
    if reply is None:
        return False, ["it does not answer" if place.answered else "it is starting"]
    _, *lines = reply.body.decode().splitlines()
    return reply.status == 200, [line.removeprefix("- ") for line in lines]
