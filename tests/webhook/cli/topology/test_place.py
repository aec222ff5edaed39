"""`cks-admission topology place`: who keeps gangs together, where, and what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from support.patience import PATIENCE
from support.service.commands import run
from support.service.nodefiles import BACKEND, RACK, Json, node, place, pod, write

_KAI = "kai.scheduler/topology"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _asks(required: str = "", preferred: str = "") -> dict[str, str]:
    found = {"required": required, "preferred": preferred}
    return {_KAI: "coreweave"} | {f"{_KAI}-{how}-placement": level for how, level in found.items() if level}


def _job(pods: int, annotations: dict[str, str], name: str = "train", **spec: Any) -> Json:
    """A Job of Pods that take a Node each."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    pod_spec = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec}, **spec},
    }


def _racks() -> list[Json]:
    """Two racks of eight Nodes; two Nodes of the first and four of the second are occupied."""
    nodes = [node(f"{rack}{number}", place("1", rack)) for rack in "ab" for number in range(8)]
    return [*nodes, *(pod(f"on-{name}", name) for name in ("a0", "a1", "b0", "b1", "b2", "b3"))]


def _superpods() -> list[Json]:
    """Four superpods of eight racks of eight Nodes, in two fabrics with the same numbers of superpods."""
    return [
        node(f"{fabric}-{superpod}-{rack}-{number}", {**place(superpod, rack), f"{BACKEND}fabric": fabric})
        for fabric in ("f1", "f2")
        for superpod in ("1", "2")
        for rack in "12345678"
        for number in range(8)
    ]


def _placed(jobs: list[Json], objects: list[Json], code: int = 0) -> list[dict[str, Any]]:
    """What is told of these Jobs on a cluster of these objects."""
    Path("jobs.yaml").write_text(yaml.safe_dump_all(jobs), encoding="utf-8")
    result = run("topology", "place", "-f", "jobs.yaml", "--nodes", write(Path("nodes.json"), *objects), "-o", "json")
    assert (result.stderr, result.exit_code) == ("", code)
    told: list[dict[str, Any]] = json.loads(result.stdout)
    return told


def _brief(told: dict[str, Any]) -> tuple[str, str, str, dict[str, str], int | None]:
    return told["name"], told["placement"], told["level"], told["domain"], told.get("missing")


def _domain(rack: str, superpod: str = "1", fabric: str = "f1") -> dict[str, str]:
    return {f"{BACKEND}fabric": fabric, f"{BACKEND}superpod": superpod, RACK: rack}


@pytest.mark.parametrize(
    ("pods", "domain", "outcome", "missing"),
    [
        pytest.param(4, _domain("b"), "fits", None, id="the-tightest"),
        pytest.param(6, _domain("a"), "fits", None, id="the-one-with-room"),
        pytest.param(7, _domain("a"), "full", 8, id="full"),
        pytest.param(9, {}, "never", 8, id="never"),
    ],
)
def test_a_gang_gets_the_rack_that_holds_it(
    pods: int, domain: dict[str, str], outcome: str, missing: int | None
) -> None:
    """The domain is one rack for all Pods; where there is none with room, what is missing is told, in exit code 1."""
    (told,) = _placed([_job(pods, _asks("rack"))], _racks(), 0 if missing is None else 1)

    assert (*_brief(told), told["outcome"]) == ("train", "domain", "rack", domain, missing, outcome)


