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
_IB_SUPERPOD = "ib.coreweave.cloud/superpod"
_COREWEAVE = "region, zone, fabric, superpod, leafgroup, rack, hostname"


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


def _explained(*objects: Json, arguments: tuple[str, ...] = (), code: int = 0) -> list[str]:
    """The lines about these objects."""
    Path("w.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    result = run("topology", "explain", "-f", "w.yaml", *arguments)
    assert (result.stderr, result.exit_code) == ("", code)
    return result.stdout.splitlines()


_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "node.coreweave.cloud/rack", "operator": "In", "values": ["9", "11"]}]}
            ]
        }
    }
}


def test_a_placement_is_explained() -> None:
    """It says what is asked for where, what is added to the affinity that is there, why, and on which Nodes it runs."""
    write(Path("nodes.json"), *SMALL)
    pod = _pod(_asks("coreweave", "superpod in (1,2)", "superpod=2,rack=11"), affinity=_AFFINITY)

    assert _explained(pod, arguments=("--nodes", "nodes.json")) == [
        "w.yaml:1: Pod default/p: admitted",
        "  the Pod itself",
        "    kai.scheduler/topology: coreweave  (metadata.annotations)",
        "    kai.scheduler/topology-required-placement: superpod in (1,2)  (metadata.annotations)",
        "    kai.scheduler/topology-preferred-placement: superpod=2,rack=11  (metadata.annotations)",
        (
            "    Topology coreweave (built in), farthest first: region, zone, fabric, "
            "superpod [required superpod in (1, 2)], leafgroup, rack [preferred superpod=2,rack=11], hostname."
        ),
        "    Added to the node affinity:",
        "      required, one of these:",
        "        - node.coreweave.cloud/rack in (9, 11) (your own) and backend.coreweave.cloud/superpod in (1, 2)",
        "        - node.coreweave.cloud/rack in (9, 11) (your own) and ib.coreweave.cloud/superpod in (1, 2)",
        "      preferred:",
        "        - weight 100: backend.coreweave.cloud/superpod=2 and node.coreweave.cloud/rack=11",
        (
            "        - weight 100: ib.coreweave.cloud/superpod=2 and node.coreweave.cloud/rack=11 "
            "and backend.coreweave.cloud/superpod is not there"
        ),
        "      why:",
        "        - there are two alternatives, since older InfiniBand Nodes carry ib.coreweave.cloud/superpod only",
        "        - each alternative is combined with 1 term of your own: a Node must meet both",
        "        - an older label counts only where the newer one is absent, so that no Node counts twice",
        "    By their labels 2 of 6 Nodes may take the Pods:",
        "      superpod 1: 1 Node, 8 GPUs, 1 cordoned",
        "      superpod 2: 1 Node, 8 GPUs",
    ]


def test_every_template_is_explained() -> None:
    """A template that needs no GPU is left as it is, and the object's annotations hold for the others."""
    template = {"spec": {"containers": [_GPU]}}
    job = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "mpi", "annotations": _asks("coreweave-roce", "rack=3")},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{"name": "launcher"}]}}},
                "Worker": {"template": template},
            }
        },
    }
    annotations = [
        "    kai.scheduler/topology: coreweave-roce  (metadata.annotations)",
        "    kai.scheduler/topology-required-placement: rack=3  (metadata.annotations)",
        (
            "    Topology coreweave-roce (built in), farthest first: region, zone, fabric, superpod, leafgroup, "
            "rack [required rack=3], hostname."
        ),
    ]

    assert _explained(job) == [
        "w.yaml:1: MPIJob default/mpi: admitted",
        "  spec.mpiReplicaSpecs.Launcher.template",
        *annotations,
        (
            "    Nothing is added to the node affinity: it requests no accelerator, "
            "as other templates of the workload do."
        ),
        "  spec.mpiReplicaSpecs.Worker.template",
        *annotations,
        "    Added to the node affinity:",
        "      required:",
        "        - node.coreweave.cloud/rack=3 and backend.coreweave.cloud/flavor=roce",
        "      why:",
        '        - the topology "coreweave-roce" is for Nodes with backend.coreweave.cloud/flavor=roce only',
    ]


