"""The command as a whole: its verbs, their help, and how little each of them loads."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from support.patience import PATIENCE
from support.policies.policydocuments import policy
from support.service.commands import COMMAND, last_line, run, start

from policies.kubernetes.release import RELEASES
from webhook.cli.main import VERBS, colour, loaded

_CHECKOUT = Path(__file__).parents[3]
_POD = "examples/pod.yaml"


def _commands() -> Iterator[tuple[str, ...]]:
    for verb in VERBS:
        command = loaded(verb)
        inner = command.commands if isinstance(command, click.Group) else {}
        yield from ((verb, name) for name in inner) if inner else ((verb,),)


@pytest.mark.parametrize("command", list(_commands()), ids=" ".join)
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


def test_the_version_is_the_distributions() -> None:
    """--version says which version is installed."""
    assert run("--version").stdout == f"cks-admission, version {version('cks-admission')}\n"


_NO_COMMAND, _NO_OPTION = "No such command", "No such option"
_RELEASES = [release.name for release in RELEASES]
_NO_CLUSTER = "which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod"
_PATHS = (
    "mutate, mutate/pods, mutate/policies, mutate/workloads, validate, validate/guard, validate/labels, "
    "validate/policies, validate/policies-ignore, validate/topologies"
)
_UNREADABLE = "cannot be read: No such file or directory"
_FILES = {
    _POD: "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n",
    "labels.yaml": "labls: {}\n",
    "listen.yaml": "listen: {prot: 1}\n",
    "old.yaml": 'policies: {kubernetes: "1.29"}\n',
    "number.yaml": "policies: {kubernetes: 1.36}\n",
    "new.yaml": policy("new", "true", "No."),
    "torn.gz": "apiVersion: v1\n",
}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("nothing", f"{_NO_COMMAND} 'nothing'."),
        ("chekc", f"{_NO_COMMAND} 'chekc'. Did you mean `cks-admission check`?"),
        ("lnit policies", f"{_NO_COMMAND} 'lnit'. Did you mean `cks-admission lint`?"),
        ("version", f"{_NO_COMMAND} 'version'. Did you mean `cks-admission --version`?"),
        ("help lint", f"{_NO_COMMAND} 'help'. Did you mean `cks-admission lint --help`?"),
        ("help", f"{_NO_COMMAND} 'help'. Did you mean `cks-admission --help`?"),
        (_POD, f"{_NO_COMMAND} '{_POD}'. It is a file: did you mean `cks-admission check {_POD}`?"),
        ("topology lsit", f"{_NO_COMMAND} 'lsit'. Did you mean 'list'?"),
        (f"topology explain {_POD}", f"Missing option '-f' / '--filename'. Did you mean -f {_POD}?"),
        ("topology queue", _NO_CLUSTER),
        ("topology release", _NO_CLUSTER),
        (f"eval true {_POD}", f"Got unexpected extra argument ({_POD}). Did you mean -f {_POD}?"),
        ("--nothing", f"{_NO_OPTION} '--nothing'."),
        ("check --nothing", f"{_NO_OPTION} '--nothing'."),
        ("check --polices x", f"{_NO_OPTION} '--polices'. (Did you mean one of: '--nodes', '--policies'?)"),
        (
            "check . --kubernetes 1.29",
            f"Invalid value for '--kubernetes': '1.29' is not one of {', '.join(map(repr, _RELEASES))}.",
        ),
        (
            "check . --config old.yaml",
            f"old.yaml:1: policies.kubernetes: '1.29' is no release; there are {', '.join(_RELEASES)}, found '1.29'",
        ),
        (
            "check . --config number.yaml",
            'number.yaml:1: policies.kubernetes: write it in quotes, such as "1.36", found 1.36',
        ),
        ("audit", "name files or folders, or a cluster with --kubeconfig"),
        ("audit x.yaml --kubeconfig k", "files and --kubeconfig are two audits; give one of them"),
        ("audit x.yaml -o reports", "-o reports is for the audit of a cluster"),
        ("audit x.yaml --shard 0/2", "--shard is for the audit of a cluster"),
        (
            "audit --kubeconfig k --shard 4/4",
            "Invalid value for '--shard': '4/4' is not INDEX/COUNT, such as 0/4 to 3/4",
        ),
        ("doctor --kubeconfig k --as-service-account x", "--as-service-account x: write NAMESPACE/NAME"),
        (
            "doctor --kubeconfig k -o xml",
            "Invalid value for '-o' / '--output': 'xml' is not one of 'text', 'json', 'yaml'.",
        ),
        ("doctor --kubeconfig k --config listen.yaml", "listen.yaml:1: listen.prot: unknown key; did you mean port?"),
        ("export nothing", f"{_NO_COMMAND} 'nothing'."),
        ("export webhook-configuration --ca-file nowhere.crt", "[Errno 2] No such file or directory: 'nowhere.crt'"),
        (
            "export webhook-configuration --webhook-url http://x",
            "command line: registration.url: write https://HOST[:PORT][/PATH], found 'http://x'",
        ),
        ("export webhook-configuration --config nowhere.yaml", f"nowhere.yaml: {_UNREADABLE}"),
        (
            "export webhook-configuration -o text",
            "Invalid value for '-o' / '--output': 'text' is not one of 'yaml', 'json'.",
        ),
        ("replay gone.jsonl --policies new.yaml", f"gone.jsonl: {_UNREADABLE}"),
        ("replay new.yaml", "there is nothing to compare with: give the new policies with --policies"),
        ("replay torn.gz --policies new.yaml", "torn.gz: cannot be read: Not a gzipped file (b'ap')"),
        ("review", "Missing argument 'FILE...|-'."),
        ("review nowhere.json", f"nowhere.json: {_UNREADABLE}"),
        ("review .", ".: cannot be read: Is a directory"),
        ("review --path mutate/labels -", f"--path mutate/labels: there is no such path; known are {_PATHS}"),
        ("review --config labels.yaml -", "labels.yaml:1: labls: unknown key; did you mean labels?"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: str, error: str) -> None:
    """What does not exist or contradicts itself is named, on stderr, with what was probably meant."""
    Path("examples").mkdir()
    for name, text in _FILES.items():
        Path(name).write_text(text, encoding="utf-8")

    result = run(*arguments.split())

    assert (result.stdout, last_line(result.stderr), result.exit_code) == ("", f"Error: {error}", 2)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"])
@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("check", "name files or folders, such as `cks-admission check deploy/`, or - for standard input"),
        ("check --nothing", "No such option '--nothing'."),
        ("lint nowhere", "Invalid value for 'PATH...': Path 'nowhere' does not exist."),
        ("test nowhere", "nowhere: cannot be read: No such file or directory"),
        ("eval object.", "the expression does not compile"),
    ],
)
def test_errors_are_documents_where_results_are(verb: str, error: str, form: str, read: Callable[[str], Any]) -> None:
    """With -o json or yaml an error is a document on stdout, and words on stderr as ever."""
    result = run(*verb.split(), "-o", form)

    (name, text) = read(result.stdout).popitem()
    assert (name, text.splitlines()[0], result.exit_code) == ("error", error, 2)
    assert f"Error: {error}" in result.stderr


def _ended(stdout: int, *arguments: str) -> tuple[bytes, int]:
    """What a command that writes to a descriptor says of that, and how it ends."""
    command = [str(COMMAND), *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, cwd=_CHECKOUT, timeout=PATIENCE, check=False)
    os.close(stdout)
    return done.stderr, done.returncode


@pytest.mark.parametrize(
    "arguments", [("check", "examples"), ("--help",), ("lint", "policies/packs/sunk")], ids=" ".join
)
def test_a_full_disk_is_exit_code_3(arguments: tuple[str, ...]) -> None:
    """Output that cannot be written is a failure, which is said in one line."""
    error = b"Error: standard output cannot be written: No space left on device\n"
    assert _ended(os.open("/dev/full", os.O_WRONLY), *arguments) == (error, 3)


def test_a_closed_pipe_ends_in_silence() -> None:
    """Who has read enough closes the pipe; the command ends as by the signal, and says nothing."""
    reader, writer = os.pipe()
    os.close(reader)

    assert _ended(writer, "check", "examples") == (b"", 128 + signal.SIGPIPE)


def test_a_defect_is_said_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is one line with its place, and exit code 3."""

    def broken(*_: object) -> None:
        raise LookupError("out of order")

    monkeypatch.setattr("webhook.cli.check.walk", broken)
    result = run("check", ".")

    assert (result.stdout, result.exit_code) == ("", 3)
    assert re.fullmatch(
        r"Error: this is a defect of cks-admission, please report it: LookupError: out of order \(test_main.py:\d+ < "
        r"check.py:\d+ < .*\)\n",
        result.stderr,
    )