def test_the_table_has_all_that_was_considered() -> None:
    """The text shows the domain, what fits in it, and what the runner-up lacks."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks(RACK))), encoding="utf-8")
    result = run("topology", "place", "-f", "job.yaml", "--nodes", write(Path("nodes.json"), *_racks()))

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.splitlines()[:9] == [
        "job.yaml:1: Job default/train: admitted",
        "  spec.template: 6 Pods with 48 GPUs",
        "    required: one rack, topology coreweave",
        "    placement: domain (the service chooses the domain, and writes it as node affinity)",
        "    domain: fabric f1, superpod 1, rack a",
        "    it fits now",
        "      RACK                           NODES  GPUS  FREE  PODS  MISSING",
        "    * fabric f1, superpod 1, rack a      8    64    48     6",
        "      fabric f1, superpod 1, rack b      8    64    32     4  16 nvidia.com/gpu",
    ]


def test_what_one_gang_takes_the_next_does_not_get() -> None:
    """Objects are placed in their order: the second one gets what the first one leaves."""
    jobs = [_job(4, _asks("rack"), name) for name in ("one", "two", "three")]

    told = _placed(jobs, _racks(), 1)

    assert [_brief(gang)[3:] for gang in told] == [(_domain("b"), None), (_domain("a"), None), (_domain("a"), 16)]
    assert [candidate["promised"] for candidate in told[2]["considered"]] == [32, 32]


def test_what_is_on_record_is_promised() -> None:
    """A workload in the file that has no Pods yet keeps its room, in the domain that its record and its terms name."""
    nodes = write(Path("nodes.json"), *_racks())
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks("rack"), "earlier")), encoding="utf-8")
    (checked,) = json.loads(run("check", "-f", "job.yaml", "--nodes", nodes, "-o", "json").stdout)
    written = jsonpatch.apply_patch(_job(6, _asks("rack"), "earlier"), checked["patch"])
    written["metadata"]["namespace"] = "default"

    (told,) = _placed([_job(5, _asks("rack"))], [*_racks(), written], 1)
    (again,) = _placed([_job(6, _asks("rack"), "earlier")], [*_racks(), written])
    tree = run("topology", "tree", "-f", "nodes.json", "--level", "rack").stdout.splitlines()

    assert (_brief(told)[3:], told["considered"][0]["promised"]) == ((_domain("b"), 8), 0)
    assert _brief(again)[3:] == (_domain("a"), None)
    assert [line.split() for line in tree[0:2]] == [
        ["NODES", "FREE", "PROMISED", "GPUS"],
        ["topology", "coreweave", "16", "80", "48", "128", "███░░░░░"],
    ]
    explained = run("topology", "explain", "-f", "jobs.yaml", "--nodes", "nodes.json").stdout
    assert "      rack a: 8 Nodes, 48 of 64 GPUs free, 48 promised" in explained.splitlines()


def test_check_chooses_as_place_does() -> None:
    """With Nodes, `check` writes the same domain, of one object after the other; without, it chooses none."""
    Path("jobs.yaml").write_text(yaml.safe_dump_all([_job(4, _asks("rack"), name) for name in "ab"]), encoding="utf-8")
    nodes = write(Path("nodes.json"), *_racks())

    with_nodes, without = (
        json.loads(run("check", "-f", "jobs.yaml", *more, "-o", "json").stdout) for more in (["--nodes", nodes], [])
    )

    assert [_racks_of(checked["patch"]) for checked in with_nodes] == [["b"], ["a"]]
    assert [_racks_of(checked["patch"]) for checked in without] == [[], []]


def _racks_of(patch: list[dict[str, Any]]) -> list[str]:
    """The racks that a patch requires."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = next(step["value"] for step in patch if step["path"].endswith("/affinity"))
    terms = affinity.get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", [])
    expressions = [expression for term in terms for expression in term["matchExpressions"]]
    return [value for one in expressions if one["key"] == RACK for value in one.get("values", ())]


def test_check_judges_no_further_what_is_refused() -> None:
    """A gang that is refused for lack of room gets no warning about the affinity that it would have got."""
    Path("config.yaml").write_text("topology: {full: refuse}\n", encoding="utf-8")
    Path("jobs.yaml").write_text(yaml.safe_dump(_job(8, _asks("rack"))), encoding="utf-8")
    nodes = write(Path("nodes.json"), *_racks())

    result = run("check", "-f", "jobs.yaml", "--nodes", nodes, "--config", "config.yaml", "-o", "json")

    (told,) = json.loads(result.stdout)
    assert (told["allowed"], told["warnings"], told["patch"], result.exit_code) == (False, [], [], 1)


