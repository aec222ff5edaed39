"""The table of mistakes, as `check --nodes` judges them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.mistakes import Row, clusters, correct, mistakes
from support.service.nodefiles import write
from support.service.reviews import TODAY

from policies.engine.facts import StaticFacts
from policies.engine.request import UserInfo
from policies.engine.rule import RuleSet
from webhook.cli import options
from webhook.cli.judging import decide, with_nodes
from webhook.configuration.settings import Settings
from webhook.files import manifest


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of Nodes for each cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    for name, cluster in clusters().items():
        write(folder / f"{name}.json", *cluster)
    return folder


@cache
def _ruleset(settings: str) -> RuleSet:
    return options.ruleset(Settings.model_validate_json(settings), TODAY)[1]


def _told(row: Row, nodes: Path) -> Row:
    """A row with what is said of it. What one gang gets is free for the next: each has a cluster of its own."""
    facts = with_nodes(StaticFacts(TODAY), [str(nodes / f"{row.nodes}.json")] if row.nodes else [])
    (written,) = manifest.read(["-"], json.dumps(row.manifest).encode())
    asked = manifest.request(written.object, None, user=UserInfo("alice"), namespace="default")
    outcome = decide(written, replace(asked, dry_run=False), _ruleset(json.dumps(row.settings)), facts)
    return row._replace(says=(*outcome.warnings, *outcome.message.splitlines()), refused=not outcome.allowed)


def test_mistakes(nodes: Path) -> None:
    """Every mistake is told in the words of the table, and only those that it refuses are; of what is right nothing."""
    rows = [(row, _told(row, nodes)) for row in (*mistakes(), *correct())]

    assert [(told.name, told.says, told.refused) for row, told in rows if told != row] == []


def test_the_table() -> None:
    """There are a hundred mistakes and more, as many correct manifests, and each has a name of its own."""
    names = [row.name for row in (*mistakes(), *correct())]

    assert min(len(mistakes()), len(correct())) >= 100
    assert len(set(names)) == len(names)
