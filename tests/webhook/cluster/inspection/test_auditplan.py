"""What an audit of a cluster lists."""

from __future__ import annotations

import pytest

from policies.engine.request import GroupVersionResource
from webhook.audit import rules
from webhook.audit.finding import UnknownKindError
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.inspection.auditing import units
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
from webhook.sources.policyset import EMPTY

_SETTINGS = Settings()
_WORKLOADS = workload_table(_SETTINGS)
_RULES = rules.made(_SETTINGS, EMPTY.files)


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


def test_namespaces_and_kinds_are_chosen() -> None:
    """Of chosen Namespaces only what is in them is listed, of chosen kinds only these, however they are called."""
    chosen = units(_CLUSTER, _RULES.ruleset, _WORKLOADS, ("b", "a", "b"), ("deployment.apps", "pods"))

    assert [unit.key for unit in chosen] == [
        "/apis/apps/v1/namespaces/a/deployments",
        "/apis/apps/v1/namespaces/b/deployments",
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/b/pods",
    ]


def test_an_unknown_kind_is_told() -> None:
    """A kind that the cluster does not have is an error, with the one that is probably meant."""
    with pytest.raises(UnknownKindError, match=r"--kind Deplyment: .*; did you mean Deployment\?"):
        units(_CLUSTER, _RULES.ruleset, _WORKLOADS, (), ("Deplyment",))


def test_a_name_in_full_is_nobody_elses() -> None:
    """`services.v1.` is Kubernetes' own kind, though another group has services, too."""
    services = [_served("", "v1", "services", "Service"), _served("serving.example", "v1", "services", "Service")]

    for name, paths in (
        ("services.v1.", ["/api/v1/services"]),
        ("services.v1.serving.example", ["/apis/serving.example/v1/services"]),
        ("services", ["/api/v1/services", "/apis/serving.example/v1/services"]),
    ):
        assert [unit.key for unit in units(services, _RULES.ruleset, _WORKLOADS, (), (name,))] == paths


def test_a_kind_that_no_rule_is_about_is_left_out() -> None:
    """Of several kinds those are listed that a rule is about; if there is none, that is told."""
    silent = rules.made(Settings.model_validate({"labels": {"action": "off"}}), EMPTY.files)

    assert [unit.key for unit in units(_CLUSTER, silent.ruleset, _WORKLOADS, (), ("pods", "events"))] == [
        "/api/v1/pods"
    ]
    with pytest.raises(UnknownKindError, match="--kind events: no rule or policy is about it"):
        units(_CLUSTER, silent.ruleset, _WORKLOADS, (), ("events",))
