"""`check`: which files it reads, its forms, its bar, and many objects, judged by several processes."""

import json
import operator
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.service.commands import COMMAND, run

from policies.labels import USE_OWN_PREFIX
from webhook.cli.check import ALONE, SMALL, steps
from webhook.cli.findings import Result
from webhook.cli.judging import Judge
from webhook.cli.output import ToolError
from webhook.files.yamlfile import Part

_MANY = 5 * ALONE
_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\n"
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: last}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    objectSelector: {matchLabels: {last: "yes"}}
  validations: [{expression: "false", message: nothing may be last}]
"""


def test_results_come_in_order() -> None:
    """Nothing is lost, doubled or mixed up, lines are those of the file, and policies that matched elsewhere count."""
    documents = ["a: [\n" if n % 7 == 3 else _MAP.format(f"c{n}") for n in range(_MANY)]
    text = "---\n".join([*documents, _MAP.format(f"c{_MANY}, labels: {{last: 'yes'}}")])
    Path("many.yaml").write_text(text, encoding="utf-8")
    Path("policy.yaml").write_text(_POLICY, encoding="utf-8")

    result = run("check", "many.yaml", "--policies", "policy.yaml")

    lines = result.stdout.splitlines()
    places = [line.split(": ")[:2] for line in lines if line.startswith("many.yaml:")]
    numbers = [number for number, line in enumerate(text.splitlines(), 1) if line == "apiVersion: v1"]
    names = [n for n in range(_MANY + 1) if n == _MANY or n % 7 != 3]
    assert places == [[f"many.yaml:{line}", f"ConfigMap default/c{n}"] for line, n in zip(numbers, names, strict=True)]
    assert lines[-1] == f"{len(names)} objects: 1 refused, {_MANY - len(names) + 1} not read"
    assert ("matched" in result.stderr, result.exit_code) == (False, 2)


class _Fatal(Judge):
    """A judge whose process is killed, or that has a defect, once it judges for another one."""

    def __init__(self, defect: Exception | None) -> None:
        self.coverage = None
        self._defect = defect
        self._home = os.getpid()

    def results(self, part: Part) -> list[Result]:  # type: ignore[override] # noqa: ARG002
        """No results."""
        if os.getpid() == self._home:
            return []
        if self._defect is not None:
            raise self._defect
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@pytest.mark.parametrize(
    ("defect", "error", "text"),
    [(None, ToolError, "a process that judges objects ended early"), (LookupError("x"), LookupError, "x")],
    ids=["killed", "defect"],
)
def test_a_process_that_fails_ends_the_run(defect: Exception | None, error: type[Exception], text: str) -> None:
    """What ends one of the processes is an error of the whole run, and no process is left behind."""
    parts = [Part("a.yaml", "a: 1\n")] * _MANY

    with pytest.raises(error, match=text):
        list(steps(parts, _Fatal(defect), alone=False))


class _Counting(Judge):
    """A judge that has a result for each part."""

    def __init__(self) -> None:
        self.coverage = None

    def results(self, part: Part) -> list[Result]:  # type: ignore[override]
        """One result."""
        return [Result(part.name, "", part.name, 1)]


def test_few_parts_are_held_at_once() -> None:
    """Parts are read no further ahead than the processes have work for, however many there are."""
    chunk, members = ALONE, len(os.sched_getaffinity(0))
    parts = 10 * members * chunk
    read = iter(range(parts))

    used, ahead = 0, []
    for step in steps((Part("a.yaml", "") for _ in read), _Counting(), alone=False):
        used += len(step.results)
        ahead.append(parts - operator.length_hint(read) - used)

    assert used == parts
    assert max(ahead) <= (members + 1) * chunk


def _checked(*arguments: str) -> list[str]:
    """The objects that were judged."""
    lines = run("check", *arguments).stdout.splitlines()
    return [line.partition("default/")[2].partition(":")[0] for line in lines if "default/" in line]


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["b.yaml"], ["a", "c", "d"]),
        (["*.yaml", "!a.yaml"], ["a"]),
        (["old/"], ["a", "b", "d"]),
        (["deploy/*.yaml"], ["c", "d"]),
        (["deploy/**"], []),
        (["deploy/**/d.yaml", "# c.yaml", ""], ["a", "b", "c"]),
        (["[ab].yaml"], ["a", "b", "c", "d"]),
    ],
)
def test_patterns_leave_files_out(patterns: list[str], left: list[str]) -> None:
    """--ignore and a .cksignore mean the same; both are as in a .gitignore."""
    for folder, name in (("deploy", "a"), ("deploy", "b"), ("deploy/old", "c"), ("deploy/new/er", "d")):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{name}.yaml").write_text(_MAP.format(name), encoding="utf-8")
    options = [f"--ignore={pattern}" for pattern in patterns]

    by_option = _checked("deploy", *options)
    Path(".cksignore").write_text("\n".join(patterns), encoding="utf-8")

    assert (sorted(by_option), sorted(_checked("deploy")), sorted(_checked("."))) == (left, left, left)


def _drawn(terminal: int) -> str:
    """All that is written to a terminal until the last writer has gone, which Linux tells by an error."""
    parts = []
    with open(terminal, "rb", buffering=0) as read:
        try:
            while part := read.read(4096):
                parts.append(part)
        except OSError:
            pass
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("arguments", "size", "piped", "is_shown"),
    [
        ((), SMALL, True, True),
        (("--quiet",), SMALL, False, True),
        ((), SMALL, False, False),
        ((), SMALL // 2, True, False),
    ],
)
def test_a_bar_where_it_disturbs_nothing(arguments: tuple[str, ...], size: int, *, piped: bool, is_shown: bool) -> None:
    """A long run draws a bar up to the end, on stderr, where that is a terminal on which no results appear."""
    document = f"{_MAP.format('a')}data: {{a: {'x' * (size // 4)}}}\n"
    Path("maps.yaml").write_text("---\n".join([document] * 4), encoding="utf-8")
    ours, terminal = pty.openpty()
    out = subprocess.DEVNULL if piped else terminal
    command = (str(COMMAND), "check", "maps.yaml", *arguments)

    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=terminal) as process:
        os.close(terminal)
        drawn = _drawn(ours)

    assert process.returncode == 0
    assert bool(re.search(r"checking  \[#+\]  100%", drawn)) is is_shown
    assert ("checking" in drawn) is is_shown


_MESSAGE = 'Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed: a.coreweave.com/b="50%"'
_OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: notes
  labels:
    own: label
    a.coreweave.com/b: 50%
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fine}
"""
_PAUSED = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: paused}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]
  validations:
  - expression: object.spec.paused == false
    message: resume the rollout before you change it
