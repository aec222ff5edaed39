"""The metrics of choosing domains."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.measures.buckets import BUCKETS
from webhook.measures.sources import Inventory


class Placing:
    """The metrics of choosing domains. inventory: what they are chosen from; None where another process keeps it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.inventory: Inventory | None = None
        self.outcomes = Counter(
            "cks_admission_placements_total",
            "Domains asked for, by outcome: fits, preempts, full, never, or unknown if none could be chosen.",
            ("outcome",),
            registry=registry,
        )
        self.ways = Counter(
            "cks_admission_placed_templates_total",
            "Templates placed, by who keeps their Pods together: none if nobody can.",
            ("way",),
            registry=registry,
        )
        self.seconds = Histogram(
            "cks_admission_choice_duration_seconds",
            "Time to choose the domains for a workload.",
            buckets=BUCKETS,
            registry=registry,
        )
        self.lost = Gauge(
            "cks_admission_gangs_without_domain",
            "Gangs that wait for a domain whose Nodes cannot hold them any more; in the process that leads.",
            registry=registry,
        )
        self.flawed = Gauge(
            "cks_admission_fabric_flawed_nodes",
            "Nodes with a flaw of the network, by kind: slow, miswired, split, incomplete or mixed; in the process "
            "that leads.",
            ("kind",),
            registry=registry,
        )
        self._age = Gauge(
            "cks_admission_inventory_age_seconds",
            "Time since the Nodes and Pods from which domains are chosen were last proved to be up to date.",
            registry=registry,
        )
        self._objects = Gauge(
            "cks_admission_inventory_objects",
            "What is counted there: node, pod or promise.",
            ("kind",),
            registry=registry,
        )

    def update(self) -> None:
        """Set what is known of the inventory now."""
        if self.inventory is not None:
            self._age.set(self.inventory.age())
            for kind, size in self.inventory.sizes().items():
                self._objects.labels(kind).set(size)
