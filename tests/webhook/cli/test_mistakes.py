"""The table of mistakes, as `check --nodes` judges them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.mistakes import Row, clusters, correct, mistakes
from support.service.commands import run
from support.service.nodefiles import write


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of Nodes for each cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    for name, cluster in clusters().items():
        write(folder / f"{name}.json", *cluster)
    return folder


def _wrong(rows: Iterable[Row], nodes: Path) -> list[tuple[str, tuple[str, ...], bool]]:
    """The rows of which something else is said, with what. Rows of one cluster and configuration are one run."""
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        runs.setdefault((row.nodes, json.dumps(row.settings)), []).append(row)
    return [wrong for (cluster, settings), of_run in runs.items() for wrong in _tried(of_run, cluster, settings, nodes)]


def _tried(rows: list[Row], cluster: str, settings: str, nodes: Path) -> Iterable[tuple[str, tuple[str, ...], bool]]:
    config = nodes / "config.yaml"
    config.write_text(settings, encoding="utf-8")
    # Each is tried alone: what one gang gets is not free for the next.
    for row in rows:
        known = ("--nodes", str(nodes / f"{cluster}.json")) if cluster else ()
        answer = run("check", "-f", "-", *known, "--config", str(config), "-o", "json", stdin=json.dumps(row.manifest))
        (outcome,) = json.loads(answer.stdout)
        says = (*outcome["warnings"], *outcome["message"].splitlines())
        refused = not outcome["allowed"]
        if (says, refused) != (row.says, row.refused):
            yield row.name, says, refused


def test_mistakes(nodes: Path) -> None:
    """Every mistake is told in the words of the table, and none but those that it refuses are refused."""
    assert _wrong(mistakes(), nodes) == []


def test_correct_manifests(nodes: Path) -> None:
    """Of what is right nothing is said."""
    assert _wrong(correct(), nodes) == []


def test_rows_have_names_of_their_own() -> None:
    """Each row is found by its name."""
    names = [row.name for row in (*mistakes(), *correct())]

    assert sorted(set(names)) == sorted(names)
