"""Gangs that belong in one NVL Domain, which no label of Nodes names, as `check --nodes` places them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mistakes import clusters
from support.service.commands import run
from support.service.nodefiles import asks, job, template, write

_DOMAINS = "1f0c2a44-90ab-4e0e-8a51-6b1d2c3e4f50", "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2"


def _checked(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """What becomes of three Pods on Nodes in two domains, one of them in two halves, which hold two Pods each."""
    nodes = write(Path("nodes.json"), *clusters()["nvlink"])
    made = json.dumps(job(annotations, 3, template=template(**spec)))
    (outcome,) = json.loads(run("check", "-f", "-", "--nodes", nodes, "-o", "json", stdin=made).stdout)
    found: dict[str, Any] = outcome
    return found


@pytest.mark.parametrize("level", ["nvl-domain", f"nvl-domain={_DOMAINS[1]}"])
@pytest.mark.parametrize("how", ["required", "preferred"])
def test_a_gang_in_a_domain(how: str, level: str) -> None:
    """Three Pods, more than a half holds, carry what is asked for, and nothing is said against it."""
    asked = asks("nvlink", **{how: level})
    outcome = _checked(asked)

    values = [edit["value"] for edit in outcome["patch"]]
    assert (outcome["allowed"], outcome["warnings"], values) == (True, [], [asked])


def test_a_domain_that_is_not_there() -> None:
    """It is told with those that there are."""
    assert _checked(asks("nvlink", "nvl-domain=x"))["warnings"] == [
        f'required "nvl-domain=x": no Node is in it; name one that Nodes are in: {", ".join(_DOMAINS)}'
    ]


def test_a_scheduler_that_reads_the_annotations() -> None:
    """A domain is no label that it could look for: the clique is."""
    outcome = _checked(asks("nvlink", "nvl-domain"), schedulerName="kai-scheduler")

    assert not outcome["allowed"]
    assert outcome["message"].endswith("\nWrite gpu.clique.")
