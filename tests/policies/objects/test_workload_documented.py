"""docs/reference/workloads.md says where things are in each kind, and when its templates may change."""

import re
from collections.abc import Iterator
from pathlib import Path

from policies.objects.fieldpath import Pattern, render
from policies.objects.workload import BUILT_IN, SHIPPED

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "workloads.md"
_COLUMNS = ("kind", "group", "templates", "jobs", "claims", "node labels", "claim labels", "pod labels", "changes")


def _rows() -> Iterator[tuple[str, ...]]:
    """The rows of the page's one table, without the backticks."""
    lines = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for line in lines[:1] + lines[2:]:
        yield tuple(cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1])


def _paths(patterns: tuple[Pattern, ...]) -> str:
    return "<br>".join(render(pattern) or "the object itself" for pattern in patterns) or "-"


def test_the_page_has_the_whole_table() -> None:
    """Each built-in kind has a row, in the order of the table, with its paths and when annotations may be written."""
    assert list(_rows()) == [
        _COLUMNS,
        *(
            (
                row.kind,
                row.group or "core",
                _paths(row.templates),
                _paths(row.jobs),
                _paths(row.claims),
                _paths(row.node_labels),
                _paths(row.claim_labels),
                _paths(row.pod_labels),
                row.changes if row.templates else "-",
            )
            for row in (*BUILT_IN, *SHIPPED)
        ),
    ]
