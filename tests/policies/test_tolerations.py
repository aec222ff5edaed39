"""The CPU toleration: who gets it, who has it already, and how it is written into objects of every shape."""

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, daemon_set, merged, node_affinity, owner, pod, request

from policies.engine import patch
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.rule import Mutation
from policies.engine.violation import Violation
from policies.podspec import Accelerators
from policies.tolerations import CpuToleration, Mode, SunkDaemonSets, tolerates

_CPU = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_GPU = {"nvidia.com/gpu": "8"}
_GONE = {"deletionTimestamp": "2026-03-01T00:00:00Z"}
_OTHER = {"key": "example.org/x", "operator": "Exists"}
_PODS, _TEMPLATES = "spec.tolerations", "spec.template.spec.tolerations"
_RULE = CpuToleration(Accelerators(), "inject")


def _list(path: str, *tolerations: Json) -> Mutation:
    """A new list at a path."""
    return Mutation(({"op": "add", "path": f"/{path.replace('.', '/')}", "value": list(tolerations)},))


def _items(path: str, *tolerations: Json) -> Mutation:
    """Items at the end of the list at a path."""
    at = f"/{path.replace('.', '/')}/-"
    return Mutation(tuple({"op": "add", "path": at, "value": toleration} for toleration in tolerations))


_ADDED, _NOTHING = _list(_PODS, _CPU), Mutation()


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


def test_covering_tolerations() -> None:
    """A toleration that covers the taint, in any of its forms, is not added to; one that does not is, at the end."""
    key = {"key": "is_cpu_compute"}
    covering: list[Any] = [
        *(_CPU, {**key, "operator": "Exists"}, {**key, "operator": "Exists", "effect": ""}),
        *({**key, "operator": "Equal", "value": ""}, {**key, "operator": "Equal"}, key),
        *({**key, "operator": "", "value": None}, {"operator": "Exists"}, {"key": "", "operator": "Exists"}),
        {"operator": "Exists", "effect": "NoSchedule"},
    ]
    others: list[Any] = [
        *({**head, "operator": "Exists", "effect": "NoExecute"} for head in ({}, key)),
        *({**key, "operator": "Exists", "effect": "PreferNoSchedule"}, {**key, "operator": "Equal", "value": "true"}),
        *({"key": name, "operator": "Exists"} for name in ("is_gpu", "is_cpu")),
        *({**key, "operator": "Lt", "value": "5"}, {"operator": "Equal"}, {}, "is_cpu_compute", None),
    ]

    for toleration in (*covering, *others):
        asked, covers = request(pod(tolerations=[_OTHER, toleration])), toleration in covering
        assert tolerates(toleration, Taint("is_cpu_compute", "NoSchedule")) is covers, toleration
        assert _RULE.mutate(asked, FACTS) == (_NOTHING if covers else _items(_PODS, _CPU))
        assert tuple(_RULE.validate(asked, FACTS)) == (() if covers else _missing(_PODS))


def test_a_taint_of_unknown_effect() -> None:
    """Where the taint's effect is not known, only a toleration of every effect is sure to cover it."""
    equal = {"key": "k", "operator": "Equal"}
    covering: list[Json] = [{**equal, "value": "v"}, {"key": "k", "operator": "Exists"}, {"operator": "Exists"}]
    others: list[Json] = [{**equal, "value": "w"}, {"key": "k"}, {**equal, "value": "v", "effect": "NoSchedule"}]

    assert [each for each in (*covering, *others) if tolerates(each, Taint("k", "", "v"))] == covering


@pytest.mark.parametrize("written", [None, [], [_OTHER], [None]])
def test_the_list_of_tolerations(written: Any) -> None:
    """The toleration goes to the end of the list, which is made where it is missing or null, and is added once."""
    obj = pod(tolerations=written)
    mutation = _RULE.mutate(request(obj), FACTS)
    changed = patch.apply(obj, mutation.operations)

    assert mutation == (_ADDED if written is None else _items(_PODS, _CPU))
    assert changed == merged(obj, {"spec": {"tolerations": [*(written or []), _CPU]}})
    assert _RULE.mutate(request(changed), FACTS) == _NOTHING


