"""Match conditions as the API server evaluates them: as narrow as may be, safe against hostile names, always the same.

That they decide as the rules do is shown on a real API server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from properties.shapes import bounded, fields, odd, some_of
from support.builders import FACTS, WORKLOADS, Json, at, merged, owner, pod, request
from support.cel.celrun import compiled, names
from support.mistakes import correct, mistakes
from support.tables import rows
from support.templates import filled

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.program import Program
from policies.celtext import at as at_place
from policies.celtext import pairs, steps, text, values
from policies.engine.rule import NO_MUTATION, HookCondition
from policies.engine.safety import Exemptions, Safety
from policies.labels import EXCEPTIONS, LabelException, organization
from policies.matchconditions import (
    LACKS_CPU_TOLERATION,
    NO_MIRROR_POD,
    is_essential,
    is_not_essential,
    pod_requests_no_accelerator,
    requester_is_not_exempt,
    reserved_label_changes,
    selectors_are_concerned,
    topology_is_mentioned,
)
from policies.objects.fieldpath import Pattern, Wildcard, locate, parse, render
from policies.objects.workload import HISTORIES, PATCHES, STANDARD, Workload, workload
from policies.podspec import Accelerators
from policies.topology.placement import ANNOTATIONS
from policies.topology.rule import TopologyPlacement
from policies.topology.schemes import is_mentioned
from policies.topology.template import Options, mentions
from policies.topology.topology import BUILT_IN, Catalog

_SHIPPED = (*EXCEPTIONS, organization("a1b2c3"))
_HOSTILE = ["it's", "a\\", "\\'", '"', "') || true || ('", "a|b", "(", "[x]", "a\nb", "${x}", "größe", "\x00", "//"]
_ROOT = Path(__file__).parents[2]
_WITHIN = "spec.inner-part.template"
_GVR = {"group": "", "version": "v1", "resource": "configmaps"}


def _labels(exceptions: Iterable[LabelException] = _SHIPPED, *, cluster_scope: bool = False) -> HookCondition:
    return reserved_label_changes(WORKLOADS.values(), tuple(exceptions), cluster_scope=cluster_scope)


_program = cache(compiled)


def _holds(condition: HookCondition, obj: Json | None = None, old: Json | None = None, **asked: Any) -> bool:
    """The value of a condition; `asked` are fields of the request."""
    found = _program(condition.expression).evaluate_exactly({**names({}, oldObject=old, request=asked), "object": obj})
    assert found.error is None
    return bool(found.value)


def _kind(group: str, kind: str) -> Json:
    return {"group": group, "version": "v1", "kind": kind}


_POD = _kind("", "Pod")


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """A configured key, value, group, kind, user or resource is what it is, never a part of the expression."""
    key = f"a.coreweave.cloud/{name}"
    exception = LabelException(key, frozenset({("", "Pod"), (name, name)}), frozenset({name}))
    row = workload(name, name, [_WITHIN])
    rows = [WORKLOADS["", "Pod"], WORKLOADS["apps", "Deployment"], row]
    own, other = ({"metadata": {"labels": {key: value}}} for value in (name, "other"))
    for scope in (False, True):
        condition = reserved_label_changes(rows, (exception,), cluster_scope=scope)
        for kind in (_kind(name, name),) if scope else (_kind(name, name), _POD):
            assert [_holds(condition, obj, kind=kind) for obj in (own, other)] == [False, True]
        assert _holds(condition, at(_WITHIN, other), kind=_kind(name, name))
    placed = at(_WITHIN, {"metadata": {"annotations": {"kai.scheduler/topology": "x"}}})
    for group, told in ((name, True), ("x", False)):
        assert _holds(topology_is_mentioned(rows), placed, kind=_kind(group, name)) is told
    users = requester_is_not_exempt(Exemptions((name,), (name,), (f"{name}/*",)), [name])
    asked = [(name, []), ("x", [name]), (f"system:serviceaccount:{name.replace('/', ':')}:x", []), ("x", ["x"])]
    assert [
        _holds(users, userInfo={"username": user, "groups": groups}, resource=_GVR, kind=_kind("", "ConfigMap"))
        for user, groups in asked
    ] == [False, False, False, True]
    essential = is_essential(Safety(resources=((name, "things"),)).writes, (name,))
    for group, told in ((name, True), ("x", False)):
        resource = {"group": group, "version": "v1", "resource": "things"}
        assert _holds(essential, resource=resource, operation="CREATE", userInfo={"username": "x"}) is told


@pytest.mark.parametrize(
    ("exempt", "namespaces"),
    [
        (Exemptions(), ["cks-system"]),
        (Exemptions(("ops-*", "a[1]", "b.c", *_HOSTILE), ("sre-?",), ("ci/deployer", "team-?/*", "*/bot")), []),
        (Exemptions((), (), ()), []),
    ],
    ids=["shipped", "configured", "nobody"],
)
def test_the_condition_and_the_rule_agree_on_names(exempt: Exemptions, namespaces: list[str]) -> None:
    """A name that the condition lets go, the rule lets go too, or its requests would slip past; and the other way."""
    own = [f"system:serviceaccount:{namespace}:x" for namespace in namespaces]
    accounts = ("team-a:x", "team-ab:x", "x:bot", "x:bots", "kube-system:x", "ci:deployer", "ci:x")
    users = [
        *("alice", "system:apiserver", "system:apiserver2", "x-system:apiserver", "ops-1", "ops", "a1", "a[1]", "b.c"),
        *("bxc", "its", *_HOSTILE, *own, *(f"system:serviceaccount:{account}" for account in accounts)),
    ]
    condition = requester_is_not_exempt(exempt, namespaces)
    for user, group in [*((user, "x") for user in users), *(("x", g) for g in ("system:masters", "sre-1", "xsre-1"))]:
        info = {"username": user, "groups": [group]}
        is_exempt = user in own or exempt.cover(request(pod(), user=user, groups=(group,)), FACTS)
        assert _holds(condition, userInfo=info, resource=_GVR, kind=_POD) is not is_exempt, (user, group)


def test_the_kinds_of_each_scope() -> None:
    """The namespaced condition knows every kind of the table, the other one those that may be cluster-scoped."""
    kinds = {f"{group}/{kind}" for group, kind in WORKLOADS}
    native = {kind for kind in kinds if kind.split("/", 1)[0] in ("", "apps", "batch", "resource.k8s.io")}
    known = [
        {kind for kind in kinds if f"'{kind}'" in _labels(cluster_scope=scope).expression} for scope in (False, True)
    ]

    assert known == [kinds, kinds - native]


def test_removals_are_cluster_scoped() -> None:
    """Only the condition for cluster-scoped objects asks about removals, on Nodes and Namespaces."""
    new: Json = {"metadata": {"labels": {"a.coreweave.com/kept": "1"}}}
    old = merged(new, {"metadata": {"labels": {"a.coreweave.com/gone": "1"}}})
    found = {
        (kind, scope): _holds(_labels(cluster_scope=scope), new, old, kind=_kind(group, kind))
        for group, kind in (("", "Node"), ("", "Namespace"), ("example.org", "Widget"))
        for scope in (False, True)
    }

    assert [key for key, is_asked in found.items() if is_asked] == [("Node", True), ("Namespace", True)]


def test_exceptions_are_written_as_given() -> None:
    """The condition holds the keys of the exceptions given and no others, with the values that they name."""
    labels = {exception.key: next(iter(exception.values), "x") for exception in _SHIPPED}
    asked = [
        {
            key: _holds(_labels(exceptions), {"metadata": {"labels": {key: value}}}, kind=kind)
            for (key, value), kind in zip(labels.items(), (_POD, _POD, _POD, _kind("", "Namespace")), strict=True)
        }
        for exceptions in (_SHIPPED, ())
    ]

    assert asked == [dict.fromkeys(labels, False), dict.fromkeys(labels, True)]


def test_conditions_of_pods() -> None:
    """Pods that tolerate the taint by Exists, and mirrors, are not asked about; the rest is left to the rule."""
    taint = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
    covering = [taint, {**taint, "effect": ""}, {"operator": "Exists"}, {"key": "", "operator": "Exists"}]
    others = [{**taint, "effect": "NoExecute"}, {**taint, "operator": "Equal"}, {"key": "is_cpu_compute"}, {}]
    lacks, is_no_mirror = LACKS_CPU_TOLERATION, NO_MIRROR_POD
    mirror = pod(metadata={"annotations": {"kubernetes.io/config.mirror": ""}})

    assert [each for each in (*covering, *others) if not _holds(lacks, pod(tolerations=[others[0], each]))] == covering
    assert [_holds(lacks, pod()), _holds(is_no_mirror, pod()), _holds(is_no_mirror, mirror)] == [True, True, False]


def test_the_same_text_in_every_process() -> None:
    """The text is the same in every process, or replicas would fight over it, and short enough for the API server."""
    program = (
        "from policies.labels import *; from policies.matchconditions import *\n"
        "from policies.objects.workload import *\n"
        "kinds = frozenset({('', 'Pod'), ('', 'Node'), ('', 'Namespace'), ('apps', 'Deployment'), ('batch', 'Job')})\n"
        "exceptions = [LabelException('a.coreweave.com/b', kinds, frozenset('abcdefgh'))]\n"
        "for scope in (False, True):\n"
        "    print(reserved_label_changes(BUILT_IN, exceptions, cluster_scope=scope).expression)\n"
        "print(requester_is_not_exempt(Exemptions(), ['a', 'b']).expression)\n"
        "print(topology_is_mentioned(BUILT_IN).expression)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    conditions = {
        "requester-is-not-exempt": requester_is_not_exempt(Exemptions(), ["cks-system"]),
        "reserved-label-changes": _labels(),
        "topology-is-mentioned": topology_is_mentioned(WORKLOADS.values()),
        "not-essential": is_not_essential(Safety().writes, ()),
    }

    assert len(texts) == 1
    assert [name for name, one in conditions.items() if (one.name, len(one.expression) < 100_000) != (name, True)] == []
    assert [key for key in ANNOTATIONS if f"'{key}'" not in topology_is_mentioned(()).expression] == []


def test_accelerators() -> None:
    """A Pod that is not asked about requests an accelerator, as the rule sees it."""
    accelerators = Accelerators()
    gpus: list[list[Json]] = [[{"nvidia.com/gpu": "8"}], [{"cpu": "1"}, {"nvidia.com/mig-1g.5gb": "1"}]]
    small: Json = {"cpu": "8", "memory": "1Gi"}
    others: list[list[Json]] = [[], [{}], [small], [{"nvidia.com/gpu": "0"}], [{"nvidia.com/gpus": "1"}]]
    pods = [
        pod(containers=[{"name": "main"}, *({"name": "x", "resources": {"limits": each}} for each in limits)])
        for limits in (*gpus, *others)
    ]
    unasked = [obj for obj in pods if not _holds(pod_requests_no_accelerator(accelerators), obj)]

    assert unasked == pods[: len(gpus)]
    assert all(accelerators.requested(obj, "default", FACTS) for obj in unasked)


_OBJECT: Json = {
    "a": {"b": 1, "c-d": {"e": 2}},
    "list": [{"b": 3}, {}, {"b": None}, 7, [1]],
    "map": {"x": {"b": [4]}, "y": {"b": [5, 6]}, "z": "b"},
}


_PLACES = ("", "a.b", "a.c-d.e", "a.b.c", "none.b", "list.b", "list[*].b", "list[*]", "map.*.b[*]", "map[*]", "a.*")


@pytest.mark.parametrize("path", _PLACES)
def test_values_at_a_path(path: str) -> None:
    """The list has what stands at the places of the pattern, in order; a predicate is asked about the one value."""
    pattern: Pattern = parse(path)
    listed = [value for _, value in locate(_OBJECT, pattern)]
    found = compiled(f"{values('object', pattern)} == dyn(params)").evaluate_exactly(names(_OBJECT, params=listed))

    assert (found.error, found.value) == (None, True)
    if path and "*" not in path:
        asked = compiled(at_place("object", pattern, "{} == 1".format)).evaluate_exactly(names(_OBJECT))
        assert (asked.error, asked.value) == (None, listed == [1])


_ROWS = [row for row in WORKLOADS.values() if row.templates and row.group_kind not in HISTORIES and row.kind != "Pod"]
_PODS, _TEMPLATES = (compiled(selectors_are_concerned(rows).expression) for rows in ((), _ROWS))
_MISTAKES = [
    row for row in mistakes() if row.subject == "selectors" and any(line.startswith("spec") for line in row.says)
]


def _asked(obj: Json, old: Json | None = None) -> bool:
    condition = _PODS if obj["kind"] == "Pod" else _TEMPLATES
    group, _, version = obj["apiVersion"].rpartition("/")
    kinds = {"kind": {"group": group, "version": version, "kind": obj["kind"]}}
    variables: dict[str, Any] = {**names({}, oldObject=old, request=kinds), "object": obj}
    found, exact = condition.evaluate(variables), condition.evaluate_exactly(variables)
    assert (found.error, exact.error, found.value) == (None, None, exact.value)
    assert found.cost < EXPRESSION_LIMIT
    return bool(exact.value)


def test_mistakes_are_asked_about() -> None:
    """The API server asks about every mistake of the table that the rule tells of."""
    assert len(_MISTAKES) > 80
    assert [row.name for row in _MISTAKES if not _asked(row.manifest)] == []


def test_what_is_not_asked_about() -> None:
    """What a controller owns, what is as it was, and labels that nearly every selector has, cost no call."""
    for obj in (_MISTAKES[0].manifest, next(row.manifest for row in _MISTAKES if row.manifest["kind"] == "Job")):
        assert not _asked({**obj, "metadata": {**obj["metadata"], **owner()}})
        assert not _asked(obj, obj)
    ordinary = {"labels of one's own", "a topology key of one's own", "Linux on amd64", "a name of a Node"}
    ordinary |= {"a control plane's toleration and selector", "a GPU's product"}

    assert {row.name for row in correct() if row.name in ordinary and not _asked(row.manifest)} == ordinary
    assert not _asked({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert not _asked({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": {}}})


def test_every_kind_and_template() -> None:
    """A key that looks known is found in each template of each kind, behind items that have none."""
    found = []
    for row in _ROWS:
        for pattern in row.templates:
            selector = (*pattern, *row.shape.place(("spec", "nodeSelector")))
            place = render(selector).replace("[*]", "[1]").replace(".*", ".any")
            obj = at(place, {"backend.coreweave.cloud/superpod": "1"})
            kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}
            written = merged({"metadata": {"name": "a"}}, obj)
            answer = _TEMPLATES.evaluate_exactly({**names({}, oldObject=None, request=kinds), "object": written})
            found.append((row.kind, place, answer.error, answer.value))

    assert [one for one in found if one[2:] != (None, True)] == []


_PATCHED = [row for row in WORKLOADS.values() if row.group_kind in PATCHES]
_DEEP = workload("example.org", "Deep", ["groups[*].sets.*.template"], jobs=["groups[*]", "groups[*].sets.*"])
_PLACEABLE = {row.group_kind: row for row in (*WORKLOADS.values(), _DEEP) if row.makes_pods}
_CONDITION = compiled(topology_is_mentioned(_PLACEABLE.values()).expression)
_WIDER = compiled(topology_is_mentioned([*_PLACEABLE.values(), *_PATCHED], schemes=True).expression)
_OF_PODS = compiled(topology_is_mentioned((), schemes=True).expression)
# Of kinds whose templates have a shape of their own everything is asked about.
_TABLE = [row for row in _PLACEABLE.values() if row.shape == STANDARD]
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(_PLACEABLE))
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_PLACED = {_TOPOLOGY: "coreweave", _REQUIRED: "rack=r1"}


def _is_asked(
    kind: tuple[str, str], new: Json | None, old: Json | None = None, condition: Program = _CONDITION
) -> bool:
    """Whether the API server would ask about a write. Both evaluators have to agree, and neither may fail."""
    kinds = {"kind": {"group": kind[0], "version": "v1", "kind": kind[1]}}
    variables = {**names({}, oldObject=old, request=kinds), "object": new}
    found = condition.evaluate(variables)
    exact = condition.evaluate_exactly(variables)
    assert (found.error, found.value, found.cost) == (None, exact.value, exact.cost)
    assert exact.error is None
    return bool(exact.value)


def _id(row: Workload) -> str:
    return f"{row.kind}.{row.group}".rstrip(".")


def _places(row: Workload) -> Iterator[str]:
    """The paths of what may carry annotations in objects of a kind, in the second item of each list."""
    for pattern in dict.fromkeys(((), *row.jobs, *row.templates)):
        yield render(pattern).replace("[*]", "[1]").replace(".*", ".any")


_ANNOTATED_PLACES = [
    pytest.param(row, place, id=f"{_id(row)}-{place or 'object'}") for row in _TABLE for place in _places(row)
]


def _annotated(place: str, annotations: Json, **metadata: Any) -> Json:
    found = at(f"{place}.metadata".lstrip("."), {"annotations": annotations, **metadata})
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("row", "place"), _ANNOTATED_PLACES)
def test_a_mention_is_asked_about(row: Workload, place: str) -> None:
    """Each annotation, a misspelt key and a label are seen on object, jobs and templates, now or before."""
    kind, plain = row.group_kind, _annotated(place, {"example.org/x": "y"})
    for key in ANNOTATIONS:
        mentioned = _annotated(place, {key: "x", "example.org/x": "y"})
        assert [_is_asked(kind, mentioned, old) for old in (None, plain, mentioned)] == [True] * 3
        assert _is_asked(kind, plain, mentioned)
        assert (mentions(row, mentioned), is_mentioned(row, plain, mentioned)) == (True, True)
    assert [_is_asked(kind, plain, old) for old in (None, plain)] == [False, False]
    assert not mentions(row, plain)
    for metadata in ({"annotations": {f"{_REQUIRED}s": "x"}}, {"labels": _PLACED}):
        obj = at(f"{place}.metadata".lstrip("."), metadata)
        assert (_is_asked(kind, obj), is_mentioned(row, obj), mentions(row, obj)) == (True, True, False)


def test_other_writes_are_not_asked_about() -> None:
    """Labels, other annotations and places, those of other kinds, and deletions do not make the API server ask."""
    keys = {"kai.scheduler/batch-min-member": "x", "topology": "x", "kai.scheduler/queue": "x"}
    writes: list[tuple[tuple[str, str], Json]] = [
        *((("batch", "Job"), obj) for obj in ({}, {"metadata": {"labels": {"kai.scheduler/queue": "x"}}})),
        *((("batch", "Job"), obj) for obj in (_annotated("", keys), {"annotations": _PLACED})),
        *((("batch", "Job"), _annotated(place, _PLACED)) for place in ("spec", "spec.template.spec")),
        (("batch", "Job"), _annotated("spec.tasks[0].template", _PLACED)),
        (("apps", "Deployment"), _annotated("template", _PLACED)),
        (("", "Pod"), _annotated("spec.template", _PLACED)),
        (("apps", "StatefulSet"), _annotated("spec.volumeClaimTemplates[0]", _PLACED)),
        (("batch", "CronJob"), _annotated("spec.template", _PLACED)),
        (("apps", "ControllerRevision"), _annotated("data.spec.template", _PLACED)),
        (("example.org", "Train"), _annotated("spec.template", _PLACED)),
    ]

    assert [write for write in writes if _is_asked(*write) or _is_asked(*write, write[1])] == []
    assert not _is_asked(("batch", "Job"), None, _annotated("", _PLACED))


_KUEUE = _annotated("spec.template", {"kueue.x-k8s.io/podset-required-topology": "example.org/rack"})
_EXCLUSIVE = _annotated("", {"alpha.jobset.sigs.k8s.io/exclusive-topology": "x"})
_OWNED: Json = {"ownerReferences": [{"kind": "Job", "controller": True}]}


@pytest.mark.parametrize(
    ("kind", "obj", "is_asked"),
    [
        pytest.param(("batch", "Job"), _KUEUE, True, id="kueue"),
        pytest.param(("batch", "Job"), _annotated("", {"kueue.x-k8s.io/queue-name": "x"}), True, id="queue"),
        pytest.param(("batch", "Job"), _annotated("", {"kueue.x-k8s.io/workload": "x"}), False, id="what-kueue-writes"),
        pytest.param(("batch", "Job"), {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}, False, id="label"),
        pytest.param(("jobset.x-k8s.io", "JobSet"), _EXCLUSIVE, True, id="exclusive"),
        pytest.param(("grove.io", "PodCliqueSet"), {"spec": {}}, True, id="constraints-in-fields"),
        pytest.param(("trainer.kubeflow.org", "TrainJob"), {"spec": {}}, True, id="patches"),
        pytest.param(("scheduling.run.ai", "PodGroup"), {"metadata": {}}, True, id="pod-group"),
        pytest.param(("scheduling.run.ai", "PodGroup"), {"metadata": _OWNED}, False, id="pod-group-of-a-controller"),
    ],
)
def test_other_schedulers_annotations_are_asked_about(kind: tuple[str, str], obj: Json, *, is_asked: bool) -> None:
    """Where the answer may be a warning the API server asks about them; where it could be a patch alone it does not."""
    is_seen = kind in _PLACEABLE and _PLACEABLE[kind].shape != STANDARD

    assert (_is_asked(kind, obj, condition=_WIDER), _is_asked(kind, obj)) == (is_asked, is_seen)


@pytest.mark.parametrize(
    "key",
    [
        *("kueue.x-k8s.io/podset-required-topology", "kai-scheduler/topology"),
        *("kai.scheduler/required-placement", "kai.scheduler/topology-required"),
    ],
)
def test_pods_that_a_controller_made_are_not_asked_about(key: str) -> None:
    """Of another scheduler's key, or one that was meant for ours, the author of a Pod or a workload is told, once."""
    written, made = _annotated("", {key: "x"}), _annotated("", {key: "x"}, **_OWNED)

    assert _is_asked(("batch", "Job"), written, condition=_WIDER)
    assert [_is_asked(("", "Pod"), obj, condition=_OF_PODS) for obj in (written, made)] == [True, False]


