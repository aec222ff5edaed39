"""What the guide about topology placement shows is what the commands print."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.main import main

DOCS = Path(__file__).parents[4] / "docs" / "guides"
GUIDE = (DOCS / "topology.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _beside_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS / "topology")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["tree", "-f", "nodes.yaml", "--level", "rack"], id="tree"),
        pytest.param(["explain", "-f", "train.yaml", "--nodes", "nodes.yaml"], id="explain"),
        pytest.param(["place", "-f", "gang.yaml", "--nodes", "nodes.yaml"], id="place"),
    ],
)
def test_the_texts_are_what_is_printed(arguments: list[str]) -> None:
    """The guide shows the tree, the explanation and the choice to the letter."""
    result = CliRunner().invoke(main, ["topology", *arguments])
    assert result.exit_code == 0
    assert f"\n{result.stdout.rstrip()}\n```\n" in GUIDE


def test_the_picture_is_what_is_drawn() -> None:
    """The picture in the guide is the one that is drawn of its Nodes."""
    result = CliRunner().invoke(main, ["topology", "tree", "-f", "nodes.yaml", "-o", "svg"])
    assert result.stdout == Path("tree.svg").read_text(encoding="utf-8")
