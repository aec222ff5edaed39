"""A release under load for hours, to which things are done again and again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cluster import load
from cluster.load import Load
from cluster.polling import wait_for
from cluster.release import NAMESPACE, Release
from support.builders import pod
from support.service.reviews import body

from benchmarks.load import context
from faults import documents
from faults.calls import Address, Background, Calls, calling
from faults.documents import GUARD, Review
from faults.resources import MEGABYTE, descriptors, resident
from faults.site import Site
from faults.soak.sample import Sample

REVIEWS = (*GUARD, Review(body(pod()), "/mutate", allowed=True))
REPLICAS = 2
SAMPLE_SECONDS = 5.0
_CAPACITY_SECONDS = 10.0
_CALLERS = 8


class Soak:
    """A release with its load. rate: reviews a second, half of what it could do for a few seconds."""

    def __init__(self, site: Site, release: Release) -> None:
        self._cluster = site.vacant
        self._release = release
        port = int(release.url.rpartition(":")[2])
        self.target = Address(port, context())
        self._edits = itertools.count(1)

    def capacity(self) -> float:
        """The answers a second that it gives for some seconds when each caller asks again at once."""
        with Background() as background:
            calls = background.enter(calling(self.target, REVIEWS, 1e9, _CALLERS))
            time.sleep(_CAPACITY_SECONDS)
            return len(calls.seconds) / _CAPACITY_SECONDS

    def samples(self, seconds: float, rate: float, plan: dict[str, float]) -> Iterator[Sample]:
        """Samples of so many seconds at a rate. plan: the seconds between two events of a kind."""
        pids = [each.process.pid for each in self._release.kubelet.ready()]
        done: dict[str, Callable[[], None]] = {
            "reload": self._reload, "rotation": self._rotate, "another leader": self._depose,
        }  # fmt: skip
        with Load(self._cluster, writers=2) as writing, writing.phase("soak") as phase, Background() as background:
            calls = background.enter(calling(self.target, REVIEWS, rate, _CALLERS))
            began = time.monotonic()
            next_of = dict(plan)
            while (passed := time.monotonic() - began) < seconds:
                writing.settle(SAMPLE_SECONDS)
                events = [name for name, at in next_of.items() if at <= passed]
                for name in events:
                    done[name]()
                    next_of[name] += plan[name]
                failed = len(phase.failures) + phase.total("unasked")
                yield _sample(time.monotonic() - began, calls.taken(), pids, tuple(events), failed)
                phase.failures.clear()

    def _reload(self) -> None:
        """Change a policy in a ConfigMap."""
        metadata = {
            "name": "soak", "namespace": NAMESPACE, "labels": {"cks-admission.dev/policies": "true"},
        }  # fmt: skip
        data = {"limit.yaml": documents.text(documents.limit("soak-limit", 1000 + next(self._edits)))}
        self._cluster.objects.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def _rotate(self) -> None:
        """Let the CA be one of which two thirds are over, so that another takes its place."""
        self._release.age(0)

    def _depose(self) -> None:
        """Delete the Pod that holds the Lease."""
        if holder := self._release.holder():
            self._cluster.kubectl("delete", "pod", holder, "-n", NAMESPACE, "--wait=false", user="admin")


@contextmanager
def soaking(site: Site) -> Iterator[Soak]:
    """A release to soak, once the API server asks it."""
    with Release(site.vacant, replicas=REPLICAS) as release:
        release.install(policies={"load.yaml": load.POLICIES})
        release.wait_until_asked()
        wait_for("a holder of the Lease", release.holder)
        yield Soak(site, release)
        release.uninstall()


def _sample(seconds: float, calls: Calls, pids: list[int], events: tuple[str, ...], failed: int) -> Sample:
    ordered = sorted(calls.seconds) or [0.0]
    return Sample(
        seconds=seconds,
        rate=len(calls.seconds) / SAMPLE_SECONDS,
        p50=ordered[len(ordered) // 2] * 1e3,
        p99=calls.p99 * 1e3,
        slowest=calls.slowest * 1e3,
        lost=calls.lost.total() + calls.late + failed,
        wrong=len(calls.wrong),
        memory=tuple(resident(pid) / MEGABYTE for pid in pids),
        descriptors=tuple(descriptors(pid) for pid in pids),
        events=events,
    )