@pytest.mark.parametrize("is_ours", [True, False])
def test_our_gate_is_asked_about(is_ours: bool) -> None:  # noqa: FBT001
    """Where the answer may be a refusal, a Pod or a template with our gate is seen without any annotation."""
    gates = at("spec.schedulingGates", [{"name": "cks-admission.dev/topology" if is_ours else "example.org/gate"}, {}])

    assert _is_asked(("", "Pod"), gates, condition=_OF_PODS) is is_ours
    assert _is_asked(("batch", "Job"), at("spec.template", gates), condition=_WIDER) is is_ours


def test_what_nobody_reads_is_asked_about() -> None:
    """Annotations of a kind that nobody reads are told of."""
    assert _is_asked(("apps.nvidia.com", "NIMService"), _annotated("", _PLACED), condition=_WIDER)


_ODD: tuple[Any, ...] = (None, "x", 1, [], [None], ["x"], {"x": None})


@pytest.mark.parametrize("row", [pytest.param(row, id=_id(row)) for row in _TABLE])
def test_odd_objects_are_not_asked_about(row: Workload) -> None:
    """Whatever stands in the place of a step to a job, a template or their annotations, the answer is no, no error."""
    for place in _places(row):
        steps = f"{place}.metadata.annotations".lstrip(".").split(".")
        paths = [".".join(steps[:length]) for length in range(1, len(steps) + 1)]
        for path in (*paths, *(path.removesuffix("[1]") for path in paths if path.endswith("[1]"))):
            asked = [_is_asked(row.group_kind, obj, obj) for obj in (at(path, value) for value in _ODD)]
            assert asked == [False] * len(_ODD), path


