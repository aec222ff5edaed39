"""The CPU toleration: Pods that request no GPU may run on CPU Nodes.

CPU Nodes carry the taint `is_cpu_compute:NoSchedule`. Source: "CPU taints" in CoreWeave's page "Workload Scheduling on
CKS".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_mirror_pod, is_owned, mapping
from policies.engine.rule import NO_MUTATION, Mutation
from policies.engine.violation import Violation, quote
from policies.objects import patch
from policies.objects.accelerator import READS as ACCELERATOR_READS
from policies.objects.accelerator import Accelerators
from policies.objects.fieldpath import lookup

RULE = "tolerations"
DaemonSetMode = Literal["inject", "warn", "off"]
CPU_TAINT = "is_cpu_compute"
CPU_TOLERATION = {"key": CPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}
READS = frozenset(f"{pod}spec.{path}" for pod in ("", "spec.template.") for path in ("tolerations", *ACCELERATOR_READS))
SUMMARY = "A Pod that requests no GPU should tolerate the taint of CPU Nodes."
REMEDY = f"Add the toleration {{key: {CPU_TAINT}, operator: Exists, effect: NoSchedule}}."


def tolerates(toleration: object, *, key: str, value: str = "", effect: str = "") -> bool:
    """Whether a toleration tolerates every taint with this key, value and effect; an empty effect is every effect.

    Source: "Taints and Tolerations" in the Kubernetes documentation. An absent operator means Equal, an empty key with
    Exists every key, and an empty effect every effect.
    """
    if not isinstance(toleration, dict):
        return False
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != key:
        return False
    return exists or (toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == value)


def add(obj: JsonObject | None, keys: tuple[str, ...], missing: list[dict[str, str]]) -> Mutation:
    """The mutation that appends tolerations to the list at `keys`. Any other value stays, with a warning."""
    tolerations = lookup(obj, keys)
    if tolerations is None or isinstance(tolerations, list):
        return Mutation(patch.append(obj or {}, keys, missing))
    return Mutation(warnings=(f"{'.'.join(keys)}: must be a list, found {quote(tolerations)}; left as it is",))


class CpuToleration:
    """The rule for Pods and for the templates of DaemonSets, whose controller chooses Nodes by the template."""

    def __init__(self, accelerators: Accelerators, daemon_sets: DaemonSetMode) -> None:
        self.accelerators = accelerators
        self.daemon_sets = daemon_sets

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
        return (
            Violation(RULE, path, f"none for {CPU_TAINT}:NoSchedule,", "so this stays off CPU Nodes", SUMMARY, REMEDY),
        )

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
        if isinstance(tolerations, list) and any(tolerates(t, key=CPU_TAINT, effect="NoSchedule") for t in tolerations):
            return False
        return not self.accelerators.requested(pod, namespace, facts)
