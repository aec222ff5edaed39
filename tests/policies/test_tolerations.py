"""The CPU toleration: who gets it, who has it already, and how it is written into objects of every shape."""

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, daemon_set, merged, owner, pod, request

from policies.engine import patch
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.rule import Mutation
from policies.engine.violation import Violation
from policies.podspec import Accelerators
from policies.tolerations import CpuToleration, Mode, SunkDaemonSets, tolerates

_CPU = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_GPU = {"nvidia.com/gpu": "8"}
_NOTHING = Mutation()
_ADD_LIST = Mutation(({"op": "add", "path": "/spec/tolerations", "value": [_CPU]},))
_ADD_ITEM = Mutation(({"op": "add", "path": "/spec/tolerations/-", "value": _CPU},))
_TEMPLATE = "/spec/template/spec/tolerations"


def _rule(mode: Mode = "inject") -> CpuToleration:
    return CpuToleration(Accelerators(), mode)


def _missing(path: str) -> tuple[Violation, ...]:
    return (
        Violation(
            "tolerations",
            path,
            "none for is_cpu_compute:NoSchedule,",
            "so this stays off CPU Nodes",
            "A Pod that requests no GPU should tolerate the taint of CPU Nodes.",
            "Add the toleration {key: is_cpu_compute, operator: Exists, effect: NoSchedule}.",
            is_outcome=True,
        ),
    )


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}, True, id="the-one-we-add"
        ),
        pytest.param({"key": "is_cpu_compute", "operator": "Exists"}, True, id="exists-any-effect"),
        pytest.param({"key": "is_cpu_compute", "operator": "Exists", "effect": ""}, True, id="exists-empty-effect"),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal", "value": ""}, True, id="equal-empty-value"),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal"}, True, id="equal-without-value"),
        pytest.param({"key": "is_cpu_compute"}, True, id="operator-defaults-to-equal"),
        pytest.param({"key": "is_cpu_compute", "operator": "", "value": None}, True, id="empty-operator"),
        pytest.param({"operator": "Exists"}, True, id="keyless"),
        pytest.param({"key": "", "operator": "Exists"}, True, id="empty-key"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, True, id="keyless-with-the-effect"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="keyless-with-another-effect"),
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoExecute"}, False, id="another-effect"
        ),
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "PreferNoSchedule"}, False, id="softer-effect"
        ),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal", "value": "true"}, False, id="equal-another-value"),
        pytest.param({"key": "is_gpu", "operator": "Exists"}, False, id="another-key"),
        pytest.param({"key": "is_cpu", "operator": "Exists"}, False, id="shorter-key"),
        pytest.param({"key": "is_cpu_compute", "operator": "Lt", "value": "5"}, False, id="numeric-operator"),
        pytest.param({"operator": "Equal"}, False, id="keyless-equal"),
        pytest.param({}, False, id="empty"),
        pytest.param("is_cpu_compute", False, id="text"),
        pytest.param(None, False, id="null"),
    ],
)
def test_covering_tolerations(toleration: Any, covers: bool) -> None:  # noqa: FBT001
    """A toleration that covers the taint, in any of its forms, is not added to; one that does not is, at the end."""
    other = {"key": "example.org/x", "operator": "Exists"}
    asked = request(pod(tolerations=[other, toleration]))

    assert tolerates(toleration, Taint("is_cpu_compute", "NoSchedule")) is covers
    assert _rule().mutate(asked, FACTS) == (_NOTHING if covers else _ADD_ITEM)
    assert tuple(_rule().validate(asked, FACTS)) == (() if covers else _missing("spec.tolerations"))


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param({"key": "k", "operator": "Equal", "value": "v"}, True, id="equal"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="exists"),
        pytest.param({"operator": "Exists"}, True, id="keyless"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="another-value"),
        pytest.param({"key": "k"}, False, id="empty-value"),
        pytest.param({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, False, id="one-effect"),
    ],
)
def test_a_taint_of_unknown_effect(toleration: Any, covers: bool) -> None:  # noqa: FBT001
    """Where the taint's effect is not known, only a toleration of every effect is sure to cover it."""
    assert tolerates(toleration, Taint("k", "", "v")) is covers


