"""DaemonSets on SUNK Nodes: which ones the rule is for, what they lack, and how it is added."""

from typing import Any

import pytest
from support.builders import TODAY, Json, daemon_set, merged, owner, request

from policies.engine import patch
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.rule import Mutation
from policies.engine.violation import Violation
from policies.tolerations import SunkDaemonSets, SunkMode

_PATH = "/spec/template/spec/tolerations"
_LOCK = {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "true"}
_CPU = {"key": "is_cpu_compute", "operator": "Exists"}
_GPU = {"key": "is_gpu", "operator": "Exists"}
_THREE = [_LOCK, _CPU, _GPU]
_TEXTS = {
    "sunk.coreweave.com/lock": '{key: sunk.coreweave.com/lock, operator: Equal, value: "true"}',
    "is_cpu_compute": "{key: is_cpu_compute, operator: Exists}",
    "is_gpu": "{key: is_gpu, operator: Exists}",
    "node.coreweave.cloud/reserved": '{key: node.coreweave.cloud/reserved, operator: Equal, value: "a1b2"}',
}

_LOCKED = Node("locked", {"zone": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),))
_LABELLED = Node("labelled", {"sunk.coreweave.com/cluster": "slurm"})
_RESERVED = Node(
    "reserved",
    {"sunk.coreweave.com/cluster": "slurm"},
    (Taint("node.coreweave.cloud/reserved", "NoSchedule", "a1b2"), Taint("is_gpu", "PreferNoSchedule", "true")),
)
_PLAIN = Node("plain", {"zone": "a"}, (Taint("node.coreweave.cloud/reserved", "NoSchedule", "other"),))


