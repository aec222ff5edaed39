"""The table of mistakes, as `check --nodes` judges them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.mistakes import Row, clusters, correct, mistakes
from support.service.nodefiles import write
from support.service.reviews import TODAY

from policies.engine.facts import StaticFacts
from policies.engine.request import UserInfo
from policies.engine.ruleset import RuleSet
from webhook.cli import options
from webhook.cli.judging import decide, with_nodes
from webhook.configuration.settings import Settings
from webhook.files import manifest

Said = tuple[str, tuple[str, ...], bool]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of Nodes for each cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    for name, cluster in clusters().items():
        write(folder / f"{name}.json", *cluster)
    return folder


@cache
def _rules(settings: str) -> tuple[Settings, RuleSet]:
    read = Settings.model_validate_json(settings)
    return read, options.ruleset(read, TODAY)[1]


def _said(row: Row, nodes: Path) -> Said:
    """What is said of a row. What one gang gets is free for the next: each has a cluster of its own."""
    _, ruleset = _rules(json.dumps(row.settings))
    files = [str(nodes / f"{row.nodes}.json")] if row.nodes else []
    facts = with_nodes(StaticFacts(TODAY), files)
    (written,) = manifest.read(["-"], json.dumps(row.manifest).encode())
    request = replace(
        manifest.request(written.object, None, user=UserInfo("alice"), namespace="default"), dry_run=False
    )
    outcome = decide(written, request, ruleset, facts)
    return row.name, (*outcome.warnings, *outcome.message.splitlines()), not outcome.allowed


def _wrong(rows: Iterable[Row], nodes: Path) -> Iterator[Said]:
    for row in rows:
        said = _said(row, nodes)
        if said != (row.name, row.says, row.refused):
            yield said


def test_mistakes(nodes: Path) -> None:
    """Every mistake is told in the words of the table, and only those that it refuses are refused."""
    assert list(_wrong(mistakes(), nodes)) == []


def test_correct_manifests(nodes: Path) -> None:
    """Of what is right nothing is said."""
    assert list(_wrong(correct(), nodes)) == []


def test_the_table() -> None:
    """There are a hundred mistakes and more, as many correct manifests, and each has a name of its own."""
    names = [row.name for row in (*mistakes(), *correct())]

    assert len(mistakes()) >= 100
    assert len(correct()) >= 100
    assert sorted(set(names)) == sorted(names)
