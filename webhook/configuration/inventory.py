"""The workloads that the inventory follows, by the settings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies.objects.workload import Workload
from webhook.configuration import rules
from webhook.configuration.settings import Settings

_UNCOUNTED: Final = frozenset(
    {
        # A Pod is followed as such.
        *(("", kind) for kind in ("Pod", "PodTemplate")),
        # Their Pods do not belong together, or are those of other workloads.
        *(("apps", kind) for kind in ("DaemonSet", "ReplicaSet")),
        ("batch", "CronJob"),
        *(("trainer.kubeflow.org", f"{name}TrainingRuntime") for name in ("", "Cluster")),
    }
)


def workloads(settings: Settings) -> Sequence[Workload]:
    """The kinds that a placement may be written into, and whose Pods it holds together. Raises SettingsError."""
    rows = rules.workload_table(settings).values()
    return [row for row in rows if row.makes_pods and row.affinity != "never" and row.group_kind not in _UNCOUNTED]
