"""The label guard against a plain specification: who adds or changes a reserved label at a known place is told so."""

import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import FACTS, WORKLOADS, Json, request
from support.cel.celrun import compiled, names
from support.policies.admissionpolicies import binding, validating

from policies.admissionpolicy.evaluation.inputs import inputs_of
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.engine.engine import validate
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import Violation
from policies.labelpolicy import spec
from policies.labels import EXCEPTIONS, GRACEFUL, INTERRUPTABLE, MALFORMED, SUMMARY, LabelGuard, organization
from policies.matchconditions import NAMESPACED_GROUPS, reserved_label_changes
from properties.labelled import PLACES, RESERVED, kinds, labelled_objects
from properties.shapes import bounded


def _everything(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    yield at, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _everything(child, f"{at}/{key}")


def _specified(kind: str, new: Json, old: Json | None) -> list[tuple[str, str]]:
    """Path and key of every label that must not be written, and path alone where labels are no map."""
    places = re.compile("|".join(["/metadata/labels", *PLACES[kind]]))
    before = dict(_everything(old))
    found = []
    for path, labels in _everything(new):
        if not places.fullmatch(path) or labels is None or labels == before.get(path):
            continue
        if not isinstance(labels, dict):
            found.append((path, ""))
            continue
        there = before.get(path)
        there = there if isinstance(there, dict) else {}
        found += [(path, key) for key in labels if key in RESERVED and (key not in there or there[key] != labels[key])]
    if kind in ("v1 Node", "v1 Namespace"):
        kept, labels = before.get("/metadata/labels"), dict(_everything(new)).get("/metadata/labels")
        now = labels if isinstance(labels, dict) else {}
        gone = [key for key in kept if key in RESERVED and key not in now] if isinstance(kept, dict) else []
        found += [("/metadata/labels", key) for key in gone]
    return sorted(found)


def _slashes(path: str) -> str:
    return "/" + re.sub(r"\[(\d+)\]", r"/\1", path).replace(".", "/")


@bounded
@given(kinds, labelled_objects, st.one_of(st.none(), labelled_objects), st.data())
def test_the_guard_does_what_is_specified(kind: str, new: Json, old: Json | None, data: st.DataObject) -> None:
    """Without exceptions, the violations are exactly the labels that are new, changed or, where it counts, removed."""
    if old is not None and data.draw(st.booleans()):
        old = data.draw(st.sampled_from([new, {**new, "metadata": {}}, {**new, "spec": old.get("spec")}]))
    version, name = kind.split(" ")
    typed = {"apiVersion": version, "kind": name}
    guard = LabelGuard(WORKLOADS, (), Exemptions((), (), ()))

    asked = request({**new, **typed}, old=None if old is None else {**old, **typed})
    violations = [violation for violation in guard.validate(asked, FACTS) if isinstance(violation, Violation)]

    found = [(_slashes(violation.path), violation.value.partition("=")[0]) for violation in violations]
    malformed = "Labels must be a map of strings to strings."
    found = [
        (path, "" if violation.summary == malformed else key)
        for (path, key), violation in zip(found, violations, strict=True)
    ]
    assert sorted(found) == _specified(kind, {**new, **typed}, old)


_SHIPPED = (*EXCEPTIONS, organization("1"))
_CONDITIONS = {
    scope: compiled(reserved_label_changes(WORKLOADS.values(), _SHIPPED, cluster_scope=scope).expression)
    for scope in (False, True)
}


@bounded
@given(kinds, labelled_objects, st.one_of(st.none(), labelled_objects), st.data())
def test_what_is_not_asked_about_has_no_reserved_label(
    kind: str, new: Json, old: Json | None, data: st.DataObject
) -> None:
    """Where the match condition is false, the guard refuses no label; what is no map of labels it need not see."""
    if old is not None and data.draw(st.booleans()):
        old = data.draw(st.sampled_from([new, {**new, "metadata": {}}, {**new, "spec": old.get("spec")}]))
    version, name = kind.split(" ")
    group = version.rpartition("/")[0]
    typed = {"apiVersion": version, "kind": name}
    guard = LabelGuard(WORKLOADS, _SHIPPED, Exemptions((), (), ()))
    scope = group not in NAMESPACED_GROUPS or kind in ("v1 Node", "v1 Namespace")
    kinds_asked = {"kind": {"group": group, "version": "v1", "kind": name}}

    asked = _CONDITIONS[scope].evaluate_exactly(names(new, oldObject=old, request=kinds_asked))

    if asked.error is None and asked.value is False:
        violations = guard.validate(request({**new, **typed}, old=None if old is None else {**old, **typed}), FACTS)
        assert [v for v in violations if not isinstance(v, Violation) or v.summary != MALFORMED] == []


_POLICY = validating(**spec(WORKLOADS, _SHIPPED, (), ()))
_LABEL = re.compile(r"(?:^|; )(\S+): ([^=; ]+)")


@bounded
@given(kinds, labelled_objects, st.one_of(st.none(), labelled_objects), st.data())
def test_the_policy_refuses_what_the_rule_refuses(kind: str, new: Json, old: Json | None, data: st.DataObject) -> None:
    """As a policy of the API server's the guard names the same labels, and no object of any shape makes it fail."""
    if old is not None and data.draw(st.booleans()):
        old = data.draw(st.sampled_from([new, {**new, "metadata": {}}, {**new, "spec": old.get("spec")}]))
    version, name = kind.split(" ")
    typed = {"apiVersion": version, "kind": name}
    asked = request({**new, **typed}, old=None if old is None else {**old, **typed})

    guard = LabelGuard(WORKLOADS, _SHIPPED, Exemptions((), (), ()))
    violations = [one for one in guard.validate(asked, FACTS) if isinstance(one, Violation)]
    findings = evaluate_policy(_POLICY, [binding()], NO_PARAMETERS, inputs_of(asked, FACTS)).findings

    refused = {(one.path, one.value.partition("=")[0]) for one in violations if one.summary != MALFORMED}
    listed = [finding.message.removeprefix(f"{SUMMARY} ").partition(". ")[0] for finding in findings]
    named = {pair for labels in listed for pair in _LABEL.findall(labels)}
    assert ({finding.kind for finding in findings} - {"violation"}, named) == (set(), refused)


@bounded
@given(kinds, labelled_objects, st.one_of(st.none(), labelled_objects))
def test_no_object_makes_the_guard_fail(kind: str, new: Json, old: Json | None) -> None:
    """With the shipped exceptions, any object gets a verdict: what is odd is refused or passes, never an exception."""
    version, name = kind.split(" ")
    typed = {"apiVersion": version, "kind": name}
    guard = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL, organization("1")), Exemptions())
    everything = (ResourceRule(("*",), ("*",), ("*/*",)),)
    rule = Rule(
        "labels", (Hook("validate", "labels", everything, "Fail"),), "deny", frozenset(), validate=guard.validate
    )

    asked = request({**new, **typed}, old=None if old is None else {**old, **typed})
    answer = validate(asked, RuleSet([rule]), FACTS)

    assert [decision.failure for decision in answer.decisions] == [None]
