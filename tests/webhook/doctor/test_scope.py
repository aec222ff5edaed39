"""Whom an outage would reach."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import Json

from webhook.cluster.inspection.examination import component
from webhook.configuration import rules
from webhook.configuration.rules import safety
from webhook.doctor.configurations import check_outage, check_scope
from webhook.doctor.observation import Component
from webhook.registration.configurations import registered
from webhook.sources import policyfiles

from .findings import FORBIDDEN, settings, told

_KIND = "ValidatingWebhookConfiguration"
_WHERE = f"{_KIND} entry labels.cks-admission.dev"
_ALL = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["*/*"],
    "scope": "*",
}
_NOT_OWN = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cloud"]}]}
_NOT_SYSTEM = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cloud", "kube-system"]}
    ]
}
_FINE = ("ok", "the service's entries", "1 entry fails closed, none of them in cloud or for all of kube-system", "")


def _entry(**fields: Any) -> Json:
    return {"name": "labels.cks-admission.dev", "failurePolicy": "Fail", "rules": [_ALL], "timeoutSeconds": 5, **fields}


def _check(*entries: Json, others: Any = (), namespaces: Any = FORBIDDEN) -> list[tuple[str, str, str, str]]:
    return told(check_scope({_KIND: {"webhooks": list(entries)}}, others, namespaces, "cloud"))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(_entry(namespaceSelector=_NOT_SYSTEM), id="excluded"),
        pytest.param(
            _entry(namespaceSelector=_NOT_OWN, matchConditions=[{"name": "a", "expression": "true"}]), id="narrowed"
        ),
    ],
)
def test_what_is_kept_away_is_fine(entry: Json) -> None:
    """A selector keeps an entry away from a Namespace; from kube-system conditions do, too."""
    assert _check(entry) == [_FINE]


def test_what_fails_open_reaches_nobody() -> None:
    """An entry that is ignored in an outage may be for everything."""
    assert _check(_entry(failurePolicy="Ignore")) == [
        (*_FINE[:2], _FINE[2].replace("1 entry fails", "0 entries fail"), "")
    ]


def test_an_entry_for_the_own_namespace() -> None:
    """While no replica answers, none could be started."""
    assert _check(_entry(matchConditions=[{"name": "a", "expression": "true"}])) == [
        (
            "problem",
            _WHERE,
            "it fails closed and reaches cloud: while no replica answers, none can start there",
            "exclude that Namespace: {key: kubernetes.io/metadata.name, operator: NotIn, values: [cloud]}",
        )
    ]


def test_an_entry_for_the_system() -> None:
    """Without conditions an outage may keep the cluster from coming up."""
    found = (
        "it fails closed and reaches all of kube-system that its rules match: during an outage the "
        "cluster may not start"
    )
    remedy = "apply what cks-admission export webhook-configuration prints, or let the service write it"
    assert _check(_entry(namespaceSelector=_NOT_OWN)) == [("warning", _WHERE, found, remedy)]


def test_selectors_are_judged_by_the_labels_of_namespaces() -> None:
    """The labels that the Namespaces have decide, where they are known."""
    selector = {"matchLabels": {"team": "ml"}}
    labels = {"cloud": {"team": "ml"}, "kube-system": {}}

    assert [level for level, *_ in _check(_entry(namespaceSelector=selector), namespaces=labels)] == ["problem"]
    assert _check(_entry(namespaceSelector=selector)) == [_FINE]


def test_a_long_wait() -> None:
    """Who writes waits for as long as the API server does."""
    assert _check(_entry(namespaceSelector=_NOT_SYSTEM, timeoutSeconds=30)) == [
        (
            "warning",
            _WHERE,
            "every matching write waits up to 30 s for an answer",
            "set registration.timeoutSeconds to 10 or less",
        )
    ]


def _other(**fields: Any) -> Json:
    entry = {"name": "x.example.org", "rules": [_ALL], "clientConfig": {"service": {"namespace": "a", "name": "b"}}}
    return {"kind": _KIND, "metadata": {"name": "guard"}, "webhooks": [{**entry, **fields}]}


def test_entries_of_others_that_could_stop_the_cluster() -> None:
    """Everybody's entry that fails closed on everything is told with who is behind it."""
    assert _check(_entry(namespaceSelector=_NOT_SYSTEM), others=[_other()])[1:] == [
        (
            "warning",
            f"{_KIND} guard entry x.example.org",
            (
                "it fails closed for every resource, also in kube-system: while Service a/b is down, "
                "nothing can be written"
            ),
            "ask its owner to add a namespaceSelector or matchConditions, or to set failurePolicy: Ignore",
        )
    ]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"failurePolicy": "Ignore"}, id="fails open"),
        pytest.param({"namespaceSelector": _NOT_SYSTEM}, id="not in kube-system"),
        pytest.param({"matchConditions": [{"name": "a", "expression": "true"}]}, id="has conditions"),
        pytest.param({"rules": [{**_ALL, "resources": ["pods"]}]}, id="some resources"),
        pytest.param({"rules": [{**_ALL, "scope": "Cluster"}]}, id="no Namespace"),
    ],
)
def test_entries_of_others_that_could_not(fields: Json) -> None:
    """Whatever narrows an entry makes it its owner's business."""
    assert _check(_entry(namespaceSelector=_NOT_SYSTEM), others=[_other(**fields)]) == [_FINE]