def _reasons(annotations: dict[str, str], **spec: Any) -> tuple[list[str], str]:
    """Why something is added to a Pod, and why nothing is."""
    Path("p.json").write_text(json.dumps(_pod(annotations, **spec)), encoding="utf-8")
    ((template,),) = [each["templates"] for each in json.loads(run(*_JSON, "p.json").stdout)]
    return template["reasons"], template["nothing"]


_JSON = ("topology", "explain", "-o", "json", "-f")


@pytest.mark.parametrize(
    ("asked", "reasons", "nothing"),
    [
        pytest.param(_asks("kubernetes", "zone=a"), [], "", id="plain"),
        pytest.param(
            _asks("coreweave-infiniband", "rack=1"),
            [
                'the topology "coreweave-infiniband" is for Nodes with backend.coreweave.cloud/flavor=infiniband only',
                "older InfiniBand Nodes have no flavor; they are told by ib.coreweave.cloud/fabric",
            ],
            "",
            id="infiniband",
        ),
        pytest.param(
            _asks("coreweave-roce", "superpod=1"),
            [
                'the topology "coreweave-roce" is for Nodes with backend.coreweave.cloud/flavor=roce only',
                f"there is one alternative, since Nodes that carry {_IB_SUPERPOD} only are InfiniBand Nodes",
            ],
            "",
            id="roce",
        ),
        pytest.param(
            _asks("topograph-nvlink", "nvlink=a"),
            ["nvlink is nvidia.com/gpu.clique, and network.topology.nvidia.com/accelerator on Nodes without that"],
            "",
            id="nvlink",
        ),
        pytest.param(
            _asks("kubernetes", preferred="region=a,zone=b"),
            ["the weights add up to 100 on a Node in the nearest domain"],
            "",
            id="steps",
        ),
        pytest.param(_asks("kubernetes"), [], "a topology alone places nothing", id="topology-alone"),
        pytest.param(_asks("kubernetes", "rack"), [], "what is asked for cannot be used", id="refused"),
    ],
)
def test_why_something_is_added_or_not(asked: dict[str, str], reasons: list[str], nothing: str) -> None:
    """Each thing that is not plain has a reason of its own."""
    assert _reasons(asked) == (reasons, nothing)


@pytest.mark.parametrize(
    ("spec", "nothing"),
    [
        pytest.param(
            {"schedulerName": "kai-scheduler"},
            "its scheduler reads the annotations itself (schedulerName kai-scheduler)",
            id="scheduler",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": []}},
            "the node affinity that is there is malformed, which the API server refuses",
            id="malformed",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "Exists"}]}
                            ]
                        }
                    }
                }
            },
            "the node affinity that is there requires as much already, or matches no Node",
            id="already",
        ),
    ],
)
def test_why_nothing_is_added(spec: dict[str, Any], nothing: str) -> None:
    """What keeps a placement from being translated is told."""
    assert _reasons(_asks("kubernetes", "zone"), **spec) == ([], nothing)


def _owned(kind: str, **metadata: Any) -> Json:
    template = {"spec": {"containers": [_GPU]}}
    own = {"name": "o", "annotations": _asks("kubernetes", "zone"), **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": own, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
            "a ConfigMap has no pod templates that are known",
            id="no-workload",
        ),
        pytest.param(_pod({}), "it has no topology annotations", id="no-annotations"),
        pytest.param(
            _owned("ReplicaSet", ownerReferences=[{"kind": "Deployment", "name": "d", "controller": True}]),
            ("a controller owns it; explain its owner: a translated ReplicaSet would differ from what that wants"),
            id="owned",
        ),
        pytest.param(
            _owned("Deployment", deletionTimestamp="2026-11-21T00:00:00Z"), "it is being deleted", id="deleted"
        ),
        pytest.param(
            _pod({"kubernetes.io/config.mirror": "x", **_asks("kubernetes", "zone")}),
            "it is the mirror of a kubelet's static Pod",
            id="mirror",
        ),
    ],
)
def test_what_is_left_alone_is_told(obj: Json, why: str) -> None:
    """An object of which nothing is read has a line that says why."""
    assert _explained(obj)[1:] == [f"  Nothing is done: {why}."]


