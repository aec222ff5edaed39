"""What README and the pages of docs/ show of commands that need no cluster is what they print.

A page's files are in docs/examples/PAGE. Beside them are examples/ and policies/packs as in a checkout, the files that
the guide about CEL shows, and the Nodes of the guide about topology. `shown` says which pages are
typed on a cluster, and which commands by nobody.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml
from support import picture, shown
from support.shown import ROOT, Page
from support.terminal import Output, Terminal, cks_admission

if TYPE_CHECKING:
    from pathlib import Path

_DOCS = ROOT / "docs"
_PAGES = [page for page in shown.pages() if page.offline()]
_FILE = re.compile(r"`([a-z]+\.yaml)`:\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _lay(folder: Path, page: Page) -> None:
    """The files that a page names."""
    shutil.copytree(_DOCS / "guides" / "topology", folder)
    shutil.copytree(_DOCS / "guides" / "topology", folder / "docs" / "guides" / "topology")
    for name, content in _FILE.findall((_DOCS / "guides" / "cel.md").read_text(encoding="utf-8")):
        (folder / name).write_text(content, encoding="utf-8")
    entries = {f"k{number:03}": "v" for number in range(300)}
    (folder / "big.yaml").write_text(yaml.safe_dump({"kind": "ConfigMap", "data": entries}), encoding="utf-8")
    page.lay(folder)


def _kubectl(arguments: list[str], stdin: str) -> Output:
    """The plugin."""
    return cks_admission(arguments[1:], stdin)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_pages_show_what_is_printed(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command, typed as it stands there, prints what stands below it."""
    folder = tmp_path / "checkout"
    _lay(folder, page)
    terminal = Terminal(folder, {"cks-admission": cks_admission, "kubectl": _kubectl})
    printed = []
    for block in page.offline():
        terminal.folder = folder
        for line, output in block:
            monkeypatch.chdir(terminal.folder)
            text = terminal.enter(line)
            printed.append((line, output if shown.is_as_shown(text, output) else text))

    assert printed == [command for block in page.offline() for command in block]


def test_the_picture_is_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture on the first page shows what its command prints."""
    monkeypatch.chdir(ROOT)
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.drawn(picture.printed())


def test_every_block_is_typed() -> None:
    """A block runs here, or its page is typed on a cluster; what is left out is there, and has a reason."""
    lines = [f"{page.name}: {line}" for page in shown.pages() for block in page.blocks() for line, _ in block]
    clustered = {page.name for page in shown.pages() if page.clustered()}

    assert clustered == {*shown.ON_A_RELEASE, *shown.ON_A_SERVICE}
    assert [pattern for pattern in shown.NOT_TYPED if not any(re.match(pattern, line) for line in lines)] == []


def test_the_examples_belong_to_pages() -> None:
    """Each folder of files is that of a page with commands."""
    assert {path.name for path in (_DOCS / "examples").iterdir()} <= {page.name for page in shown.pages()}


def test_the_first_day_prints_its_files() -> None:
    """What stands on the page of a file is that file; only what runs in the cluster before is not printed."""
    text = (_DOCS / "guides" / "first-day.md").read_text(encoding="utf-8")
    files = {path.name: path.read_text(encoding="utf-8") for path in (_DOCS / "examples" / "first-day").iterdir()}

    there = {name for name, content in files.items() if f"```yaml\n{content}```" in text}
    assert {*files} - there == {"cluster.yaml", "evaluate.yaml", "exporter.yaml"}
