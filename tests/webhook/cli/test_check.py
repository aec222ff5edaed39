"""`cks-admission check`: what would happen to objects on `kubectl apply`, in words and for machines."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from support.builders import Json
from support.service.commands import run, start

pytestmark = pytest.mark.usefixtures("no_packs")

_FILES = {
    "train.yaml": """\
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: train
          namespace: team
          labels:
            foo.coreweave.cloud/bar: "true"
        spec:
          template:
            metadata:
              labels: {app: train, x.coreweave.com/y: z}
            spec:
              containers: [{name: main, image: example.org/train}]
          selector: {matchLabels: {app: train}}
        ---
        apiVersion: v1
        kind: Pod
        metadata:
          generateName: job-
        spec:
          containers:
          - name: main
            image: example.org/train
          tolerations:
          - key: a
            operator: Exists
        """,
    "labelled.yaml": """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a, labels: {foo.coreweave.cloud/bar: "true"}}
        """,
    "relabelled.yaml": """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a, labels: {foo.coreweave.cloud/bar: "true", own: label}}
        data: {a: b}
        """,
    "changed.yaml": """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a, labels: {foo.coreweave.cloud/bar: "false"}}
        """,
    "gpu.yaml": """\
        apiVersion: v1
        kind: Pod
        metadata: {name: gpu}
        spec: {containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}
        """,
    "agent.yaml": """\
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: agent, namespace: team}
        spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec:
          {containers: [{name: main, image: x}]}}}
        """,
    "node.json": '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a.coreweave.com/b":"c"}}}',
    "list.yaml": """\
        apiVersion: v1
        kind: List
        items:
        - apiVersion: v1
          kind: ConfigMap
          metadata: {name: a}
        - apiVersion: v1
          kind: Namespace
          metadata: {name: team, labels: {ns.coreweave.cloud/org: control-plane}}
        """,
    "team.yaml": "organization: {id: a1b2c3}\nlabels: {action: warn}\ntolerations: {daemonSets: warn}\n",
}
_STAYS_OFF = (
    "spec.template.spec.tolerations: none for is_cpu_compute:NoSchedule, so this stays off CPU Nodes. "
    "Add the toleration {key: is_cpu_compute, operator: Exists, effect: NoSchedule}."
)
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_ORG = 'Only "a1b2c3" may stand at ns.coreweave.cloud/org: the id of the organization whose cluster this is.'
_REMEDY = "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar."


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files above, in the current directory."""
    monkeypatch.chdir(tmp_path)
    for name, text in _FILES.items():
        Path(name).write_text(dedent(text), encoding="utf-8")


_TRAIN = f"""\
train.yaml:1: Deployment team/train: refused
  {_SUMMARY}
    metadata.labels: foo.coreweave.cloud/bar="true" (line 7)
    spec.template.metadata.labels: x.coreweave.com/y="z" (line 11)
  {_REMEDY}
train.yaml:16: Pod default/job-…: admitted, changed by 1 patch operation
"""
_TWO = "2 objects: 1 refused, 1 changed\n"
_TRAIN_DIFF = """\
  --- as received
  +++ as admitted
  @@ -13,6 +13,9 @@
     tolerations:
     - key: a
       operator: Exists
  +  - key: is_cpu_compute
  +    operator: Exists
  +    effect: NoSchedule
     enableServiceLinks: true
     restartPolicy: Always
     terminationGracePeriodSeconds: 30
"""
_NODE = f"""\
node.json:1: Node n: refused
  {_SUMMARY}
    metadata.labels: a.coreweave.com/b="c"
  {_REMEDY}
"""
_LABELLED = f"""\
labelled.yaml:1: ConfigMap default/a: refused
  {_SUMMARY}
    metadata.labels: foo.coreweave.cloud/bar="true" (line 3)
  {_REMEDY}
"""


@pytest.mark.parametrize(
    ("arguments", "output", "code"),
    [
        pytest.param("-f train.yaml", _TRAIN + _TWO, 1, id="refused-and-changed"),
        pytest.param("-f train.yaml --diff", _TRAIN + _TRAIN_DIFF + _TWO, 1, id="diff"),
        pytest.param("-f gpu.yaml", "gpu.yaml:1: Pod default/gpu: admitted\n", 0, id="admitted"),
        pytest.param("-f gpu.yaml --diff", "gpu.yaml:1: Pod default/gpu: admitted\n", 0, id="nothing-to-diff"),
        pytest.param("-f gpu.yaml -n team", "gpu.yaml:1: Pod team/gpu: admitted\n", 0, id="namespace"),
        pytest.param("-f node.json", _NODE, 1, id="json"),
        pytest.param("-f node.json -f labelled.yaml", f"{_NODE}{_LABELLED}2 objects: 2 refused\n", 1, id="two-files"),
        pytest.param(
            "-f agent.yaml",
            "agent.yaml:1: DaemonSet team/agent: admitted, changed by 1 patch operation\n",
            0,
            id="daemonset",
        ),
        pytest.param(
            "-f agent.yaml --config team.yaml",
            f"agent.yaml:1: DaemonSet team/agent: admitted\n  Warning: {_STAYS_OFF} (line 4)\n",
            0,
            id="warned-by-configuration",
        ),
        pytest.param(
            "-f labelled.yaml --config team.yaml",
            "labelled.yaml:1: ConfigMap default/a: admitted\n"
            f'  Warning: metadata.labels: foo.coreweave.cloud/bar="true": {_SUMMARY} {_REMEDY} (line 3)\n',
            0,
            id="a-refusal-made-a-warning",
        ),
        pytest.param(
            "-f labelled.yaml --as-group system:masters",
            "labelled.yaml:1: ConfigMap default/a: admitted\n",
            0,
            id="as-group",
        ),
        pytest.param("-f node.json --as system:kube-scheduler", "node.json:1: Node n: admitted\n", 0, id="as-user"),
        pytest.param(
            "-f labelled.yaml --namespace-labels ns.coreweave.cloud/org=control-plane",
            "labelled.yaml:1: ConfigMap default/a: admitted\n",
            0,
            id="in-a-control-plane-namespace",
        ),
        pytest.param(
            "-f relabelled.yaml --old labelled.yaml",
            "relabelled.yaml:1: ConfigMap default/a: admitted\n",
            0,
            id="a-label-that-was-there",
        ),
        pytest.param(
            "-f changed.yaml --old labelled.yaml",
            _LABELLED.replace("labelled.yaml", "changed.yaml").replace('"true"', '"false"'),
            1,
            id="a-label-that-changes",
        ),
        pytest.param("-f labelled.yaml --old gpu.yaml", _LABELLED, 1, id="an-old-object-of-another-name"),
    ],
)
def test_what_people_read(arguments: str, output: str, code: int) -> None:
    """Each object has a line with its verdict, then the refusal as kubectl prints it, and the diff where wanted."""
    result = run("check", *arguments.split())

    assert (result.stdout, result.stderr, result.exit_code) == (output, "", code)


