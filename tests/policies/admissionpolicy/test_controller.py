"""What controllers add to the Pods of each kind, as a derived Pod shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import WORKLOADS, Json, at, deployment, request, resource, template

from policies.admissionpolicy.derivation import CONTROLLERS, controller_of, derive, fields_of, filled
from policies.engine.request import AdmissionRequest
from policies.objects.fieldpath import parse
from policies.objects.workload import BUILT_IN, table

_JOB = {"batch.kubernetes.io/job-name": "train", "job-name": "train"}


def _labels_and_owners(asked: AdmissionRequest) -> list[tuple[Json, list[str]]]:
    """The labels of the derived Pods, and their owners with the one in control first."""
    return [
        (
            derived.pod["metadata"].get("labels", {}),
            [
                f"{owner['apiVersion']} {owner['kind']} {owner['name']}"
                for owner in derived.pod["metadata"]["ownerReferences"]
            ],
        )
        for derived in derive(asked, WORKLOADS)
    ]


_ADDED = yaml.safe_load((Path(__file__).parent / "controllers.yaml").read_text(encoding="utf-8"))


def _with_template(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_template(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_template(item) for item in value]
    return template() if value == "TEMPLATE" else value


@pytest.mark.parametrize("case", _ADDED, ids=lambda case: str(case["name"]))
def test_labels_and_owners(case: Json) -> None:
    """A derived Pod has the labels that its controller would add, and names its controller and its workload."""
    labels = {"app": "trainer", **case["labels"]}

    assert _labels_and_owners(request(_with_template(case["object"]))) == [(labels, case["owners"])]


def test_a_controllers_label_takes_the_place_of_the_templates() -> None:
    """A label that a controller sets cannot be chosen by who writes the template."""
    own = {**template(), "metadata": {"labels": {"job-name": "x", "a": "b"}}}
    obj = resource("batch/v1", "Job", at("metadata", {"name": "train"}), at("spec.template", own))

    assert _labels_and_owners(request(obj)) == [({"a": "b", **_JOB}, ["batch/v1 Job train"])]


def test_nobody_owns_the_pods_of_a_pod_template() -> None:
    """No controller makes Pods of a PodTemplate."""
    (derived,) = derive(request(resource("v1", "PodTemplate", {"template": template()})), WORKLOADS)

    assert "ownerReferences" not in derived.pod["metadata"]


def test_the_topology_annotations_of_a_workload_hold_for_its_pods() -> None:
    """The nearest topology annotation counts: the template's, the job template's, the workload's."""
    required, preferred, topology = (
        f"kai.scheduler/topology{end}" for end in ("-required-placement", "-preferred-placement", "")
    )
    job = {"metadata": {"annotations": {preferred: "job", required: "job"}}}
    own = {**template(), "metadata": {"annotations": {required: "template"}}}
    obj = resource(
        "batch/v1",
        "CronJob",
        at("metadata", {"name": "nightly", "annotations": {topology: "workload", preferred: "workload", "a": "b"}}),
        at("spec.jobTemplate", {**job, "spec": {"template": own}}),
    )

    (derived,) = derive(request(obj), WORKLOADS)

    assert derived.pod["metadata"]["annotations"] == {topology: "workload", preferred: "job", required: "template"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{metadata.name}-x", "web-x"),
        ("{spec.tasks[*].name}", "b"),
        ("{spec.none}", None),
        ("{spec.number}", None),
        ("plain", "plain"),
    ],
)
def test_a_text_with_fields(text: str, expected: str | None) -> None:
    """Fields stand in braces, lists are taken at the template's own place, and what is no text gives none."""
    obj = {"metadata": {"name": "web"}, "spec": {"tasks": [{"name": "a"}, {"name": "b"}], "number": 5}}

    assert filled(text, obj, ("spec", "tasks", 1, "template")) == expected


def test_a_workload_without_a_name_lends_the_start_of_one() -> None:
    """With a generateName, names begin with it."""
    asked = request(deployment(metadata={"name": "", "generateName": "web-"}, kind="StatefulSet"))

    assert _labels_and_owners(asked)[0][1] == ["apps/v1 StatefulSet web-0"]


def test_the_table_is_about_kinds_and_fields_that_there_are() -> None:
    """Each row is for a kind with templates, the templates that it names are the kind's, and all paths can be read."""
    kinds = table(BUILT_IN)
    rows = [(kind, row) for kind, rows in CONTROLLERS.items() for row in rows]
    named = {(kind, parse(row.template)[0]) for kind, row in rows if row.template}

    assert named <= {(kind, pattern[0]) for kind, row in kinds.items() for pattern in row.templates if pattern}
    assert all(parse(field) for _, row in rows for field in fields_of(row))
    assert controller_of(("x", "Unknown"), ("spec", "template")) == controller_of(
        ("apps", "DaemonSet"), ("spec", "template")
    )
