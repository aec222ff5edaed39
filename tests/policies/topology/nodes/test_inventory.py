"""The inventory: what is free, which Nodes are eligible, which domains there are, after any changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.tables import rows

from policies.engine.match import SelectorRequirement as Requirement
from policies.topology.gang import Member, Toleration
from policies.topology.nodes.inventory import Inventory, PodKey
from policies.topology.nodes.manifest import NodeManifest, PodManifest, requests

GPU = "nvidia.com/gpu"
Json = dict[str, Any]


def _node(name: str, labels: Mapping[str, str] | None = None, *taints: Json, **more: Any) -> NodeManifest:
    """A Node. more: amounts by resource, `ready` and `unschedulable`."""
    ready, cordoned = more.pop("ready", True), more.pop("unschedulable", False)
    whole = {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"unschedulable": cordoned, "taints": list(taints)},
        "status": {
            "allocatable": {"pods": 10, GPU: 8, **more},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    return msgspec.convert(whole, NodeManifest)


def _pod(name: str, node: str, gpus: int = 1, priority: int | None = None, phase: str = "Running") -> PodManifest:
    whole = {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": node, "priority": priority, "containers": [{"resources": {"requests": {GPU: gpus}}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(whole, PodManifest)


def _inventory(*objects: NodeManifest | PodManifest) -> Inventory:
    inventory = Inventory()
    for item in objects:
        if isinstance(item, NodeManifest):
            inventory.put_node(item)
        else:
            _put(inventory, item)
    return inventory


def _put(inventory: Inventory, pod: PodManifest) -> None:
    """A Pod as it is now: it takes room as long as it is on a Node and has not finished."""
    if pod.holds:
        inventory.put_pod(pod.key, pod.spec.node_name, requests(pod), pod.spec.priority or 0)
    else:
        inventory.remove_pod(pod.key)


def _by_name(inventory: Inventory, column: Any) -> dict[str, Any]:
    return {name: value for name, value in zip(inventory.names(), column.tolist(), strict=True) if name}


def _free(
    inventory: Inventory, priority: int | None = None, leaving: Sequence[PodKey] = (), resource: str = GPU
) -> dict[str, int]:
    return _by_name(inventory, inventory.free(resource, priority, leaving))


def test_resources_that_nobody_offers() -> None:
    """A Pod that names its Node itself and asks for thousands of made-up resources takes no memory for each of them."""
    made_up = {f"example.org/r{number}": 1 for number in range(1000)}
    container = {"resources": {"requests": {**made_up, GPU: 3}}}
    spec = {"nodeName": "a", "containers": [container]}
    hostile = msgspec.convert({"metadata": {"name": "h", "namespace": "team"}, "spec": spec}, PodManifest)
    before, after = _inventory(hostile, _node("a")), _inventory(_node("a"), hostile)
    two: dict[str, Any] = {"example.org/r1": 2}
    new = _inventory(hostile, _node("a"), _node("a", **two))

    assert {*before._used} == {*after._used} == {("pods", 0), (GPU, 0)}
    assert [_free(before), _free(after), _free(new, resource="example.org/r1")] == [{"a": 5}, {"a": 5}, {"a": 1}]


def test_lower_priorities_could_be_preempted() -> None:
    """With a priority only Pods of at least that priority count; a Pod without one has priority 0."""
    inventory = _inventory(_node("a"), _pod("p", "a", 1), _pod("q", "a", 2, 10), _pod("r", "a", 4, 20))

    assert [_free(inventory, priority) for priority in (None, 0, 10, 11, 21)] == [
        {"a": 1}, {"a": 1}, {"a": 2}, {"a": 4}, {"a": 8},
    ]  # fmt: skip


def test_what_may_make_room_is_counted() -> None:
    """What was tried without success need not be tried again while no Pod went and no Node changed."""
    inventory = _inventory(_node("a"), _pod("p", "a", 1))
    before = inventory.freed

    _put(inventory, _pod("p", "a", 1))
    _put(inventory, _pod("q", "a", 1))
    inventory.put_node(_node("a"))
    assert inventory.freed == before
    inventory.remove_pod(("team", "q"))
    inventory.put_node(_node("a", {"rack": "1"}))
    inventory.put_node(_node("a", {"rack": "1"}, **{GPU: 4}))
    assert inventory.freed == before + 3


_TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
_LOCK = {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"}
_NODES = (
    _node("plain", {"rack": "1", "n": "5"}),
    _node("other", {"rack": "2", "n": "x"}),
    _node("bare"),
    _node("apart", {"rack": "1"}, _TAINT),
    _node("locked", {"rack": "1"}, _LOCK, {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}),
    _node("cordoned", {"rack": "1"}, unschedulable=True),
    _node("unready", {"rack": "1"}, ready=False),
    _node("triage", {"rack": "1", "node.coreweave.cloud/state": "triage"}),
)


def _member(*terms: tuple[Requirement, ...], tolerations: tuple[Toleration, ...] = (), **selector: str) -> Member:
    return Member("", 1, (), node_selector=tuple(selector.items()), terms=terms, tolerations=tolerations)


@rows(__file__, "eligible")
def test_eligible_nodes(selector: Any, terms: Any, tolerations: Any, now: str, later: str) -> None:
    """A Node is eligible now, or once it is well, by selector, affinity and the taints that are not tolerated."""
    member = _member(
        *(
            tuple(Requirement(key, operator, *map(tuple, values)) for key, operator, *values in term)
            for term in terms or ()
        ),
        tolerations=tuple(Toleration(*toleration) for toleration in tolerations or ()),
        **(selector or {}),
    )
    inventory = _inventory(*_NODES)
    at_once, possible = inventory.eligible(member)

    found = _by_name(inventory, at_once), _by_name(inventory, possible)

    assert [{name for name, holds in mask.items() if holds} for mask in found] == [
        set(now.split()), {*now.split(), *later.split()},
    ]  # fmt: skip


def _values(inventory: Inventory, keys: tuple[str, ...], *, distinct: bool = False) -> dict[str, str | None]:
    codes = _by_name(inventory, inventory.domains(keys, distinct=distinct))
    return {name: None if code < 0 else inventory.value(keys, code, distinct=distinct) for name, code in codes.items()}


def test_domains_are_those_of_the_first_key() -> None:
    """A Node is in the domain of the first key that it carries; under distinct keys the same value is another one."""
    keys = ("new", "old")
    inventory = _inventory(
        _node("a", {"new": "1"}), _node("b", {"old": "1"}), _node("c", {"new": "2", "old": "1"}), _node("d")
    )

    def together(**distinct: bool) -> set[frozenset[str]]:
        codes = _by_name(inventory, inventory.domains(keys, **distinct))
        return {frozenset(n for n, other in codes.items() if other == code) for code in codes.values() if code >= 0}

    assert _values(inventory, keys) == {"a": "1", "b": "1", "c": "2", "d": None}
    assert _values(inventory, keys, distinct=True) == _values(inventory, keys)
    assert together() == {frozenset("ab"), frozenset("c")}
    assert together(distinct=True) == {frozenset("a"), frozenset("b"), frozenset("c")}


def test_values_of_lost_nodes_are_forgotten() -> None:
    """Nodes that come and go under ever new names do not pile up."""
    inventory = _inventory(_node("n", {"host": "0"}))
    codes = set()
    for number in range(5000):
        inventory.put_node(_node("n", {"host": str(number)}))
        codes.add(int(inventory.domains(("host",))[0]))

    assert (_values(inventory, ("host",)), max(codes) < 1100) == ({"n": "4999"}, True)


_NAMES = ("a", "b", "c", "d")
_STATES = st.sampled_from(["", "triage"])


@st.composite
def _nodes(draw: st.DrawFn) -> NodeManifest:
    labels = draw(st.dictionaries(st.sampled_from(["new", "old"]), st.sampled_from("12")))
    taints = draw(st.lists(st.sampled_from([_TAINT, _LOCK]), unique_by=lambda taint: taint["key"]))
    state = draw(_STATES)
    more = {"node.coreweave.cloud/state": state} if state else {}
    gpus: Json = draw(st.sampled_from([{}, {GPU: 4}, {"cpu": "1"}]))
    name, cordoned, ready = draw(st.sampled_from(_NAMES)), draw(st.booleans()), draw(st.booleans())
    return _node(name, labels | more, *taints, unschedulable=cordoned, ready=ready, **gpus)


@st.composite
def _pods(draw: st.DrawFn) -> PodManifest:
    return _pod(
        draw(st.sampled_from("pqrs")),
        draw(st.sampled_from(["", *_NAMES])),
        draw(st.integers(0, 3)),
        draw(st.sampled_from([None, 0, 10])),
        draw(st.sampled_from(["Running", "Pending", "Failed"])),
    )


_STEPS = st.lists(
    st.one_of(_nodes(), _pods(), st.sampled_from([*_NAMES, *((("team", name)) for name in "pqrs"), "?"])), max_size=30
)
_MEMBERS = (
    _member(),
    _member(new="1"),
    _member((Requirement("new", "NotIn", ("1",)), Requirement("", "NotIn", ("a",))), (Requirement("old", "Exists"),)),
    _member(tolerations=(Toleration("sunk.coreweave.com/lock", "Exists"), Toleration("dedicated", "Exists"))),
)


def _all(inventory: Inventory) -> Any:
    """Everything that can be asked, by the names of Nodes."""
    return (
        {
            (resource, priority, leaving): _free(inventory, priority, leaving, resource=resource)
            for resource in (GPU, "cpu", "pods")
            for priority in (None, 0, 5, 11)
            for leaving in ((), (("team", "p"), ("team", "q")))
        },
        [_by_name(inventory, mask) for member in _MEMBERS for mask in inventory.eligible(member)],
        [_values(inventory, keys) for keys in (("new",), ("new", "old"), ("old",))],
        (sorted(inventory.nodes), sorted(inventory.pods)),
    )


def _take(
    inventory: Inventory, step: Any, nodes: dict[str, NodeManifest], pods: dict[tuple[str, str], PodManifest]
) -> None:
    """Tell the inventory of a change, and keep what there is after it."""
    match step:
        case NodeManifest():
            inventory.put_node(step)
            nodes[step.metadata.name] = step
        case PodManifest():
            _put(inventory, step)
            pods[step.key] = step
        case str():
            inventory.remove_node(step)
            nodes.pop(step, None)
        case _:
            inventory.remove_pod(step)
            pods.pop(step, None)


@given(_STEPS, st.randoms(use_true_random=False), st.integers(1, 7))
def test_changes_lead_where_the_state_leads(steps: list[Any], random: Any, every: int) -> None:
    """After any changes, asked at any time, the inventory is that of the Nodes and Pods there are, in any order."""
    inventory = _inventory()
    nodes: dict[str, NodeManifest] = {}
    pods: dict[tuple[str, str], PodManifest] = {}
    for number, step in enumerate(steps):
        _take(inventory, step, nodes, pods)
        if number % every == 0:
            _all(inventory)  # the answers are kept, and followed from here on
    left: list[NodeManifest | PodManifest] = [*nodes.values(), *pods.values()]
    random.shuffle(left)

    assert _all(inventory) == _all(_inventory(*left))


@given(st.lists(_nodes(), unique_by=lambda node: node.metadata.name), st.lists(_pods(), unique_by=lambda pod: pod.key))
def test_no_pod_counts_twice(nodes: list[NodeManifest], pods: list[PodManifest]) -> None:
    """What is free is what a Node has without the sum of the unfinished Pods on it, each put three times."""
    inventory = _inventory(*nodes, *pods, *reversed(pods), *nodes, *pods)
    bound = [pod for pod in pods if pod.spec.node_name and pod.status.phase != "Failed"]

    expected = {}
    for node in nodes:
        name = node.metadata.name
        asked = [(pod.spec.containers or [])[0] for pod in bound if pod.spec.node_name == name]
        used = sum(int(((each.resources and each.resources.requests) or {})[GPU]) for each in asked)
        expected[name] = max(0, int((node.status.allocatable or {})[GPU]) - used)
    assert _free(inventory) == expected