def test_nodes_that_take_no_pods_are_no_room() -> None:
    """Nodes in triage, locked, cordoned or not ready are not free, but could be one day: the gang waits for them."""
    nodes = [
        node("triage", place("1", "a", **{"node.coreweave.cloud/state": "triage"})),
        node("cordoned", place("1", "a"), cordoned=True),
        node("sick", place("1", "a"), ready="False"),
        node("well", place("1", "a")),
    ]
    locked = node("locked", place("1", "a"))
    locked["spec"]["taints"] = [{"key": "sunk.coreweave.com/lock", "effect": "NoExecute"}]
    objects = [*nodes, locked, pod("done", "well", phase="Succeeded")]

    (told,) = _placed([_job(5, _asks("rack"))], objects, 1)
    (fitting,) = _placed([_job(1, _asks("rack"))], objects)

    assert (told["outcome"], told["missing"], fitting["outcome"]) == ("full", 32, "fits")


def test_a_domain_is_told_with_what_makes_it_unique() -> None:
    """Numbers of superpods repeat across fabrics, so the map has the fabric as well; as many as fit are considered."""
    objects = [*_superpods(), *(pod(f"p{i}", f"f1-1-{i}-0") for i in range(1, 9))]

    rack, superpod = _placed([_job(8, _asks("rack")), _job(60, _asks("superpod"), "wide")], objects)

    assert _brief(rack) == ("train", "domain", "rack", _domain("1", "2"), None)
    assert (len(rack["considered"]), rack["domains"]) == (20, 32)
    assert _brief(superpod)[1:3] == ("domain", "superpod")
    assert superpod["domain"] == {f"{BACKEND}fabric": "f2", f"{BACKEND}superpod": "1"}


def test_a_preferred_level_is_tried_and_those_above_it() -> None:
    """The level that is told is the nearest one that holds the whole gang."""
    (near,) = _placed([_job(6, _asks(preferred="rack"))], _racks())
    (wide,) = _placed([_job(8, _asks(preferred="rack"))], _racks())

    assert _brief(near) == ("train", "domain", "rack", _domain("a"), None)
    assert (wide["level"], wide["outcome"], wide.get("missing")) == ("superpod", "fits", None)


def test_templates_of_a_workload_are_told_apart() -> None:
    """Each gang has its templates; a launcher without GPUs is not placed, and it is said why."""
    worker = _job(0, {})["spec"]["template"]
    mpi = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "mpi", "annotations": _asks("rack")},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [{"name": "launcher"}]}}},
                "Worker": {"replicas": 4, "template": worker},
            }
        },
    }

    told = _placed([mpi], _racks())

    assert [(gang["name"], gang["templates"], gang["placement"], gang["domain"], gang["reason"]) for gang in told] == [
        ("mpi", ["spec.mpiReplicaSpecs.Worker.template"], "domain", _domain("b"), ""),
        (
            "mpi",
            ["spec.mpiReplicaSpecs.Launcher.template"],
            "none",
            {},
            "it requests no accelerator, as other templates of the workload do",
        ),
    ]


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    """A replica is placed when its leader is created, with the workers as their template has them."""
    worker = _job(0, {})["spec"]["template"]
    lws = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "annotations": _asks("rack")},
        "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": worker}},
    }

    told = _placed([lws], _racks(), 1)

    assert [(gang["name"], gang["replica"], gang["pods"], *_brief(gang)[1:]) for gang in told] == [
        ("llm", 0, 4, "domain", "rack", _domain("b"), None),
        ("llm", 1, 4, "domain", "rack", _domain("a"), None),
        ("llm", 2, 4, "domain", "rack", _domain("a"), 16),
    ]


def test_a_suspended_job_is_promised_nothing() -> None:
    """Its domain is chosen when it is resumed; until then others get the room."""
    jobs = [_job(4, _asks("rack"), "suspended", suspend=True), _job(4, _asks("rack"))]

    suspended, running = _placed(jobs, _racks())

    assert (_brief(suspended)[3], _brief(running)[3]) == (_domain("b"), _domain("b"))
    assert suspended["warnings"] == ['required "rack": the domain is chosen when it is resumed']


