"""`cks-admission topology place`: who keeps gangs together, whether they start now, and where each Pod would run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.patience import PATIENCE
from support.service.commands import run
from support.service.nodefiles import BACKEND, Json, node, place, pod, write

_KAI = "kai.scheduler/topology"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _asks(required: str = "", preferred: str = "") -> dict[str, str]:
    found = {"required": required, "preferred": preferred}
    return {_KAI: "coreweave"} | {f"{_KAI}-{how}-placement": level for how, level in found.items() if level}


def _template(gpus: int | str = 8, annotations: dict[str, str] | None = None) -> Json:
    """A template of Pods that take a Node each."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def _job(pods: int, annotations: dict[str, str], name: str = "train", **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "template": _template(), **spec},
    }


def _racks() -> list[Json]:
    """Two racks of eight Nodes; two Nodes of the first and four of the second are occupied."""
    nodes = [node(f"{rack}{number}", place("1", rack)) for rack in "ab" for number in range(8)]
    return [*nodes, *(pod(f"on-{name}", name) for name in ("a0", "a1", "b0", "b1", "b2", "b3"))]


def _placed(jobs: list[Json], objects: list[Json], code: int = 0) -> list[dict[str, Any]]:
    """What is told of these Jobs on a cluster of these objects."""
    Path("jobs.yaml").write_text(yaml.safe_dump_all(jobs), encoding="utf-8")
    result = run("topology", "place", "-f", "jobs.yaml", "--nodes", write(Path("nodes.json"), *objects), "-o", "json")
    assert (result.stderr, result.exit_code) == ("", code)
    told: list[dict[str, Any]] = json.loads(result.stdout)
    return told


@pytest.mark.parametrize(
    ("pods", "way", "starts", "message"),
    [
        pytest.param(4, "gate", True, "4 Pods with 32 GPUs in fabric=f1,superpod=1,rack=b", id="the-tightest"),
        pytest.param(6, "gate", True, "6 Pods with 48 GPUs in fabric=f1,superpod=1,rack=a", id="the-one-with-room"),
        pytest.param(7, "gate", False, "No rack has room for 7 Pods with 56 GPUs now", id="full"),
        pytest.param(9, "affinity", None, "Pod affinity keeps its Pods in one rack", id="never"),
        pytest.param(2, "gate", False, "its Pods cannot be read: nvidia.com/gpu is '8x'", id="unreadable"),
    ],
)
def test_a_gang_gets_the_rack_that_holds_it(pods: int, way: str, starts: bool | None, message: str) -> None:  # noqa: FBT001
    """It starts in one rack, or waits for one, in exit code 1; what no rack can hold goes another way."""
    template = _template("8x" if "8x" in message else 8)
    [told] = _placed([_job(pods, _asks("rack"), template=template)], _racks(), 1 if starts is False else 0)

    assert (told["way"], told["starts"], told["message"].startswith(message)) == (way, starts, True)


def test_what_one_gang_takes_the_next_does_not_get() -> None:
    """Objects are placed in their order: the second one gets what the first one leaves."""
    told = _placed([_job(4, _asks("rack"), name) for name in ("one", "two", "three")], _racks(), 1)

    assert [(gang["name"], gang["starts"]) for gang in told] == [("one", True), ("two", True), ("three", False)]


def test_ranks_that_are_neighbours_share_a_rack() -> None:
    """Of a gang that is spread over racks it is said which ranks are in which."""
    [told] = _placed([_job(12, _asks("superpod"))], [*_racks()[:16], pod("idle", "a0", 0)])

    assert (told["starts"], told["pods"]) == (True, 12)
    assert sorted(line["domain"].rpartition(",")[2] for line in told["ranks"]) == ["rack=a", "rack=b"]
    assert told["ranks"][0]["ranks"].startswith("0-")


def test_templates_with_different_topologies_are_different_gangs() -> None:
    """Each has its own placement, and is placed by that."""
    jobs = [
        {"name": name, "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}}}
        for name, template in (
            ("ib", _template(annotations={**_asks("rack"), _KAI: "coreweave-infiniband"})),
            ("roce", _template(annotations={**_asks("rack"), _KAI: "coreweave-roce"})),
        )
    ]
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "two"}}
    nodes = [
        *(node(f"i{number}", place("1", "i")) for number in range(2)),
        *(node(f"r{number}", {**place("1", "r"), f"{BACKEND}flavor": "roce"}) for number in range(2)),
    ]

    nodes.append(pod("idle", "i0", 0))
    told = _placed([{**jobset, "spec": {"replicatedJobs": jobs}}], nodes)

    assert [(gang["pods"], gang["starts"], gang["message"].rpartition("=")[2]) for gang in told] == [
        (2, True, "i"),
        (2, True, "r"),
    ]


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    """A replica starts or waits by itself."""
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": _template()}}
    serve = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}

    told = _placed([{**serve, "metadata": {"name": "serve", "annotations": _asks("rack")}}], _racks(), 1)

    assert [(gang["replica"], gang["pods"], gang["starts"]) for gang in told] == [
        ("0", 4, True),
        ("1", 4, True),
        ("2", 4, False),
    ]


def test_a_preference_never_waits() -> None:
    """It starts as near together as there is room, or apart."""
    told = _placed([_job(pods, _asks(preferred="rack"), f"p{pods}") for pods in (6, 4)], _racks())

    assert [gang["starts"] for gang in told] == [True, True]


def test_the_text() -> None:
    """People read who keeps the gang, whether it starts, where, and what is doubtful."""
    Path("job.yaml").write_text(yaml.safe_dump_all([_job(6, _asks("rack")), _job(1, {}, "plain")]), encoding="utf-8")
    result = run("topology", "place", "-f", "job.yaml", "--nodes", write(Path("nodes.json"), *_racks()))

    assert (result.stderr, result.exit_code) == ("", 0)
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "job.yaml:1: Job default/train: admitted",
        '  spec.template: required "rack"',
        "    gate: starts now: 6 Pods with 48 GPUs in fabric=f1,superpod=1,rack=a.",
    ]
    assert lines[-2:] == [lines[-2], "  Nothing is placed: it has no topology annotations."]


def test_without_nodes_only_the_way_is_told() -> None:
    """Nothing is said about room, and nobody is told to wait for ever."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(4, _asks(preferred="rack"))), encoding="utf-8")

    result = run("topology", "place", "-f", "job.yaml")

    assert result.exit_code == 0
    assert result.stderr.startswith("nothing is placed without Nodes: give --kubeconfig")
    assert result.stdout.splitlines()[1:] == [
        '  spec.template: preferred "rack"',
        (
            "    gate: its Pods wait behind the gate cks-admission.dev/topology until all exist, and start close to "
            "one rack."
        ),
    ]


def test_refusals_are_findings() -> None:
    """What would be refused is told with its message, in exit code 1."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(4, _asks("rak"))), encoding="utf-8")

    result = run("topology", "place", "-f", "job.yaml", "--nodes", write(Path("nodes.json"), *_racks()))

    assert result.exit_code == 1
    assert "Did you mean rack?" in result.stdout


def test_numpy_is_for_runs_with_nodes() -> None:
    """A run without Nodes loads no numpy, which takes longer than all else."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(4, _asks("rack"))), encoding="utf-8")
    code = (
        "import sys; from webhook.cli.main import main\n"
        "try: main(['topology', 'place', '-f', 'job.yaml'])\n"
        "except SystemExit: pass\n"
        "print('numpy' in sys.modules)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert result.stdout.splitlines()[-1] == "False"
