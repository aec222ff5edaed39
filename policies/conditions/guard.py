"""The match condition of the rule `guard`: the API server asks only about what the rule could refuse.

Only whole Nodes are asked about, not their status, which kubelets write all the time and which holds no taints.
"""

from __future__ import annotations

from policies.conditions.celtext import at, every, some, text, texts
from policies.engine.requester import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.engine.rule import HookCondition
from policies.guard import TAINTS

_TAINTS = ("spec", "taints")


def takes_away(*, namespaces: bool, taints: bool) -> HookCondition:
    """True if a Namespace of the control plane is written, or a Node loses a taint; only where that is judged."""
    judged = ((namespaces, _is_of_control_plane()), (taints, _taint_goes()))
    return HookCondition("takes-away", some((clause for is_judged, clause in judged if is_judged), " ||\n  "))


def _is_of_control_plane() -> str:
    """Whether a Namespace was the control plane's before the write."""
    place = ("metadata", "labels", CONTROL_PLANE_LABEL)
    is_theirs = at("oldObject", place, lambda value: f"{value} == {text(CONTROL_PLANE)}")
    return f"request.kind.kind == 'Namespace' && {is_theirs}"


def _taint_goes() -> str:
    """Whether a taint that must stay is not among a Node's taints any more, or has another value."""
    same = every(
        (
            "n.key == t.key",
            "n.effect == t.effect",
            "(has(n.value) ? n.value : '') == (has(t.value) ? t.value : '')",
        )
    )
    stays = at("object", _TAINTS, lambda taints: f"{taints}.exists(n, {same})")
    goes = f"t.key in {texts(TAINTS)} && !({stays})"
    is_gone = at("oldObject", _TAINTS, lambda taints: f"{taints}.exists(t, {goes})")
    return f"request.kind.kind == 'Node' && {is_gone}"
