"""Cases as files that read like a specification: an object, what is written into it or the refusal, with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import TODAY, WORKLOADS, Json, request

from policies.engine import engine, patch
from policies.engine.facts import Node, StaticFacts
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import Hook, Rule, RuleSet
from policies.topology import objects
from policies.topology.rule import TopologyPlacement, reads
from policies.topology.template import Default, Options
from policies.topology.topology import BUILT_IN, Catalog, Topology

_EVERYTHING = (ResourceRule(("*",), ("*",), ("*/*",)),)
_HOOKS = (Hook("mutate", "all", _EVERYTHING, "Ignore"), Hook("validate", "all", _EVERYTHING, "Fail"))
_FIELDS = {
    *("why", "before", "old", "written", "refused", "warnings"),
    *("nodes", "topologies", "pools", "clustered", "options", "room"),
}
_ROOM = (("cpu", 64_000), ("memory", 2**40), ("nvidia.com/gpu", 8), ("pods", 110))


def _cases() -> list[Any]:
    found = []
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in yaml.safe_load(path.read_text()):
            words = case["why"].split()
            found.append(pytest.param(case, id=f"{path.stem}: {' '.join(words[:12])}"))
    return found


def _pool(topology: Topology, pools: Mapping[str, Mapping[str, str]]) -> Topology:
    labels = pools.get(topology.name)
    if not labels:
        return topology
    return replace(topology, pool=LabelSelector(tuple(SelectorRequirement(k, "In", (v,)) for k, v in labels.items())))


def _options(case: Json) -> dict[str, Any]:
    """The options of a case, in which a default is its topology."""
    options = {"clustered": case.get("clustered", True), **case.get("options", {})}
    return {key: Default(value) if key == "default" else value for key, value in options.items()}


def _rules(case: Json) -> RuleSet:
    catalog = Catalog(_pool(topology, case.get("pools", {})) for topology in BUILT_IN)
    placement = TopologyPlacement(catalog, Options(WORKLOADS, **_options(case)))
    read = reads(list(WORKLOADS.values()))
    return RuleSet([Rule("topology", _HOOKS, "deny", read, mutate=placement.mutate, validate=placement.validate)])


def _facts(case: Json) -> StaticFacts:
    """The facts of a case. Its `nodes` are labels, and where it says `room`, Nodes with 8 GPUs."""
    room = _ROOM if case.get("room") else ()
    nodes = tuple(Node(f"n{number}", labels, (), room) for number, labels in enumerate(case.get("nodes", ())))
    known = tuple(objects.read(each, "the cluster", in_cluster=True) for each in case.get("topologies", ()))
    return StaticFacts(TODAY, cluster_nodes=nodes, cluster_topologies=known)


@pytest.mark.parametrize("case", _cases())
def test_a_case(case: Json) -> None:
    """Just what the case says is written, once, and the object is refused or warned of in these words."""
    assert case.keys() <= _FIELDS
    rules, facts, old = _rules(case), _facts(case), case.get("old")

    mutation = engine.mutate(request(case["before"], old=old), rules, facts)
    changed = patch.apply(case["before"], mutation.operations)
    again = engine.mutate(request(changed, old=old), rules, facts)
    answer = engine.validate(request(changed, old=old), rules, facts)

    assert again.operations == ()
    assert {operation["path"]: operation.get("value") for operation in mutation.operations} == case.get("written", {})
    assert answer.message == case.get("refused", "")
    assert [*mutation.warnings, *answer.warnings] == case.get("warnings", [])
