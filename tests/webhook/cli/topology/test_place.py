"""`cks-admission topology place` and `explain`: who keeps gangs together, whether they start now, and where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.mistakes import clusters
from support.patience import PATIENCE
from support.service.commands import run
from support.service.nodefiles import BACKEND, Json, asks, job, node, place, pod, template, write

_RACK = asks(required="rack")


def _racks() -> list[Json]:
    """Two racks of eight Nodes; two Nodes of the first and four of the second are occupied."""
    nodes = [node(f"{rack}{number}", place("1", rack)) for rack in "ab" for number in range(8)]
    return [*nodes, *(pod(f"on-{name}", name) for name in ("a0", "a1", "b0", "b1", "b2", "b3"))]


def _written(*objects: Json) -> tuple[str, ...]:
    """A file with these objects, as an argument."""
    Path("job.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return "-f", "job.yaml"


def _placed(*jobs: Json, on: list[Json] | None = None, code: int = 0) -> list[dict[str, Any]]:
    """What is told of these Jobs on a cluster of these objects."""
    nodes = write(Path("nodes.json"), *(_racks() if on is None else on))
    result = run("topology", "place", *_written(*jobs), "--nodes", nodes, "-o", "json")
    assert (result.stderr, result.exit_code) == ("", code)
    told: list[dict[str, Any]] = json.loads(result.stdout)
    return told


@pytest.mark.parametrize(
    ("pods", "gpus", "expected"),
    [
        (4, 8, ("gate", True, "4 Pods with 32 GPUs in fabric=f1,superpod=1,rack=b")),  # the tightest
        (6, 8, ("gate", True, "6 Pods with 48 GPUs in fabric=f1,superpod=1,rack=a")),  # the one with room
        (7, 8, ("gate", False, "No rack has room for 7 Pods with 56 GPUs now")),
        (9, 8, ("affinity", None, "Pod affinity keeps its Pods in one rack")),  # never
        (2, "8x", ("gate", False, "its Pods cannot be read: nvidia.com/gpu is '8x'")),
    ],
)
def test_a_gang_gets_the_rack_that_holds_it(pods: int, gpus: int | str, expected: tuple[Any, ...]) -> None:
    """It starts in one rack, or waits for one, in exit code 1; what no rack can hold goes another way."""
    [told] = _placed(job(_RACK, pods, template=template(gpus)), code=1 if expected[1] is False else 0)

    way, starts, message = expected
    assert (told["way"], told["starts"], told["message"][: len(message)]) == (way, starts, message)


def test_what_one_gang_takes_the_next_does_not_get() -> None:
    """Objects are placed in their order: each gets what those before it leave, and one that waits takes nothing."""
    told = _placed(*(job(_RACK, pods, f"train-{number}") for number, pods in enumerate((7, 4, 4, 4))), code=1)

    assert [gang["starts"] for gang in told] == [False, True, True, False]


def test_ranks_that_are_neighbours_share_a_rack() -> None:
    """Of a gang that is spread over racks it is said which ranks are in which."""
    [told] = _placed(job(asks(required="superpod"), 12), on=[*_racks()[:16], pod("idle", "a0", 0)])

    assert (told["starts"], told["pods"]) == (True, 12)
    assert sorted(line["domain"].rpartition(",")[2] for line in told["ranks"]) == ["rack=a", "rack=b"]
    assert told["ranks"][0]["ranks"].startswith("0-")


def test_templates_with_different_topologies_are_different_gangs() -> None:
    """Each has its own placement, and is placed by that."""
    jobs = [
        {"name": name, "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2, "template": made}}}
        for name in ("infiniband", "roce")
        for made in [template(annotations=asks(f"coreweave-{name}", "rack"))]
    ]
    metadata, spec = {"name": "two"}, {"replicatedJobs": jobs}
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
    nodes = [
        *(node(f"i{number}", place("1", "i")) for number in range(2)),
        *(node(f"r{number}", {**place("1", "r"), f"{BACKEND}flavor": "roce"}) for number in range(2)),
    ]

    told = _placed(jobset, on=[*nodes, pod("idle", "i0", 0)])

    found = [(gang["pods"], gang["starts"], gang["message"].rpartition("=")[2]) for gang in told]
    assert found == [(2, True, "i"), (2, True, "r")]


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    """A replica starts or waits by itself."""
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}
    metadata = {"name": "serve", "annotations": _RACK}
    serve = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata}

    told = _placed({**serve, "spec": spec}, code=1)

    found = [(gang["replica"], gang["pods"], gang["starts"]) for gang in told]
    assert found == [("0", 4, True), ("1", 4, True), ("2", 4, False)]


def test_a_preference_never_waits() -> None:
    """It starts as near together as there is room, or apart."""
    told = _placed(*(job(asks(preferred="rack"), pods, f"p{pods}") for pods in (6, 4)))

    assert [gang["starts"] for gang in told] == [True, True]


def test_the_text() -> None:
    """People read who keeps the gang, whether it starts, where, and what is doubtful."""
    files = _written(job(_RACK, 6), job({}, 1, "plain"), job(asks(required="rak"), 4, "wrong"))
    result = run("topology", "place", *files, "--nodes", write(Path("nodes.json"), *_racks()))

    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "job.yaml:1: Job default/train: admitted",
        '  spec.template: required "rack"',
        "    gate: starts now: 6 Pods with 48 GPUs in fabric=f1,superpod=1,rack=a.",
    ]
    assert "  Nothing is placed: it has no topology annotations." in lines
    assert (result.stderr, lines[-1], result.exit_code) == ("", "  Did you mean rack?", 1)


def test_without_nodes_only_the_way_is_told() -> None:
    """Nothing is said about room, and nobody is told to wait for ever."""
    result = run("topology", "place", *_written(job(asks(preferred="rack"), 4)))

    assert result.stderr.startswith("nothing is placed without Nodes: give --kubeconfig")
    gate = "its Pods wait behind the gate cks-admission.dev/topology until all exist, and start close to one rack."
    lines = ['  spec.template: preferred "rack"', f"    gate: {gate}"]
    assert (result.stdout.splitlines()[1:], result.exit_code) == (lines, 0)


def test_numpy_is_for_runs_with_nodes() -> None:
    """A run without Nodes loads no numpy, which takes longer than all else."""
    code = (
        "import sys; from webhook.cli.main import main\n"
        f"try: main({['topology', 'place', *_written(job(_RACK, 4))]})\n"
        "except SystemExit: pass\n"
        "print('numpy' in sys.modules)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert result.stdout.splitlines()[-1] == "False"


_GATE = "its Pods wait behind the gate cks-admission.dev/topology"
_NOTHING = "Nothing is done:"


def _asking(annotations: dict[str, str], **spec: Any) -> Json:
    metadata: Json = {"name": "p", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template(**spec)["spec"]}


def _described(annotations: dict[str, str], **metadata: Any) -> Json:
    made = job(annotations)
    made["metadata"] |= metadata
    return made


_AFFINITY = "Pod affinity keeps its Pods in one rack; they are placed one by one"
_CRON = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "controller": True}
_MARKED = {**asks(required="rack"), "cks-admission.dev/placement-way": "affinity"}
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": asks()}}


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (_asking(asks(required="rack")), f"gate: {_GATE} until all of them fit into one rack."),
        (_asking(asks(preferred="rack")), f"gate: {_GATE} until all exist, and start close to one rack."),
        (_asking(asks(required="rack=12")), f"gate: {_GATE} until all of them fit into rack=12."),
        (_asking(_MARKED), f"affinity: {_AFFINITY} (by cks-admission.dev/placement-way)."),
        (
            _described(asks(required="rack"), labels={"kueue.x-k8s.io/queue-name": "team"}),
            "kueue: Kueue places its Pods by rack.",
        ),
        (
            _asking(asks(required="node.coreweave.cloud/rack"), schedulerName="kai-scheduler"),
            f"{_NOTHING} its scheduler reads the annotations itself (schedulerName kai-scheduler).",
        ),
        (_asking(asks()), f"{_NOTHING} a topology alone places nothing."),
        (_asking({}), f"{_NOTHING} it has no topology annotations."),
        (_MAP, f"{_NOTHING} a ConfigMap has no known pod templates."),
        (
            _described(asks(required="rack"), ownerReferences=[_CRON]),
            f"{_NOTHING} a controller owns it; explain its owner.",
        ),
        (_asking({"kubernetes.io/config.mirror": "x"}), f"{_NOTHING} it is the mirror of a kubelet's static Pod."),
    ],
    ids=[
        *("gate", "preference", "named", "marked", "kueue", "reader", "topology-alone", "none", "no-workload"),
        *("owned", "mirror"),
    ],
)
def test_who_keeps_the_pods(obj: Json, told: str) -> None:
    """One line says who keeps the Pods together, or why nobody does."""
    result = run("topology", "explain", *_written(obj))

    assert (result.stderr, result.exit_code) == ("", 0)
    assert told in [line.strip() for line in result.stdout.splitlines()]


_DOMAINS = "1f0c2a44-90ab-4e0e-8a51-6b1d2c3e4f50", "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2"


def _in_domains(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """What becomes of three Pods on Nodes in two domains, one of them in two halves, which hold two Pods each."""
    nodes = write(Path("nodes.json"), *clusters()["nvlink"])
    made = json.dumps(job(annotations, 3, template=template(**spec)))
    (outcome,) = json.loads(run("check", "-f", "-", "--nodes", nodes, "-o", "json", stdin=made).stdout)
    return dict(outcome)


@pytest.mark.parametrize("level", ["nvl-domain", f"nvl-domain={_DOMAINS[1]}"])
@pytest.mark.parametrize("how", ["required", "preferred"])
def test_a_gang_in_a_domain(how: str, level: str) -> None:
    """Three Pods, more than a half holds, carry what is asked for, and nothing is said against it."""
    asked = asks("nvlink", **{how: level})
    outcome = _in_domains(asked)

    values = [edit["value"] for edit in outcome["patch"]]
    assert (outcome["allowed"], outcome["warnings"], values) == (True, [], [asked])


def test_a_domain_that_is_not_there() -> None:
    """It is told with those that there are."""
    assert _in_domains(asks("nvlink", "nvl-domain=x"))["warnings"] == [
        f'required "nvl-domain=x": no Node is in it; name one that Nodes are in: {", ".join(_DOMAINS)}'
    ]


def test_a_scheduler_that_reads_the_annotations() -> None:
    """A domain is no label that it could look for: the clique is."""
    outcome = _in_domains(asks("nvlink", "nvl-domain"), schedulerName="kai-scheduler")

    assert not outcome["allowed"]
    assert outcome["message"].endswith("\nWrite gpu.clique.")
