"""`cks-admission check` with input that is odd, hostile or not there: a line that says what is wrong, never a crash."""

from pathlib import Path

import pytest
from support.service.commands import last_line, run, start

_GPU = """\
apiVersion: v1
kind: Pod
metadata: {name: gpu}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good object in the current directory, and a file that is no configuration."""
    monkeypatch.chdir(tmp_path)
    Path("gpu.yaml").write_text(_GPU, encoding="utf-8")
    Path("train.yaml").write_text(f"{_GPU}---\n{_GPU}", encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("a: [b\n", "Error: bad.yaml:2:1: not valid YAML: did not find expected ',' or ']'", id="yaml"),
        pytest.param("a: 1\na: 2\n", 'Error: bad.yaml:2:1: duplicate field "a", first on line 1', id="duplicate"),
        pytest.param("apiVersion: v1\n", "Error: bad.yaml:1: not a Kubernetes object: it has no kind", id="no-object"),
        pytest.param("# nothing\n", "Error: bad.yaml: no objects found", id="nothing"),
    ],
)
@pytest.mark.parametrize("option", ["-f", "--old"])
def test_input_that_cannot_be_used_is_named(text: str, error: str, option: str) -> None:
    """A file that is no object is exit code 2 with file and line, and nothing on stdout."""
    Path("bad.yaml").write_text(text, encoding="utf-8")
    if option == "--old" and "no objects" in error:
        return
    result = (
        run("check", "-f", "gpu.yaml", option, "bad.yaml") if option == "--old" else run("check", option, "bad.yaml")
    )

    assert (result.stdout, last_line(result.stderr), result.exit_code) == ("", error, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            "",
            "Error: name files or folders, such as `cks-admission check deploy/`, or - for standard input",
            id="no-file",
        ),
        pytest.param("-f nowhere.yaml", "Error: nowhere.yaml: cannot be read: No such file or directory", id="missing"),
        pytest.param(
            "-f gpu.yaml --old nowhere.yaml",
            "Error: Invalid value for '--old': File 'nowhere.yaml' does not exist.",
            id="old-missing",
        ),
        pytest.param(
            "-f gpu.yaml --config nowhere.yaml",
            "Error: nowhere.yaml: cannot be read: [Errno 2] No such file or directory: 'nowhere.yaml'",
            id="config-missing",
        ),
        pytest.param(
            "-f gpu.yaml --config train.yaml",
            "Error: train.yaml:6: a second document; the configuration is one",
            id="config-that-is-none",
        ),
        pytest.param(
            "-f gpu.yaml --namespace-labels tier",
            "Error: --namespace-labels tier: write KEY=VALUE",
            id="namespace-labels",
        ),
        pytest.param(
            "-f gpu.yaml -o xml",
            "Error: Invalid value for '-o' / '--output': 'xml' is not one of 'text', 'json', 'yaml', 'junit', 'sarif', "
            "'github', 'gitlab'.",
            id="output",
        ),
        pytest.param("gpu.yaml --watch -", "Error: --watch follows files; standard input is none", id="watched-input"),
    ],
)
def test_wrong_usage_is_named(arguments: str, error: str) -> None:
    """Wrong usage is exit code 2, with what is wrong in the last line of stderr."""
    result = run("check", *arguments.split())

    assert (result.stdout, last_line(result.stderr), result.exit_code) == ("", error, 2)


_NO_TEXT = [b"apiVersion: v1\nkind: Pod\nmetadata: {name: \xff}\n", b"\xff\xfe\x00"]


@pytest.mark.parametrize("data", _NO_TEXT, ids=["in-a-name", "at-first"])
def test_a_file_that_is_no_utf_8_is_named(data: bytes) -> None:
    """Bytes that are no text are exit code 2 and one line that names the file."""
    Path("bytes.yaml").write_bytes(data)

    result = run("check", "-f", "bytes.yaml")

    (error,) = result.stderr.splitlines()
    assert error.startswith("Error: bytes.yaml")
    assert (result.stdout, result.exit_code) == ("", 2)


@pytest.mark.parametrize("data", _NO_TEXT, ids=["in-a-name", "at-first"])
def test_standard_input_that_is_no_utf_8_is_named(data: bytes) -> None:
    """The same from a real pipe."""
    done = start("check", "-f", "-", stdin=data)

    (error,) = done.stderr.decode().splitlines()
    assert error.startswith("Error: stdin")
    assert (done.stdout, done.returncode) == (b"", 2)


def test_a_deep_object_is_no_crash() -> None:
    """An object nested deeper than any API type is judged, or refused as input; the tool does not break."""
    deep = "[" * 700 + "]" * 700
    Path("deep.json").write_text(
        f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{}}, "spec": {{"x": {deep}}}}}', encoding="utf-8"
    )

    done = start("check", "-f", "deep.json")

    assert b"Traceback" not in done.stderr
    assert done.returncode in (1, 2)


@pytest.mark.parametrize("label", ["1: x", "true: y", "2026-03-01: z", "day: 2026-03-01"])
def test_yaml_that_kubectl_takes_is_judged(label: str) -> None:
    """Label keys that YAML takes for numbers, booleans or dates are text to kubectl, and nothing is wrong with them."""
    Path("odd.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: {{{label}}}}}\n", encoding="utf-8"
    )

    result = run("check", "-f", "odd.yaml")

    assert (result.stdout, result.exit_code) == ("odd.yaml:1: ConfigMap default/a: admitted\n", 0)


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_half_a_surrogate_pair_is_no_crash(form: str) -> None:
    """JSON can spell half a character, which no output can hold: the tool judges the object or refuses the file."""
    Path("half.json").write_text(
        r'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\ud800"}}', encoding="utf-8"
    )

    done = start("check", "-f", "half.json", "-o", form)

    assert b"Traceback" not in done.stderr
    assert done.returncode in (1, 2)
