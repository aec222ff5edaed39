"""Which files `check` reads, and what it says of the others."""

from pathlib import Path

import pytest
from support.service.commands import run

pytestmark = pytest.mark.usefixtures("no_packs")
_CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\n"


def _write(*names: str, text: str = "") -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text or _CONFIG.format(Path(name).stem), encoding="utf-8")


def _checked(*arguments: str) -> list[str]:
    """The objects that were judged."""
    lines = run("check", *arguments).stdout.splitlines()
    return [line.partition("default/")[2].partition(":")[0] for line in lines if "default/" in line]


def test_a_folder_is_taken_as_it_is() -> None:
    """Hidden files and folders are left out, and what lies beside manifests is passed over with one line."""
    _write("deploy/a.yaml", "deploy/.git/b.yaml", "deploy/.c.yaml", "deploy/sub/d.json.yaml")
    _write("deploy/kustomization.yaml", "deploy/package.json", "deploy/values-prod.yaml", text="a: 1\n")
    _write("deploy/chart/Chart.yaml", "deploy/chart/values.yaml", "deploy/chart/templates/e.yaml", text="{{ a }}\n")

    result = run("check", "deploy/")

    assert result.stdout == (
        "deploy/a.yaml:1: ConfigMap default/a: admitted\n"
        "deploy/sub/d.json.yaml:1: ConfigMap default/d.json: admitted\n"
        "2 objects: all admitted as they are\n"
    )
    assert result.stderr == (
        "passed over, for no objects are in them: deploy/chart/Chart.yaml, deploy/chart/templates (try: helm template "
        "deploy/chart | cks-admission check -), deploy/chart/values.yaml, deploy/kustomization.yaml, "
        "deploy/package.json, deploy/values-prod.yaml\n"
    )
    assert result.exit_code == 0


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
    _write("deploy/a.yaml", "deploy/b.yaml", "deploy/old/c.yaml", "deploy/new/er/d.yaml")
    options = [f"--ignore={pattern}" for pattern in patterns]

    by_option = _checked("deploy", *options)
    Path(".cksignore").write_text("\n".join(patterns), encoding="utf-8")

    assert (sorted(by_option), sorted(_checked("deploy")), sorted(_checked("."))) == (left, left, left)


def test_a_folder_has_patterns_of_its_own() -> None:
    """A .cksignore is about the files below it, and a file that is named is read all the same."""
    _write("deploy/a.yaml", "deploy/sub/a.yaml")
    Path("deploy/sub/.cksignore").write_text("/a.yaml\n", encoding="utf-8")

    assert (_checked("deploy"), _checked("deploy/sub/a.yaml")) == (["a"], ["a"])


def test_a_bad_file_does_not_stop_the_others() -> None:
    """What cannot be read is an error with its place, file by file and document by document; the rest is judged."""
    _write("a.yaml", "e.yaml")
    _write("b.yaml", text=f"{_CONFIG.format('b')}---\n- [\n---\n{_CONFIG.format('c')}---\nkind: x\n")
    Path("d.yaml").write_bytes(b"\xff")

    result = run("check", ".", "nowhere.yaml")

    assert result.stdout.splitlines() == [
        "a.yaml:1: ConfigMap default/a: admitted",
        "b.yaml:1: ConfigMap default/b: admitted",
        "b.yaml:7: ConfigMap default/c: admitted",
        "e.yaml:1: ConfigMap default/e: admitted",
        "4 objects: 4 not read",
    ]
    assert result.stderr.splitlines() == [
        "Error: b.yaml:6:1: not valid YAML: did not find expected node content",
        "Error: b.yaml:11: not a Kubernetes object: it has no apiVersion",
        "Error: d.yaml: not UTF-8 text: invalid start byte at byte 0",
        "Error: nowhere.yaml: cannot be read: No such file or directory",
    ]
    assert result.exit_code == 2