@pytest.mark.parametrize(("written", "found"), [("all", '"all"'), ({}, "a map"), (3, "the number 3")])
def test_tolerations_that_are_no_list(written: Any, found: str) -> None:
    """What is no list is left alone, with a warning that says where and what it is."""
    for obj, path in ((pod(tolerations=written), _PODS), (daemon_set(tolerations=written), _TEMPLATES)):
        warning = f"{path}: must be a list, found {found}; left as it is"
        assert _RULE.mutate(request(obj), FACTS) == Mutation(warnings=(warning,))
    sunk = _sunk().mutate(request(daemon_set(tolerations=written)), _facts(_LOCKED))
    assert (sunk.operations, len(sunk.warnings)) == ((), 1)


def test_pods() -> None:
    """Pods that request no GPU get the toleration; GPU Pods, mirrors and Pods that are going do not, nor lack it."""

    def claim(name: str) -> list[Json]:
        return [{"name": "a", "resourceClaimName": name}]

    given: list[Json] = [
        *(pod(), pod({"cpu": "4", "nvidia.com/gpu": "0"}), pod(metadata=owner()), pod(resourceClaims=claim("other"))),
        {"kind": "Pod", "metadata": {"annotations": None}, "spec": {}},
    ]
    others: list[Json] = [
        *(pod(_GPU), pod({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}), pod(resourceClaims=claim("gpu"))),
        pod(initContainers=[{"resources": {"requests": _GPU}}]),
        *(pod(metadata={"annotations": {"kubernetes.io/config.mirror": ""}}), pod(metadata=_GONE)),
        *({"kind": "Pod", "metadata": {}}, {"kind": "Pod", "metadata": None, "spec": None}),
        {"kind": "Pod", "metadata": [], "spec": "x"},
    ]
    facts = StaticFacts(TODAY, claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})})

    for obj in (*given, *others):
        assert _RULE.mutate(request(obj), facts).operations == (_ADDED.operations if obj in given else ()), obj
        assert tuple(_RULE.validate(request(obj), facts)) == (_missing(_PODS) if obj in given else ())


_ODD_SPECS: list[Any] = [
    *(None, [{"template": {}}], {"template": None}, {"template": []}),
    *({"template": {"spec": None}}, {"template": {"spec": "x"}}),
]
_LEFT_ALONE: list[Json | None] = [
    *(None, daemon_set(metadata=owner("Operator")), daemon_set(metadata=_GONE), {"kind": "DaemonSet"}),
    *({"kind": "DaemonSet", "spec": spec} for spec in _ODD_SPECS),
]
"""DaemonSets that are not there, or that no rule is for."""


def test_daemon_sets() -> None:
    """Templates of DaemonSets are treated as Pods are; owned ones and those without a Pod spec are left alone."""
    written = {
        "new": (daemon_set(), _list(_TEMPLATES, _CPU)),
        "list": (daemon_set(tolerations=[_OTHER]), _items(_TEMPLATES, _CPU)),
        "no controller": (daemon_set(metadata=owner("Operator", controller=False)), _list(_TEMPLATES, _CPU)),
    }
    for obj, mutation in written.values():
        assert _RULE.mutate(request(obj), FACTS) == mutation
        assert tuple(_RULE.validate(request(obj), FACTS)) == _missing(_TEMPLATES)
    for left in (*_LEFT_ALONE, daemon_set(_GPU), daemon_set(tolerations=[{"operator": "Exists"}])):
        asked = request(left, old=daemon_set() if left is None else None)
        assert (_RULE.mutate(asked, FACTS), tuple(_RULE.validate(asked, FACTS))) == (_NOTHING, ())
    for left in _LEFT_ALONE:
        asked, facts = request(left, old=daemon_set() if left is None else None), _facts(_LOCKED)
        assert (_sunk().mutate(asked, facts), list(_sunk().validate(asked, facts))) == (_NOTHING, [])
    empty = request({"kind": "DaemonSet", "spec": {"template": {"spec": {}}}})
    assert _sunk().mutate(empty, _facts(_LOCKED)) == _list(_TEMPLATES, *_THREE)


@pytest.mark.parametrize("mode", ["inject", "warn", "off"])
def test_modes(mode: Mode) -> None:
    """Inject changes DaemonSets, warn only finds what they lack, off leaves them alone; Pods change in any mode."""
    rule, asked = CpuToleration(Accelerators(), mode), request(daemon_set())
    cpu = rule.mutate(asked, FACTS), tuple(rule.validate(asked, FACTS))
    sunk = _sunk(mode).mutate(asked, _facts(_LOCKED)), list(_sunk(mode).validate(asked, _facts(_LOCKED)))

    changes, finds = mode == "inject", mode != "off"
    assert cpu == (_list(_TEMPLATES, _CPU) if changes else _NOTHING, _missing(_TEMPLATES) if finds else ())
    assert sunk == (_list(_TEMPLATES, *_THREE) if changes else _NOTHING, _lacks(*_FOUR[:3]) if finds else [])
    assert rule.mutate(request(daemon_set(tolerations="x")), FACTS).operations == ()
    assert rule.mutate(request(pod()), FACTS) == _ADDED


