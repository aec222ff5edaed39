"""`cks-admission manage` and `cks-admission place` where they cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.service.commands import run

_NO_LEAF = "manage: {apart: true}\ncluster: {kubeconfig: k}\ntls: {secret: ca}"
_ROWS = [
    ("VERB: {apart: false}", "VERB.apart is false, so that serve does this work itself", 2),
    ("VERB: {apart: true}", "VERB needs a cluster: set cluster.kubeconfig or cluster.inCluster", 2),
    ("VERB: {apart: true}\ncluster: {kubeconfig: nowhere}", "there is no kubeconfig at nowhere", 3),
    ("VERB: {nothing: 1}", "cks.yaml:1: VERB.nothing: unknown key", 2),
]


@pytest.mark.parametrize(
    ("verb", "text", "error", "code"),
    [
        ("manage", _NO_LEAF, "tls.secret and manage.secret belong together", 2),
        *((verb, *row) for verb in ("manage", "place") for row in _ROWS),
    ],
)
def test_it_says_what_it_needs(verb: str, text: str, error: str, code: int) -> None:
    """A configuration that is not for it ends it at once, with the reason and the exit code of the fault."""
    Path("cks.yaml").write_text(text.replace("VERB", verb), encoding="utf-8")

    result = run(verb, "--config", "cks.yaml")

    assert (result.exit_code, result.stdout) == (code, "")
    assert f"Error: {error.replace('VERB', verb)}" in result.stderr
