"""Workloads: their selectors match their templates, and their Pods restart as the kind needs it.

Source: pkg/apis/{apps,batch,autoscaling,policy}/validation in k8s.io/kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place, below
from policies.schema.rules.selectors import matches
from policies.schema.rules.values import maps

_MISMATCH = "`selector` does not match template `labels`"
_RECREATE = "may not be specified when strategy `type` is 'Recreate'"
_NEVER, _ON_FAILURE, _ALWAYS = "Never", "OnFailure", "Always"


def deployment(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A Deployment selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "deployment")
    _restarts(value, place, flaws, "ReplicaSet")
    strategy = mapping(value, "strategy")
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        flaws.forbidden(below(place, "strategy", "rollingUpdate"), _RECREATE)
    elif rolling and rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        at = below(place, "strategy", "rollingUpdate", "maxUnavailable")
        flaws.invalid(at, rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    if deadline is not None and 0 <= deadline <= ready:
        flaws.invalid((place, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def replica_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A ReplicaSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "replicaset")
    _restarts(value, place, flaws, "ReplicaSet")


def stateful_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A StatefulSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "statefulset")
    for _, claim in maps(value, "volumeClaimTemplates"):  # each is a volume, too
        flaws.found(below(place, "template"), mapping(claim, "metadata").get("name"))
    _restarts(value, place, flaws, "StatefulSet")


def daemon_set(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A DaemonSet selects the Pods of its template, which restart always."""
    _selector(value, place, flaws, "daemonset")
    _restarts(value, place, flaws, "DaemonSet")


def replication_controller(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A ReplicationController selects the Pods of its template, by default by all their labels."""
    template = mapping(value, "template")
    labels = mapping(mapping(template, "metadata"), "labels")
    selector = value.get("selector") or {}
    if not selector and not labels:
        flaws.required((place, "selector"))
    elif not matches({"matchLabels": selector}, labels):
        flaws.invalid(below(place, "template", "metadata", "labels"), labels, _MISMATCH)
    _restarts(value, place, flaws, "ReplicationController")


def _selector(value: Mapping[str, Any], place: Place, flaws: Flaws, kind: str) -> None:
    """The selector is not empty, and matches."""
    selector = value.get("selector")
    labels = mapping(mapping(mapping(value, "template"), "metadata"), "labels")
    if selector is None:  # selects nothing
        flaws.invalid(below(place, "template", "metadata", "labels"), labels or None, _MISMATCH)
        return
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        flaws.invalid((place, "selector"), selector, f"empty selector is invalid for {kind}")
        return
    if not matches(selector, labels):
        remedy = "give the template the labels of spec.selector"
        flaws.invalid(below(place, "template", "metadata", "labels"), labels or None, _MISMATCH, remedy)


def _restarts(value: Mapping[str, Any], place: Place, flaws: Flaws, kind: str) -> None:
    spec, at = mapping(mapping(value, "template"), "spec"), below(place, "template", "spec")
    if spec.get("restartPolicy") in (_NEVER, _ON_FAILURE):
        flaws.unsupported((at, "restartPolicy"), spec["restartPolicy"], (_ALWAYS,))
    if spec.get("activeDeadlineSeconds") is not None:
        flaws.forbidden((at, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def job(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Pods of a Job end, and what counts by index needs an index."""
    spec, at = mapping(mapping(value, "template"), "spec"), below(place, "template", "spec")
    policy = spec.get("restartPolicy") or _ALWAYS
    if policy == _ALWAYS:
        detail = f'valid values: "{_ON_FAILURE}", "{_NEVER}"'
        flaws.required((at, "restartPolicy"), detail, "write restartPolicy: Never or OnFailure")
    elif policy == _ON_FAILURE and value.get("podFailurePolicy") is not None:
        text = f'only "{_NEVER}" is supported when podFailurePolicy is specified'
        flaws.invalid((at, "restartPolicy"), policy, text)
    indexed = value.get("completionMode") == "Indexed"
    if indexed and value.get("completions") is None and value.get("parallelism") is not None:  # else both default
        flaws.required((place, "completions"), "when completion mode is Indexed")
    for name in () if indexed else ("backoffLimitPerIndex", "maxFailedIndexes"):
        if value.get(name) is not None:
            flaws.invalid((place, name), value[name], "requires indexed completion mode")


def autoscaler(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """The most is not less than the least."""
    least, most = value.get("minReplicas"), value.get("maxReplicas")
    if least is not None and (most or 0) < least:
        flaws.invalid((place, "maxReplicas"), most or 0, "must be greater than or equal to `minReplicas`")
    for index, metric in maps(value, "metrics"):
        kind = metric.get("type") or ""
        field = kind[:1].lower() + kind[1:]
        if kind in ("Object", "Pods", "Resource", "ContainerResource", "External") and metric.get(field) is None:
            text = "must populate information for the given metric source"
            flaws.required(below(place, "metrics", index, field), text)


def budget(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A budget says what must be there or what may be missing."""
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        flaws.invalid(place, dict(value), "minAvailable and maxUnavailable cannot be both set")