_LOCK = {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "true"}
_SUNK_CPU = {"key": "is_cpu_compute", "operator": "Exists"}
_SUNK_GPU = {"key": "is_gpu", "operator": "Exists"}
_THREE = [_LOCK, _SUNK_CPU, _SUNK_GPU]
_FOUR = ["sunk.coreweave.com/lock=true", "is_cpu_compute", "is_gpu", "node.coreweave.cloud/reserved=a1b2"]
_SLURM = {"sunk.coreweave.com/cluster": "slurm"}


def _reserved(value: str) -> Json:
    return {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": value}


def _reserved_taint(value: str, effect: str = "NoSchedule") -> Taint:
    return Taint("node.coreweave.cloud/reserved", effect, value)


_LOCKED = Node("locked", {"zone": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),))
_LABELLED = Node("labelled", _SLURM)
_RESERVED = Node("reserved", _SLURM, (_reserved_taint("a1b2"), Taint("is_gpu", "PreferNoSchedule", "true")))
_SECOND = Node("second", _SLURM, (_reserved_taint("00ff", "NoExecute"),))
_PLAIN = Node("plain", {"zone": "a"}, (_reserved_taint("other"),))


def _facts(*nodes: Node) -> StaticFacts:
    return StaticFacts(TODAY, cluster_nodes=nodes)


def _sunk(mode: Mode = "inject", *, reserved: str = "", **selector: str) -> SunkDaemonSets:
    return SunkDaemonSets(mode, selector, reserved)


def _lacks(*taints: str) -> list[Violation]:
    *others, last = taints or ("",)
    shown = f"{', '.join(others)} and {last}" if others else last
    summary = "A DaemonSet that can land on SUNK Nodes must tolerate their taints."
    remedy = "Add a toleration for each: operator Equal with its value, Exists without one."
    found = Violation("sunk", _TEMPLATES, f"none for {shown},", "taints of SUNK Nodes", summary, remedy)
    return [found] if last else []


@pytest.mark.parametrize(
    ("rule", "nodes", "hashes"),
    [
        pytest.param(_sunk(), [_LOCKED], [], id="nodes-by-taint"),
        pytest.param(_sunk(), [_LABELLED], [], id="nodes-by-label"),
        pytest.param(_sunk(), [_PLAIN, _RESERVED], ["a1b2"], id="reserved-read-off-sunk-nodes-only"),
        pytest.param(_sunk(), [_RESERVED, _SECOND], ["00ff", "a1b2"], id="reserved-for-two-organizations"),
        pytest.param(_sunk(reserved="c3d4"), [_RESERVED], ["c3d4"], id="reserved-configured"),
        pytest.param(_sunk(), [_PLAIN], None, id="no-sunk-nodes"),
        pytest.param(_sunk(), [], None, id="no-nodes"),
        pytest.param(_sunk(reserved="c3d4"), [], None, id="hash-without-nodes"),
        pytest.param(_sunk(zone="a"), [_PLAIN, _RESERVED], ["other"], id="nodes-by-configured-label"),
        pytest.param(_sunk(zone="a"), [_RESERVED], [], id="no-node-has-the-configured-label-yet"),
        pytest.param(_sunk(zone="a"), [], [], id="configured-label-without-nodes"),
        pytest.param(_sunk(zone="a", reserved="c3d4"), [], ["c3d4"], id="configured-without-nodes"),
        *(
            pytest.param(_sunk(), [Node("a", labels, taints)], None, id=name)
            for name, labels, taints in (
                ("another-prefix", {"notsunk.coreweave.com/x": "1"}, ()),
                ("longer-domain", {"sunk.coreweave.community/x": "1"}, ()),
                ("in-a-value", {"app": "sunk.coreweave.com/x"}, ()),
                ("gpu-node", {}, (Taint("is_gpu", "PreferNoSchedule", "true"),)),
            )
        ),
    ],
)
def test_what_is_known_of_sunk_nodes(rule: SunkDaemonSets, nodes: list[Node], hashes: list[str] | None) -> None:
    """The tolerations follow from the Nodes or the configuration; where neither knows SUNK Nodes the rule is silent."""
    added = () if hashes is None else (*_THREE, *map(_reserved, hashes))

    assert rule.mutate(request(daemon_set()), _facts(*nodes)) == (_list(_TEMPLATES, *added) if added else _NOTHING)


