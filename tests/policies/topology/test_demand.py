"""Demand: a template as kube-scheduler reads its Pods, and the gangs of a workload."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import FACTS, TODAY, node_affinity
from support.tables import rows

from policies.engine.facts import StaticFacts
from policies.engine.match import SelectorRequirement
from policies.podspec import Accelerators
from policies.topology.gang import Member, Toleration, member, tiers
from policies.topology.topology import BUILT_IN, Topology

_GPUS = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "4"}}}]}
_RACK = (SelectorRequirement("rack", "In", ("12",)),)


def _topology(name: str) -> Topology:
    return next(topology for topology in BUILT_IN if topology.name == name)


def _expressions(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _member(spec: Any, facts: StaticFacts = FACTS, **options: Any) -> Member | str:
    return member({"spec": spec}, "spec.template", 2, facts, Accelerators(), **options)


def test_everything() -> None:
    """All that decides where a Pod fits is in its member."""
    spec = {
        **_GPUS,
        "nodeSelector": {"b": "2", "a": "1"},
        "tolerations": [
            {"key": "is_gpu", "operator": "Exists"},
            {"operator": "Exists", "effect": "NoSchedule"},
            {"key": "k", "value": "v"},
        ],
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "nodeName": "n1",
        "affinity": node_affinity(
            _expressions("pool", "a", "b"),
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ),
    }

    assert _member(spec, replace(FACTS, classes={"high": 7}), terms=[_RACK]) == Member(
        "spec.template",
        2,
        (("cpu", 4000), ("nvidia.com/gpu", 8), ("pods", 1)),
        8,
        (("a", "1"), ("b", "2")),
        (
            (
                SelectorRequirement("pool", "In", ("a", "b")),
                SelectorRequirement("rack", "In", ("12",)),
                SelectorRequirement("", "In", ("n1",)),
            ),
            (
                SelectorRequirement("", "In", ("n1",)),
                SelectorRequirement("rack", "In", ("12",)),
                SelectorRequirement("", "In", ("n1",)),
            ),
        ),
        (Toleration("is_gpu", "Exists"), Toleration("", "Exists", "", "NoSchedule"), Toleration("k", "Equal", "v")),
        priority=7,
        preempts=False,
    )


@rows(__file__, "priorities")
def test_priority(spec: dict[str, Any], priorities: dict[str, int] | None, expected: int | None) -> None:
    """A Pod has the priority of its class, as far as the classes are known."""
    demand = _member(spec, replace(FACTS, classes=priorities))

    assert isinstance(demand, Member)
    assert demand.priority == expected


def test_claims() -> None:
    """A claim for accelerators and one that is not known cannot be counted; one for something else is no obstacle."""
    facts = StaticFacts(
        TODAY,
        claims={("ns", "gpus"): frozenset({"gpu.nvidia.com"}), ("ns", "nics"): frozenset({"nic"})},
        claim_templates={("ns", "nics"): frozenset({"nic"})},
    )
    named = [{"name": name, "resourceClaimName": name} for name in ("gpus", "nics", "lost")]
    spec = {
        "resourceClaims": [*named, {"name": "t", "resourceClaimTemplateName": "nics"}],
        "containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/mig.nvidia.com": 1}}}],
    }
    demand = _member(spec, facts, namespace="ns")

    assert isinstance(demand, Member)
    assert demand.claims == ("deviceclass.resource.kubernetes.io/mig.nvidia.com", "gpus", "lost")


_LABELS = {"app": "train"}


def _apart(selector: Any, key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_one_pod_a_node() -> None:
    """A port of the Node, or a Pod that keeps away from its own kind, allows one Pod on each Node."""
    own = {"key": "app", "operator": "In", "values": ["train"]}
    port = {"containers": [{"ports": [{"containerPort": 80}]}]}
    alone: list[dict[str, Any]] = [
        *({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, {"hostNetwork": True, **port}),
        {"initContainers": [{"ports": [{"hostPort": 80}]}]},
        *(_apart(selector) for selector in ({"matchLabels": _LABELS}, {"matchExpressions": [own]})),
    ]
    others: list[dict[str, Any]] = [
        *({}, port, {"hostNetwork": True}, _apart({"matchLabels": {"app": "other"}}), _apart(None)),
        _apart({"matchLabels": _LABELS}, "topology.kubernetes.io/zone"),
    ]

    for spec in (*alone, *others):
        demand = member({"metadata": {"labels": _LABELS}, "spec": spec}, "", 1, FACTS, Accelerators())
        assert isinstance(demand, Member)
        assert demand.alone is (spec in alone), spec


def test_second_names() -> None:
    """A GPU that SUNK lists under a second name is one accelerator."""
    both = {"nvidia.com/gpu": 8, "sunk.coreweave.com/accelerator": 8}
    demand = _member({"containers": [{"resources": {"limits": both}}]})

    assert isinstance(demand, Member)
    assert demand.accelerators == 8


@rows(__file__, "malformed")
def test_malformed(spec: dict[str, Any], reason: str) -> None:
    """A template that nobody can place has no demand, and the reason is told."""
    assert _member(spec) == f"it cannot be read: {reason}"


_FIELDS = (
    *("spec", "containers", "resources", "limits", "affinity", "nodeAffinity", "nodeSelectorTerms", "tolerations"),
    *("requiredDuringSchedulingIgnoredDuringExecution", "matchExpressions", "key", "values", "resourceClaims", "cpu"),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=3),
    max_leaves=12,
)


@given(spec=_JSON, affinity=_JSON)
def test_nothing_raises(spec: Any, affinity: Any) -> None:
    """Whatever a template is, there is a demand or a reason."""
    whole = {**spec, "affinity": {"nodeAffinity": affinity}} if isinstance(spec, dict) else spec

    assert isinstance(_member(whole, terms=[_RACK]), Member | str)


def test_tiers() -> None:
    """Tiers are the levels in their order; a union takes the place of its first key's level."""
    topology = _topology("topograph-nvlink")
    union = topology.find("nvlink")
    plain, united = tiers(topology), tiers(topology, None, union)

    assert [tier.keys[0].rpartition("/")[2] for tier in plain] == [
        *("core", "spine", "leaf", "accelerator", "nvl-domain", "gpu.clique", "hostname")
    ]
    assert united == (*plain[:5], union, plain[6])
