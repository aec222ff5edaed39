"""The match condition of the topology rule, evaluated: true where an annotation is, false elsewhere, never an error.

A condition that is true in vain costs a call; one that is false in vain lets a write slip past.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from properties.shapes import bounded, fields, odd, some_of
from support.builders import FACTS, WORKLOADS, Json, at, merged, request
from support.cel.celrun import compiled, names

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.program import Program
from policies.engine.rule import NO_MUTATION
from policies.matchconditions import topology_is_mentioned
from policies.objects.fieldpath import Pattern, Wildcard, render
from policies.objects.workload import PATCHES, STANDARD, Workload, workload
from policies.topology.placement import ANNOTATIONS
from policies.topology.rule import TopologyPlacement
from policies.topology.schemes import is_mentioned
from policies.topology.template import Options, mentions
from policies.topology.topology import BUILT_IN, Catalog

_PATCHED = [row for row in WORKLOADS.values() if row.group_kind in PATCHES]
_DEEP = workload("example.org", "Deep", ["groups[*].sets.*.template"], jobs=["groups[*]", "groups[*].sets.*"])
_ROWS = {row.group_kind: row for row in (*WORKLOADS.values(), _DEEP) if row.makes_pods}
_CONDITION = compiled(topology_is_mentioned(_ROWS.values()).expression)
_WIDER = compiled(topology_is_mentioned([*_ROWS.values(), *_PATCHED], schemes=True).expression)
_OF_PODS = compiled(topology_is_mentioned((), schemes=True).expression)
# Of kinds whose templates have a shape of their own everything is asked about.
_TABLE = [row for row in _ROWS.values() if row.shape == STANDARD]
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(_ROWS))
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_PLACED = {_TOPOLOGY: "coreweave", _REQUIRED: "rack=r1"}


def _asked(kind: tuple[str, str], new: Json | None, old: Json | None = None, condition: Program = _CONDITION) -> bool:
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


_PLACES = [pytest.param(row, place, id=f"{_id(row)}-{place or 'object'}") for row in _TABLE for place in _places(row)]


def _annotated(place: str, annotations: Json, **metadata: Any) -> Json:
    found = at(f"{place}.metadata".lstrip("."), {"annotations": annotations, **metadata})
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("row", "place"), _PLACES)
def test_a_mention_is_asked_about(row: Workload, place: str) -> None:
    """Each annotation, a misspelt key and a label are seen on object, jobs and templates, now or before."""
    kind, plain = row.group_kind, _annotated(place, {"example.org/x": "y"})
    for key in ANNOTATIONS:
        mentioned = _annotated(place, {key: "x", "example.org/x": "y"})
        assert [_asked(kind, mentioned, old) for old in (None, plain, mentioned)] == [True] * 3
        assert _asked(kind, plain, mentioned)
        assert (mentions(row, mentioned), is_mentioned(row, plain, mentioned)) == (True, True)
    assert [_asked(kind, plain, old) for old in (None, plain)] == [False, False]
    assert not mentions(row, plain)
    for metadata in ({"annotations": {f"{_REQUIRED}s": "x"}}, {"labels": _PLACED}):
        obj = at(f"{place}.metadata".lstrip("."), metadata)
        assert (_asked(kind, obj), is_mentioned(row, obj), mentions(row, obj)) == (True, True, False)


def test_other_writes_are_not_asked_about() -> None:
    """Labels, other annotations, other places and other kinds' places do not make the API server ask."""
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

    assert [write for write in writes if _asked(*write) or _asked(*write, write[1])] == []


_KUEUE = _annotated("spec.template", {"kueue.x-k8s.io/podset-required-topology": "example.org/rack"})
_OWNED: Json = {"ownerReferences": [{"kind": "Job", "controller": True}]}