@pytest.mark.parametrize(
    ("spec", "mutation"),
    [
        pytest.param({}, _ADD_LIST, id="no-list"),
        pytest.param({"tolerations": None}, _ADD_LIST, id="null"),
        pytest.param({"tolerations": []}, _ADD_ITEM, id="empty-list"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, _ADD_ITEM, id="list"),
        pytest.param({"tolerations": [None]}, _ADD_ITEM, id="list-of-null"),
    ],
)
def test_the_list_of_tolerations(spec: Json, mutation: Mutation) -> None:
    """The toleration goes to the end of the list, which is made where it is missing or null, and is added once."""
    obj = pod(**spec)
    changed = patch.apply(obj, mutation.operations)

    assert _rule().mutate(request(obj), FACTS) == mutation
    assert changed == merged(obj, {"spec": {"tolerations": [*(spec.get("tolerations") or []), _CPU]}})
    assert _rule().mutate(request(changed), FACTS) == _NOTHING


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        pytest.param(pod(tolerations="all"), 'spec.tolerations: must be a list, found "all"; left as it is', id="text"),
        pytest.param(pod(tolerations={}), "spec.tolerations: must be a list, found a map; left as it is", id="map"),
        pytest.param(
            daemon_set(tolerations=3),
            "spec.template.spec.tolerations: must be a list, found the number 3; left as it is",
            id="number-in-a-template",
        ),
    ],
)
def test_tolerations_that_are_no_list(obj: Json, path: str) -> None:
    """What is no list is left alone, with a warning that says where and what it is."""
    assert _rule().mutate(request(obj), FACTS) == Mutation(warnings=(path,))


@pytest.mark.parametrize(
    ("obj", "mutation"),
    [
        pytest.param(pod(), _ADD_LIST, id="cpu"),
        pytest.param(pod({"cpu": "4", "nvidia.com/gpu": "0"}), _ADD_LIST, id="zero-gpus"),
        pytest.param(
            pod(resourceClaims=[{"name": "a", "resourceClaimName": "unknown"}]), _ADD_LIST, id="unknown-claim"
        ),
        pytest.param(pod(metadata=owner()), _ADD_LIST, id="owned-pod"),
        pytest.param(pod(_GPU), _NOTHING, id="gpu"),
        pytest.param(pod({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}), _NOTHING, id="gpu-by-device-class"),
        pytest.param(pod(resourceClaims=[{"name": "a", "resourceClaimName": "gpu"}]), _NOTHING, id="gpu-by-claim"),
        pytest.param(pod(initContainers=[{"resources": {"requests": _GPU}}]), _NOTHING, id="gpu-of-an-init-container"),
        pytest.param(pod(metadata={"annotations": {"kubernetes.io/config.mirror": ""}}), _NOTHING, id="mirror-pod"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), _NOTHING, id="being-deleted"),
        pytest.param({"kind": "Pod", "metadata": {}}, _NOTHING, id="no-spec"),
        pytest.param({"kind": "Pod", "metadata": None, "spec": None}, _NOTHING, id="null-spec"),
        pytest.param({"kind": "Pod", "metadata": [], "spec": "x"}, _NOTHING, id="spec-is-text"),
        pytest.param({"kind": "Pod", "metadata": {"annotations": None}, "spec": {}}, _ADD_LIST, id="empty-spec"),
    ],
)
def test_pods(obj: Json, mutation: Mutation) -> None:
    """Pods that request no GPU get the toleration; GPU Pods, mirrors and Pods that are going do not, nor lack it."""
    facts = StaticFacts(TODAY, claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})})
    asked = request(obj)

    assert _rule().mutate(asked, facts) == mutation
    assert tuple(_rule().validate(asked, facts)) == (() if mutation == _NOTHING else _missing("spec.tolerations"))


@pytest.mark.parametrize(
    ("obj", "operations"),
    [
        pytest.param(daemon_set(), ({"op": "add", "path": _TEMPLATE, "value": [_CPU]},), id="cpu"),
        pytest.param(
            daemon_set(tolerations=[{"key": "a", "operator": "Exists"}]),
            ({"op": "add", "path": f"{_TEMPLATE}/-", "value": _CPU},),
            id="list",
        ),
        pytest.param(daemon_set(_GPU), (), id="gpu"),
        pytest.param(daemon_set(tolerations=[{"operator": "Exists"}]), (), id="tolerates-everything"),
        pytest.param(daemon_set(metadata=owner("Operator")), (), id="owned"),
        pytest.param(
            daemon_set(metadata=owner("Operator", controller=False)),
            ({"op": "add", "path": _TEMPLATE, "value": [_CPU]},),
            id="owner-that-is-no-controller",
        ),
        pytest.param(daemon_set(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), (), id="being-deleted"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": {"spec": None}}}, (), id="null-spec"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": None}}, (), id="null-template"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": []}}, (), id="template-is-a-list"),
        pytest.param({"kind": "DaemonSet", "spec": None}, (), id="null"),
        pytest.param({"kind": "DaemonSet"}, (), id="nothing"),
    ],
)
def test_daemon_sets(obj: Json, operations: tuple[Json, ...]) -> None:
    """Templates of DaemonSets are treated as Pods are; those that a controller owns are left to it."""
    asked = request(obj)
    missing = _missing("spec.template.spec.tolerations") if operations else ()

    assert _rule("inject").mutate(asked, FACTS) == Mutation(operations)
    assert tuple(_rule("inject").validate(asked, FACTS)) == missing


