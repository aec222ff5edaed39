"""When a template settles the fields that admission may still fill in when its Pods are created.

A policy that reads such fields refuses no workload (DerivedPod.unknown_to), unless the template settles them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from policies.admissionpolicy.pods.derivation import FILLED_BY_ADMISSION, FILLED_BY_CONTROLLERS
from policies.admissionpolicy.templates.trees import filled, joined
from policies.cel.reads import Reads
from policies.cel.syntax.ast import Node

_SET = "_t.spec.?{field}.orValue({zero}) != {zero}"
_ACCOUNT = "_t.spec.?serviceAccountName.orValue(_t.spec.?serviceAccount.orValue('')) != ''"
_NO_TOKEN = "!_t.spec.?automountServiceAccountToken.orValue(true)"  # noqa: S105 - an expression
_NO_CLASS = "_t.spec.?runtimeClassName.orValue('') == ''"
SETTLED: Final[Mapping[str, str]] = {
    "spec.imagePullSecrets": _SET.format(field="imagePullSecrets", zero="[]"),
    "spec.priority": "has(_t.spec.priority)",
    "spec.priorityClassName": _SET.format(field="priorityClassName", zero="''"),
    "spec.preemptionPolicy": _SET.format(field="preemptionPolicy", zero="''"),
    "spec.serviceAccountName": _ACCOUNT,
    "spec.serviceAccount": _ACCOUNT,
    **dict.fromkeys(
        (
            "spec.volumes[*].name",
            "spec.volumes[*].projected",
            "spec.containers[*].volumeMounts",
            "spec.initContainers[*].volumeMounts",
        ),
        _NO_TOKEN,
    ),
    "spec.volumes": f"({_NO_TOKEN} || _t.spec.?volumes.orValue([]).size() > 0)",
    **dict.fromkeys(("spec.nodeSelector", "spec.overhead", "spec.tolerations"), _NO_CLASS),
}
"""The condition under which a template `_t` settles a field, as `_settled` in pods/derivation.py."""


class OpenError(Exception):
    """A policy reads fields that no template settles. The text has the fields."""


def open_fields(reads: Reads, kind: tuple[str, str]) -> list[str]:
    """The fields that are read and may be filled in. Raises OpenError if templates of the kind cannot settle one."""
    by_controller = FILLED_BY_CONTROLLERS.get(kind, frozenset())
    read = sorted(path for path in FILLED_BY_ADMISSION | by_controller if reads.touches(path))
    if never := [path for path in read if path in by_controller or path not in SETTLED]:
        raise OpenError(", ".join(never))
    return read


def guard(fields: Iterable[str], template: Node) -> Node | None:
    """The condition that a template settles all of these fields; None without any."""
    texts = dict.fromkeys(SETTLED[field] for field in fields)
    return joined("_&&_", [filled(text, _t=template) for text in texts]) if texts else None
