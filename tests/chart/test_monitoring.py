"""Alerts and dashboard against the metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram

from chart.rendering import CHART, Entry, Rendered, render
from webhook.metrics import BUCKETS, Metrics

# Of the API server; see docs/reference/metrics of Kubernetes.
_OF_THE_API_SERVER = {
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
    "apiserver_admission_match_condition_evaluation_seconds_sum": {"name", "kind", "type", "operation"},
    "apiserver_admission_match_condition_evaluation_seconds_count": {"name", "kind", "type", "operation"},
    "apiserver_admission_match_condition_exclusions_total": {"name", "kind", "type", "operation"},
    "apiserver_admission_match_condition_evaluation_errors_total": {"name", "kind", "type", "operation"},
}
# What Prometheus adds to all.
_TARGET = {"namespace", "pod", "job"}
_SELECTED = re.compile(r"\b((?:cks_admission|apiserver)_\w+)(?:\{([^}]*)\})?")
_DASHBOARD = (CHART / "files" / "dashboard.json").read_text(encoding="utf-8")
_DOCUMENTED = (CHART.parents[1] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def _known() -> dict[str, set[str]]:
    """The labels of each series, by its name."""
    found: dict[str, set[str]] = {}
    metrics = Metrics()
    parts = (metrics, metrics.rules, metrics.placing, metrics.shadow, metrics.audits)
    for metric in (metric for part in parts for metric in vars(part).values()):
        if isinstance(metric, Counter):
            found[f"{metric._name}_total"] = set(metric._labelnames)
        elif isinstance(metric, Histogram):
            found[f"{metric._name}_bucket"] = {*metric._labelnames, "le"}
        elif isinstance(metric, Gauge):
            found[metric._name] = set(metric._labelnames)
    build = {"cks_admission_build_info": {"version", "python", "role"}}
    return found | build | _OF_THE_API_SERVER


def _alerts(rendered: Rendered) -> list[dict[str, Any]]:
    (group,) = rendered.one("PrometheusRule")["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def _expressions(rendered: Rendered) -> Iterator[str]:
    yield from (alert["expr"] for alert in _alerts(rendered))
    yield from (target["expr"] for panel in json.loads(_DASHBOARD)["panels"] for target in panel["targets"])


def test_alerts_and_dashboard_ask_for_metrics_that_exist(entry: Entry) -> None:
    """Every series that is named is one of the service's, documented, or the API server's, with labels that it has."""
    known = _known()
    selected = [match.groups() for each in _expressions(entry("pod-monitor")) for match in _SELECTED.finditer(each)]
    labels = {name: set(re.findall(r"(\w+)\s*[=!]", conditions or "")) for name, conditions in selected}

    assert {name for name, _ in selected} <= known.keys()
    assert {name: used - known[name] - _TARGET for name, used in labels.items() if used - known[name] - _TARGET} == {}
    own = {name.removesuffix("_bucket") for name, _ in selected if name.startswith("cks_admission")}
    assert {name for name in own if f"`{name}`" not in _DOCUMENTED} == set()


def test_the_dashboard_shows_every_metric() -> None:
    """No metric of the service is left for people to find out about."""
    shown = {match[1] for match in _SELECTED.finditer(_DASHBOARD)}

    assert {name for name in _known() if name.startswith("cks_admission")} - shown == set()


def test_an_alert_says_what_to_do(entry: Entry) -> None:
    """Each alert has a severity, says what is the case and what to do about it; no placeholder is left."""
    for alert in _alerts(entry("pod-monitor")):
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert alert["annotations"].keys() == {"summary", "description", "runbook"}
        assert alert.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert re.findall(r"RELEASE_NAMESPACE|WEBHOOKS_NAME|\w+_(?:SECONDS|HOURS)\b", json.dumps(alert)) == []


@pytest.mark.parametrize("timeout", [1, 20, 30])
def test_slow_answers_can_be_measured(timeout: int) -> None:
    """The alert about slow answers asks for half the time-out, which lies within the buckets, whatever it is."""
    values = {
        "config": {"registration": {"timeoutSeconds": timeout}},
        "monitoring": {"prometheusRule": {"enabled": True}},
    }
    (slow,) = [alert["expr"] for alert in _alerts(render(values)) if alert["alert"] == "CksAdmissionSlow"]
    threshold = float(slow.rpartition(">")[2])

    # What lies beyond the last bucket counts as the last bucket.
    assert (threshold, threshold < BUCKETS[-1]) == (timeout / 2, True)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("pod-monitor", set()),
        (
            "service-monitor",
            {
                "CksAdmissionAuthorityExpiresSoon",
                "CksAdmissionNoLeader",
                "CksAdmissionPlacerGone",
                "CksAdmissionGangOverdue",
                "CksAdmissionPlacerRefused",
                "CksAdmissionRegistrationFails",
                "CksAdmissionRegistrationContested",
                "CksAdmissionEntriesWithheld",
                "CksAdmissionAuditOverdue",
                "CksAdmissionAuditIncomplete",
            },
        ),
    ],
)
def test_there_is_no_alert_about_what_there_is_not(entry: Entry, name: str, missing: set[str]) -> None:
    """Where nobody leads and nobody registers, no alert misses it."""
    every = {each["alert"] for each in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))}

    assert every - {alert["alert"] for alert in _alerts(entry(name))} == missing


def test_the_dashboard_is_found_by_its_label(entry: Entry) -> None:
    """The ConfigMap has the label that Grafana's sidecar looks for, and the dashboard as it stands in the chart."""
    found = entry("dashboard").one("ConfigMap", "cks-admission-dashboard")

    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "Admission"}
    assert json.loads(found["data"]["cks-admission.json"]) == json.loads(_DASHBOARD)


def test_monitors_fetch_from_the_health_port(entry: Entry) -> None:
    """Each of the two kinds names the port for metrics, which the Service has where it is asked for."""
    pods = entry("pod-monitor").one("PodMonitor")
    services = entry("service-monitor").one("ServiceMonitor")

    assert pods["spec"]["podMetricsEndpoints"] == [{"port": "health", "path": "/metrics"}]
    assert pods["metadata"]["labels"]["release"] == "prometheus"
    assert services["spec"]["endpoints"] == [{"port": "health", "path": "/metrics", "interval": "30s"}]
    assert entry("service-monitor").one("Service")["spec"]["ports"] == [
        {"name": "webhook", "port": 443, "targetPort": "webhook"},
        {"name": "health", "port": 8081, "targetPort": "health"},
    ]
