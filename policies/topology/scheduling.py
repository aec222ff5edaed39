"""Which scheduler places a Pod, and what it makes of annotations and of node affinity.

Sources: KAI Scheduler's and Run:ai's documentation of topology-aware scheduling; CoreWeave's "Schedule Kubernetes Pods
with the SUNK Pod Scheduler": Slurm chooses the Node.
"""

from __future__ import annotations

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.glob import matches


class Schedulers(Struct, frozen=True):
    """Schedulers by their names (globs), and labels whose presence hands a Pod to one.

    reading, labels: those that read the annotations themselves. ignoring: those that do not look at node affinity.
    """

    reading: tuple[str, ...] = ("kai-scheduler", "runai-scheduler")
    labels: tuple[str, ...] = ("kai.scheduler/queue", "runai/queue")
    ignoring: tuple[str, ...] = ("*-slurm-scheduler", "slurm-bridge-scheduler")

    def reader(self, workload: JsonObject, template: JsonObject) -> str:
        """Why a scheduler reads the annotations of a template itself; empty where none does."""
        name = self.name(template)
        if matches(name, self.reading):
            return f"schedulerName {name}"
        for holder in (template, workload):
            labels = mapping(mapping(holder, "metadata"), "labels")
            for label in self.labels:
                if label in labels:
                    return f"label {label}"
        return ""

    def ignores_affinity(self, template: JsonObject) -> bool:
        """Whether nobody looks at the node affinity of a template's Pods."""
        return matches(self.name(template), self.ignoring)

    @staticmethod
    def name(template: JsonObject) -> str:
        """The scheduler's name, empty for the default one."""
        return str(mapping(template, "spec").get("schedulerName") or "")
