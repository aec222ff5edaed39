"""The wheel: the same bytes each time, and the command works where nothing else is installed but what it asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

_ROOT = Path(__file__).parents[2]
_EPOCH = "1700000000"
_START = "import sys; sys.argv[0] = {name!r}; from webhook.cli.command import main; main()"


def _built(folder: Path) -> Path:
    """A wheel of the checkout."""
    return Path(next(WheelBuilder(str(_ROOT)).build(directory=str(folder), versions=["standard"])))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", _EPOCH)
        return _built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content and the packages that it asks for without an extra, and theirs."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needs = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", archive.read(metadata).decode(), re.MULTILINE)
    for name in set().union(*map(_packages, needs)):
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(str(package.locate_file(top)))
    return folder


def _packages(name: str) -> set[str]:
    """A package and all that it needs."""
    needs = [need for need in distribution(name).requires or () if "extra ==" not in need]
    markers = [need for need in needs if ";" not in need]
    return {name}.union(*(_packages(re.split(r"[^\w.-]", need)[0]) for need in markers))


def _run(site: Path, *arguments: str, name: str = "cks-admission", stdin: str = "") -> tuple[int, str, str]:
    """A run of the command that finds nothing but the folder and the standard library."""
    program = f"import sys; sys.path.append({str(site)!r}); {_START.format(name=name)}"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def test_the_same_sources_give_the_same_bytes(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel that is built again, elsewhere and by a user with another umask, has the same bytes."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", _EPOCH)

    again = _built(tmp_path)
    assert (again.name, again.read_bytes() == wheel.read_bytes()) == (wheel.name, True)


def test_it_has_the_pages_the_packs_and_both_names(wheel: Path) -> None:
    """What the command prints comes with it, and kubectl finds its plugin."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry,) = (name for name in names if name.endswith("entry_points.txt"))
        scripts = re.findall(r"^(.+) = (.+)$", archive.read(entry).decode(), re.MULTILINE)

    pages = {path.name for path in (_ROOT / "docs" / "refused").glob("*.md")}
    packs = {path.relative_to(_ROOT).as_posix() for path in (_ROOT / "policies" / "packs").rglob("*.yaml")}
    assert dict(scripts) == dict.fromkeys(("cks-admission", "kubectl-cks"), "webhook.cli.command:main")
    assert {Path(name).name for name in names if name.startswith("webhook/refused/pages/")} == pages
    assert packs <= set(names)


def test_the_verbs_without_a_cluster_work_with_the_base_alone(site: Path) -> None:
    """After a plain installation the verbs for manifests and policies work, and the help of all of them."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a.coreweave.cloud/b: c}}\n"
        "spec: {containers: [{name: main, image: example.org/main}]}\n"
    )
    code, out, err = _run(site, "check", "-f", "-", stdin=pod)
    policy = str(site / "policies" / "packs" / "sunk" / "lock-toleration")

    assert (code, out.splitlines()[1], err) == (1, _run(site, "why", out)[1].splitlines()[1], "")
    assert _run(site, "test", policy)[0] == _run(site, "lint", policy)[0] == 0


@pytest.mark.parametrize(("verb", "extra"), [("serve", "server"), ("playground", "playground")])
def test_what_a_verb_needs_is_named(site: Path, verb: str, extra: str) -> None:
    """A verb that needs more says which package is missing and what to install."""
    code, out, err = _run(site, verb)

    remedy = rf"It comes with the extra `{extra}`: pip install 'cks-admission\[{extra}\]'"
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"Error: the package \w+ is missing\. {remedy}\n", err)


def test_the_plugin_says_its_own_name(site: Path) -> None:
    """Called by kubectl, usage, examples and errors say what people typed."""
    _, usage, _ = _run(site, "check", "--help", name="/usr/local/bin/kubectl-cks")

    assert usage.startswith("Usage: kubectl cks check ")
    assert (usage.count("kubectl cks check ") > 2, "cks-admission check" in usage) == (True, False)