def test_what_is_not_chosen_is_told_as_well() -> None:
    """A named domain is the user's own, and a scheduler that reads the annotations itself is left alone."""
    named = _job(2, _asks("superpod=1,rack=a"), "named")
    kai = _job(2, _asks("rack"), "kai")
    kai["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    plain = _job(2, {}, "plain")

    told = _placed([named, kai, plain], _racks())

    assert [_brief(gang) for gang in told] == [
        ("named", "domain", "rack", {f"{BACKEND}superpod": "1", RACK: "a"}, None),
        ("kai", "none", "rack", {}, None),
    ]
    assert [gang["reason"] for gang in told] == [
        "the domain is named, and written as node affinity",
        "its scheduler reads the annotations itself (schedulerName kai-scheduler)",
    ]
    assert run("topology", "place", "-f", "jobs.yaml").stdout.splitlines()[-2:] == [
        "jobs.yaml:42: Job default/plain: admitted",
        "  Nothing is placed: it has no topology annotations.",
    ]


def test_without_nodes_only_the_way_is_told() -> None:
    """Pod affinity keeps the gang together, and stderr says what would choose a domain."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks("rack"))), encoding="utf-8")

    result = run("topology", "place", "-f", "job.yaml", "-o", "yaml")

    (told,) = yaml.safe_load(result.stdout)
    assert (_brief(told), result.exit_code) == (("train", "affinity", "rack", {}, None), 0)
    assert result.stderr == (
        "no domain is chosen without Nodes: give --kubeconfig, or --nodes with what "
        "kubectl get nodes,pods -A -o json prints\n"
    )


def test_without_pods_all_is_free() -> None:
    """Nodes alone say nothing about what is taken, and stderr says so."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks("rack"))), encoding="utf-8")
    nodes = [item for item in _racks() if item["kind"] == "Node"]

    result = run("topology", "place", "-f", "job.yaml", "--nodes", write(Path("nodes.json"), *nodes))

    assert (result.stderr, result.exit_code) == (
        "without Pods all of the Nodes counts as free; kubectl get nodes,pods -A -o json gives them\n",
        0,
    )


def test_refusals_are_findings() -> None:
    """An object that is refused for what it asks is a finding; if there is no gang to tell it of, it is on stderr."""
    level, topology = _job(6, _asks("rak")), _job(6, {**_asks("rack"), _KAI: "corewaeve"}, "other")
    Path("jobs.yaml").write_text(yaml.safe_dump_all([level, topology]), encoding="utf-8")

    result = run("topology", "place", "-f", "jobs.yaml", "--nodes", write(Path("nodes.json"), *_racks()), "-o", "json")

    (told,) = json.loads(result.stdout)
    assert (told["name"], told["allowed"], told["placement"], told["reason"]) == (
        "train",
        False,
        "none",
        "what is asked for cannot be used",
    )
    assert told["message"].splitlines()[0] == "The placement cannot be used."
    assert result.stderr.splitlines()[0] == "jobs.yaml:21: Job default/other: refused"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(("-f", "nowhere"), "nowhere: cannot be read: No such file or directory", id="no-file"),
        pytest.param(
            ("-f", "job.yaml", "--nodes", "job.yaml"),
            "job.yaml: no Nodes found; kubectl get nodes,pods -A -o json prints them with their Pods",
            id="no-nodes",
        ),
        pytest.param(
            ("-f", "-", "--nodes", "-"),
            "-f - and --nodes - both read standard input; give one of them as a file",
            id="one-stdin",
        ),
    ],
)
def test_what_cannot_be_read_is_told(arguments: tuple[str, ...], error: str) -> None:
    """Input that is missing or holds something else is exit code 2."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks("rack"))), encoding="utf-8")

    for verb in (("topology", "place"), ("check",)):
        result = run(*verb, *arguments)

        assert (result.stdout, result.stderr, result.exit_code) == ("", f"Error: {error}\n", 2)


def test_numpy_is_for_runs_with_nodes() -> None:
    """A run without Nodes does not wait for numpy."""
    Path("job.yaml").write_text(yaml.safe_dump(_job(6, _asks("rack"))), encoding="utf-8")
    program = (
        "import sys; from webhook.cli.main import main\n"
        "for verb in (['check'], ['topology', 'place'], ['topology', 'explain']):\n"
        "    try: main([*verb, '-f', 'job.yaml'])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "print('numpy' in sys.modules)"
    )

    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )

    assert finished.stdout.splitlines()[-1] == "False"
