"""Tolerations that Pods need: for the taint of CPU Nodes, and for those of SUNK Nodes.

Pods that request no GPU may run on CPU Nodes, which carry the taint `is_cpu_compute:NoSchedule`. DaemonSets on SUNK
Nodes must tolerate the four taints that such Nodes can carry. Source: "CPU taints" and "DaemonSets on SUNK Nodes" in
CoreWeave's page "Workload Scheduling on CKS".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine import patch
from policies.engine.facts import Facts, Node, Taint
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_mirror_pod, is_owned, mapping
from policies.engine.rule import NO_MUTATION, Mutation
from policies.engine.violation import Violation, quote
from policies.objects.fieldpath import lookup
from policies.podspec import READS as ACCELERATOR_READS
from policies.podspec import Accelerators, node_demand

RULE = "tolerations"
Mode = Literal["inject", "warn", "off"]
CPU_TAINT = "is_cpu_compute"
_CPU_NODES = Taint(CPU_TAINT, "NoSchedule")
CPU_TOLERATION = {"key": CPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}
READS = frozenset(f"{pod}spec.{path}" for pod in ("", "spec.template.") for path in ("tolerations", *ACCELERATOR_READS))
SUMMARY = "A Pod that requests no GPU should tolerate the taint of CPU Nodes."
REMEDY = f"Add the toleration {{key: {CPU_TAINT}, operator: Exists, effect: NoSchedule}}."


def tolerates(toleration: object, taint: Taint) -> bool:
    """Whether a toleration, as it is written, tolerates a taint. Without a key it is valid for all keys alone."""
    written = toleration if isinstance(toleration, dict) else {}
    key, operator, value, effect = (written.get(field) or "" for field in ("key", "operator", "value", "effect"))
    return bool(key or operator == "Exists") and taint.is_tolerated(key, operator, value, effect)


def add(obj: JsonObject | None, keys: tuple[str, ...], missing: list[dict[str, str]]) -> Mutation:
    """The mutation that appends tolerations to the list at `keys`. Any other value stays, with a warning."""
    tolerations = lookup(obj, keys)
    if tolerations is None or isinstance(tolerations, list):
        return Mutation(patch.append(obj or {}, keys, missing))
    return Mutation(warnings=(f"{'.'.join(keys)}: must be a list, found {quote(tolerations)}; left as it is",))


class CpuToleration(Struct, frozen=True):
    """The rule for Pods and for the templates of DaemonSets, whose controller chooses Nodes by the template."""

    accelerators: Accelerators
    daemon_sets: Mode

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Add the toleration if it is missing. Tolerations that are not a list stay unchanged, with a warning."""
        keys, pod = self._subject(request)
        if pod is None or (request.kind.kind == "DaemonSet" and self.daemon_sets != "inject"):
            return NO_MUTATION
        if not self._lacks(pod, request.namespace, facts):
            return NO_MUTATION
        return add(request.object, (*keys, "spec", "tolerations"), [CPU_TOLERATION])

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """A violation if the toleration is missing: `/mutate` was not called, or another webhook removed it again."""
        keys, pod = self._subject(request)
        if pod is None or not self._lacks(pod, request.namespace, facts):
            return ()
        path = ".".join((*keys, "spec", "tolerations"))
        found = f"none for {CPU_TAINT}:NoSchedule,"
        stays = "so this stays off CPU Nodes"
        return (Violation(RULE, path, found, stays, SUMMARY, REMEDY, is_outcome=True),)

    def _subject(self, request: AdmissionRequest) -> tuple[tuple[str, ...], JsonObject | None]:
        """The path and the content of the Pod or template that the rule checks; None if it ignores the object."""
        obj = request.object
        if obj is None or is_being_deleted(obj):
            return (), None
        if request.kind.kind == "Pod":
            return (), None if is_mirror_pod(obj) else obj
        if self.daemon_sets == "off" or is_owned(obj):
            return (), None
        template: Any = mapping(obj, "spec").get("template")
        return ("spec", "template"), template if isinstance(template, dict) else None

    def _lacks(self, pod: JsonObject, namespace: str, facts: Facts) -> bool:
        spec = pod.get("spec")
        if not isinstance(spec, dict):
            return False  # the API server refuses a Pod without a spec
        tolerations = spec.get("tolerations")
        if isinstance(tolerations, list) and any(tolerates(t, _CPU_NODES) for t in tolerations):
            return False
        return not self.accelerators.requested(pod, namespace, facts)


