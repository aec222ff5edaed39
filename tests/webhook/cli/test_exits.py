"""What a source may use to be compiled by a command."""

import json
import resource
import signal
from pathlib import Path

import pytest
from support.service.commands import run

from webhook.cli import output
from webhook.cli.output import USAGE, InputError, bounded
from webhook.limits import COMPILING, COSTLY, Limits


def _spin() -> None:
    """Take for ever, and absorb what is raised in a callback, as finalizers do."""
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: BLE001, S110 - as a library might
            pass


def _swell() -> None:
    bytearray(2**30)


@pytest.mark.parametrize(
    ("work", "reason"), [(_spin, "took over 1 s to compile"), (_swell, "took over 64 MiB of memory to compile")]
)
def test_a_source_that_takes_too_much(monkeypatch: pytest.MonkeyPatch, work: object, reason: str) -> None:
    """It is named with the reason, and afterwards everything is as before."""
    monkeypatch.setattr(output, "COMPILING", Limits(memory=64 * 2**20, seconds=1))
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)
    assert callable(work)
    with pytest.raises(InputError, match=f"^a.yaml: {reason}\nhint: "), bounded("a.yaml"):
        work()

    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: slow}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]}
  validations:
  - expression: object.data.text.split('').join(',') != ''
    message: write a text
"""
_OBJECT = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"text": "a" * 9999}})
_SUITE = f"{{name: slow, policies: [policy.yaml], cases: [{{name: text, object: {_OBJECT}, expect: allowed}}]}}"
_SLOW = "at policy.yaml:7"
_LATE = "took over 0 s to"
_EXPRESSION = "object.data.text.split('').join('-')"


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("check object.yaml --policies policy.yaml", f"object.yaml:1: {_LATE} judge, by policy 'slow', {_SLOW}"),
        ("test suite.yaml", f"suite.yaml:1: text: {_LATE} judge, {_SLOW}"),
        (f"eval {_EXPRESSION} -f object.yaml", f"the expression: {_LATE} evaluate, at expression:1"),
    ],
)
def test_an_evaluation_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, arguments: str, said: str) -> None:
    """It ends the command, which names the object, the policy and the expression, and says what to do."""
    for name, text in (("policy.yaml", _POLICY), ("object.yaml", _OBJECT), ("suite.yaml", _SUITE)):
        Path(name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(output, "COMPILING", Limits(memory=COMPILING.memory, seconds=0))  # any long call takes longer
    result = run(*arguments.split())

    assert (result.stderr.splitlines()[-2:], result.exit_code) == ([f"Error: {said}", f"  {COSTLY}"], USAGE)
