"""Gangs that belong in one NVL Domain, which no label of Nodes names, as `check --nodes` places them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mistakes import clusters
from support.service.commands import run
from support.service.nodefiles import write

_A = "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2"
_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = (f"{_TOPOLOGY}-{kind}-placement" for kind in ("required", "preferred"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are in a directory of their own, with Nodes in two domains, one of them in two halves."""
    monkeypatch.chdir(tmp_path)
    write(Path("nodes.json"), *clusters()["nvlink"])


def _checked(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {_TOPOLOGY: "nvlink", **annotations}},
        "spec": {"parallelism": 3, "completions": 3, "template": template},
    }
    (outcome,) = json.loads(
        run("check", "-f", "-", "--nodes", "nodes.json", "-o", "json", stdin=json.dumps(job)).stdout
    )
    found: dict[str, Any] = outcome
    return found


@pytest.mark.parametrize("level", ["nvl-domain", f"nvl-domain={_A}"])
@pytest.mark.parametrize("key", [_REQUIRED, _PREFERRED])
def test_a_gang_in_a_domain(key: str, level: str) -> None:
    """Three Pods, more than a half holds, carry what is asked for, and nothing is said against it."""
    outcome = _checked({key: level})

    assert (outcome["allowed"], outcome["warnings"]) == (True, [])
    assert [edit["value"] for edit in outcome["patch"]] == [{_TOPOLOGY: "nvlink", key: level}]


def test_a_domain_that_is_not_there() -> None:
    """It is told with those that there are."""
    there = "1f0c2a44-90ab-4e0e-8a51-6b1d2c3e4f50, 8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2"
    assert _checked({_REQUIRED: "nvl-domain=x"})["warnings"] == [
        f'required "nvl-domain=x": no Node is in it; name one that Nodes are in: {there}'
    ]


def test_a_scheduler_that_reads_the_annotations() -> None:
    """A domain is no label that it could look for: the clique is."""
    outcome = _checked({_REQUIRED: "nvl-domain"}, schedulerName="kai-scheduler")

    assert not outcome["allowed"]
    assert outcome["message"].endswith("\nWrite gpu.clique.")