@pytest.mark.parametrize(
    ("kind", "obj", "is_asked"),
    [
        pytest.param(("batch", "Job"), _KUEUE, True, id="kueue"),
        pytest.param(("batch", "Job"), _annotated("", {"kueue.x-k8s.io/queue-name": "x"}), True, id="queue"),
        pytest.param(("batch", "Job"), _annotated("", {"kueue.x-k8s.io/workload": "x"}), False, id="what-kueue-writes"),
        pytest.param(("batch", "Job"), {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}, False, id="label"),
        pytest.param(
            ("jobset.x-k8s.io", "JobSet"),
            _annotated("", {"alpha.jobset.sigs.k8s.io/exclusive-topology": "x"}),
            True,
            id="exclusive",
        ),
        pytest.param(("grove.io", "PodCliqueSet"), {"spec": {}}, True, id="constraints-in-fields"),
        pytest.param(("trainer.kubeflow.org", "TrainJob"), {"spec": {}}, True, id="patches"),
        pytest.param(("scheduling.run.ai", "PodGroup"), {"metadata": {}}, True, id="pod-group"),
        pytest.param(("scheduling.run.ai", "PodGroup"), {"metadata": _OWNED}, False, id="pod-group-of-a-controller"),
    ],
)
def test_other_schedulers_annotations_are_asked_about(kind: tuple[str, str], obj: Json, *, is_asked: bool) -> None:
    """Where the answer may be a warning the API server asks about them; where it could be a patch alone it does not."""
    is_seen = kind in _ROWS and _ROWS[kind].shape != STANDARD

    assert (_asked(kind, obj, condition=_WIDER), _asked(kind, obj)) == (is_asked, is_seen)


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

    assert _asked(("batch", "Job"), written, condition=_WIDER)
    assert [_asked(("", "Pod"), obj, condition=_OF_PODS) for obj in (written, made)] == [True, False]


@pytest.mark.parametrize("is_ours", [True, False])
def test_our_gate_is_asked_about(is_ours: bool) -> None:  # noqa: FBT001
    """Where the answer may be a refusal, a Pod or a template with our gate is seen without any annotation."""
    gates = at("spec.schedulingGates", [{"name": "cks-admission.dev/topology" if is_ours else "example.org/gate"}, {}])

    assert _asked(("", "Pod"), gates, condition=_OF_PODS) is is_ours
    assert _asked(("batch", "Job"), at("spec.template", gates), condition=_WIDER) is is_ours


def test_where_nothing_is_placed() -> None:
    """Annotations of a kind that nobody reads are told of; a deletion places nothing."""
    assert _asked(("apps.nvidia.com", "NIMService"), _annotated("", _PLACED), condition=_WIDER)
    assert not _asked(("batch", "Job"), None, _annotated("", _PLACED))


_ODD: tuple[Any, ...] = (None, "x", 1, [], [None], ["x"], {"x": None})


@pytest.mark.parametrize("row", [pytest.param(row, id=_id(row)) for row in _TABLE])
def test_odd_objects_are_not_asked_about(row: Workload) -> None:
    """Whatever stands in the place of a step to a job, a template or their annotations, the answer is no, no error."""
    for place in _places(row):
        steps = f"{place}.metadata.annotations".lstrip(".").split(".")
        paths = [".".join(steps[:length]) for length in range(1, len(steps) + 1)]
        for path in (*paths, *(path.removesuffix("[1]") for path in paths if path.endswith("[1]"))):
            asked = [_asked(row.group_kind, obj, obj) for obj in (at(path, value) for value in _ODD)]
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
    asked = _asked(row.group_kind, new, old)

    assert asked is mentions(row, new, old)
    if not asked:
        told = _request(row, new, old)
        assert (_RULE.mutate(told, FACTS), list(_RULE.validate(told, FACTS))) == (NO_MUTATION, [])


def _filled(value: Any, pattern: Pattern, leaf: Json) -> Any:
    """A value with a leaf at every place of a pattern, a thousand where it has a wildcard."""
    if not pattern:
        return leaf
    step, rest = pattern[0], pattern[1:]
    if isinstance(step, str):
        inner = value if isinstance(value, dict) else {}
        return {**inner, step: _filled(inner.get(step), rest, leaf)}
    children = [_filled(None, tuple(key for key in rest if isinstance(key, str)), leaf)] * 1000
    return children if step is Wildcard.ITEMS else {f"role-{n}": child for n, child in enumerate(children)}


@pytest.mark.parametrize("row", [pytest.param(row, id=_id(row)) for row in _TABLE if row is not _DEEP])
def test_no_object_is_too_large(row: Workload) -> None:
    """An object of a thousand templates without a mention, each of them looked at, costs less than the limit."""
    obj: Any = {}
    for pattern in row.templates:
        obj = _filled(obj, pattern, {"metadata": {"annotations": {"example.org/x": "y"}}})
    kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}

    found = _CONDITION.evaluate_exactly(names(obj, oldObject=obj, request=kinds))

    assert (found.value, found.error) == (False, None)
    assert found.cost < EXPRESSION_LIMIT
