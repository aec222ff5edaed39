"""What several verbs have alike: `--kubernetes`, the shipped packs, and the bounds of what a source may use."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import pod
from support.packmodes import OFF
from support.policies.policydocuments import policy
from support.service.commands import run
from support.service.reviews import review

from policies.kubernetes.release import NEWEST
from webhook.cli import output
from webhook.cli.output import OK, USAGE, InputError, bounded
from webhook.limits import COMPILING, COSTLY, Limits

# A field name in backticks is a syntax error in 1.36.
_EXPRESSION = "object.metadata.?labels.`example.org/owner`.orValue('somebody') != 'nobody'"
_POLICY = policy("owned", _EXPRESSION, "Write the team into example.org/owner.").replace("[pods]", "[configmaps]")
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
_SUITE = """\
name: owned
policies: [policy.yaml]
cases:
- name: nobody says
  object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
  expect: allowed
"""
_VERBS = {
    "lint": ["lint", "policy.yaml"],
    "check": ["check", "-f", "map.json", "--policies", "policy.yaml"],
    "test": ["test", "suite.yaml"],
    "review": ["review", "review.json", "--policies", "policy.yaml"],
    "export native": ["export", "native", "policy.yaml"],
    "export webhook-configuration": [
        *("export", "webhook-configuration", "--policies", "policy.yaml"),
        *("--webhook-url", "https://127.0.0.1:9443"),
    ],
}


@pytest.fixture
def written() -> None:
    """A policy, its suite, an object and its review, in the current directory."""
    files = {
        "policy.yaml": _POLICY,
        "suite.yaml": _SUITE,
        "map.json": json.dumps(_MAP),
        "review.json": json.dumps(review(_MAP)),
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("verb", _VERBS)
def test_the_release_decides(verb: str) -> None:
    """What 1.36 cannot read is an error with its place there; the newest release, which is the default, takes it."""
    codes = {}
    for release in ("1.36", NEWEST.name, ""):
        done = run(*_VERBS[verb], *(["--kubernetes", release] if release else []))
        codes[release] = done.exit_code
        if release == "1.36":
            assert "policy.yaml:7:55: spec.validations[0].expression: unsupported syntax: '`'" in done.stderr
    assert codes == {"1.36": USAGE, NEWEST.name: OK, "": OK}


@pytest.mark.usefixtures("written")
def test_the_configuration_names_the_release() -> None:
    """`policies.kubernetes` counts for verbs that take a configuration, and the option before it."""
    Path("cks.yaml").write_text('policies: {kubernetes: "1.36"}\n', encoding="utf-8")
    command = (*_VERBS["check"], "--config", "cks.yaml")

    assert [run(*command).exit_code, run(*command, "--kubernetes", "1.37").exit_code] == [USAGE, OK]


_LABEL = {"qos.coreweave.cloud/interruptable": "yes"}
_SECRETS = policy("NAME", "true", "No.").replace("[pods]", "[secrets]")


@pytest.fixture
def packed() -> None:
    """A Pod with a wrong label, two configurations and two policies, in the current directory."""
    texts = {
        "pod.yaml": yaml.safe_dump(pod(labels=_LABEL)),
        "enforce.yaml": "packs: {interruptable-qos: enforce}",
        "off.yaml": yaml.safe_dump({"packs": OFF}),
        "other.yaml": _SECRETS.replace("NAME", "other"),
        "own.yaml": _SECRETS.replace("NAME", "interruptable-value"),
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")


def _checked(*arguments: str) -> str:
    """What the pack's policy decides: deny, warn or audit; empty if it is not asked."""
    (outcome,) = json.loads(run("check", "-f", "pod.yaml", "-o", "json", *arguments).stdout)
    verdicts: dict[str, Any] = {decision["rule"]: decision["verdict"] for decision in outcome["decisions"]}
    return str(verdicts.get("interruptable-value", ""))


@pytest.mark.usefixtures("packed")
def test_who_uses_packs() -> None:
    """Check does by default, by its configuration, and with policies only if the configuration names the pack."""
    rows = {
        (): "warn",
        ("--config", "enforce.yaml"): "deny",
        ("--config", "off.yaml"): "",
        ("--policies", "other.yaml"): "",
        ("--config", "enforce.yaml", "--policies", "other.yaml"): "deny",
    }

    assert {arguments: _checked(*arguments) for arguments in rows} == rows


@pytest.mark.usefixtures("packed")
def test_a_policy_with_the_name_of_a_shipped_one_is_said() -> None:
    """The shipped one is not used, and stderr says so, and that the other matches nothing here."""
    result = run("check", "-f", "pod.yaml", "--config", "enforce.yaml", "--policies", "own.yaml")

    assert result.stderr == (
        "packs: the shipped interruptable-value is not used: another policy has this name\n"
        "0 of 1 objects matched interruptable-value (secrets)\n"
    )
    assert result.exit_code == 0


@pytest.mark.usefixtures("packed")
def test_export_native_prints_them_as_they_are_configured() -> None:
    """Bindings have the actions of the modes; without a pack that is on there is nothing to print."""
    result = run("export", "native", "--config", "enforce.yaml")
    nothing = run("export", "native", "--config", "off.yaml")

    objects = [each for each in yaml.safe_load_all(result.stdout) if each["kind"].endswith("Binding")]
    actions = {each["metadata"]["name"]: each["spec"]["validationActions"] for each in objects}
    assert (actions["interruptable-value"], actions["lock-toleration"]) == (["Deny"], ["Warn"])
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert "off.yaml: packs: no ValidatingAdmissionPolicy" in nothing.stderr


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


_JOINING = """\
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
_JOINING_SUITE = f"{{name: slow, policies: [policy.yaml], cases: [{{name: text, object: {_OBJECT}, expect: allowed}}]}}"
_SLOW = "at policy.yaml:7"
_LATE = "took over 0 s to"
_JOIN = "object.data.text.split('').join('-')"


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("check object.yaml --policies policy.yaml", f"object.yaml:1: {_LATE} judge, by policy 'slow', {_SLOW}"),
        ("test suite.yaml", f"suite.yaml:1: text: {_LATE} judge, {_SLOW}"),
        (f"eval {_JOIN} -f object.yaml", f"the expression: {_LATE} evaluate, at expression:1"),
    ],
)
def test_an_evaluation_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, arguments: str, said: str) -> None:
    """It ends the command, which names the object, the policy and the expression, and says what to do."""
    for name, text in (("policy.yaml", _JOINING), ("object.yaml", _OBJECT), ("suite.yaml", _JOINING_SUITE)):
        Path(name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(output, "COMPILING", Limits(memory=COMPILING.memory, seconds=0))  # any long call takes longer
    result = run(*arguments.split())

    assert (result.stderr.splitlines()[-2:], result.exit_code) == ([f"Error: {said}", f"  {COSTLY}"], USAGE)
