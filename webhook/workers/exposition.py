"""Combines the metrics of several processes: texts in Prometheus' format in, their sums out.

Pure. The client library parses and writes the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

Combine = Callable[[Iterable[float]], float]


def _soonest(times: Iterable[float]) -> float:
    """The earliest of the known times; 0 means unknown."""
    return min((time for time in times if time), default=0.0)


# How to combine a gauge of several workers, by name. Except for moments, workers of a Pod have the same policies and
# certificates. A fault of one is a fault of the Pod.
GAUGES: Final[Mapping[str, Combine]] = {
    "cks_admission_requests_in_flight": sum,
    "cks_admission_child_reviews_waiting": sum,
    "cks_admission_bytes_in_flight": sum,
    "cks_admission_connections": sum,
    "cks_admission_policies": max,
    "cks_admission_policies_refused": max,
    "cks_admission_shadow_policies": max,
    "cks_admission_shadow_policies_not_asked": max,
    "cks_admission_shadow_policies_refused": max,
    "cks_admission_certificate_expiry_timestamp_seconds": _soonest,
    "cks_admission_authority_expiry_timestamp_seconds": _soonest,
    "cks_admission_leader": max,
    "cks_admission_label_writers": max,
    "cks_admission_registration_entries_withheld": max,
    "cks_admission_configuration_refused": max,
    "cks_admission_watch_age_seconds": max,
    "cks_admission_api_server_silence_seconds": max,
    "cks_admission_gangs_without_domain": max,
    "cks_admission_fabric_flawed_nodes": max,
    "cks_admission_inventory_age_seconds": max,
    "cks_admission_inventory_objects": max,
    "cks_admission_policy_budget_used_ratio": max,
    "cks_admission_audit_end_timestamp_seconds": max,
    "cks_admission_audit_duration_seconds": max,
    "cks_admission_audit_objects": max,
    "cks_admission_audit_unreadable_kinds": max,
    "cks_admission_audit_findings": max,
    "cks_admission_audit_reports": max,
    "cks_admission_audit_events": max,
    "cks_admission_workers": sum,
    "cks_admission_build_info": max,
    "cks_admission_kubernetes_info": max,
}
_COUNTED: Final = frozenset({"counter", "histogram"})
_CREATED: Final = "_created"  # the client library's creation time of a series, a gauge in its text format


def total(texts: Iterable[bytes]) -> bytes:
    """The sum of several texts. Counters and histograms are added; GAUGES defines how gauges are combined."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]] = {}
    for text in texts:
        for family in _families(text):
            families.setdefault(family.name, family)
            samples = values.setdefault(family.name, {})
            for sample in family.samples:
                samples.setdefault((sample.name, tuple(sample.labels.items())), []).append(sample.value)
    for name, family in families.items():
        combine = _combine(family)
        family.samples = [Sample(of, dict(labels), combine(numbers)) for (of, labels), numbers in values[name].items()]
    return generate_latest(_Collected(families.values()))


def lasting(text: bytes) -> bytes:
    """The metrics of an ended process that still count: its counters and histograms, but not its gauges."""
    counted = (family for family in _families(text) if family.type in _COUNTED or family.name.endswith(_CREATED))
    return generate_latest(_Collected(counted))


class _Collected(Collector):
    """Metric families as a collector, which the library requires."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(text: bytes) -> Iterator[Metric]:
    yield from text_string_to_metric_families(text.decode())


def _combine(family: Metric) -> Combine:
    if family.name.endswith(_CREATED):
        return min
    return sum if family.type in _COUNTED else GAUGES.get(family.name, max)