def test_colour_is_as_the_environment_says() -> None:
    """NO_COLOR and a dumb terminal forbid colour, FORCE_COLOR asks for it, else terminals have it."""
    asks = {"FORCE_COLOR": "1"}
    environments: tuple[dict[str, str], ...] = (
        {},
        {"NO_COLOR": ""},
        {**asks, "NO_COLOR": "1"},
        {**asks, "TERM": "dumb"},
        {**asks, "TERM": "xterm"},
    )

    assert list(map(colour, environments)) == [None, None, False, False, True]


def test_shells_complete_files_after_f() -> None:
    """Completion by the shell's own files is offered for arguments and after -f, and verbs complete by name."""
    rows = {"check -f ex": "file,ex\n", "check ex": "file,ex\n", "l": "plain,lint\n"}
    told = {}
    for words in rows:
        bash = {"COMP_WORDS": f"cks-admission {words}", "COMP_CWORD": str(len(words.split()))}
        asked = {**os.environ, "_CKS_ADMISSION_COMPLETE": "bash_complete", **bash}
        done = subprocess.run([COMMAND], env=asked, capture_output=True, text=True, timeout=PATIENCE, check=True)
        told[words] = done.stdout

    assert told == rows


def test_the_examples_of_check_work_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the help of `check` shows with files of the checkout can be typed there."""
    monkeypatch.chdir(_CHECKOUT)
    lines = [line.strip() for line in run("check", "--help").stdout.partition("Examples:")[2].splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("cks-admission")]

    assert len(commands) >= 4
    assert [command for command in commands if run(*command).exit_code not in (0, 1)] == []


_IMPORTS = """
import sys
from webhook.cli.main import loaded
for verb in sys.argv[1:]:
    loaded(verb)
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
    usage = b"Usage: cks-admission check [OPTIONS] [FILE|DIR|-]..."
    assert (done.stdout.splitlines()[0], done.stderr, done.returncode) == (usage, b"", 0)


