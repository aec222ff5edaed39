"""Whatever the object: a patch applies to it, applying it once is enough, and the object itself stays as it was."""

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import TODAY, Json, request

from policies.engine import engine, patch
from policies.engine.facts import Facts, Node, StaticFacts, Taint
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Mutator, PatchOperation, Rule, RuleSet, Validator
from policies.objects.fieldpath import lookup
from policies.podspec import Accelerators
from policies.tolerations import CpuToleration, SunkDaemonSets
from properties.shapes import bounded, daemon_sets, json_values, pods

_EVERYTHING = (ResourceRule(("*",), ("*",), ("*/*",)),)
_HOOKS = (Hook("mutate", "all", _EVERYTHING, "Ignore"), Hook("validate", "all", _EVERYTHING, "Ignore"))
_NODES = (
    Node("n1", {"zone": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),)),
    Node("n2", {"zone": "b", "disk": "7"}, (Taint("node.coreweave.cloud/reserved", "NoSchedule", "a1b2"),)),
)
_FACTS = st.sampled_from(
    [
        StaticFacts(TODAY, cluster_nodes=_NODES),
        StaticFacts(TODAY, claims={("default", "a"): frozenset({"gpu.nvidia.com"})}),
    ]
)


def _rule(name: str, validator: Validator, mutator: Mutator) -> Rule:
    return Rule(name, _HOOKS, "warn", frozenset({"metadata", "spec"}), validate=validator, mutate=mutator)


_CPU = CpuToleration(Accelerators(), "inject")
_SUNK = SunkDaemonSets("inject", {}, "")
_SUNK_BY_LABEL = SunkDaemonSets("inject", {"zone": "a"}, "c3d4")
_PODS = RuleSet([_rule("tolerations", _CPU.validate, _CPU.mutate)])
_DAEMON_SETS = [
    RuleSet([_rule("tolerations", _CPU.validate, _CPU.mutate), _rule("sunk", sunk.validate, sunk.mutate)])
    for sunk in (_SUNK, _SUNK_BY_LABEL)
] + [RuleSet([_rule("sunk", _SUNK.validate, _SUNK.mutate), _rule("tolerations", _CPU.validate, _CPU.mutate)])]


def _without(obj: Any, path: tuple[str, ...]) -> Any:
    """The object without what stands at the path, and without parents that are empty then, since they may be new."""
    if not path or not isinstance(obj, dict) or path[0] not in obj:
        return obj
    rest = _without(obj[path[0]], path[1:]) if len(path) > 1 else None
    others = {key: value for key, value in obj.items() if key != path[0]}
    return others if rest in (None, {}) else {**others, path[0]: rest}


def _check(obj: Json, rules: RuleSet, facts: Facts, path: tuple[str, ...]) -> None:
    sent = deepcopy(obj)

    answer = engine.mutate(request(obj, namespace="default"), rules, facts)
    changed = jsonpatch.apply_patch(obj, deepcopy(list(answer.operations)))
    again = engine.mutate(request(changed, namespace="default"), rules, facts)

    assert obj == sent
    assert {decision.verdict for decision in answer.decisions} <= {"patch", "admit"}
    assert again.operations == ()
    assert _without(changed, path) == _without(obj, path)
    before, after = lookup(obj, path), lookup(changed, path)
    if answer.operations:
        added = after[len(before or []) :]
        assert after == [*(before or []), *added]
        assert [toleration for toleration in added if (before or []).count(toleration)] == []
        assert [toleration for toleration in added if added.count(toleration) > 1] == []
    else:
        assert after == before


@bounded
@given(pods, _FACTS)
def test_pods(obj: Json, facts: Facts) -> None:
    """A Pod's patch applies, adds nothing twice, changes nothing but tolerations, and no Pod makes a rule fail."""
    _check(obj, _PODS, facts, ("spec", "tolerations"))


@bounded
@given(daemon_sets, st.sampled_from(_DAEMON_SETS), _FACTS)
def test_daemon_sets(obj: Json, rules: RuleSet, facts: Facts) -> None:
    """The same holds for DaemonSets, whichever of the two rules comes first."""
    _check(obj, rules, facts, ("spec", "template", "spec", "tolerations"))


@bounded
@given(st.one_of(pods, daemon_sets), _FACTS)
def test_what_was_patched_is_found_complete(obj: Json, facts: Facts) -> None:
    """After its patch an object lacks nothing, unless its tolerations are no list and left alone with a warning."""
    rules = _PODS if obj["kind"] == "Pod" else _DAEMON_SETS[0]

    answer = engine.mutate(request(obj, namespace="default"), rules, facts)
    changed = jsonpatch.apply_patch(obj, deepcopy(list(answer.operations)))
    found = engine.validate(request(changed, namespace="default"), rules, facts)

    assert {decision.verdict for decision in found.decisions} <= ({"admit", "warn"} if answer.warnings else {"admit"})


@bounded
@given(
    st.dictionaries(st.sampled_from("ab/~"), json_values, max_size=3),
    st.lists(st.sampled_from("ab/~"), min_size=1, max_size=3),
    st.lists(json_values, max_size=2),
)
def test_appending(obj: Json, keys: list[str], items: list[Any]) -> None:
    """Items are at the end of the list afterwards and everything else is as it was, or the place is refused."""
    sent = deepcopy(obj)
    try:
        operations = patch.append(obj, keys, items)
    except patch.PatchError:
        operations = ()
        before = lookup(obj, tuple(keys))
        assert items
        assert not isinstance(before, list)
    else:
        before = lookup(obj, tuple(keys))
        changed = patch.apply(obj, operations)
        assert lookup(changed, tuple(keys)) == ([*(before or []), *items] if items else before)
        assert _without(changed, tuple(keys)) == _without(obj, tuple(keys))
    assert obj == sent


_POINTERS = st.lists(st.sampled_from(["a", "b", "0", "-", "a~1b", ""]), min_size=1, max_size=3).map(
    lambda keys: "/" + "/".join(keys)
)
_OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "add", "add", "remove"]), "path": _POINTERS, "value": json_values}
    ),
    max_size=3,
)


@bounded
@given(st.dictionaries(st.sampled_from(["a", "b", ""]), json_values, max_size=3), _OPERATIONS)
def test_what_surely_applies_applies(obj: Json, operations: list[PatchOperation]) -> None:
    """Operations that are sent without a trial do apply, and a trial never fails but in its own way."""
    surely = patch.adds_in_place(obj, operations)
    try:
        jsonpatch.apply_patch(obj, deepcopy(operations))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        assert not surely
        with pytest.raises(patch.PatchError):
            patch.apply(obj, operations)
    else:
        assert patch.apply(obj, operations) == jsonpatch.apply_patch(obj, deepcopy(operations))
