"""Cases as files that read like a specification: an object before and after, or the refusal, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import TODAY, WORKLOADS, Json, merged, request

from policies.engine import engine
from policies.engine.facts import Node, StaticFacts
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.request import mapping
from policies.engine.rule import Hook, Rule
from policies.engine.ruleset import RuleSet
from policies.objects import patch
from policies.topology import document
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.rule import TopologyPlacement, reads
from policies.topology.topology import Topology

_RECORD = "cks-admission.dev/topology"
_EVERYTHING = (ResourceRule(("*",), ("*",), ("*/*",)),)
_HOOKS = (Hook("mutate", "all", _EVERYTHING, "Ignore"), Hook("validate", "all", _EVERYTHING, "Fail"))
_FIELDS = {"why", "before", "old", "after", "record", "refused", "warnings", "nodes", "topologies", "pools"}


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


def _rules(pools: Mapping[str, Mapping[str, str]]) -> RuleSet:
    catalog = Catalog(_pool(topology, pools) for topology in BUILT_IN)
    placement = TopologyPlacement(catalog, Options(WORKLOADS))
    read = reads(list(WORKLOADS.values()))
    return RuleSet([Rule("topology", _HOOKS, "deny", read, mutate=placement.mutate, validate=placement.validate)])


def _facts(case: Json) -> StaticFacts:
    nodes = tuple(Node(f"n{number}", labels) for number, labels in enumerate(case.get("nodes", ())))
    known = tuple(document.read(each, "the cluster", in_cluster=True) for each in case.get("topologies", ()))
    return StaticFacts(TODAY, cluster_nodes=nodes, cluster_topologies=known)


def _with_record(obj: Json, record: Any) -> Json:
    """The object with a record, which is kept as a text, as what it says."""
    return merged(obj, {"metadata": {"annotations": {_RECORD: record}}})


def _legible(obj: Json) -> Json:
    text = mapping(mapping(obj, "metadata"), "annotations").get(_RECORD)
    return _with_record(obj, json.loads(text)) if text else obj


@pytest.mark.parametrize("case", _cases())
def test_a_case(case: Json) -> None:
    """The object becomes what the case says, is refused or warned of in these words, and is translated once."""
    assert case.keys() <= _FIELDS
    rules, facts, old = _rules(case.get("pools", {})), _facts(case), case.get("old")

    mutation = engine.mutate(request(case["before"], old=old), rules, facts)
    changed = patch.apply(case["before"], mutation.operations)
    again = engine.mutate(request(changed, old=old), rules, facts)
    answer = engine.validate(request(changed, old=old), rules, facts)

    assert again.operations == ()
    assert answer.message == case.get("refused", "")
    assert [*mutation.warnings, *answer.warnings] == case.get("warnings", [])
    assert _legible(changed) == (_with_record(case["after"], case["record"]) if "record" in case else case["after"])