@pytest.mark.parametrize("verb", ["serve", "unregister"])
def test_a_kubeconfig_that_is_not_there_is_named(verb: str) -> None:
    """A cluster that cannot be reached for want of a kubeconfig is one line that names it, and no traceback."""
    ports = ("--port", "0", "--health-port", "0", "--certs-dir", "certs") if verb == "serve" else ()
    done = start(verb, "--kubeconfig", "nowhere/kube.config", *ports)

    errors = [line for line in done.stderr.decode().splitlines() if not line.startswith("{")]
    assert done.stdout == b""
    assert done.returncode in (2, 3)
    assert [line.startswith("Error: ") and "nowhere/kube.config" in line for line in errors] == [True]


_NO_LEAF = "manage: {apart: true}\ncluster: {kubeconfig: k}\ntls: {secret: ca}"
_ROWS = [
    ("VERB: {apart: false}", "VERB.apart is false, so that serve does this work itself", 2),
    ("VERB: {apart: true}", "VERB needs a cluster: set cluster.kubeconfig or cluster.inCluster", 2),
    ("VERB: {apart: true}\ncluster: {kubeconfig: nowhere}", "there is no kubeconfig at nowhere", 3),
    ("VERB: {nothing: 1}", "cks.yaml:1: VERB.nothing: unknown key", 2),
]


@pytest.mark.parametrize(
    ("verb", "text", "error", "code"),
    [
        ("manage", _NO_LEAF, "tls.secret and manage.secret belong together", 2),
        *((verb, *row) for verb in ("manage", "place") for row in _ROWS),
    ],
)
def test_it_says_what_it_needs(verb: str, text: str, error: str, code: int) -> None:
    """A configuration that is not for it ends it at once, with the reason and the exit code of the fault."""
    Path("cks.yaml").write_text(text.replace("VERB", verb), encoding="utf-8")

    result = run(verb, "--config", "cks.yaml")

    assert (result.exit_code, result.stdout) == (code, "")
    assert f"Error: {error.replace('VERB', verb)}" in result.stderr