def _objects(patterns: tuple[Pattern, ...]) -> SearchStrategy[Any]:
    """Values with annotations at the places that the patterns name, with anything odd in the place of anything."""
    inner: dict[Any, tuple[Pattern, ...]] = {}
    for pattern in patterns:
        if pattern:
            inner[pattern[0]] = (*inner.get(pattern[0], ()), pattern[1:])
    if Wildcard.ITEMS in inner:
        return some_of(_objects(inner[Wildcard.ITEMS]))
    if Wildcard.VALUES in inner:
        return st.dictionaries(st.sampled_from("ab"), odd(_objects(inner[Wildcard.VALUES])), max_size=2)
    parts = {key: _objects(rest) for key, rest in inner.items()}
    if () in patterns:
        parts["metadata"] = fields(annotations=_ANNOTATIONS)
    return st.fixed_dictionaries({}, optional={key: odd(value) for key, value in parts.items()})


_ANNOTATIONS = st.one_of(
    st.dictionaries(
        st.sampled_from([*sorted(ANNOTATIONS), "example.org/x"]),
        odd(st.sampled_from(["coreweave", "rack=r1", "rak", "{}"])),
        max_size=2,
    ),
    st.just(_PLACED),
    st.just({}),
)
_PLAIN = at("spec", {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]})


