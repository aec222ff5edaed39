"""Many objects, judged by several processes: the same results in the same order, and clear ends."""

import operator
import os
import signal
from pathlib import Path

import pytest
from support.service.commands import run

from webhook.cli.check import ALONE, steps
from webhook.cli.findings import Result
from webhook.cli.judging import Judge
from webhook.cli.output import ToolError
from webhook.files.yamlfile import Part

_MANY = 5 * ALONE
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


def _config(number: int, labels: str = "") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}{labels}}}\n"


def test_results_come_in_order() -> None:
    """Nothing is lost, doubled or mixed up, lines are those of the file, and policies that matched elsewhere count."""
    documents = ["a: [\n" if n % 7 == 3 else _config(n) for n in range(_MANY)]
    text = "---\n".join([*documents, _config(_MANY, ", labels: {last: 'yes'}")])
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
