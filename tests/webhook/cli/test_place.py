"""`cks-admission place` where it cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.service.commands import run


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("place: {apart: false}", "Error: place.apart is false, so that serve does this work itself", 2),
        ("place: {apart: true}", "Error: place needs a cluster: set cluster.kubeconfig or cluster.inCluster", 2),
        ("place: {apart: true}\ncluster: {kubeconfig: nowhere}", "Error: there is no kubeconfig at nowhere", 3),
        ("place: {nothing: 1}", "nothing", 2),
    ],
    ids=["not-apart", "no-cluster", "no-kubeconfig", "unknown-key"],
)
def test_it_says_what_it_needs(tmp_path: Path, text: str, error: str, code: int) -> None:
    """A configuration that is not for it ends it at once, with the reason and the exit code of the fault."""
    file = tmp_path / "cks.yaml"
    file.write_text(text, encoding="utf-8")

    result = run("place", "--config", str(file))

    assert (result.exit_code, result.stdout) == (code, "")
    assert error in result.stderr
