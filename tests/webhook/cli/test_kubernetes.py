"""`--kubernetes`: the release of Kubernetes by whose rules each verb that reads policies judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.policies.policydocuments import policy
from support.service.commands import run
from support.service.reviews import review

from policies.kubernetes.release import NEWEST
from webhook.cli.output import OK, USAGE

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


@pytest.fixture(autouse=True)
def _files() -> None:
    files = {
        "policy.yaml": _POLICY,
        "suite.yaml": _SUITE,
        "map.json": json.dumps(_MAP),
        "review.json": json.dumps(review(_MAP)),
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


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


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("--kubernetes 1.29", "'1.29' is not one of '1.36', '1.37'"),
        ("--config cks.yaml", "policies.kubernetes: '1.29' is no release; there are 1.36, 1.37"),
        ("--config number.yaml", 'policies.kubernetes: write it in quotes, such as "1.36"'),
    ],
)
def test_a_release_that_is_not_known(given: str, error: str) -> None:
    """It is refused with the names that there are, on the command line and in a configuration."""
    Path("cks.yaml").write_text('policies: {kubernetes: "1.29"}\n', encoding="utf-8")
    Path("number.yaml").write_text("policies: {kubernetes: 1.36}\n", encoding="utf-8")

    done = run("check", "-f", "map.json", *given.split())

    assert (done.exit_code, error in done.stderr) == (USAGE, True)


def test_the_configuration_names_the_release() -> None:
    """`policies.kubernetes` counts for verbs that take a configuration, and the option before it."""
    Path("cks.yaml").write_text('policies: {kubernetes: "1.36"}\n', encoding="utf-8")
    command = (*_VERBS["check"], "--config", "cks.yaml")

    assert [run(*command).exit_code, run(*command, "--kubernetes", "1.37").exit_code] == [USAGE, OK]
