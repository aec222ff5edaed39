"""What is the cloud's alone: Namespaces of the control plane, and the taints that keep Pods off Nodes.

RBAC cannot tell one Namespace or one taint from another: who may write some of them may write all. Source: CoreWeave's
page "Workload Scheduling on CKS".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, JsonObject, is_owned, mapping
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, Exemptions, is_control_plane
from policies.engine.violation import Verdict, Violation, quote
from policies.objects.fieldpath import lookup
from policies.tolerations import CPU_TAINT, GPU, LOCK_TAINT, RESERVED_TAINT

RULE = "guard"
Mode = Literal["deny", "warn", "off"]
NAMESPACE, NODE = ("", "Namespace"), ("", "Node")
TAINTS = (CPU_TAINT, GPU.key, RESERVED_TAINT, LOCK_TAINT)
"""The keys of the taints that must stay."""

READS = frozenset({"spec.finalizers", "spec.taints"})
BELONGS = "Namespaces of the control plane must be left as they are."
THEIRS = "Workloads of your own do not belong in a Namespace of the control plane."
STAYS = "Taints that keep Pods off Nodes must stay."
ASK = "Ask the provider of the cluster, or have an administrator add you to guard.exempt."
_MOVE = "Use a Namespace of your own."
_KEEP = {
    LOCK_TAINT: "SUNK removes it when the Slurm job ends: cancel the job, or have guard.exempt name SUNK's account.",
    RESERVED_TAINT: "The cloud moves Nodes between reservations by it. Cordon the Node to keep Pods off it.",
}
_TOLERATE = "Let the Pods tolerate it that belong there."
# What somebody edits. The rest, such as managedFields, is the API server's.
_EDITED = ("labels", "annotations", "finalizers", "ownerReferences")


class Guard(Struct, frozen=True):
    """The rule. namespaces, taints: what happens when one is taken away."""

    namespaces: Mode
    taints: Mode
    exempt: Exemptions

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What the request takes away, or puts where it does not belong. Raises Missing or FactUnavailable."""
        kind, namespace, made = request.kind.group_kind, request.scope_namespace, []
        is_created = request.operation == "CREATE" and not request.sub_resource and not is_owned(request.object)
        if kind == NAMESPACE and self.namespaces != "off":
            made = list(_of_namespace(request, self.namespaces))
        elif kind == NODE and self.taints != "off" and request.operation == "UPDATE":
            made = list(_of_node(request, self.taints))
        elif kind in (NAMESPACE, NODE) or self.namespaces == "off" or not is_created:
            return ()
        elif is_control_plane(namespace, facts):
            problem = "belongs to the control plane: the cloud may remove what it does not know there."
            made = [Violation(RULE, "metadata.namespace", quote(namespace), problem, THEIRS, _MOVE, "warn")]
        return made if made and not self.exempt.cover(request, facts) else ()


def _of_namespace(request: AdmissionRequest, mode: Verdict) -> Iterator[Violation]:
    """The violation of a write to a Namespace that was the control plane's before it."""
    old, new = request.old_object, request.object
    if old is None or lookup(old, ("metadata", "labels", CONTROL_PLANE_LABEL)) != CONTROL_PLANE:
        return
    name = request.name
    if request.operation == "DELETE":
        problem = "belongs to the control plane: all that runs in it ends, and the cluster loses what it does."
        remedy = f"{ASK} guard.namespaces: deny would refuse it." if mode == "warn" else ASK
        yield Violation(RULE, "", f"Namespace {quote(name)}", problem, BELONGS, remedy, mode)
    elif new is not None:
        before, after = mapping(old, "metadata"), mapping(new, "metadata")
        edits = [f"metadata.{field}" for field in _EDITED if (before.get(field) or None) != (after.get(field) or None)]
        edits += ["spec"] if (old.get("spec") or {}) != (new.get("spec") or {}) else []
        problem = f"must not change: Namespace {quote(name)} belongs to the control plane."
        yield from (Violation(RULE, path, "", problem, BELONGS, ASK, mode) for path in edits)


def _of_node(request: AdmissionRequest, mode: Verdict) -> Iterator[Violation]:
    """A violation for each taint that was there and is not any more, or with another value."""
    left = {_identity(taint) for taint in _taints(request.object)}
    for taint in _taints(request.old_object):
        key, value, effect = _identity(taint)
        if key in TAINTS and (key, value, effect) not in left:
            shown = f"{key}{f'={value}' if value else ''}:{effect}"
            problem = f"must stay on Node {quote(request.name)}."
            yield Violation(RULE, "spec.taints", shown, problem, STAYS, _KEEP.get(key, _TOLERATE), mode)


def _taints(node: JsonObject | None) -> Iterable[JsonObject]:
    written: Any = lookup(node, ("spec", "taints"))
    return (taint for taint in written if isinstance(taint, dict)) if isinstance(written, list) else ()


def _identity(taint: JsonObject) -> tuple[str, str, str]:
    return str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect"))