def test_a_refusal_is_that_of_check() -> None:
    """Refusals and warnings are word for word those of `check`, and refused is exit code 1."""
    refused = _pod(_asks("coreweave", "rack", "fabric"), "refused")
    spec = {"parallelism": 2, "template": {"spec": {"containers": [_GPU]}}}
    metadata = {"name": "warned", "annotations": _asks("coreweave", "superpod")}
    warned = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    lines = _explained(refused, warned, code=1)

    checked = run("check", "-f", "w.yaml")

    told = [
        line.partition(" (line ")[0]
        for line in checked.stdout.splitlines()
        if not line.startswith("  Warning: spec.tolerations")
    ]
    annotation = f"metadata.annotations[{_KAI}/topology-preferred-placement]"
    unchosen = (
        "no domain was chosen (there is no cluster to ask); Pod affinity keeps its Pods together, "
        "which are placed one by one and may wait for ever"
    )
    assert [line for line in lines if line in told and "default/" not in line] == [
        "  The preferred placement must be more specific than the required one.",
        f'    {annotation}: "fabric" is farther than the required "rack".',
        f'    Levels of topology "coreweave", farthest first: {_COREWEAVE}.',
        "  Prefer hostname, or require a level above fabric: region or zone.",
        f'  Warning: required "superpod": {unchosen}',
    ]
    assert (lines[0], checked.exit_code) == ("w.yaml:1: Pod default/refused: refused", 1)


def test_an_applied_object_is_explained_as_a_new_one() -> None:
    """What was translated before is on record, so that the same comes out, and it is said that it is there."""
    Path("p.json").write_text(json.dumps(_pod(_asks("kubernetes", "zone=a"))), encoding="utf-8")
    (checked,) = json.loads(run("check", "-f", "p.json", "-o", "json").stdout)
    terms = next(each["value"] for each in checked["patch"] if each["path"] == "/spec/affinity")
    annotation = next(each for each in checked["patch"] if "cks-admission.dev" in each["path"])["value"]
    applied = _pod({**_asks("kubernetes", "zone=a"), "cks-admission.dev/topology": annotation}, affinity=terms)

    assert _explained(applied)[5:] == [
        "    Added to the node affinity:",
        "      required:",
        "        - topology.kubernetes.io/zone=a",
        "      why:",
        "        - it stands there already: an earlier translation is on record",
    ]


def test_an_explanation_as_data() -> None:
    """The same is there for machines."""
    write(Path("nodes.json"), *SMALL)
    Path("p.json").write_text(json.dumps(_pod(_asks("kubernetes", "zone=east-1"))), encoding="utf-8")

    (found,) = json.loads(run(*_JSON, "p.json", "--nodes", "nodes.json").stdout)

    assert found == {
        "where": "p.json:1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "allowed": True,
        "nothing": "",
        "schemes": [],
        "templates": [
            {
                "path": "",
                "annotations": [
                    {"key": "kai.scheduler/topology", "value": "kubernetes", "path": "metadata.annotations"},
                    {
                        "key": "kai.scheduler/topology-required-placement",
                        "value": "zone=east-1",
                        "path": "metadata.annotations",
                    },
                ],
                "topology": "kubernetes",
                "levels": ["region", "zone", "hostname"],
                "required": {"level": "zone", "placement": "zone=east-1"},
                "added": {
                    "required": [[{"requirement": "topology.kubernetes.io/zone=east-1", "own": False}]],
                    "preferred": [],
                },
                "nothing": "",
                "reasons": [],
                "nodes": {
                    "allowed": 6,
                    "all": 6,
                    "domains": [
                        {
                            "path": {"region": "east", "zone": "east-1"},
                            "nodes": 6,
                            "gpus": 40,
                            "free": None,
                            "promised": 0,
                            "obstacles": {"cordoned": 1, "not ready": 1},
                        }
                    ],
                },
            }
        ],
        "message": "",
        "warnings": [],
    }


