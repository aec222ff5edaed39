"""Which annotations hold for a template, who reads them, and node pools of different topologies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders import WORKLOADS, Json, at, merged, node_affinity, resource
from support.tables import rows

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.violation import Violation
from policies.objects.fieldpath import lookup
from policies.topology.messages import conflicts
from policies.topology.template import Annotation, Annotations, Schedulers, Template, carried, templates
from policies.topology.topology import Catalog, Topology, level

_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_JOB = "spec.jobTemplate"
_JOB_AT, _TEMPLATE_AT = ("spec", "jobTemplate"), ("spec", "jobTemplate", "spec", "template")


def _annotated(**annotations: Any) -> Json:
    names = {"topology": _TOPOLOGY, "required": _REQUIRED, "preferred": _PREFERRED}
    return {"metadata": {"annotations": {names[name]: value for name, value in annotations.items()}}}


def _cron_job(workload: Json, job: Json, template: Json) -> Json:
    parts = [at(_JOB, job), at(f"{_JOB}.spec.template", template), at(f"{_JOB}.spec.template.spec", {})]
    return merged(resource("batch/v1", "CronJob"), workload, *parts)


def _templates(obj: Json) -> list[Template]:
    group, _, _ = obj["apiVersion"].rpartition("/")
    return list(templates(obj, WORKLOADS[group, obj["kind"]], Schedulers()))


def test_the_nearest_counts_for_each_key() -> None:
    """What the template does not say its job says, and what the job does not say the workload does."""
    obj = _cron_job(
        _annotated(topology="far", required="far", preferred="far"),
        _annotated(required="middle", preferred="middle"),
        _annotated(preferred="near"),
    )

    (template,) = _templates(obj)
    found = template.nearest

    assert found == Annotations(
        Annotation("far", (), _TOPOLOGY),
        Annotation("middle", _JOB_AT, _REQUIRED),
        Annotation("near", _TEMPLATE_AT, _PREFERRED),
    )
    assert found.values == ("far", "middle", "near")
    assert [annotation.location for annotation in found if annotation] == [
        ("metadata", "annotations", _TOPOLOGY),
        (*_JOB_AT, "metadata", "annotations", _REQUIRED),
        (*_TEMPLATE_AT, "metadata", "annotations", _PREFERRED),
    ]


def test_all_holders_of_a_trainer_template() -> None:
    """A TrainingRuntime holds the template of a JobSet, which holds those of Jobs: four places, the nearest first."""
    path = "spec.template.spec.replicatedJobs[0].template.spec.template"
    obj = resource("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", at(f"{path}.spec", {}))

    job = ("spec", "template", "spec", "replicatedJobs", 0, "template")
    places = {(): False, ("spec", "template"): False, job: True, (*job, "spec", "template"): True}
    for place, is_meant in places.items():
        lookup(obj, place).setdefault("metadata", {})["annotations"] = {_REQUIRED: "rack"}
        (template,) = _templates(obj)
        assert template.path == path
        assert template.nearest == Annotations(None, Annotation("rack", place, _REQUIRED))
        assert template.is_meant is is_meant


def test_templates_that_are_none() -> None:
    """What is no map, or has a spec that is none, is left for the API server to refuse."""
    odd: list[Any] = [None, [], {"spec": "x"}, {"spec": None}]
    tasks: list[Any] = [None, "x", *({"template": template} for template in odd)]
    obj = resource("batch.volcano.sh/v1alpha1", "Job", {"spec": {"tasks": tasks}})

    assert [template.path for template in _templates(obj)] == ["spec.tasks[5].template"]


@rows(__file__, "carries")
def test_what_a_template_carries(now: list[Any], before: Any, value: Any) -> None:
    """What changed counts: a template follows what is around it as long as it says the same, and keeps its own."""
    own, above = now
    assert carried(own, above, before) == value
    assert carried(value, above, before) == value
    assert carried(own, above, before, copies=False) == (None if own is None else value)


def _labelled(label: str) -> dict[str, Any]:
    return {"metadata": {"labels": {label: "team-a"}}}


def _scheduled(name: Any) -> dict[str, Any]:
    return {"spec": {"schedulerName": name}}


@rows(__file__, "readers")
def test_schedulers_that_read_annotations(workload: Any, template: Any, reader: str) -> None:
    """The name of the scheduler or the label of a queue says so, the template's before the workload's."""
    assert Schedulers().reader(workload, template) == reader


def test_schedulers_are_data() -> None:
    """Names may be globs; what is configured replaces what is shipped."""
    schedulers = Schedulers(reading=("gang-*",), labels=("example.org/queue",))

    assert schedulers.reader({}, _scheduled("gang-2")) == "schedulerName gang-2"
    assert schedulers.reader(_labelled("example.org/queue"), {}) == "label example.org/queue"
    assert schedulers.reader(_labelled("runai/queue"), _scheduled("kai-scheduler")) == ""


_KEY, _OTHER = "compute.coreweave.com/node-pool", "runai/node-pool"


def _topology(name: str, key: str, *pools: str) -> Topology:
    pool = LabelSelector((SelectorRequirement(key, "In", pools),))
    return Topology(name, (level("rack"),), pool=pool)


_CATALOG = Catalog(
    [
        _topology("north", _KEY, "a", "b"),
        _topology("south", _KEY, "c"),
        _topology("east", _OTHER, "c"),
        replace(_topology("all", _KEY), pool=None),
    ]
)


def _selected(*pools: str, key: str = _KEY) -> list[Template]:
    return [Template(("spec", n), {"spec": {"nodeSelector": {key: pool}}}) for n, pool in enumerate(pools)]


def _required(*terms: Any) -> list[Template]:
    return [Template((), {"spec": {"affinity": node_affinity(*terms)}})]


def _in(*values: Any, key: str = _KEY, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _violation(path: str, found: str, first: str) -> Violation:
    return Violation(
        "topology",
        path,
        found,
        f"has another topology than {first}.",
        "A workload cannot be placed in node pools of different topologies; its Pods would stay pending.",
        "Choose one of the pools, or split the workload.",
    )


_A, _C = f"{_KEY}=a (north)", f"{_KEY}=c (south)"
_AFFINITY = "spec.affinity.nodeAffinity"


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(_selected("a"), [], id="one"),
        pytest.param(_selected("a", "b"), [], id="pools-of-one-topology"),
        pytest.param(_selected("a", "x"), [], id="a-pool-of-no-topology"),
        pytest.param(_selected("x", "y"), [], id="pools-of-no-topology"),
        pytest.param(_selected("a", "c"), [_violation(f"spec[1].spec.nodeSelector[{_KEY}]", _C, _A)], id="two"),
        pytest.param(
            [*_selected("a"), *_selected("c", key=_OTHER)],
            [_violation(f"spec[0].spec.nodeSelector[{_OTHER}]", f"{_OTHER}=c (east)", _A)],
            id="pools-under-two-keys",
        ),
        pytest.param(_required(_in("a", "c")), [_violation(_AFFINITY, _C, _A)], id="values-of-one-term"),
        pytest.param(_required(_in("a"), _in("c")), [_violation(_AFFINITY, _C, _A)], id="two-terms"),
        pytest.param(_required(_in("a"), _in("c"), _in("c")), [_violation(_AFFINITY, _C, _A)], id="told-once"),
        pytest.param(_required(_in("a"), _in("c", operator="NotIn")), [], id="what-is-not-named"),
        pytest.param(_required(_in("a"), _in("c", key="x")), [], id="another-key"),
        pytest.param(
            _required(None, "x", {"matchExpressions": "x"}, {"matchExpressions": [None]}, _in(1, None)), [], id="odd"
        ),
    ],
)
def test_pools(templates: list[Template], expected: list[Violation]) -> None:
    """A pool whose topology differs from that of the first one is a violation at the place where it is named."""
    assert conflicts(None, templates, _CATALOG.by_name, (_KEY, _OTHER)) == expected


def test_what_names_no_pool() -> None:
    """Only configured keys name pools; a topology is for a pool whose label it asks for, not excludes."""
    north = SelectorRequirement(_KEY, "In", ("a",)), SelectorRequirement("example.org/gpu", "Exists")
    south = (SelectorRequirement(_KEY, "NotIn", ("z",)),)
    catalog = Catalog(
        Topology(name, (level("example.org/rack"),), pool=LabelSelector(requirements))
        for name, requirements in (("north", north), ("south", south))
    )
    (odd,) = _required({"matchExpressions": [{"key": _KEY, "operator": "In", "values": 5}]})
    odd.value["spec"]["nodeSelector"] = {_KEY: "a", _OTHER: "b"}

    assert conflicts(None, [odd], catalog.by_name, (_KEY, _OTHER)) == []
    assert conflicts(None, _selected("a", "c"), _CATALOG.by_name, (_OTHER,)) == []


def test_labels_name_pools_too() -> None:
    """A pool that the workload or a template names by a label counts like one of a node selector."""
    labelled = {"metadata": {"labels": {_KEY: "a"}}}
    template = Template(("spec", "template"), {"metadata": {"labels": {_KEY: "c"}}, "spec": {}})

    assert conflicts(labelled, [template], _CATALOG.by_name, (_KEY,)) == [
        _violation(f"spec.template.metadata.labels[{_KEY}]", _C, _A)
    ]
