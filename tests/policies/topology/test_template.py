"""Which annotations hold for a template: its own, then its job's, then the workload's, key by key."""

from __future__ import annotations

from typing import Any

from support.builders import WORKLOADS, Json, at, merged, resource
from support.tables import rows

from policies.objects.fieldpath import lookup
from policies.topology.template import Annotation, Annotations, Schedulers, Template, carried, templates

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


def _asked(obj: Json) -> Annotations:
    (template,) = _templates(obj)
    return template.nearest


def test_the_nearest_counts_for_each_key() -> None:
    """What the template does not say its job says, and what the job does not say the workload does."""
    obj = _cron_job(
        _annotated(topology="far", required="far", preferred="far"),
        _annotated(required="middle", preferred="middle"),
        _annotated(preferred="near"),
    )

    found = _asked(obj)

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