@pytest.mark.parametrize(
    ("mode", "mutation", "violations"),
    [
        pytest.param(
            "inject",
            Mutation(({"op": "add", "path": _TEMPLATE, "value": [_CPU]},)),
            _missing("spec.template.spec.tolerations"),
            id="inject",
        ),
        pytest.param("warn", _NOTHING, _missing("spec.template.spec.tolerations"), id="warn"),
        pytest.param("off", _NOTHING, (), id="off"),
    ],
)
def test_modes(mode: Mode, mutation: Mutation, violations: tuple[Violation, ...]) -> None:
    """Inject changes DaemonSets, warn only finds what they lack, off leaves them alone; Pods change in any mode."""
    rule = _rule(mode)

    assert rule.mutate(request(daemon_set()), FACTS) == mutation
    assert tuple(rule.validate(request(daemon_set()), FACTS)) == violations
    assert rule.mutate(request(daemon_set(tolerations="x")), FACTS).operations == ()
    assert rule.mutate(request(pod()), FACTS) == _ADD_LIST


def test_nothing_to_change_on_a_deletion() -> None:
    """A request without an object is passed over."""
    asked = request(None, old=pod())

    assert (_rule().mutate(asked, FACTS), tuple(_rule().validate(asked, FACTS))) == (_NOTHING, ())


_PATH = "/spec/template/spec/tolerations"
_LOCK = {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "true"}
_SUNK_CPU = {"key": "is_cpu_compute", "operator": "Exists"}
_SUNK_GPU = {"key": "is_gpu", "operator": "Exists"}
_THREE = [_LOCK, _SUNK_CPU, _SUNK_GPU]
_FOUR = ["sunk.coreweave.com/lock", "is_cpu_compute", "is_gpu", "node.coreweave.cloud/reserved"]
_TEXTS = {
    "sunk.coreweave.com/lock": "sunk.coreweave.com/lock=true",
    "node.coreweave.cloud/reserved": "node.coreweave.cloud/reserved=a1b2",
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


def _sunk(mode: Mode = "inject", *, selector: dict[str, str] | None = None, reserved: str = "") -> SunkDaemonSets:
    return SunkDaemonSets(mode, selector or {}, reserved)


def _list(*tolerations: Json) -> Mutation:
    return Mutation(({"op": "add", "path": _PATH, "value": list(tolerations)},))


def _items(*tolerations: Json) -> Mutation:
    return Mutation(tuple({"op": "add", "path": f"{_PATH}/-", "value": toleration} for toleration in tolerations))


def _lacks(*keys: str) -> list[Violation]:
    *others, last = [_TEXTS.get(key, key) for key in keys] or [""]
    listed = f"{', '.join(others)} and {last}" if others else last
    summary = "A DaemonSet that can land on SUNK Nodes must tolerate their taints."
    remedy = "Add a toleration for each: operator Equal with its value, Exists without one."
    path = "spec.template.spec.tolerations"
    return [Violation("sunk", path, f"none for {listed},", "taints of SUNK Nodes", summary, remedy)] if last else []


@pytest.mark.parametrize(
    ("rule", "nodes", "added"),
    [
        pytest.param(_sunk(), [_LOCKED], _THREE, id="nodes-by-taint"),
        pytest.param(_sunk(), [_LABELLED], _THREE, id="nodes-by-label"),
        pytest.param(
            _sunk(), [_PLAIN, _RESERVED], [*_THREE, _reserved("a1b2")], id="reserved-read-off-sunk-nodes-only"
        ),
        pytest.param(
            _sunk(),
            [
                _RESERVED,
                Node("second", _LABELLED.labels, (Taint("node.coreweave.cloud/reserved", "NoExecute", "00ff"),)),
            ],
            [*_THREE, _reserved("00ff"), _reserved("a1b2")],
            id="reserved-for-two-organizations",
        ),
        pytest.param(_sunk(reserved="c3d4"), [_RESERVED], [*_THREE, _reserved("c3d4")], id="reserved-configured"),
        pytest.param(_sunk(), [_PLAIN], [], id="no-sunk-nodes"),
        pytest.param(_sunk(), [], [], id="no-nodes"),
        pytest.param(_sunk(reserved="c3d4"), [], [], id="hash-without-nodes"),
        pytest.param(
            _sunk(selector={"zone": "a"}),
            [_PLAIN, _RESERVED],
            [*_THREE, _reserved("other")],
            id="nodes-by-configured-label",
        ),
        pytest.param(_sunk(selector={"zone": "a"}), [_RESERVED], _THREE, id="no-node-has-the-configured-label-yet"),
        pytest.param(_sunk(selector={"zone": "a"}), [], _THREE, id="configured-label-without-nodes"),
        pytest.param(
            _sunk(selector={"zone": "a"}, reserved="c3d4"),
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
        pytest.param(None, _list(*_THREE, _reserved("a1b2")), _FOUR, id="null"),
        pytest.param([], _items(*_THREE, _reserved("a1b2")), _FOUR, id="empty-list"),
        pytest.param([{"key": "x", "operator": "Exists"}], _items(*_THREE, _reserved("a1b2")), _FOUR, id="other"),
        pytest.param([*_THREE, _reserved("a1b2")], Mutation(), [], id="as-documented"),
        pytest.param([{"operator": "Exists"}], Mutation(), [], id="keyless"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}],
            _items(_LOCK, _SUNK_GPU, _reserved("a1b2")),
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
            _FOUR,
            id="near-misses",
        ),
        pytest.param(
            [_LOCK, {**_reserved("a1b2"), "effect": "NoSchedule"}],
            _items(_SUNK_CPU, _SUNK_GPU, _reserved("a1b2")),
            ["is_cpu_compute", "is_gpu", "node.coreweave.cloud/reserved"],
            id="reserved-for-one-effect",
        ),
    ],
)
def test_what_is_missing(tolerations: Any, mutation: Mutation, keys: list[str]) -> None:
    """Only the taints that no toleration covers are added, in a fixed order and once, and each is told."""
    obj = daemon_set(tolerations=tolerations)
    changed = patch.apply(obj, mutation.operations)

    assert _sunk().mutate(request(obj), _facts(_RESERVED)) == mutation
    assert list(_sunk().validate(request(obj), _facts(_RESERVED))) == _lacks(*keys)
    assert _sunk().mutate(request(changed), _facts(_RESERVED)) == Mutation()
    assert list(_sunk().validate(request(changed), _facts(_RESERVED))) == []


