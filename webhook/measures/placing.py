"""The metrics of placing gangs."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.measures.buckets import BUCKETS

if TYPE_CHECKING:
    from policies.topology.placer.placer import Look, Waiting

AGES: Final = ((60.0, "1m"), (300.0, "5m"), (900.0, "15m"), (3600.0, "1h"))
"""The ages of gangs that wait, in seconds, with the names of those that are younger; older ones are `over`."""

_OPENING_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


class Placing:
    """The metrics of placing gangs. sizes: how much the placer knows, by kind; None in processes without one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sizes: Callable[[], Mapping[str, int]] | None = None
        self.ways = Counter(
            "cks_admission_placed_templates_total",
            "Templates and Pods with a placement, by who keeps their Pods together.",
            ("way",),
            registry=registry,
        )
        self.flawed = Gauge(
            "cks_admission_fabric_flawed_nodes",
            "Nodes with a flaw of the network, by kind: slow, miswired, split, incomplete or mixed; in the process "
            "that leads.",
            ("kind",),
            registry=registry,
        )
        self._leading = Gauge(
            "cks_admission_placer_leading",
            "1 in the placer that leads and knows the cluster, so that it opens gates; 0 in others.",
            registry=registry,
        )
        self._waiting = Gauge(
            "cks_admission_gangs_waiting",
            "Gangs that wait, by level and age: below 1m, 5m, 15m, 1h, or over; in the placer that leads.",
            ("level", "age"),
            registry=registry,
        )
        self._overdue = Gauge(
            "cks_admission_gangs_overdue",
            "Gangs that wait for longer than topology.patienceSeconds although room was there; in the leading placer.",
            registry=registry,
        )
        self._opening = Histogram(
            "cks_admission_gang_opening_seconds",
            "Time from the last Pod of a gang to the opening of its gates.",
            buckets=_OPENING_BUCKETS,
            registry=registry,
        )
        self._opened = Counter(
            "cks_admission_pods_opened_total",
            "Pods whose gate was to be opened: opened, gone (it had changed meanwhile) or refused.",
            ("outcome",),
            registry=registry,
        )
        self._looks = Histogram(
            "cks_admission_placer_look_seconds", "Time to decide which gangs start.", buckets=BUCKETS, registry=registry
        )
        self._objects = Gauge(
            "cks_admission_placer_objects", "What the placer knows: node, pod or gang.", ("kind",), registry=registry
        )

    def look(self, look: Look, seconds: float, now: float) -> None:
        """Count what was decided. now: seconds since the epoch."""
        self._looks.observe(seconds)
        for placed in look.placed:
            self._opening.observe(placed.seconds)
        self.queue(look.queue, now)

    def lead(self, *, leads: bool) -> None:
        """Show whether this process opens gates."""
        self._leading.set(leads)

    def queue(self, queue: Iterable[Waiting], now: float = 0.0) -> None:
        """Show who waits; nobody in a process that does not lead."""
        waiting = list(queue)
        self._waiting.clear()
        for (level, age), count in Tally((one.level, _age(now - one.since)) for one in waiting).items():
            self._waiting.labels(level, age).set(count)
        self._overdue.set(sum(one.overdue for one in waiting))

    def opened(self, outcome: str) -> None:
        """Count a Pod whose gate was to be opened."""
        self._opened.labels(outcome).inc()

    def update(self) -> None:
        """Set how much the placer knows now."""
        if self.sizes is not None:
            for kind, size in self.sizes().items():
                self._objects.labels(kind).set(size)


def _age(seconds: float) -> str:
    return next((name for limit, name in AGES if seconds < limit), "over")