@st.composite
def _writes(draw: st.DrawFn) -> tuple[Workload, Json, Json | None]:
    """A kind of the table, an object of it and perhaps what it was before."""
    row = draw(st.sampled_from(_TABLE))
    objects = _objects(((), *row.jobs, *row.templates))
    new = draw(objects)
    old = draw(st.one_of(st.none(), st.just(new), objects))
    if draw(st.booleans()):  # a template as there are, so that the rule has something to place
        place = draw(st.sampled_from([place for place in _places(row) if place])) if row.templates != ((),) else ""
        new = merged(new, at(place, _PLAIN)) if place else {**new, **_PLAIN}
    return row, new, old


def _request(row: Workload, new: Json, old: Json | None) -> Any:
    typed = {"apiVersion": f"{row.group}/v1".lstrip("/"), "kind": row.kind}
    return request({**new, **typed}, old=None if old is None else {**old, **typed})


@bounded
@given(_writes())
def test_what_is_asked_about_is_what_the_rule_is_for(write: tuple[Workload, Json, Json | None]) -> None:
    """Whatever objects look like, those with a mention are asked about; of all others the rule says nothing."""
    row, new, old = write
    asked = _is_asked(row.group_kind, new, old)

    assert asked is mentions(row, new, old)
    if not asked:
        told = _request(row, new, old)
        assert (_RULE.mutate(told, FACTS), list(_RULE.validate(told, FACTS))) == (NO_MUTATION, [])


