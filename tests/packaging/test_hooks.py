"""The hooks of pre-commit and the GitHub action: they call verbs that there are, with what they are given."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import yaml
from support.service.commands import run

from webhook.cli.main import VERBS

_ROOT = Path(__file__).parents[2]
_HOOKS = yaml.safe_load((_ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
_ACTION = yaml.safe_load((_ROOT / "action.yml").read_text(encoding="utf-8"))


def test_a_hook_calls_a_verb() -> None:
    """Each hook is installed by pre-commit itself, and calls a verb of the command."""
    found = [(hook["entry"], hook["language"], hook["id"]) for hook in _HOOKS]

    verbs = [entry.removeprefix("cks-admission ") for entry, *_ in found]
    assert found == [(f"cks-admission {verb}", "python", f"cks-admission-{verb}") for verb in verbs]
    assert set(verbs) <= set(VERBS)


def test_the_hooks_pass_on_sound_policies(tmp_path: Path) -> None:
    """A shipped policy passes the hooks for policies, once it has the one format."""
    policy = tmp_path / "policy.yaml"
    policy.write_bytes((_ROOT / "policies" / "packs" / "sunk" / "lock-toleration" / "policy.yaml").read_bytes())

    assert [run(verb, str(policy)).exit_code for verb in ("fmt", "lint")] == [0, 0]


def _action(tmp_path: Path, program: str, **given: str) -> subprocess.CompletedProcess[str]:
    """A run of the action, with a pipx that is this shell script."""
    pipx = tmp_path / "pipx"
    pipx.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    pipx.chmod(0o755)
    (step,) = _ACTION["runs"]["steps"]
    inputs = {name: given.get(name, value["default"]) for name, value in _ACTION["inputs"].items()}
    variables = {name.upper(): text for name, text in inputs.items()} | {"SOURCE": "/here"}
    assert set(variables) == set(step["env"])
    environment = {**os.environ, **variables, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]], env=environment, capture_output=True, text=True, check=False
    )


def test_the_action_passes_its_inputs_on(tmp_path: Path) -> None:
    """Paths and arguments are words, none is a program; the exit code of the command is that of the step."""
    result = _action(tmp_path, 'printf "%s\\n" "$@"; exit 7', paths="deploy/ $(id)", arguments="--policies policies/")

    words = shlex.split("run --spec /here cks-admission check --policies policies/ --output github deploy/ '$(id)'")
    assert (result.returncode, result.stdout.splitlines()) == (7, words)