@pytest.mark.parametrize(
    ("mode", "mutation", "violations"),
    [
        pytest.param(
            "inject", _list(*_THREE), _lacks("sunk.coreweave.com/lock", "is_cpu_compute", "is_gpu"), id="inject"
        ),
        pytest.param("warn", Mutation(), _lacks("sunk.coreweave.com/lock", "is_cpu_compute", "is_gpu"), id="warn"),
        pytest.param("off", Mutation(), [], id="off"),
    ],
)
def test_modes_of_the_rule_for_sunk(mode: Mode, mutation: Mutation, violations: list[Violation]) -> None:
    """Inject changes and finds what is missing, warn only finds it, off does neither."""
    rule = _sunk(mode)

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

    assert _sunk().mutate(asked, _facts(_LOCKED)) == (_list(*_THREE) if on_nodes else Mutation())
    assert _sunk(selector={"zone": "a"}).mutate(asked, _facts()) == (
        _list(*_THREE) if on_configured_nodes else Mutation()
    )


def test_one_node_that_it_can_land_on_is_enough() -> None:
    """A DaemonSet must tolerate the taints when any SUNK Node would take it."""
    asked = request(daemon_set(nodeSelector={"zone": "a"}))

    assert _sunk().mutate(asked, _facts(_LABELLED, _LOCKED)) == _list(*_THREE)
    assert _sunk().mutate(asked, _facts(_LABELLED, _PLAIN)) == Mutation()


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

    assert _sunk().mutate(asked, _facts(_LOCKED)) == Mutation()
    assert list(_sunk().validate(asked, _facts(_LOCKED))) == []


def test_an_empty_pod_spec() -> None:
    """A Pod spec in which nothing stands yet lacks the tolerations as any other does."""
    asked = request({"kind": "DaemonSet", "spec": {"template": {"spec": {}}}})

    assert _sunk().mutate(asked, _facts(_LOCKED)) == _list(*_THREE)


@pytest.mark.parametrize(
    "tolerations", [pytest.param("all", id="text"), pytest.param({}, id="map"), pytest.param(1, id="number")]
)
def test_tolerations_of_daemon_sets_that_are_no_list(tolerations: Any) -> None:
    """Tolerations that are no list are left as they are: nothing can be added to them, and that is no failure."""
    asked = request(merged(daemon_set(), {"spec": {"template": {"spec": {"tolerations": tolerations}}}}))

    assert _sunk().mutate(asked, _facts(_LOCKED)).operations == ()


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
    assert _sunk().mutate(request(daemon_set()), _facts(node)) == Mutation()
