"""Podcounts: how many Pods of each template work together at once, per kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import WORKLOADS

from policies.objects.fieldpath import locate, parse
from policies.topology.podcount import due, podcount

_CASES = yaml.safe_load((Path(__file__).parent / "podcount.yaml").read_text(encoding="utf-8"))


def _kind(case: dict[str, Any]) -> tuple[str, str]:
    kind, _, group = case["kind"].partition(".")
    return group, kind


@pytest.mark.parametrize("case", _CASES["templates"], ids=lambda case: case["kind"])
def test_templates(case: dict[str, Any]) -> None:
    """Each template of a kind has the count that its controller makes of it."""
    patterns = WORKLOADS[_kind(case)].templates
    places = [place for pattern in patterns for place, _ in locate(case["object"], pattern)]

    assert [podcount(_kind(case), case["object"], place) for place in places] == case["counts"]


@pytest.mark.parametrize("case", _CASES["configured"], ids=lambda case: case["name"])
def test_configured_kinds(case: dict[str, Any]) -> None:
    """A kind of the configuration has the count nearest to the template, or none is known."""
    (location, _), *_ = locate(case["object"], parse("spec.workers[*].template"))

    assert podcount(("example.org", "TrainingRun"), case["object"], location) == case["count"]


@pytest.mark.parametrize("case", _CASES["due"], ids=lambda case: case["name"])
def test_due(case: dict[str, Any]) -> None:
    """What is suspended or over is not due; of what comes one after the other no more than there are at once."""
    (location, _), *_ = locate(case["object"], parse(case["template"]))

    assert due(_kind(case), case["object"], location) == case["pods"]
