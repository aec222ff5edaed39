"""What README and the guides show of the verbs that need no cluster is what they print.

A page's files are in docs/examples/PAGE. Beside them are examples/ and policies/packs as in a checkout, and the Nodes
of the guide about topology. test_eval_shown.py does the same for `eval`, test_init.py for the guide of `init`.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import shown
from support.service.commands import run

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_PAGES = [_ROOT / "README.md", *sorted(_DOCS.glob("guides/*.md")), _DOCS / "refused" / "index.md"]
_COMMAND = re.compile(
    r"(?:(?:\.venv/bin/)?cks-admission|kubectl cks) "
    r"((?:audit(?! --kubeconfig)|check|convert|lint|test|topology|why) [^|]*?)(?: > (\S+))?"
)
_LEFT_OUT = {
    "exceptions": "an exception before and after its end",
    "first-day": "tests/cluster/test_release_firstday.py runs it",
    "policies": "test_init.py runs them",
}


def _blocks(page: Path) -> Iterator[shown.Block]:
    """The blocks of a page that run: their commands, each with what stands below it."""
    for block in shown.blocks(page.read_text(encoding="utf-8")):
        if any(_COMMAND.fullmatch(line) for line, _ in block):
            yield block


def _runs(block: shown.Block, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The commands of a block and what they print now; where dots stand for lines, as far as it stands there."""
    for line, output in block:
        if line.startswith("cd "):
            monkeypatch.chdir(line.removeprefix("cd "))
        match = _COMMAND.fullmatch(line)
        if not match:
            yield line, output
            continue
        result = run(*shlex.split(match[1]))
        printed = result.output if match[2] is None else result.stderr
        if match[2] is not None:
            Path(match[2]).write_text(result.stdout, encoding="utf-8")
        yield line, output if shown.is_as_shown(printed, output) else printed


def _lay(folder: Path, page: str) -> None:
    """The files that a page names."""
    shutil.copytree(_DOCS / "guides" / "topology", folder)
    shutil.copytree(_DOCS / "guides" / "topology", folder / "docs" / "guides" / "topology")
    if (_DOCS / "examples" / page).is_dir():
        shutil.copytree(_DOCS / "examples" / page, folder, dirs_exist_ok=True)
    (folder / "policies").mkdir(exist_ok=True)
    for name in ("examples", "policies/packs"):
        (folder / name).symlink_to(_ROOT / name)
    for file in folder.glob("*.yaml"):
        file.write_text(shown.ahead(file.read_text(encoding="utf-8")), encoding="utf-8")


_RUN = [page for page in _PAGES if page.stem not in _LEFT_OUT and any(_blocks(page))]


@pytest.mark.parametrize("page", _RUN, ids=lambda page: page.stem)
def test_pages_show_what_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command, typed as it stands there, prints what stands below it."""
    folder = tmp_path / "checkout"
    _lay(folder, page.stem)
    there = list(_blocks(page))
    printed = []
    for block in there:
        monkeypatch.chdir(folder)
        printed.append(list(_runs(block, monkeypatch)))

    assert printed == there


def test_the_examples_belong_to_pages() -> None:
    """Each folder of files is that of a page whose commands are run."""
    folders = {path.name for path in (_DOCS / "examples").iterdir()}

    assert folders <= {page.stem for page in _RUN} | {"first-day"}


def test_the_first_day_prints_its_files() -> None:
    """What stands on the page of a file is that file; only what runs in the cluster before is not printed."""
    text = (_DOCS / "guides" / "first-day.md").read_text(encoding="utf-8")
    files = {path.name: path.read_text(encoding="utf-8") for path in (_DOCS / "examples" / "first-day").iterdir()}

    there = {name for name, content in files.items() if f"```yaml\n{content}```" in text}
    assert {*files} - there == {"cluster.yaml", "evaluate.yaml", "exporter.yaml"}
