"""The kinds of workloads that rules look into, by the settings, and the resources of these kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policies.engine.match import ResourceRule
from policies.objects.workload import BUILT_IN, PATCHES, Workload, table
from policies.podspec import Accelerators
from webhook.configuration.rules.hook import WRITES
from webhook.configuration.settings import Settings, SettingsError


def workload_table(settings: Settings) -> Mapping[tuple[str, str], Workload]:
    """The table of workloads, with those of the settings. Raises SettingsError."""
    try:
        return table((*BUILT_IN, *(row.row for row in settings.workloads)))
    except ValueError as error:
        raise SettingsError(f"workloads: {error}") from None


def with_templates(settings: Settings) -> dict[tuple[str, str], Workload]:
    """The kinds that have pod templates or patches of them, without those that keep earlier ones."""
    rows = workload_table(settings).values()
    return {row.group_kind: row for row in rows if row.makes_pods or row.group_kind in PATCHES}


def resources(rows: Iterable[Workload]) -> tuple[ResourceRule, ...]:
    """The resources of kinds, as one rule for each group."""
    by_group: dict[str, list[str]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row.resource)
    return tuple(ResourceRule(WRITES, (group,), tuple(names)) for group, names in by_group.items())


def accelerators(settings: Settings) -> Accelerators:
    """What counts as an accelerator."""
    chosen = settings.tolerations.accelerators
    return Accelerators(chosen.resources, chosen.device_classes)
