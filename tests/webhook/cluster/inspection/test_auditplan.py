"""What an audit of a cluster lists."""

from __future__ import annotations

import pytest

from policies.engine.request import GroupVersionResource
from webhook.audit.audit import audit_rules
from webhook.audit.finding import AuditError
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.inspection.auditing import units
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
from webhook.sources.policyset import EMPTY

_SETTINGS = Settings()
_WORKLOADS = workload_table(_SETTINGS)
_RULES = audit_rules(_SETTINGS, EMPTY.files)


def _served(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> ServedResource:
    return ServedResource(GroupVersionResource(group, version, plural), kind, namespaced)


_CLUSTER = [
    _served("", "v1", "pods", "Pod"),
    _served("", "v1", "events", "Event"),
    _served("", "v1", "nodes", "Node", namespaced=False),
    _served("apps", "v1", "deployments", "Deployment"),
    _served("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    _served("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    _served("events.k8s.io", "v1", "events", "Event"),
]


def test_each_kind_is_listed_once() -> None:
    """A kind is listed in the preferred version, Events under one name, Pods last; others by their metadata alone."""
    assert [(unit.key, unit.metadata) for unit in units(_CLUSTER, _RULES.ruleset, _WORKLOADS)] == [
        ("/api/v1/events", True),
        ("/api/v1/nodes", True),
        ("/apis/apps/v1/deployments", False),
        ("/apis/autoscaling/v2/horizontalpodautoscalers", True),
        ("/api/v1/pods", False),
    ]


_DEPLOYMENTS, _PODS = "/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/pods"
_SERVICES = [_served(group, "v1", "services", "Service") for group in ("", "serving.example")]
_OWN, _OTHER = "/api/v1/services", "/apis/serving.example/v1/services"


@pytest.mark.parametrize(
    ("kinds", "namespaces", "paths"),
    [
        (("deployment.apps", "pods"), "bab", [path.format(one) for path in (_DEPLOYMENTS, _PODS) for one in "ab"]),
        # A name in full is nobody else's: Kubernetes' own kinds have no group.
        (("services.v1.",), "", [_OWN]),
        (("services.v1.serving.example",), "", [_OTHER]),
        (("services",), "", [_OWN, _OTHER]),
    ],
)
def test_namespaces_and_kinds_are_chosen(kinds: tuple[str, ...], namespaces: str, paths: list[str]) -> None:
    """Of chosen Namespaces only what is in them is listed, of chosen kinds only these, however they are called."""
    found = units([*_CLUSTER, *_SERVICES], _RULES.ruleset, _WORKLOADS, [*namespaces], kinds)

    assert [unit.key for unit in found] == paths


def test_a_kind_without_a_rule_is_left_out() -> None:
    """Of several kinds those are listed that a rule is about; if there is none, or no such kind, that is told."""
    silent = audit_rules(Settings.model_validate({"labels": {"action": "off"}}), EMPTY.files).ruleset

    assert [unit.key for unit in units(_CLUSTER, silent, _WORKLOADS, (), ("pods", "events"))] == ["/api/v1/pods"]
    with pytest.raises(AuditError, match="--kind events: no rule or policy is about it"):
        units(_CLUSTER, silent, _WORKLOADS, (), ("events",))
    with pytest.raises(AuditError, match=r"--kind Deplyment: .*; did you mean Deployment\?"):
        units(_CLUSTER, silent, _WORKLOADS, (), ("Deplyment",))