@pytest.mark.parametrize("row", [pytest.param(row, id=_id(row)) for row in _TABLE if row is not _DEEP])
def test_no_object_is_too_large(row: Workload) -> None:
    """An object of a thousand templates without a mention, each of them looked at, costs less than the limit."""
    obj: Any = {}
    for pattern in row.templates:
        obj = filled(obj, pattern, {"metadata": {"annotations": {"example.org/x": "y"}}}, 1000)
    kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}

    found = _CONDITION.evaluate_exactly(names(obj, oldObject=obj, request=kinds))

    assert (found.value, found.error) == (False, None)
    assert found.cost < EXPRESSION_LIMIT


@rows(__file__, "literals")
def test_literals(literal: str, written: str) -> None:
    """A literal ends where it should, whatever it holds: CEL takes no line break between single quotes."""
    assert text(literal) == written


@rows(__file__, "steps")
def test_steps(key: str, written: str) -> None:
    """A key that is no identifier of CEL is written as an index, and every step is optional."""
    assert steps("object", (key,)) == written


def test_several_wildcards() -> None:
    """Each comprehension in another has an index of its own, since an old value is looked up by all of them."""
    written = pairs(parse("spec.groups[*].workers.*.tasks[*].template"))
    indexes = re.findall(r"transformList\((\w+),", written)

    assert (len(indexes), len(set(indexes)), "Wildcard" in written) == (3, 3, False)
