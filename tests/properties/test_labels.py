"""The label guard against a plain specification: who adds or changes a reserved label at a known place is told so.

What a rule says that it reads is enough for it: the rest of an object need not be decoded.
"""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.builders import FACTS, TODAY, WORKLOADS, Json, request
from support.cel.celrun import compiled, names
from support.policies.admissionpolicies import binding, validating

from policies import tolerations
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, inputs_of
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.safety import Exemptions
from policies.engine.violation import Violation
from policies.labelpolicy import spec
from policies.labels import EXCEPTIONS, MALFORMED, SUMMARY, LabelGuard, organization
from policies.matchconditions import NAMESPACED_GROUPS, reserved_label_changes
from policies.objects.fieldpath import Pattern, Wildcard, parse
from policies.podspec import Accelerators
from properties.shapes import bounded, daemon_sets, everywhere, fields, odd, pods, some_of

_CLAIM = r"/spec/volumes/\d+/ephemeral/volumeClaimTemplate/metadata/labels"


def _of_template(path: str) -> list[str]:
    return [f"{path}/metadata/labels", f"{path}{_CLAIM}"]


# Kind, and the places of labels besides the object's own, as expressions for paths with slashes.
PLACES = {
    "v1 ConfigMap": [],
    "v1 Node": [],
    "v1 Namespace": [],
    "v1 Pod": [_CLAIM],
    "apps/v1 Deployment": _of_template("/spec/template"),
    "apps/v1 StatefulSet": [
        *_of_template("/spec/template"),
        r"/spec/volumeClaimTemplates/\d+/metadata/labels",
        "/spec/selector/matchLabels",
    ],
    "batch/v1 CronJob": ["/spec/jobTemplate/metadata/labels", *_of_template("/spec/jobTemplate/spec/template")],
    "kubeflow.org/v2beta1 MPIJob": _of_template("/spec/mpiReplicaSpecs/[^/]+/template"),
    "batch.volcano.sh/v1alpha1 Job": _of_template(r"/spec/tasks/\d+/template"),
    "compute.coreweave.com/v1alpha1 NodePool": ["/spec/nodeLabels"],
}
RESERVED = ["a.coreweave.cloud/x", "coreweave.com/y", "qos.coreweave.cloud/interruptable", "ns.coreweave.cloud/org"]
_KEYS = st.sampled_from([*RESERVED, "app", "notcoreweave.cloud/x", "coreweave.com.example.org/y"])
_TEXTS: SearchStrategy[Any] = st.one_of(st.sampled_from(["", "1", "2"]), st.none(), st.builds(list))
_LABELS = st.dictionaries(_KEYS, _TEXTS, max_size=3)


_METADATA = fields(labels=_LABELS)
_VOLUMES = some_of(fields(ephemeral=fields(volumeClaimTemplate=fields(metadata=_METADATA))))
_TEMPLATE = fields(metadata=_METADATA, spec=fields(volumes=_VOLUMES))
_SPEC = fields(
    template=_TEMPLATE,
    volumes=_VOLUMES,
    selector=fields(matchLabels=_LABELS),
    volumeClaimTemplates=some_of(fields(metadata=_METADATA)),
    jobTemplate=fields(metadata=_METADATA, spec=fields(template=_TEMPLATE)),
    mpiReplicaSpecs=st.dictionaries(st.sampled_from(["Head", "Worker"]), odd(fields(template=_TEMPLATE)), max_size=2),
    tasks=some_of(fields(template=_TEMPLATE)),
    nodeLabels=_LABELS,
)
labelled_objects = fields(metadata=_METADATA, spec=_SPEC)
kinds = st.sampled_from(sorted(PLACES))


def _by_path(value: Any) -> dict[str, Any]:
    return {"".join(f"/{step}" for step in place): found for place, found in everywhere(value)}


def _specified(kind: str, new: Json, old: Json | None) -> list[tuple[str, str]]:
    """Path and key of every label that must not be written, and path alone where labels are no map."""
    places = re.compile("|".join(["/metadata/labels", *PLACES[kind]]))
    before, after, found = _by_path(old), _by_path(new), []
    for path, labels in after.items():
        if not places.fullmatch(path) or labels is None or labels == before.get(path):
            continue
        if not isinstance(labels, dict):
            found.append((path, ""))
            continue
        there = before.get(path)
        there = there if isinstance(there, dict) else {}
        found += [(path, key) for key in labels if key in RESERVED and (key not in there or there[key] != labels[key])]
    if kind in ("v1 Node", "v1 Namespace"):
        kept, labels = before.get("/metadata/labels"), after.get("/metadata/labels")
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
    """What the guard refuses meets the match condition, and is named by the policy, which no object makes fail."""
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


_CLUSTER_FACTS = StaticFacts(
    TODAY,
    cluster_nodes=(Node("n1", {"zone": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),)),),
    claims={("default", "a"): frozenset({"gpu.nvidia.com"})},
)
_CPU: Any = tolerations.CpuToleration(Accelerators(), "inject")
_SUNK: Any = tolerations.SunkDaemonSets("inject", {}, "a1b2")


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
    pruned: Json = _pruned(obj, [parse(path) for path in ("apiVersion", "kind", "metadata", *reads)])
    return pruned


@bounded
@given(st.one_of(pods, daemon_sets))
def test_what_rules_of_tolerations_read_is_enough(obj: Json) -> None:
    """The decisions of both rules are the same on what they read as on the whole object."""
    whole = request(obj, namespace="default")
    for rule, reads in ((_CPU, tolerations.READS), (_SUNK, tolerations.SUNK_READS)):
        if rule is _SUNK and obj["kind"] == "Pod":
            continue
        read = request(_read(obj, reads), namespace="default")
        assert rule.mutate(read, _CLUSTER_FACTS) == rule.mutate(whole, _CLUSTER_FACTS)
        assert rule.validate(read, _CLUSTER_FACTS) == rule.validate(whole, _CLUSTER_FACTS)


@bounded
@given(_writes())
def test_what_the_guard_reads_is_enough(write: _Write) -> None:
    """The decision is the same on what the rule reads as on the whole objects."""
    _, new, old = write

    read = request(_read(new, _GUARD.reads), old=None if old is None else _read(old, _GUARD.reads))

    assert _GUARD.validate(read, FACTS) == _GUARD.validate(request(new, old=old), FACTS)
