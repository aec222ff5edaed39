"""Pods that wait for a Node because they did not get the toleration or placement of the built-in rules.

The rules that change objects fail open, so an outage of the service lets Pods pass as they were written. Nobody changes
these Pods afterwards: Kubernetes forbids it.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine import engine
from policies.engine.facts import Facts
from policies.engine.interruption import Missing
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject, mapping
from policies.engine.ruleset import RuleSet
from policies.tolerations import RULE as TOLERATIONS
from policies.topology.annotation import PLACEMENT
from policies.topology.rule import RULE as TOPOLOGY

_LACKED = {TOLERATIONS: "the toleration for CPU Nodes", TOPOLOGY: "the scheduling gate of its topology annotations"}


def lacked(pod: JsonObject, ruleset: RuleSet, facts: Facts) -> Sequence[str]:
    """What an unschedulable Pod would have got from the built-in rules, had they been asked; empty for other Pods.

    A Pod whose device claims may make it a GPU Pod is left out, as is one that a rule cannot judge from memory, and one
    that is being deleted.
    """
    metadata = mapping(pod, "metadata")
    if not _is_unschedulable(pod) or mapping(pod, "spec").get("resourceClaims") or metadata.get("deletionTimestamp"):
        return ()
    request = AdmissionRequest(
        uid="",
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        operation="CREATE",
        object={"apiVersion": "v1", "kind": "Pod", **pod},
    )
    if ruleset.safety.spares(request):
        return ()
    try:
        answer = engine.mutate(request, ruleset, facts)
    except Missing:
        return ()
    # The placer opened this one: it had its gate.
    had = {TOPOLOGY} if PLACEMENT in mapping(metadata, "annotations") else set()
    rules = [made.rule for made in answer.decisions if made.verdict == "patch"]
    return [_LACKED[rule] for rule in rules if rule in _LACKED and rule not in had]


def _is_unschedulable(pod: JsonObject) -> bool:
    """Whether the scheduler has found no Node for a Pod."""
    status = mapping(pod, "status")
    conditions = status.get("conditions") if isinstance(status.get("conditions"), list) else []
    return (
        status.get("phase") == "Pending"
        and not mapping(pod, "spec").get("nodeName")
        and any(
            isinstance(condition, dict)
            and (condition.get("type"), condition.get("status"), condition.get("reason"))
            == ("PodScheduled", "False", "Unschedulable")
            for condition in conditions or ()
        )
    )
