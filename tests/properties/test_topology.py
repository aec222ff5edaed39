"""Pods that go by affinity: where they may land and how Nodes are scored, whatever stood there before."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.builders import FACTS, WORKLOADS, Json, pod, request

from policies.engine import patch
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Options
from policies.topology.topology import BUILT_IN, Catalog
from properties.placed import (
    PREFERRED,
    TOPOLOGIES,
    Node,
    Placed,
    Wanted,
    affinities_about,
    any_affinities,
    dead_affinities,
    is_in,
    is_placed,
    lands,
    matches,
    nodes_for,
    placements,
    score,
    valid_affinities,
)

_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, clustered=False))
_many = settings(max_examples=250)
_CONTRADICTIONS = ("The preferred placement must be inside the required one.", "No Node can take the Pods.")

_Situation = tuple[Placed, list[Node]]


def _with_nodes(*, real: bool) -> SearchStrategy[_Situation]:
    return placements().flatmap(lambda it: st.tuples(st.just(it), nodes_for(it.topology, it.required, real=real)))


_situations = _with_nodes(real=False)


def _translated(obj: Json, old: Json | None = None) -> Json:
    """The object as the rule leaves it."""
    return patch.apply(obj, _RULE.mutate(request(obj, old=old), FACTS).operations)


def _pod(placed: Placed, affinity: Any) -> Json:
    own = {} if affinity is None else {"affinity": deepcopy(affinity)}
    return pod({"nvidia.com/gpu": 8}, metadata={"annotations": dict(placed.annotations)}, **own)


def _affinity(obj: Json) -> Any:
    return obj["spec"].get("affinity")


@settings(max_examples=600)
@given(_situations, st.data())
def test_where_a_translated_pod_may_land(situation: _Situation, data: st.DataObject) -> None:
    """A Pod may land on a Node just where it could before and the Node is where the placement wants it."""
    placed, nodes = situation
    affinity = data.draw(st.one_of(affinities_about(placed), any_affinities))
    obj = _pod(placed, affinity)
    is_asked = bool(placed.required or placed.preferred)

    changed = _affinity(_translated(obj))

    expected = [
        lands(affinity, node) and (not is_asked or is_placed(node, placed.topology, placed.required)) for node in nodes
    ]
    assert [lands(changed, node) for node in nodes] == expected


@_many
@given(_situations, dead_affinities)
def test_what_matches_no_node_stays_so(situation: _Situation, affinity: Any) -> None:
    """A Pod whose terms no Node meets lands nowhere afterwards, and none of its terms comes to match a Node."""
    placed, nodes = situation

    changed = _affinity(_translated(_pod(placed, affinity)))

    (required,) = (value for key, value in changed["nodeAffinity"].items() if key.startswith("required"))
    assert [(term, node) for term in required["nodeSelectorTerms"] for node in nodes if matches(term, node)] == []


@_many
@given(placements(), any_affinities)
def test_translating_twice_is_translating_once(placed: Placed, affinity: Any) -> None:
    """What was translated is translated already: created again or updated, nothing is to do, and nothing is missing."""
    obj = _pod(placed, affinity)
    sent = deepcopy(obj)

    once = _translated(obj)

    assert obj == sent
    for old in (None, obj, once):
        assert _RULE.mutate(request(once, old=old), FACTS).operations == ()
    found = [each for each in _RULE.validate(request(once), FACTS) if each.summary not in _CONTRADICTIONS]
    assert [each for each in found if each.verdict != "warn" or "not applied" in each.summary] == []


def _preferred(affinity: Any) -> list[Any]:
    found: list[Any] = ((affinity or {}).get("nodeAffinity") or {}).get(PREFERRED) or []
    return found


def _weights(steps: int) -> list[int]:
    """Of the steps, nearest first: n parts of 100 … 1 part, whole numbers, and the nearest gets what is left."""
    if not steps:
        return []
    parts = list(range(steps, 0, -1))
    rest = [100 * part // sum(parts) for part in parts[1:]]
    return [100 - sum(rest), *rest]


@_many
@given(_with_nodes(real=True), valid_affinities)
def test_scores(situation: _Situation, affinity: Any) -> None:
    """Whatever names its labels have: 100 for a Node in the nearest domain, and less the farther away it is."""
    placed, nodes = situation
    preferred = _preferred(_affinity(_translated(_pod(placed, None))))
    assume(all(each not in preferred for each in _preferred(affinity)))  # what is there already is not added
    floor = [level for level, _ in placed.required[-1:]]
    steps = _steps(placed, floor)

    changed = _affinity(_translated(_pod(placed, affinity)))

    for node in nodes:
        if not is_placed(node, placed.topology, placed.required):
            continue
        met = [is_in(node, placed.topology, step) for step in steps]
        expected = (
            sum(weight for weight, is_met in zip(_weights(len(steps)), met, strict=True) if is_met) if steps else 0
        )
        assert score(changed, node) - score(affinity, node) == expected
        assert sorted(met) == met
        if steps and met[0]:
            assert expected == 100


def _steps(placed: Placed, floor: list[str]) -> list[tuple[Wanted, ...]]:
    """The preferred domains, each with those above it, nearest first; only those that are below the required level.

    A nearest level without a name is no step: that a Node has it draws no two Pods together.
    """
    nearness = {level: index for index, level in enumerate(TOPOLOGIES[placed.topology])}
    nearness["nvlink"] = nearness.get("gpu.clique", -1)
    least = nearness[floor[0]] if floor else -1
    wanted = placed.preferred if placed.preferred and placed.preferred[-1].values else placed.preferred[:-1]
    return [wanted[:count] for count in range(len(wanted), 0, -1) if nearness[wanted[count - 1].level] > least]
