"""Which scheduler reads the annotations itself, and which one does not look at node affinity."""

from __future__ import annotations

from typing import Any

import pytest

from policies.topology.annotation import Schedulers


def _labelled(label: str) -> dict[str, Any]:
    return {"metadata": {"labels": {label: "team-a"}}}


def _scheduled(name: Any) -> dict[str, Any]:
    return {"spec": {"schedulerName": name}}


@pytest.mark.parametrize(
    ("workload", "template", "reader"),
    [
        pytest.param({}, {}, "", id="default"),
        pytest.param({}, _scheduled("default-scheduler"), "", id="default-by-name"),
        pytest.param({}, _scheduled("kai-scheduler"), "schedulerName kai-scheduler", id="kai"),
        pytest.param({}, _scheduled("runai-scheduler"), "schedulerName runai-scheduler", id="runai"),
        pytest.param({}, _scheduled("my-kai-scheduler"), "", id="whole-names"),
        pytest.param(_labelled("kai.scheduler/queue"), {}, "label kai.scheduler/queue", id="workload"),
        pytest.param({}, _labelled("runai/queue"), "label runai/queue", id="template"),
        pytest.param(
            _labelled("runai/queue"), _labelled("kai.scheduler/queue"), "label kai.scheduler/queue", id="both"
        ),
        pytest.param(_labelled("queue"), {}, "", id="another-label"),
        pytest.param({"metadata": {"labels": None}}, {"spec": None}, "", id="odd"),
        pytest.param({}, _scheduled(None), "", id="null"),
    ],
)
def test_schedulers_that_read_annotations(workload: Any, template: Any, reader: str) -> None:
    """The name of the scheduler or the label of a queue says so, the template's before the workload's."""
    assert Schedulers().reader(workload, template) == reader


def test_schedulers_are_data() -> None:
    """Names may be globs; what is configured replaces what is shipped."""
    schedulers = Schedulers(reading=("gang-*",), labels=("example.org/queue",), ignoring=("slurm",))

    assert schedulers.reader({}, _scheduled("gang-2")) == "schedulerName gang-2"
    assert schedulers.reader(_labelled("example.org/queue"), {}) == "label example.org/queue"
    assert schedulers.reader(_labelled("runai/queue"), _scheduled("kai-scheduler")) == ""


@pytest.mark.parametrize(
    ("name", "ignores"),
    [
        pytest.param("team-slurm-scheduler", True, id="sunk"),
        pytest.param("slurm-bridge-scheduler", True, id="bridge"),
        pytest.param("default-scheduler", False, id="default"),
        pytest.param("", False, id="none"),
    ],
)
def test_schedulers_that_ignore_node_affinity(name: str, ignores: bool) -> None:  # noqa: FBT001
    """Where Slurm chooses the Node, nobody looks at node affinity."""
    assert Schedulers().ignores_affinity(name) is ignores
