"""`cks-admission topology explain`: what becomes of annotations, and why, in words and as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.service.commands import run
from support.service.nodefiles import HELD, SMALL, Json, asks, job, template, write

_COREWEAVE = "region, zone, fabric, superpod, leafgroup, rack, hostname"
_GATE = "its Pods wait behind the gate cks-admission.dev/topology"
_NOTHING = "Nothing is done:"


def _pod(annotations: dict[str, str], **spec: Any) -> Json:
    metadata: Json = {"name": "p", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template(**spec)["spec"]}


def _described(annotations: dict[str, str], **metadata: Any) -> Json:
    made = job(annotations)
    made["metadata"] |= metadata
    return made


def _explained(obj: Json, *arguments: str, code: int = 0) -> list[str]:
    """The lines about an object."""
    Path("w.yaml").write_text(yaml.safe_dump(obj), encoding="utf-8")
    result = run("topology", "explain", "-f", "w.yaml", *arguments)
    assert (result.stderr, result.exit_code) == ("", code)
    return result.stdout.splitlines()


def test_a_placement_is_explained() -> None:
    """It says what is asked for where, what the template gets, who keeps the Pods, and on which Nodes they may run."""
    nodes = write(Path("nodes.json"), *SMALL, *HELD)

    assert _explained(job(asks("coreweave", "superpod", "rack")), "--nodes", nodes) == [
        "w.yaml:1: Job default/train: admitted",
        "  spec.template",
        "    kai.scheduler/topology: coreweave  (metadata.annotations)",
        "    kai.scheduler/topology-required-placement: superpod  (metadata.annotations)",
        "    kai.scheduler/topology-preferred-placement: rack  (metadata.annotations)",
        (
            "    Topology coreweave (built in), farthest first: region, zone, fabric, superpod [required superpod], "
            "leafgroup, rack [preferred rack], hostname."
        ),
        "    The template gets kai.scheduler/topology: coreweave.",
        "    The template gets kai.scheduler/topology-required-placement: superpod.",
        "    The template gets kai.scheduler/topology-preferred-placement: rack.",
        f"    gate: {_GATE} until all of them fit into one superpod.",
        "    By their labels 4 of 6 Nodes may take the Pods:",
        "      superpod 1: 3 Nodes, 8 of 24 GPUs free, 1 cordoned",
        "      superpod 2: 1 Node, 6 of 8 GPUs free",
    ]


_AFFINITY = "Pod affinity keeps its Pods in one rack; they are placed one by one"
_CRON = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "controller": True}
_MARKED = {**asks(required="rack"), "cks-admission.dev/placement-way": "affinity"}
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": asks()}}


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (_pod(asks(required="rack")), f"gate: {_GATE} until all of them fit into one rack."),
        (_pod(asks(preferred="rack")), f"gate: {_GATE} until all exist, and start close to one rack."),
        (_pod(asks(required="rack=12")), f"gate: {_GATE} until all of them fit into rack=12."),
        (_pod(_MARKED), f"affinity: {_AFFINITY} (by cks-admission.dev/placement-way)."),
        (
            _described(asks(required="rack"), labels={"kueue.x-k8s.io/queue-name": "team"}),
            "kueue: Kueue places its Pods by rack.",
        ),
        (
            _pod(asks(required="node.coreweave.cloud/rack"), schedulerName="kai-scheduler"),
            f"{_NOTHING} its scheduler reads the annotations itself (schedulerName kai-scheduler).",
        ),
        (_pod(asks()), f"{_NOTHING} a topology alone places nothing."),
        (_pod({}), f"{_NOTHING} it has no topology annotations."),
        (_MAP, f"{_NOTHING} a ConfigMap has no known pod templates."),
        (
            _described(asks(required="rack"), ownerReferences=[_CRON]),
            f"{_NOTHING} a controller owns it; explain its owner.",
        ),
        (_pod({"kubernetes.io/config.mirror": "x"}), f"{_NOTHING} it is the mirror of a kubelet's static Pod."),
    ],
    ids=[
        *("gate", "preference", "named", "marked", "kueue", "reader", "topology-alone", "none", "no-workload"),
        *("owned", "mirror"),
    ],
)
def test_who_keeps_the_pods(obj: Json, told: str) -> None:
    """One line says who keeps the Pods together, or why nobody does."""
    assert told in [line.strip() for line in _explained(obj)]


def test_a_gang_that_fits_nowhere() -> None:
    """It is told so, with what there is."""
    lines = _explained(job(asks(required="rack"), 3), "--nodes", write(Path("nodes.json"), *SMALL))

    (line,) = (line.strip() for line in lines if "never" in line)
    assert line == (
        "By the Nodes that there are it can never start: no rack can hold 3 Pods with 24 GPUs even if nothing else "
        "ran: the largest (16 GPUs) holds 2."
    )


def test_a_default_is_explained_where_it_stands() -> None:
    """What the configuration asks for is told with its place."""
    Path("cks.yaml").write_text("topology: {default: {topology: coreweave}}", encoding="utf-8")

    lines = _explained(job({}), "--config", "cks.yaml")

    assert "    kai.scheduler/topology-preferred-placement: rack  (topology.default of the configuration)" in lines
    assert "    The template gets kai.scheduler/topology-preferred-placement: rack." in lines


def test_a_refusal_is_that_of_check() -> None:
    """What would be refused is told in the words of the refusal, in exit code 1."""
    lines = _explained(_pod(asks(required="rak")), code=1)

    where = "metadata.annotations[kai.scheduler/topology-required-placement]"
    assert f"    {_NOTHING} what is asked for cannot be used." in lines
    assert lines[-4:] == [
        "  The placement cannot be used.",
        f'    {where}: "rak" is no level of topology "coreweave".',
        f'    Levels of topology "coreweave", farthest first: {_COREWEAVE}.',
        "  Did you mean rack?",
    ]


def test_an_explanation_as_data() -> None:
    """The same for machines."""
    placed = asks(required="rack")
    Path("w.yaml").write_text(yaml.safe_dump(job(placed)), encoding="utf-8")

    [told] = json.loads(run("topology", "explain", "-f", "w.yaml", "-o", "json").stdout)

    (template_,) = told["templates"]
    assert template_ == {
        "path": "spec.template",
        "annotations": [{"key": key, "value": value, "path": "metadata.annotations"} for key, value in placed.items()],
        "topology": "coreweave",
        "levels": _COREWEAVE.split(", "),
        "required": {"level": "rack", "placement": "rack"},
        "copied": placed,
        "way": "gate",
        "meaning": f"{_GATE} until all of them fit into one rack",
        "reason": "",
        "never": "",
    }
