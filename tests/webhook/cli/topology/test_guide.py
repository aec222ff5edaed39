"""The picture in the guide about topology placement."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.main import main

DOCS = Path(__file__).parents[4] / "docs" / "guides"


@pytest.fixture(autouse=True)
def _beside_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS / "topology")


def test_the_picture_is_what_is_drawn() -> None:
    """The picture in the guide is the one that is drawn of its Nodes."""
    result = CliRunner().invoke(main, ["topology", "tree", "-f", "nodes.yaml", "-o", "svg"])
    assert result.stdout == Path("tree.svg").read_text(encoding="utf-8")
