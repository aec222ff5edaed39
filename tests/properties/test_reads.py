"""What a rule says that it reads is enough for it: the rest of an object need not be decoded."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import TODAY, WORKLOADS, Json, request

from policies import tolerations
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.safety import Exemptions
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelGuard, organization
from policies.objects.fieldpath import Pattern, Wildcard, parse
from policies.podspec import Accelerators
from properties.labelled import kinds, labelled_objects
from properties.shapes import bounded, daemon_sets, pods

_FACTS = StaticFacts(
    TODAY,
    cluster_nodes=(Node("n1", {"zone": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),)),),
    claims={("default", "a"): frozenset({"gpu.nvidia.com"})},
)
_CPU: Any = tolerations.CpuToleration(Accelerators(), "inject")
_SUNK: Any = tolerations.SunkDaemonSets("inject", {}, "a1b2")
_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL, organization("1")), Exemptions())
_ALWAYS = ("apiVersion", "kind", "metadata")


def _pruned(value: Any, patterns: list[Pattern]) -> Any:
    """The value without what no pattern leads to; parents stay, and so does what is of a type that is not expected."""
    if () in patterns:
        return value
    if isinstance(value, dict) and not any(pattern[0] is Wildcard.ITEMS for pattern in patterns):
        rests = {key: [p[1:] for p in patterns if p[0] in (key, Wildcard.VALUES)] for key in value}
        return {key: _pruned(child, rests[key]) for key, child in value.items() if rests[key]}
    if isinstance(value, list) and any(pattern[0] is Wildcard.ITEMS for pattern in patterns):
        return [_pruned(child, [p[1:] for p in patterns if p[0] is Wildcard.ITEMS]) for child in value]
    return value


def _read(obj: Json, reads: frozenset[str]) -> Json:
    pruned: Json = _pruned(obj, [parse(path) for path in (*_ALWAYS, *reads)])
    return pruned


@bounded
@given(st.one_of(pods, daemon_sets))
def test_tolerations(obj: Json) -> None:
    """The decisions of both rules are the same on what they read as on the whole object."""
    whole = request(obj, namespace="default")
    for rule, reads in ((_CPU, tolerations.READS), (_SUNK, tolerations.SUNK_READS)):
        if rule is _SUNK and obj["kind"] == "Pod":
            continue
        read = request(_read(obj, reads), namespace="default")
        assert rule.mutate(read, _FACTS) == rule.mutate(whole, _FACTS)
        assert rule.validate(read, _FACTS) == rule.validate(whole, _FACTS)


@bounded
@given(kinds, labelled_objects, st.one_of(st.none(), labelled_objects))
def test_reserved_labels(kind: str, new: Json, old: Json | None) -> None:
    """The decision is the same on what the rule reads as on the whole objects."""
    version, name = kind.split(" ")
    after = {**new, "apiVersion": version, "kind": name}
    before = None if old is None else {**old, "apiVersion": version, "kind": name}

    whole = request(after, old=before)
    read = request(_read(after, _GUARD.reads), old=None if before is None else _read(before, _GUARD.reads))

    assert _GUARD.validate(read, _FACTS) == _GUARD.validate(whole, _FACTS)
