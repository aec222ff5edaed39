"""The label guard against a plain specification: who adds or changes a reserved label at a known place is told so."""

import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import FACTS, WORKLOADS, Json, request
from support.cel.celrun import compiled, names
from support.policies.admissionpolicies import binding, validating

from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, inputs_of
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.engine.safety import Exemptions
from policies.engine.violation import Violation
from policies.labelpolicy import spec
from policies.labels import EXCEPTIONS, MALFORMED, SUMMARY, LabelGuard, organization
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


@st.composite
def _writes(draw: st.DrawFn) -> tuple[str, Json, Json | None]:
    """A kind, an object of it and perhaps what it was before: another one, or one that is mostly the same."""
    kind, new, old = draw(kinds), draw(labelled_objects), draw(st.one_of(st.none(), labelled_objects))
    if old is not None and draw(st.booleans()):
        old = draw(st.sampled_from([new, {**new, "metadata": {}}, {**new, "spec": old.get("spec")}]))
    version, name = kind.split(" ")
    typed = {"apiVersion": version, "kind": name}
    return kind, {**new, **typed}, None if old is None else {**old, **typed}


_Write = tuple[str, Json, Json | None]


@bounded
@given(_writes())
def test_the_guard_does_what_is_specified(write: _Write) -> None:
    """Without exceptions, the violations are exactly the labels that are new, changed or, where it counts, removed."""
    kind, new, old = write
    guard = LabelGuard(WORKLOADS, (), Exemptions((), (), ()))

    found = [
        (_slashes(violation.path), "" if violation.summary == MALFORMED else violation.value.partition("=")[0])
        for violation in guard.validate(request(new, old=old), FACTS)
        if isinstance(violation, Violation)
    ]

    assert sorted(found) == _specified(kind, new, old)


_SHIPPED = (*EXCEPTIONS, organization("1"))
_CONDITIONS = {
    scope: compiled(reserved_label_changes(WORKLOADS.values(), _SHIPPED, cluster_scope=scope).expression)
    for scope in (False, True)
}


_GUARD = LabelGuard(WORKLOADS, _SHIPPED, Exemptions((), (), ()))
_POLICY = validating(**spec(WORKLOADS, _SHIPPED, (), ()))
_LABEL = re.compile(r"(?:^|; )(\S+): ([^=; ]+)")


@bounded
@given(_writes())
def test_no_way_is_narrower_than_the_guard(write: _Write) -> None:
    """Where the match condition is false, the guard refuses no label; what is no map of labels it need not see.

    As a policy of the API server's it names the same labels, and no object of any shape makes it fail.
    """
    kind, new, old = write
    asked = request(new, old=old)
    group, name = asked.kind.group, asked.kind.kind
    scope = group not in NAMESPACED_GROUPS or kind in ("v1 Node", "v1 Namespace")
    kinds_asked = {"kind": {"group": group, "version": "v1", "kind": name}}
    violations = [one for one in _GUARD.validate(asked, FACTS) if isinstance(one, Violation)]

    condition = _CONDITIONS[scope].evaluate_exactly(names(new, oldObject=old, request=kinds_asked))
    findings = evaluate_policy(_POLICY, [binding()], NO_PARAMETERS, inputs_of(asked, FACTS)).findings

    refused = {(one.path, one.value.partition("=")[0]) for one in violations if one.summary != MALFORMED}
    assert condition.error is not None or condition.value or not refused
    listed = [finding.message.removeprefix(f"{SUMMARY} ").partition(". ")[0] for finding in findings]
    named = {pair for labels in listed for pair in _LABEL.findall(labels)}
    assert ({finding.kind for finding in findings} - {"violation"}, named) == (set(), refused)
