"""Commands as files that read like a session: what is in the folder, what is typed, and all that comes of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json
from support.service.commands import run, start

_KEYS = {"command", "files", "without", "stdin", "stdout", "stderr", "code", "writes"}


def _runs() -> list[Any]:
    """Each run with the files of its page, by the page and the command."""
    found = []
    for path in sorted((Path(__file__).parent / "commands").glob("*.yaml")):
        page = yaml.safe_load(path.read_text(encoding="utf-8"))
        for case in page["cases"]:
            for entry in case["runs"]:
                name = f"{path.stem}: {case['promise']}: {entry['command'][:60]}"
                found.append(pytest.param(page, entry, id=name))
    return found


@pytest.mark.parametrize(("page", "entry"), _runs())
def test_what_a_command_does(request: pytest.FixtureRequest, page: Json, entry: Json) -> None:
    """A command prints exactly this, writes exactly this, and ends with this code; the promise stands in the file."""
    assert entry.keys() <= _KEYS
    if not page.get("packs", True):
        request.getfixturevalue("no_packs")
    given = {name: text for name, text in page.get("files", {}).items() if name not in entry.get("without", ())}
    given |= entry.get("files", {})
    for name, text in given.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")

    result = run(*shlex.split(entry["command"]), stdin=entry.get("stdin"))

    assert (result.stdout, result.stderr, result.exit_code) == (
        entry.get("stdout", ""),
        entry.get("stderr", ""),
        entry.get("code", 0),
    )
    left = {str(path): path.read_text(encoding="utf-8") for path in Path().rglob("*") if path.is_file()}
    assert left == given | entry.get("writes", {})


_NO_TEXT = [b"apiVersion: v1\nkind: Pod\nmetadata: {name: \xff}\n", b"\xff\xfe\x00"]


@pytest.mark.parametrize("name", ["bytes.yaml", "-"])
@pytest.mark.parametrize("data", _NO_TEXT, ids=["in-a-name", "at-first"])
def test_bytes_that_are_no_text_are_an_error(data: bytes, name: str) -> None:
    """They are exit code 2 and one line that names the file, from a file and from a real pipe; the rest is judged."""
    Path("bytes.yaml").write_bytes(data)
    Path("fine.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", encoding="utf-8")

    done = start("check", name, "fine.yaml", stdin=data)

    (error,) = done.stderr.decode().splitlines()
    where = "stdin" if name == "-" else name
    assert error == f"Error: {where}: not UTF-8 text: invalid start byte at byte {data.index(255)}"
    assert (done.stdout, done.returncode) == (b"fine.yaml:1: ConfigMap default/a: admitted\n", 2)


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
@pytest.mark.parametrize(
    "metadata", [r'"name": "a\ud800"', f'"x": {"[" * 700}{"]" * 700}'], ids=["half-a-surrogate-pair", "deep"]
)
def test_odd_objects_are_no_crash(form: str, metadata: str) -> None:
    """Half a character, which no output can hold, and what is nested too deep are judged, or the file is refused."""
    Path("odd.json").write_text(f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{{metadata}}}}}', encoding="utf-8")

    done = start("check", "-f", "odd.json", "-o", form)

    assert b"Traceback" not in done.stderr
    assert done.returncode in (1, 2)


def test_a_huge_value_is_cut() -> None:
    """Of a value that is not allowed, the beginning is shown."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: {{b: {}}}}}\n".format("x" * 5000)
    Path("own.yaml").write_text(text, encoding="utf-8")

    first, flaw, *rest = run("check", "own.yaml").stdout.splitlines()

    assert first == "own.yaml:1: ConfigMap default/a: refused"
    assert flaw.startswith('  Error: own.yaml:3:30: metadata.labels.b: Invalid value: "xxx')
    assert (flaw.count("x"), rest) == (1023, [])
    assert "x…: must be no more than 63 bytes" in flaw


def test_colour_is_for_terminals_only() -> None:
    """Output that is piped has no escape sequences."""
    Path("pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n", encoding="utf-8"
    )
    done = start("check", "pod.yaml", "--diff")

    assert (b"+++ as admitted" in done.stdout, b"\033" in done.stdout, done.stderr) == (True, False, b"")


def test_the_shipped_suites_pass() -> None:
    """Every suite of the packs and examples is found, and passes."""
    shipped = [Path(__file__).parents[3] / "policies" / name for name in ("examples", "packs")]
    result = run("test", *map(str, shipped))

    lines = result.stdout.splitlines()
    found = sorted(str(path) for folder in shipped for path in folder.rglob("suite.yaml"))
    assert [line.partition(":")[0] for line in lines[:-1]] == found
    assert lines[-1].endswith(f" cases passed in {len(lines) - 1} suites")
    assert (result.stderr, result.exit_code) == ("", 0)


def test_explain_shows_the_python_that_runs() -> None:
    """--explain prints the generated function."""
    answer = json.loads(run("eval", "1 + 2", "--explain", "-o", "json").stdout)

    assert list(answer) == ["value", "type", "cost", "python"]
    assert answer["python"].startswith("def evaluate(names, limit, expired):\n cost = 0\n")