SUNK_RULE = "sunk"
# Requirements and values of a DaemonSet times SUNK Nodes: a tenth of a second.
MOST_COMPARED = 200_000
SUNK_PREFIX = "sunk.coreweave.com/"
LOCK_TAINT = "sunk.coreweave.com/lock"
RESERVED_TAINT = "node.coreweave.cloud/reserved"
TOLERATIONS = ("spec", "template", "spec", "tolerations")
SUNK_READS = frozenset(f"spec.template.spec.{field}" for field in ("affinity", "nodeSelector", "tolerations"))
SUNK_SUMMARY = "A DaemonSet that can land on SUNK Nodes must tolerate their taints."
SUNK_REMEDY = "Add a toleration for each: operator Equal with its value, Exists without one."


class SunkTaint(Taint, frozen=True):
    """A taint to tolerate. An empty effect is unknown, so the toleration must not name an effect."""

    operator: Literal["Exists", "Equal"] = "Exists"

    def to_toleration(self) -> dict[str, str]:
        """The toleration as CoreWeave documents it: for every effect."""
        value = {"value": self.value} if self.operator == "Equal" else {}
        return {"key": self.key, "operator": self.operator, **value}


LOCK = SunkTaint(LOCK_TAINT, "NoExecute", "true", "Equal")
GPU = SunkTaint("is_gpu", "PreferNoSchedule", "true")
CPU = SunkTaint(CPU_TAINT, "NoSchedule")


class SunkDaemonSets(Struct, frozen=True):
    """The rule for DaemonSets. It finds nothing if the cluster's SUNK Nodes are not known.

    node_selector: labels of SUNK Nodes; empty to recognise them by SUNK's own taints and labels. reserved_hash: the
    value of the reserved taint; empty to read it from the Nodes.
    """

    mode: Mode
    node_selector: Mapping[str, str]
    reserved_hash: str

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Add the missing tolerations if the mode is inject."""
        if self.mode != "inject":
            return NO_MUTATION
        missing = [requirement.to_toleration() for requirement in self._missing(request, facts)]
        return add(request.object, TOLERATIONS, missing) if missing else NO_MUTATION

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """A violation that names the taints that are not tolerated, each with the value to tolerate, if any."""
        taints = (taint.to_toleration() for taint in self._missing(request, facts))
        *others, last = ["=".join(filter(None, (taint["key"], taint.get("value")))) for taint in taints] or [""]
        shown = " and ".join(filter(None, (", ".join(others), last)))
        violation = Violation(
            SUNK_RULE, ".".join(TOLERATIONS), f"none for {shown},", "taints of SUNK Nodes", SUNK_SUMMARY, SUNK_REMEDY
        )
        return (violation,) if last else ()

    def _missing(self, request: AdmissionRequest, facts: Facts) -> list[SunkTaint]:
        obj = request.object
        spec = lookup(obj, TOLERATIONS[:-1])
        if self.mode == "off" or obj is None or is_being_deleted(obj) or is_owned(obj) or not isinstance(spec, dict):
            return []
        nodes = [
            node
            for node in facts.nodes()
            if (
                self.node_selector.items() <= node.labels.items()
                if self.node_selector
                else any(key.startswith(SUNK_PREFIX) for key in (*(taint.key for taint in node.taints), *node.labels))
            )
        ]
        # Whether it can run on a SUNK Node; without such Nodes, on one with the labels of node_selector. Affinity that
        # is too long to be compared with every Node is assumed to allow one.
        demand = node_demand(spec)
        if nodes:
            can_land = demand.size * len(nodes) > MOST_COMPARED or any(map(demand.allows, nodes))
        else:
            can_land = bool(self.node_selector) and demand.allows(Node("", self.node_selector), labels_complete=False)
        if not can_land:
            return []
        hashes = {taint.value for node in nodes for taint in node.taints if taint.key == RESERVED_TAINT}
        if self.reserved_hash:
            hashes = {self.reserved_hash}
        taints = [LOCK, CPU, GPU, *(SunkTaint(RESERVED_TAINT, "", value, "Equal") for value in sorted(hashes))]
        written: Any = spec.get("tolerations")
        tolerations = written if isinstance(written, list) else []
        return [taint for taint in taints if not any(tolerates(toleration, taint) for toleration in tolerations)]