def test_a_default_is_explained_where_it_stands() -> None:
    """What no annotation says is told to come from the configuration, in the Namespaces for which it is."""
    default = {"topology": "kubernetes", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    Path("cks.yaml").write_text(yaml.safe_dump({"topology": {"default": default}}), encoding="utf-8")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 2, "template": {"spec": {"containers": [_GPU]}}},
    }

    lines = _explained(job, arguments=("--config", "cks.yaml", "--namespace-labels", "team=a"))

    assert lines[2:4] == [
        "    kai.scheduler/topology: kubernetes  (topology.default of the configuration)",
        "    kai.scheduler/topology-preferred-placement: lowest  (topology.default of the configuration)",
    ]
    elsewhere = _explained(job, arguments=("--config", "cks.yaml"))
    assert elsewhere[1:] == ["  spec.template", "    Nothing is added to the node affinity: nothing is asked for."]


def test_a_rule_that_is_off_is_told() -> None:
    """Where the configuration turns the rule off, nothing of what is explained happens."""
    Path("cks.yaml").write_text("topology: {action: off}\n", encoding="utf-8")
    Path("p.json").write_text(json.dumps(_pod(_asks("kubernetes", "zone=a"))), encoding="utf-8")

    result = run("topology", "explain", "-f", "p.json", "--config", "cks.yaml")

    assert (result.stderr, result.exit_code) == (
        "the rule topology is off: of what follows, nothing is done\n",
        0,
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(("-f", "none.yaml"), "none.yaml: cannot be read: No such file or directory", id="no-file"),
        pytest.param(("-f", "empty.yaml"), "empty.yaml: no objects found", id="empty"),
        pytest.param(("-f", "bad.yaml"), "bad.yaml:1: not a Kubernetes object: it has no apiVersion", id="no-object"),
        pytest.param(
            ("-f", "-", "--nodes", "-"),
            "-f - and --nodes - both read standard input; give one of them as a file",
            id="standard-input-twice",
        ),
        pytest.param(
            ("-f", "p.yaml", "--namespace-labels", "a"), "--namespace-labels a: write KEY=VALUE", id="no-label"
        ),
    ],
)
def test_what_cannot_be_used_is_told(arguments: tuple[str, ...], error: str) -> None:
    """Files and options that cannot be used are exit code 2."""
    Path("empty.yaml").write_text("", encoding="utf-8")
    Path("bad.yaml").write_text("kind: Pod\n", encoding="utf-8")
    Path("p.yaml").write_text(yaml.safe_dump(_pod({})), encoding="utf-8")

    result = run("topology", "explain", *arguments)

    assert (result.stdout, result.stderr, result.exit_code) == ("", f"Error: {error}\n", 2)


def test_a_chosen_domain_is_explained() -> None:
    """With Nodes the domain that is chosen is what is added, and it is said for whom."""
    annotations = _asks("coreweave", "superpod")
    write(Path("nodes.json"), *SMALL, *HELD)

    assert _explained(_pod(annotations), arguments=("--nodes", "nodes.json"))[5:12] == [
        "    Added to the node affinity:",
        "      required:",
        "        - backend.coreweave.cloud/fabric=f1 and backend.coreweave.cloud/superpod=1",
        "      why:",
        "        - this domain was chosen for all Pods of the gang; topology place says what else was considered",
        "    By their labels 3 of 6 Nodes may take the Pods:",
        "      superpod 1: 3 Nodes, 8 of 24 GPUs free, 1 cordoned",
    ]