_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: never}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: never}
spec: {policyName: never, validationActions: [Deny]}
"""


def _daemon_set(namespace: str) -> Component:
    spec = {"hostNetwork": True, "containers": [{"name": "main"}]}
    workload = {"metadata": {"name": "agent", "namespace": namespace}, "spec": {"template": {"spec": spec}}}
    return component("DaemonSet", workload)


def _outage(components: Any = (), **sections: Any) -> list[tuple[str, str, str, str]]:
    """What is told of an installation with a policy for everything."""
    chosen = settings(**sections)
    ruleset = rules.build(chosen, (), rules.of_policies(chosen, policyfiles.read([("never.yaml", _POLICY)])))
    own: Any = {str(each["kind"]): each for each in registered(chosen, b"", ruleset)}
    return told(check_outage(own, components, FORBIDDEN, safety(chosen)))


def test_what_the_service_registers_lets_a_cluster_come_up() -> None:
    """Nothing essential is refused, whatever policies match; neither are Pods in system Namespaces or the own one."""
    assert _outage([_daemon_set("kube-system"), _daemon_set("cks-admission")]) == []


def test_components_in_other_namespaces() -> None:
    """DaemonSets whose Pods an outage would keep away are named, until the settings name their Namespace."""
    found = [_daemon_set("calico-system"), _daemon_set("calico-system")]

    assert _outage(found) == [
        (
            "warning",
            "Namespace calico-system",
            ("while no replica answers, policies.cks-admission.dev refuses Pods of DaemonSet agent, DaemonSet agent"),
            "if Nodes or the service need them, add calico-system to safety.namespaces",
        )
    ]
    assert _outage(found, safety={"namespaces": ["calico-system"]}) == []


def test_entries_that_keep_a_cluster_down() -> None:
    """An entry of an older version or by hand that refuses essential writes is a problem, told with examples."""
    everything = _entry(namespaceSelector=_NOT_SYSTEM)
    ((level, where, text, _), *_) = told(
        check_outage({_KIND: {"webhooks": [everything]}}, (), FORBIDDEN, safety(settings()))
    )

    assert (level, where) == ("problem", "entry labels.cks-admission.dev")
    assert text.startswith("while no replica answers, it refuses what a cluster needs to come up: events, ")


def test_components_that_cannot_be_read() -> None:
    """Without the right to list workloads nothing is known of them."""
    assert _outage(FORBIDDEN) == [
        (
            "unknown",
            "workloads that Nodes need",
            "not checked: the current account may not list things",
            "use an account that may list things",
        )
    ]