"""
_SUITE = """\
name: paused
policies: [policy.yaml]
objects:
  web: {file: web.yaml}
cases:
  - {name: running, object: web, oldObject: web, expect: denied, messages: [resume the rollout before you change it]}
  - {name: resumed, object: web, oldObject: web, patch: {spec: {paused: false}}, expect: allowed}
"""
_WEB = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {paused: false}}\n"
_CHECK = ("check", "--schema", "off", "a,b.yaml")


@pytest.fixture
def written(no_packs: None) -> None:
    """Objects, a policy and its suite, in the current directory."""
    del no_packs
    texts = {"a,b.yaml": _OBJECTS, "policy.yaml": _PAUSED}
    for name, text in {**texts, "suite.yaml": _SUITE, "web.yaml": _WEB}.items():
        Path(name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("written")
def test_sarif_is_one_log_with_rules_and_places() -> None:
    """The log has the version that hosts take, each rule once, and places as URIs."""
    log = json.loads(run(*_CHECK, "-o", "sarif").stdout)

    (run_,) = log["runs"]
    assert (log["version"], run_["tool"]["driver"]["name"]) == ("2.1.0", "cks-admission")
    assert run_["tool"]["driver"]["rules"] == [{"id": "labels", "shortDescription": {"text": "labels"}}]
    name = "ConfigMap default/notes"
    place = {"artifactLocation": {"uri": "a%2Cb.yaml"}, "region": {"startLine": 7, "startColumn": 5}}
    assert run_["results"] == [
        {
            "ruleId": "labels",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": f"metadata.labels: {_MESSAGE}\n{USE_OWN_PREFIX}"},
            "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": name}]}],
        }
    ]


_FORMS = {
    "text": "a,b.yaml:1",
    "json": "[\n",
    "yaml": "- where",
    "junit": "<?xml",
    "sarif": '{\n  "$schema"',
    "github": "::",
    "gitlab": "[",
}


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("form", _FORMS)
def test_three_verbs_have_all_forms(form: str) -> None:
    """`check`, `lint` and `test` print the same forms, and end with the same codes whatever the form."""
    checked, linted = run(*_CHECK, "-o", form), run("lint", "policy.yaml", "-o", form)
    tested = run("test", "suite.yaml", "-o", form)

    assert checked.stdout.startswith(_FORMS[form])
    assert ("CKS102" in linted.stdout, "resume" in tested.stdout) == (True, True)
    assert (checked.exit_code, linted.exit_code, tested.exit_code) == (1, 1, 1)
