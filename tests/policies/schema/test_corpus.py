"""Broken manifests get the verdict of a real API server, whose answers are recorded, and so do right ones."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from cluster import fieldrules
from support.brokenmanifests import ANSWERS, cases, definitions, differences, judged

from policies.kubernetes.release import FINAL, Release
from policies.schema.schemas import Schemas

RECORDED: dict[str, dict[str, Any]] = yaml.load(ANSWERS.read_text(encoding="utf-8"), yaml.CSafeLoader)


@pytest.mark.parametrize("release", FINAL, ids=lambda release: release.name)
def test_manifests_are_judged_as_by_the_api_server(release: Release) -> None:
    """Each manifest of the corpus is refused or accepted as the API server does, for the same fields."""
    answers = RECORDED[release.name]

    assert sorted(answers) == sorted(case.name for case in cases())
    assert list(differences(release, answers)) == []


def test_flaws_have_their_places() -> None:
    """The first flaw of a manifest is said at the line and the column of its field."""
    schemas = Schemas(definitions=definitions())
    told = {case.name: case.place for case in cases() if case.place}

    assert {case.name: judged(case, schemas)[0].place for case in cases() if case.place} == told


@pytest.mark.parametrize("release", FINAL, ids=lambda release: release.name)
def test_what_the_api_server_accepts_gets_no_word(release: Release) -> None:
    """Objects of all kinds, minimal and rich, and Pods of many shapes, have no flaw, as the API server accepts them."""
    schemas = Schemas(release)
    flaws = [(obj["kind"], flaw.text) for obj in fieldrules.accepted() for flaw in schemas.flaws(obj)]

    assert flaws == []
