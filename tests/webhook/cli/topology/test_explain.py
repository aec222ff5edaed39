"""`cks-admission topology explain`: what becomes of annotations, and why, in words and as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.service.commands import run
from support.service.nodefiles import HELD, SMALL, Json, write

_KAI = "kai.scheduler"
_GPU = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
_COREWEAVE = "region, zone, fabric, superpod, leafgroup, rack, hostname"
_GATE = "its Pods wait behind the gate cks-admission.dev/topology"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _asks(topology: str = "", required: str = "", preferred: str = "") -> dict[str, str]:
    found = {"topology": topology, "topology-required-placement": required, "topology-preferred-placement": preferred}
    return {f"{_KAI}/{key}": value for key, value in found.items() if value}


def _pod(annotations: dict[str, str], name: str = "p", **spec: Any) -> Json:
    metadata: Json = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [_GPU], **spec}}


def _job(annotations: dict[str, str], **metadata: Any) -> Json:
    template = {"spec": {"containers": [_GPU]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations, **metadata},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }


def _explained(*objects: Json, arguments: tuple[str, ...] = (), code: int = 0) -> list[str]:
    """The lines about these objects."""
    Path("w.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    result = run("topology", "explain", "-f", "w.yaml", *arguments)
    assert (result.stderr, result.exit_code) == ("", code)
    return result.stdout.splitlines()


def test_a_placement_is_explained() -> None:
    """It says what is asked for where, what the template gets, who keeps the Pods, and on which Nodes they may run."""
    write(Path("nodes.json"), *SMALL, *HELD)

    assert _explained(_job(_asks("coreweave", "superpod", "rack")), arguments=("--nodes", "nodes.json")) == [
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


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        pytest.param(
            _pod(_asks("coreweave", "rack")), f"gate: {_GATE} until all of them fit into one rack.", id="gate"
        ),
        pytest.param(
            _pod(_asks("coreweave", preferred="rack")),
            f"gate: {_GATE} until all exist, and start close to one rack.",
            id="preference",
        ),
        pytest.param(
            _pod(_asks("coreweave", "rack=12")), f"gate: {_GATE} until all of them fit into rack=12.", id="named"
        ),
        pytest.param(
            _pod({**_asks("coreweave", "rack"), "cks-admission.dev/placement-way": "affinity"}),
            "affinity: Pod affinity keeps its Pods in one rack; they are placed one by one "
            "(by cks-admission.dev/placement-way).",
            id="marked",
        ),
        pytest.param(
            _job(_asks("coreweave", "rack"), labels={"kueue.x-k8s.io/queue-name": "team"}),
            "kueue: Kueue places its Pods by rack.",
            id="kueue",
        ),
        pytest.param(
            _pod(_asks("coreweave", "node.coreweave.cloud/rack"), schedulerName="kai-scheduler"),
            "Nothing is done: its scheduler reads the annotations itself (schedulerName kai-scheduler).",
            id="reader",
        ),
        pytest.param(
            _pod(_asks("coreweave")), "Nothing is done: a topology alone places nothing.", id="topology-alone"
        ),
    ],
)
def test_who_keeps_the_pods(obj: Json, told: str) -> None:
    """One line says who keeps the Pods together, or why nobody does."""
    assert f"    {told}" in _explained(obj)


def test_a_gang_that_fits_nowhere() -> None:
    """It is told so, with what there is."""
    write(Path("nodes.json"), *SMALL)
    job = _job(_asks("coreweave", "rack"))
    job["spec"] |= {"parallelism": 3, "completions": 3}

    lines = _explained(job, arguments=("--nodes", "nodes.json"))

    assert [line.strip() for line in lines if "never" in line] == [
        (
            "By the Nodes that there are it can never start: no rack can hold 3 Pods with 24 GPUs even if nothing else "
            "ran: the largest (16 GPUs) holds 2."
        )
    ]


def test_a_default_is_explained_where_it_stands() -> None:
    """What the configuration asks for is told with its place."""
    Path("cks.yaml").write_text("topology: {default: {topology: coreweave}}", encoding="utf-8")

    lines = _explained(_job({}), arguments=("--config", "cks.yaml"))

    assert "    kai.scheduler/topology-preferred-placement: rack  (topology.default of the configuration)" in lines
    assert "    The template gets kai.scheduler/topology-preferred-placement: rack." in lines


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param(_pod({}), "it has no topology annotations", id="none"),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": _asks("coreweave")}},
            "a ConfigMap has no known pod templates",
            id="no-workload",
        ),
        pytest.param(
            _job(
                _asks("coreweave", "rack"),
                ownerReferences=[{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "controller": True}],
            ),
            "a controller owns it; explain its owner",
            id="owned",
        ),
        pytest.param(
            {**_pod({}), "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}},
            "it is the mirror of a kubelet's static Pod",
            id="mirror",
        ),
    ],
)
def test_what_is_left_alone_is_told(obj: Json, why: str) -> None:
    """Where nothing is done it says why."""
    assert _explained(obj)[1:] == [f"  Nothing is done: {why}."]


def test_a_refusal_is_that_of_check() -> None:
    """What would be refused is told in the words of the refusal, in exit code 1."""
    lines = _explained(_pod(_asks("coreweave", "rak")), code=1)

    assert "    Nothing is done: what is asked for cannot be used." in lines
    assert lines[-4:] == [
        "  The placement cannot be used.",
        (
            '    metadata.annotations[kai.scheduler/topology-required-placement]: "rak" is no level of topology '
            '"coreweave".'
        ),
        f'    Levels of topology "coreweave", farthest first: {_COREWEAVE}.',
        "  Did you mean rack?",
    ]


def test_an_explanation_as_data() -> None:
    """The same for machines."""
    Path("w.yaml").write_text(yaml.safe_dump(_job(_asks("coreweave", "rack"))), encoding="utf-8")

    [told] = json.loads(run("topology", "explain", "-f", "w.yaml", "-o", "json").stdout)

    placed = _asks("coreweave", "rack")
    assert told["templates"] == [
        {
            "path": "spec.template",
            "annotations": [
                {"key": key, "value": value, "path": "metadata.annotations"} for key, value in placed.items()
            ],
            "topology": "coreweave",
            "levels": _COREWEAVE.split(", "),
            "required": {"level": "rack", "placement": "rack"},
            "copied": placed,
            "way": "gate",
            "meaning": f"{_GATE} until all of them fit into one rack",
            "reason": "",
            "never": "",
        }
    ]