def test_lists_are_judged_item_by_item() -> None:
    """The items of a List have each their verdict, by the line where they start."""
    result = run("check", "-f", "list.yaml", "--config", "team.yaml")

    assert result.stdout.splitlines() == [
        "list.yaml:4: ConfigMap default/a: admitted",
        "list.yaml:7: Namespace team: admitted",
        f'  Warning: metadata.labels: ns.coreweave.cloud/org="control-plane": {_SUMMARY} {_OWN_ORG} (line 9)',
        "2 objects: 1 warned",
    ]


def test_directories_are_walked() -> None:
    """A directory stands for its files by name; those that are no YAML or JSON are left out."""
    for name in ("b.yaml", "sub/a.json", "sub/notes.txt", "a.yml"):
        Path("dir", name).parent.mkdir(parents=True, exist_ok=True)
        Path("dir", name).write_text(dedent(_FILES["gpu.yaml"]), encoding="utf-8")

    assert run("check", "-f", "dir").stdout.splitlines() == [
        "dir/a.yml:1: Pod default/gpu: admitted",
        "dir/b.yaml:1: Pod default/gpu: admitted",
        "dir/sub/a.json:1: Pod default/gpu: admitted",
        "3 objects: all admitted as they are",
    ]


def test_standard_input_is_read() -> None:
    """A dash reads the objects from standard input."""
    result = run("check", "-f", "-", stdin=dedent(_FILES["node.json"]))

    assert (result.stdout, result.exit_code) == (_NODE.replace("node.json", "stdin"), 1)


_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}


def _finding(line: int, column: int, path: str, label: str) -> Json:
    return {
        "level": "error",
        "code": "labels",
        "rule": "labels",
        "file": "train.yaml",
        "line": line,
        "column": column,
        "path": path,
        "message": f"{_SUMMARY.rstrip('.')}: {label}",
        "remedy": _REMEDY,
        "object": "Deployment team/train",
    }


_MACHINES: list[Json] = [
    {
        "where": "train.yaml:1",
        "kind": "Deployment",
        "namespace": "team",
        "name": "train",
        "allowed": False,
        "message": "\n".join(line.removeprefix("  ").partition(" (line")[0] for line in _TRAIN.splitlines()[1:5]),
        "warnings": [],
        "findings": [
            _finding(7, 5, "metadata.labels", 'foo.coreweave.cloud/bar="true"'),
            _finding(11, 28, "spec.template.metadata.labels", 'x.coreweave.com/y="z"'),
        ],
        "decisions": [
            {"rule": "topology", "verdict": "admit"},
            {"rule": "labels", "verdict": "deny"},
            {"rule": "topology", "verdict": "admit"},
            {"rule": "selectors", "verdict": "admit"},
        ],
        "patch": [],
    },
    {
        "where": "train.yaml:16",
        "kind": "Pod",
        "namespace": "default",
        "name": "job-…",
        "allowed": True,
        "message": "",
        "warnings": [],
        "findings": [],
        "decisions": [
            {"rule": "topology", "verdict": "admit"},
            {"rule": "tolerations", "verdict": "patch"},
            {"rule": "labels", "verdict": "admit"},
            {"rule": "topology", "verdict": "admit"},
            {"rule": "tolerations", "verdict": "admit"},
            {"rule": "selectors", "verdict": "admit"},
        ],
        "patch": [{"op": "add", "path": "/spec/tolerations/-", "value": _TOLERATION}],
    },
]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_what_machines_read(form: str) -> None:
    """JSON and YAML say the same, all of it, on stdout alone."""
    result = run("check", "-f", "train.yaml", "-o", form)

    assert (json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)) == _MACHINES
    assert (result.stderr, result.exit_code) == ("", 1)


def test_yaml_output_is_for_people_too() -> None:
    """A text of several lines is a block in YAML, and letters stay letters."""
    result = run("check", "-f", "train.yaml", "-o", "yaml")

    assert f"  message: |-\n    {_SUMMARY}\n      metadata.labels: foo" in result.stdout
    assert "job-…" in result.stdout


def test_colour_is_for_terminals_only() -> None:
    """Output that is piped has no escape sequences."""
    done = start("check", "-f", "train.yaml", "--diff")

    assert done.stdout.decode() == _TRAIN + _TRAIN_DIFF + _TWO
    assert (done.stderr, done.returncode) == (b"", 1)
