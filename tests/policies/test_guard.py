"""What only the cloud may take away: Namespaces of the control plane and the taints of Nodes."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, NamespacesLost, request, resource
from support.cel.celrun import compiled, names

from policies.engine.safety import Exemptions
from policies.engine.violation import Violation
from policies.guard import Guard, Mode
from policies.matchconditions import takes_away

_ORG = "ns.coreweave.cloud/org"
_THEIRS = resource("v1", "Namespace", labels={_ORG: "control-plane"}, name="hpc-verification")
_OURS = resource("v1", "Namespace", labels={_ORG: "a1b2c3"}, name="team")
_ASK = "Ask the provider of the cluster, or have an administrator add you to guard.exempt."
_GPU = {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}
_CPU = {"key": "is_cpu_compute", "effect": "NoSchedule"}
_RESERVED = {"key": "node.coreweave.cloud/reserved", "value": "5f3a", "effect": "NoSchedule"}
_LOCK = {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"}
_OTHER = {"key": "example.org/maintenance", "effect": "NoExecute"}
_FOUR = [_GPU, _CPU, _RESERVED, _LOCK]


def _guard(namespaces: Mode = "deny", taints: Mode = "deny") -> Guard:
    return Guard(namespaces, taints, Exemptions(users=("root",)))


def _edited(namespace: Json, **changes: Any) -> Json:
    return {**namespace, "metadata": {**namespace["metadata"], **changes}}


def _node(*taints: Json, **metadata: Any) -> Json:
    return resource("v1", "Node", {"spec": {"taints": list(taints)} if taints else {}}, name="gd-1", **metadata)


def _refused(path: str, value: str, problem: str, summary: str, remedy: str) -> Violation:
    return Violation("guard", path, value, problem, summary, remedy, "deny")


def _must_stay(path: str) -> Violation:
    problem = 'must not change: Namespace "hpc-verification" belongs to the control plane.'
    return _refused(path, "", problem, "Namespaces of the control plane must be left as they are.", _ASK)


def _kept(shown: str, remedy: str) -> Violation:
    problem = 'must stay on Node "gd-1".'
    return _refused("spec.taints", shown, problem, "Taints that keep Pods off Nodes must stay.", remedy)


_TOLERATE = "Let the Pods tolerate it that belong there."
_TAKEN = {
    "is_gpu": _kept("is_gpu=true:PreferNoSchedule", _TOLERATE),
    "is_cpu_compute": _kept("is_cpu_compute:NoSchedule", _TOLERATE),
    "reserved": _kept(
        "node.coreweave.cloud/reserved=5f3a:NoSchedule",
        "The cloud moves Nodes between reservations by it. Cordon the Node to keep Pods off it.",
    ),
    "lock": _kept(
        "sunk.coreweave.com/lock=true:NoExecute",
        "SUNK removes it when the Slurm job ends: cancel the job, or have guard.exempt name SUNK's account.",
    ),
}
_DELETED = _refused(
    "",
    'Namespace "hpc-verification"',
    "belongs to the control plane: all that runs in it ends, and the cluster loses what it does.",
    "Namespaces of the control plane must be left as they are.",
    _ASK,
)
_CASES = [
    pytest.param(_THEIRS, None, [_DELETED], id="delete"),
    pytest.param(_OURS, None, [], id="delete-ours"),
    pytest.param(
        _THEIRS, _edited(_THEIRS, annotations={"a": "b"}), [_must_stay("metadata.annotations")], id="annotate"
    ),
    pytest.param(_THEIRS, _edited(_THEIRS, labels={}), [_must_stay("metadata.labels")], id="take"),
    pytest.param(
        _THEIRS, _edited(_THEIRS, finalizers=["a/b"]) | {"spec": {"finalizers": []}},
        [_must_stay("metadata.finalizers"), _must_stay("spec")], id="finalizers",
    ),
    pytest.param(_THEIRS, _edited(_THEIRS, managedFields=[{}], resourceVersion="2"), [], id="nothing-edited"),
    pytest.param(_OURS, _edited(_OURS, annotations={"a": "b"}), [], id="annotate-ours"),
    pytest.param(_OURS, _edited(_OURS, labels={_ORG: "control-plane"}), [], id="promotion-is-the-label-rules"),
    pytest.param(_node(*_FOUR), _node(), list(_TAKEN.values()), id="all-four"),
    pytest.param(_node(*_FOUR), _node(*_FOUR[1:]), [_TAKEN["is_gpu"]], id="gpu"),
    pytest.param(_node(*_FOUR), _node(_GPU, _RESERVED, _LOCK), [_TAKEN["is_cpu_compute"]], id="cpu"),
    pytest.param(_node(*_FOUR), _node(*_FOUR[:3]), [_TAKEN["lock"]], id="lock"),
    pytest.param(_node(_RESERVED), _node({**_RESERVED, "value": "mine"}), [_TAKEN["reserved"]], id="another-value"),
    pytest.param(_node(_CPU), _node({**_CPU, "effect": "NoExecute"}), [_TAKEN["is_cpu_compute"]], id="another-effect"),
    pytest.param(_node(_CPU), _node({**_CPU, "value": ""}), [], id="empty-value"),
    pytest.param(_node(_CPU), _node({**_CPU, "timeAdded": "2026-03-01T00:00:00Z"}, _OTHER), [], id="kept-and-more"),
    pytest.param(_node(*_FOUR, _OTHER), _node(*reversed(_FOUR)), [], id="another-key"),
    pytest.param(_node(), _node(*_FOUR), [], id="added"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "violations"), _CASES)
def test_what_must_stay(old: Json, new: Json | None, violations: list[Violation]) -> None:
    """The rule refuses to lose what must stay and nothing else, and the API server asks about all that it refuses."""
    condition = compiled(takes_away(namespaces=True, taints=True).expression)
    kind = {"kind": {"kind": old["kind"]}}
    asked = condition.evaluate_exactly(names(new, oldObject=old, request=kind) | {"object": new}).value

    assert list(_guard().validate(request(new, old=old), FACTS)) == violations
    assert asked == (bool(violations) or old["metadata"].get("labels") == {_ORG: "control-plane"})


@pytest.mark.parametrize(
    ("user", "groups", "exempt"),
    [
        ("alice", (), False),
        ("root", (), True),
        ("alice", ("system:masters",), True),
        ("system:serviceaccount:kube-system:node-controller", (), True),
        ("system:node:gd-1", ("system:nodes",), True),
        ("system:node:gd-2", ("system:nodes",), False),
    ],
)
def test_who_is_exempt(user: str, groups: tuple[str, ...], exempt: bool) -> None:  # noqa: FBT001 - a column of the table
    """Those whom the label guard leaves alone may take a taint away; a Node that goes as a whole takes them along."""
    asked = request(_node(), old=_node(_GPU), user=user, groups=groups)

    assert list(_guard().validate(asked, FACTS)) == ([] if exempt else [_TAKEN["is_gpu"]])
    assert list(_guard().validate(request(old=_node(*_FOUR), user=user, groups=groups), FACTS)) == []


def test_what_is_off_needs_nothing() -> None:
    """A part that is off finds nothing, and neither part looks a Namespace up where there is nothing to refuse."""
    lost = NamespacesLost(TODAY)
    account = "system:serviceaccount:team:runner"

    assert list(_guard(taints="off").validate(request(_node(), old=_node(_GPU), user=account), lost)) == []
    assert list(_guard(namespaces="off").validate(request(old=_THEIRS, user=account), lost)) == []
    assert list(_guard().validate(request(_node(_GPU), old=_node(_GPU), user=account), lost)) == []


def test_a_warning_is_one_sentence_with_its_remedy() -> None:
    """Where a part warns, its one line says what must stay, on what, and what to do."""
    found = _guard("warn", "warn").validate(request(_node(), old=_node(_CPU)), FACTS)

    assert [(violation.verdict, violation.warning) for violation in found] == [
        ("warn", f'spec.taints: is_cpu_compute:NoSchedule must stay on Node "gd-1". {_TOLERATE}')
    ]
