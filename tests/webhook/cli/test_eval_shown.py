"""What the documentation shows of `cks-admission eval` is what it prints."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support import shown
from support.service.commands import run

_ROOT = Path(__file__).parents[3]
_GUIDE = _ROOT / "docs" / "guides" / "cel.md"
_PAGES = [_ROOT / "README.md", _GUIDE, _ROOT / "docs" / "reference" / "cel.md", _ROOT / "docs" / "reference" / "cli.md"]
_COMMAND = re.compile(r"(?:\.venv/bin/)?cks-admission eval (.*)")


def _shown(page: Path) -> Iterator[tuple[str, str]]:
    """The commands of a page, and what stands below each."""
    for block in shown.blocks(page.read_text(encoding="utf-8")):
        for line, output in block:
            if match := _COMMAND.fullmatch(line):
                yield match[1], output


_EXAMPLES = [
    pytest.param(command, output, id=f"{page.stem}-{number}")
    for page in _PAGES
    for number, (command, output) in enumerate(_shown(page), 1)
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the guide shows, big.yaml, and the examples, in the current directory."""
    text = _GUIDE.read_text(encoding="utf-8")
    for name, content in re.findall(r"`([a-z]+\.yaml)`:\n\n```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(content, encoding="utf-8")
    entries = {f"k{number:03}": "v" for number in range(300)}
    (tmp_path / "big.yaml").write_text(yaml.safe_dump({"kind": "ConfigMap", "data": entries}), encoding="utf-8")
    (tmp_path / "examples").symlink_to(_ROOT / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("command", "output"), _EXAMPLES)
def test_examples_print_what_is_shown(command: str, output: str) -> None:
    """Each example, typed as it stands there, prints what stands below it."""
    result = run("eval", *shlex.split(command))

    assert result.output.rstrip("\n") == output.rstrip("\n")


def test_there_are_examples_on_every_page() -> None:
    """None of the pages has lost its examples."""
    assert [page.name for page in _PAGES if not list(_shown(page))] == []