def _reserved(value: str) -> Json:
    return {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": value}


def _facts(*nodes: Node) -> StaticFacts:
    return StaticFacts(TODAY, cluster_nodes=nodes)


def _rule(mode: SunkMode = "inject", *, selector: dict[str, str] | None = None, reserved: str = "") -> SunkDaemonSets:
    return SunkDaemonSets(mode, selector or {}, reserved)


def _list(*tolerations: Json) -> Mutation:
    return Mutation(({"op": "add", "path": _PATH, "value": list(tolerations)},))


def _items(*tolerations: Json) -> Mutation:
    return Mutation(tuple({"op": "add", "path": f"{_PATH}/-", "value": toleration} for toleration in tolerations))


def _missing(*keys: str) -> list[Violation]:
    return [
        Violation(
            "sunk",
            "spec.template.spec.tolerations",
            f"none for {key},",
            "a taint of SUNK Nodes",
            "A DaemonSet that can land on SUNK Nodes must tolerate their taints.",
            f"Add the toleration {_TEXTS[key]}.",
        )
        for key in keys
    ]


@pytest.mark.parametrize(
    ("rule", "nodes", "added"),
    [
        pytest.param(_rule(), [_LOCKED], _THREE, id="nodes-by-taint"),
        pytest.param(_rule(), [_LABELLED], _THREE, id="nodes-by-label"),
        pytest.param(
            _rule(), [_PLAIN, _RESERVED], [*_THREE, _reserved("a1b2")], id="reserved-read-off-sunk-nodes-only"
        ),
        pytest.param(
            _rule(),
            [
                _RESERVED,
                Node("second", _LABELLED.labels, (Taint("node.coreweave.cloud/reserved", "NoExecute", "00ff"),)),
            ],
            [*_THREE, _reserved("00ff"), _reserved("a1b2")],
            id="reserved-for-two-organizations",
        ),
        pytest.param(_rule(reserved="c3d4"), [_RESERVED], [*_THREE, _reserved("c3d4")], id="reserved-configured"),
        pytest.param(_rule(), [_PLAIN], [], id="no-sunk-nodes"),
        pytest.param(_rule(), [], [], id="no-nodes"),
        pytest.param(_rule(reserved="c3d4"), [], [], id="hash-without-nodes"),
        pytest.param(
            _rule(selector={"zone": "a"}),
            [_PLAIN, _RESERVED],
            [*_THREE, _reserved("other")],
            id="nodes-by-configured-label",
        ),
        pytest.param(_rule(selector={"zone": "a"}), [_RESERVED], _THREE, id="no-node-has-the-configured-label-yet"),
        pytest.param(_rule(selector={"zone": "a"}), [], _THREE, id="configured-label-without-nodes"),
        pytest.param(
            _rule(selector={"zone": "a"}, reserved="c3d4"),
            [],
            [*_THREE, _reserved("c3d4")],
            id="configured-without-nodes",
        ),
    ],
)
def test_what_is_known_of_sunk_nodes(rule: SunkDaemonSets, nodes: list[Node], added: list[Json]) -> None:
    """The tolerations follow from the Nodes or the configuration; where neither knows SUNK Nodes the rule is silent."""
    mutation = rule.mutate(request(daemon_set()), _facts(*nodes))

    assert mutation == (_list(*added) if added else Mutation())


@pytest.mark.parametrize(
    ("tolerations", "mutation", "keys"),
    [
        pytest.param(None, _list(*_THREE, _reserved("a1b2")), list(_TEXTS), id="null"),
        pytest.param([], _items(*_THREE, _reserved("a1b2")), list(_TEXTS), id="empty-list"),
        pytest.param(
            [{"key": "x", "operator": "Exists"}], _items(*_THREE, _reserved("a1b2")), list(_TEXTS), id="other"
        ),
        pytest.param([*_THREE, _reserved("a1b2")], Mutation(), [], id="as-documented"),
        pytest.param([{"operator": "Exists"}], Mutation(), [], id="keyless"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}],
            _items(_LOCK, _GPU, _reserved("a1b2")),
            ["sunk.coreweave.com/lock", "is_gpu", "node.coreweave.cloud/reserved"],
            id="keyless-for-one-effect",
        ),
        pytest.param(
            [
                {"key": "sunk.coreweave.com/lock", "operator": "Exists", "effect": "NoExecute"},
                {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "is_gpu", "operator": "Equal", "value": "true", "effect": "PreferNoSchedule"},
                {"key": "node.coreweave.cloud/reserved", "operator": "Exists"},
            ],
            Mutation(),
            [],
            id="other-forms-that-cover",
        ),
        pytest.param(
            [
                {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "false"},
                {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoExecute"},
                {"key": "is_gpu", "operator": "Equal", "value": "yes"},
                {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "other"},
            ],
            _items(*_THREE, _reserved("a1b2")),
            list(_TEXTS),
            id="near-misses",
        ),
        pytest.param(
            [_LOCK, {**_reserved("a1b2"), "effect": "NoSchedule"}],
            _items(_CPU, _GPU, _reserved("a1b2")),
            ["is_cpu_compute", "is_gpu", "node.coreweave.cloud/reserved"],
            id="reserved-for-one-effect",
        ),
    ],
)
def test_what_is_missing(tolerations: Any, mutation: Mutation, keys: list[str]) -> None:
    """Only the taints that no toleration covers are added, in a fixed order and once, and each is told."""
    obj = daemon_set(tolerations=tolerations)
    changed = patch.apply(obj, mutation.operations)

    assert _rule().mutate(request(obj), _facts(_RESERVED)) == mutation
    assert list(_rule().validate(request(obj), _facts(_RESERVED))) == _missing(*keys)
    assert _rule().mutate(request(changed), _facts(_RESERVED)) == Mutation()
    assert list(_rule().validate(request(changed), _facts(_RESERVED))) == []


@pytest.mark.parametrize(
    ("mode", "mutation", "violations"),
    [
        pytest.param(
            "inject", _list(*_THREE), _missing("sunk.coreweave.com/lock", "is_cpu_compute", "is_gpu"), id="inject"
        ),
        pytest.param("warn", Mutation(), _missing("sunk.coreweave.com/lock", "is_cpu_compute", "is_gpu"), id="warn"),
        pytest.param("off", Mutation(), [], id="off"),
    ],
)
def test_modes(mode: SunkMode, mutation: Mutation, violations: list[Violation]) -> None:
    """Inject changes and finds what is missing, warn only finds it, off does neither."""
    rule = _rule(mode)

    assert rule.mutate(request(daemon_set()), _facts(_LOCKED)) == mutation
    assert list(rule.validate(request(daemon_set()), _facts(_LOCKED))) == violations


