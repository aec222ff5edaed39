"""The label guard against a plain specification: who adds or changes a reserved label at a known place is told so."""

import re
from collections.abc import Iterator
from typing import Any

from builders import FACTS, WORKLOADS, Json, request
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from policies.engine import validate
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelGuard, organization
from policies.match import ResourceRule
from policies.requester import Exemptions
from policies.rule import Hook, Rule
from policies.ruleset import RuleSet
from properties.shapes import bounded, odd, some_of

_CLAIM = r"/spec/volumes/\d+/ephemeral/volumeClaimTemplate/metadata/labels"
# Kind, and the places of labels besides the object's own, as expressions for paths with slashes.
_PLACES = {
    "v1 ConfigMap": [],
    "v1 Node": [],
    "v1 Namespace": [],
    "v1 Pod": [_CLAIM],
    "apps/v1 Deployment": ["/spec/template/metadata/labels", f"/spec/template{_CLAIM}"],
    "apps/v1 StatefulSet": [
        "/spec/template/metadata/labels",
        f"/spec/template{_CLAIM}",
        r"/spec/volumeClaimTemplates/\d+/metadata/labels",
    ],
    "batch/v1 CronJob": [
        "/spec/jobTemplate/metadata/labels",
        "/spec/jobTemplate/spec/template/metadata/labels",
        f"/spec/jobTemplate/spec/template{_CLAIM}",
    ],
    "kubeflow.org/v2beta1 MPIJob": [
        "/spec/mpiReplicaSpecs/[^/]+/template/metadata/labels",
        f"/spec/mpiReplicaSpecs/[^/]+/template{_CLAIM}",
    ],
    "batch.volcano.sh/v1alpha1 Job": [
        r"/spec/tasks/\d+/template/metadata/labels",
        rf"/spec/tasks/\d+/template{_CLAIM}",
    ],
    "compute.coreweave.com/v1alpha1 NodePool": ["/spec/nodeLabels"],
}
_RESERVED = ["a.coreweave.cloud/x", "coreweave.com/y", "qos.coreweave.cloud/interruptable", "ns.coreweave.cloud/org"]
_KEYS = st.sampled_from([*_RESERVED, "app", "notcoreweave.cloud/x", "coreweave.com.example.org/y"])
_VALUES = st.one_of(st.sampled_from(["", "1", "2"]), st.none(), st.just([]))
_LABELS = st.dictionaries(_KEYS, _VALUES, max_size=3)


def _map(**parts: SearchStrategy[Any]) -> SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional={key: odd(value) for key, value in parts.items()})


_METADATA = _map(labels=_LABELS)
_VOLUMES = some_of(_map(ephemeral=_map(volumeClaimTemplate=_map(metadata=_METADATA))))
_TEMPLATE = _map(metadata=_METADATA, spec=_map(volumes=_VOLUMES))
_SPEC = _map(
    template=_TEMPLATE,
    volumes=_VOLUMES,
    volumeClaimTemplates=some_of(_map(metadata=_METADATA)),
    jobTemplate=_map(metadata=_METADATA, spec=_map(template=_TEMPLATE)),
    mpiReplicaSpecs=st.dictionaries(st.sampled_from(["Launcher", "Worker"]), odd(_map(template=_TEMPLATE)), max_size=2),
    tasks=some_of(_map(template=_TEMPLATE)),
    nodeLabels=_LABELS,
)
_OBJECTS = _map(metadata=_METADATA, spec=_SPEC)


def _everything(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    yield at, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _everything(child, f"{at}/{key}")


def _specified(kind: str, new: Json, old: Json | None) -> list[tuple[str, str]]:
    """Path and key of every label that must not be written, and path alone where labels are no map."""
    places = re.compile("|".join(["/metadata/labels", *_PLACES[kind]]))
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
        found += [(path, key) for key in labels if key in _RESERVED and (key not in there or there[key] != labels[key])]
    if kind in ("v1 Node", "v1 Namespace"):
        kept, labels = before.get("/metadata/labels"), dict(_everything(new)).get("/metadata/labels")
        now = labels if isinstance(labels, dict) else {}
        gone = [key for key in kept if key in _RESERVED and key not in now] if isinstance(kept, dict) else []
        found += [("/metadata/labels", key) for key in gone]
    return sorted(found)


def _slashes(path: str) -> str:
    return "/" + re.sub(r"\[(\d+)\]", r"/\1", path).replace(".", "/")


@bounded
@given(st.sampled_from(sorted(_PLACES)), _OBJECTS, st.one_of(st.none(), _OBJECTS), st.data())
def test_the_guard_does_what_is_specified(kind: str, new: Json, old: Json | None, data: st.DataObject) -> None:
    """Without exceptions, the violations are exactly the labels that are new, changed or, where it counts, removed."""
    if old is not None and data.draw(st.booleans()):
        old = data.draw(st.sampled_from([new, {**new, "metadata": {}}, {**new, "spec": old.get("spec")}]))
    version, name = kind.split(" ")
    typed = {"apiVersion": version, "kind": name}
    guard = LabelGuard(WORKLOADS, (), Exemptions((), (), ()))

    asked = request({**new, **typed}, old=None if old is None else {**old, **typed})
    violations = guard.validate(asked, FACTS)

    found = [(_slashes(violation.path), violation.found.partition("=")[0]) for violation in violations]
    malformed = "Labels must be a map of strings to strings."
    found = [
        (path, "" if violation.summary == malformed else key)
        for (path, key), violation in zip(found, violations, strict=True)
    ]
    assert sorted(found) == _specified(kind, {**new, **typed}, old)


@bounded
@given(st.sampled_from(sorted(_PLACES)), _OBJECTS, st.one_of(st.none(), _OBJECTS))
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
