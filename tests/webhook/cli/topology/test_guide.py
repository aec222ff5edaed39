"""The picture in the guide about topology placement, and what the reference shows of it."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from support.service.nodefiles import HELD, SMALL, write

from webhook.cli.main import main

DOCS = Path(__file__).parents[4] / "docs" / "guides"
REFERENCE = (DOCS.parent / "reference" / "cli.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _beside_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS / "topology")


def test_the_picture_is_what_is_drawn() -> None:
    """The picture in the guide is the one that is drawn of its Nodes."""
    result = CliRunner().invoke(main, ["topology", "tree", "-f", "nodes.yaml", "-o", "svg"])
    assert result.stdout == Path("tree.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_reference_shows_what_is_placed(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference shows a gang that is full to the letter, for people and for machines."""
    job = yaml.safe_load(Path("gang.yaml").read_text(encoding="utf-8"))
    del job["metadata"]["annotations"]["kai.scheduler/topology-preferred-placement"]
    monkeypatch.chdir(tmp_path)
    nodes = write(Path("nodes.json"), *SMALL, *HELD)
    Path("gang.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")

    result = CliRunner().invoke(main, ["topology", "place", "-f", "gang.yaml", "--nodes", nodes, "-o", form])

    assert result.exit_code == 1
    assert f"\n{result.stdout}" in REFERENCE