_COVERING = [
    {"key": "sunk.coreweave.com/lock", "operator": "Exists", "effect": "NoExecute"},
    {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "is_gpu", "operator": "Equal", "value": "true", "effect": "PreferNoSchedule"},
    {"key": "node.coreweave.cloud/reserved", "operator": "Exists"},
]
_NEAR_MISSES = [
    {**_LOCK, "value": "false"},
    {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoExecute"},
    {"key": "is_gpu", "operator": "Equal", "value": "yes"},
    _reserved("other"),
]


@pytest.mark.parametrize(
    ("tolerations", "lacking"),
    [
        pytest.param(None, [0, 1, 2, 3], id="null"),
        pytest.param([], [0, 1, 2, 3], id="empty-list"),
        pytest.param([_OTHER], [0, 1, 2, 3], id="other"),
        pytest.param([*_THREE, _reserved("a1b2")], [], id="as-documented"),
        pytest.param([{"operator": "Exists"}], [], id="keyless"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], [0, 2, 3], id="keyless-for-one-effect"),
        pytest.param(_COVERING, [], id="other-forms-that-cover"),
        pytest.param(_NEAR_MISSES, [0, 1, 2, 3], id="near-misses"),
        pytest.param([_LOCK, {**_reserved("a1b2"), "effect": "NoSchedule"}], [1, 2, 3], id="reserved-for-one-effect"),
    ],
)
def test_what_is_missing(tolerations: Any, lacking: list[int]) -> None:
    """Only the taints that no toleration covers are added, in a fixed order and once, and each is told."""
    obj, facts = daemon_set(tolerations=tolerations), _facts(_RESERVED)
    added = [[*_THREE, _reserved("a1b2")][index] for index in lacking]
    mutation = _sunk().mutate(request(obj), facts)
    changed = patch.apply(obj, mutation.operations)

    assert mutation == (_list if tolerations is None else _items)(_TEMPLATES, *added)
    assert list(_sunk().validate(request(obj), facts)) == _lacks(*(_FOUR[index] for index in lacking))
    assert (_sunk().mutate(request(changed), facts), list(_sunk().validate(request(changed), facts))) == (_NOTHING, [])


def _required(**need: Any) -> Json:
    return {"affinity": node_affinity({"matchExpressions": [need]})}


@pytest.mark.parametrize(
    ("spec", "on_nodes", "on_configured_nodes"),
    [
        ({"nodeSelector": {"zone": "a"}}, True, True),
        ({"nodeSelector": {"zone": "b"}}, False, False),
        ({"nodeSelector": {"disk": "ssd"}}, False, True),
        (_required(key="zone", operator="In", values=["a"]), True, True),
        (_required(key="zone", operator="NotIn", values=["a"]), False, False),
        (_required(key="zone", operator="DoesNotExist"), False, False),
        (_required(key="disk", operator="Exists"), False, True),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}, True, True),
    ],
)
def test_daemon_sets_that_cannot_land(spec: Json, on_nodes: bool, on_configured_nodes: bool) -> None:  # noqa: FBT001
    """DaemonSets that rule the Nodes out are left alone; without Nodes the configured labels decide what they can."""
    asked = request(daemon_set(**spec))
    found = _sunk().mutate(asked, _facts(_LOCKED)), _sunk(zone="a").mutate(asked, _facts())

    assert found == tuple(
        _list(_TEMPLATES, *_THREE) if lands else _NOTHING for lands in (on_nodes, on_configured_nodes)
    )


def test_one_node_that_it_can_land_on_is_enough() -> None:
    """A DaemonSet must tolerate the taints when any SUNK Node would take it."""
    asked = request(daemon_set(nodeSelector={"zone": "a"}))

    assert _sunk().mutate(asked, _facts(_LABELLED, _LOCKED)) == _list(_TEMPLATES, *_THREE)
    assert _sunk().mutate(asked, _facts(_LABELLED, _PLAIN)) == _NOTHING