def _required(*needs: Json) -> Json:
    terms = [{"matchExpressions": list(needs)}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


@pytest.mark.parametrize(
    ("spec", "on_nodes", "on_configured_nodes"),
    [
        pytest.param({"nodeSelector": {"zone": "a"}}, True, True, id="selector-matches"),
        pytest.param({"nodeSelector": {"zone": "b"}}, False, False, id="selector-rules-out"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, False, True, id="selector-on-another-label"),
        pytest.param(_required({"key": "zone", "operator": "In", "values": ["a"]}), True, True, id="affinity-matches"),
        pytest.param(
            _required({"key": "zone", "operator": "NotIn", "values": ["a"]}), False, False, id="affinity-rules-out"
        ),
        pytest.param(
            _required({"key": "zone", "operator": "DoesNotExist"}), False, False, id="affinity-without-the-label"
        ),
        pytest.param(_required({"key": "disk", "operator": "Exists"}), False, True, id="affinity-on-another-label"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            True,
            True,
            id="preferred",
        ),
    ],
)
def test_daemon_sets_that_cannot_land(spec: Json, on_nodes: bool, on_configured_nodes: bool) -> None:  # noqa: FBT001
    """DaemonSets that rule the Nodes out are left alone; without Nodes the configured labels decide what they can."""
    asked = request(daemon_set(**spec))

    assert _rule().mutate(asked, _facts(_LOCKED)) == (_list(*_THREE) if on_nodes else Mutation())
    assert _rule(selector={"zone": "a"}).mutate(asked, _facts()) == (
        _list(*_THREE) if on_configured_nodes else Mutation()
    )


def test_one_node_that_it_can_land_on_is_enough() -> None:
    """A DaemonSet must tolerate the taints when any SUNK Node would take it."""
    asked = request(daemon_set(nodeSelector={"zone": "a"}))

    assert _rule().mutate(asked, _facts(_LABELLED, _LOCKED)) == _list(*_THREE)
    assert _rule().mutate(asked, _facts(_LABELLED, _PLAIN)) == Mutation()


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(None, id="deletion"),
        pytest.param(daemon_set(metadata=owner("Operator")), id="owned"),
        pytest.param(daemon_set(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), id="being-deleted"),
        pytest.param({"kind": "DaemonSet"}, id="nothing"),
        pytest.param({"kind": "DaemonSet", "metadata": None, "spec": None}, id="null"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": None}}, id="null-template"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": {"spec": None}}}, id="null-spec"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": {"spec": "x"}}}, id="spec-is-text"),
        pytest.param({"kind": "DaemonSet", "spec": [{"template": {}}]}, id="spec-is-a-list"),
    ],
)
def test_what_is_left_alone(obj: Json | None) -> None:
    """Owned objects, those being deleted and those without a Pod spec are neither changed nor found wanting."""
    asked = request(obj, old=daemon_set() if obj is None else None)

    assert _rule().mutate(asked, _facts(_LOCKED)) == Mutation()
    assert list(_rule().validate(asked, _facts(_LOCKED))) == []


def test_an_empty_pod_spec() -> None:
    """A Pod spec in which nothing stands yet lacks the tolerations as any other does."""
    asked = request({"kind": "DaemonSet", "spec": {"template": {"spec": {}}}})

    assert _rule().mutate(asked, _facts(_LOCKED)) == _list(*_THREE)


@pytest.mark.parametrize(
    "tolerations", [pytest.param("all", id="text"), pytest.param({}, id="map"), pytest.param(1, id="number")]
)
def test_tolerations_that_are_no_list(tolerations: Any) -> None:
    """Tolerations that are no list are left as they are: nothing can be added to them, and that is no failure."""
    asked = request(merged(daemon_set(), {"spec": {"template": {"spec": {"tolerations": tolerations}}}}))

    assert _rule().mutate(asked, _facts(_LOCKED)).operations == ()


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(Node("a", {"notsunk.coreweave.com/x": "1"}), id="another-prefix"),
        pytest.param(Node("a", {"sunk.coreweave.community/x": "1"}), id="longer-domain"),
        pytest.param(Node("a", {"app": "sunk.coreweave.com/x"}), id="in-a-value"),
        pytest.param(Node("a", {}, (Taint("is_gpu", "PreferNoSchedule", "true"),)), id="gpu-node"),
    ],
)
def test_nodes_that_are_not_sunks(node: Node) -> None:
    """Only a taint or label under `sunk.coreweave.com/` makes a Node one of SUNK's."""
    assert _rule().mutate(request(daemon_set()), _facts(node)) == Mutation()
