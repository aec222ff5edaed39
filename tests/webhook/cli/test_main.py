"""The command as a whole: its verbs, their help, and how little each of them loads."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.patience import PATIENCE
from support.service.commands import COMMAND, last_line, run, start

from webhook.cli.main import VERBS

_COMMANDS = [
    ("serve",),
    ("manage",),
    ("init", "policy"),
    ("check",),
    ("why",),
    ("test",),
    ("lint",),
    ("fmt",),
    ("convert",),
    ("review",),
    ("replay",),
    ("eval",),
    ("topology", "list"),
    ("topology", "show"),
    ("topology", "explain"),
    ("topology", "tree"),
    ("certs", "show"),
    ("certs", "issue"),
    ("certs", "verify"),
    ("export", "webhook-configuration"),
    ("export", "configuration"),
    ("export", "native"),
    ("export", "schema"),
    ("unregister",),
    ("doctor",),
]


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_the_help_of_each_verb_shows_an_example(command: tuple[str, ...]) -> None:
    """--help and -h say what a verb does and show how it is used, in lines that can be copied."""
    result = run(*command, "--help")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.startswith(f"Usage: cks-admission {' '.join(command)} ")
    assert "\n  Example" in result.stdout
    assert f"\n    cks-admission {' '.join(command)}" in result.stdout
    assert run(*command, "-h").stdout == result.stdout


def test_the_help_lists_every_verb() -> None:
    """The first help has a line for each verb, and the exit codes."""
    result = run("--help")

    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [line for line in lines if line[0] in VERBS] == [[verb, text] for verb, text in VERBS.items()]
    assert "Exit codes: 0 admitted or no findings, 1 refused or findings," in result.stdout
    assert {command[0] for command in _COMMANDS} == set(VERBS)


def test_the_version_is_the_distributions() -> None:
    """--version says which version is installed."""
    assert run("--version").stdout == f"cks-admission, version {version('cks-admission')}\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nothing",), "Error: No such command 'nothing'."),
        (("--nothing",), "Error: No such option '--nothing'."),
        (("check", "--nothing"), "Error: No such option '--nothing'."),
    ],
    ids=["verb", "option", "option-of-a-verb"],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], error: str) -> None:
    """What does not exist is named, on stderr."""
    result = run(*arguments)

    assert (result.stdout, last_line(result.stderr), result.exit_code) == ("", error, 2)


_IMPORTS = """
import importlib, sys
from webhook.cli.main import module_of
for verb in sys.argv[1:]:
    importlib.import_module(module_of(verb))
    print(verb, *sorted({"click", "kubernetes"} & sys.modules.keys()))
"""


def test_no_verb_loads_the_cluster_before_it_needs_it() -> None:
    """The client of the cluster is large: a verb loads it where there is a cluster to talk to, and not before.

    All are imported by one process, one after the other: what one loads stays, so the first line that differs names it.
    """
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, *VERBS], capture_output=True, text=True, timeout=PATIENCE, check=True
    )

    assert done.stdout.splitlines() == [f"{verb} click" for verb in VERBS]


def test_the_real_command_is_installed() -> None:
    """The command that people type runs, and finds its verbs."""
    done = start("check", "--help")

    assert COMMAND.is_file()
    assert (done.stdout.splitlines()[0], done.stderr, done.returncode) == (
        b"Usage: cks-admission check [OPTIONS]",
        b"",
        0,
    )


@pytest.mark.parametrize("verb", ["serve", "unregister"])
def test_a_kubeconfig_that_is_not_there_is_named(verb: str, tmp_path: Path) -> None:
    """A cluster that cannot be reached for want of a kubeconfig is one line that names it, and no traceback."""
    ports = ("--port", "0", "--health-port", "0", "--certs-dir", str(tmp_path)) if verb == "serve" else ()
    done = start(verb, "--kubeconfig", "nowhere/kube.config", *ports)

    errors = [line for line in done.stderr.decode().splitlines() if not line.startswith("{")]
    assert done.stdout == b""
    assert done.returncode in (2, 3)
    assert [line.startswith("Error: ") and "nowhere/kube.config" in line for line in errors] == [True]
