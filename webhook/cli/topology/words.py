"""Requirements and counts in words, and tables of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from policies.engine.match import EVERYTHING, LabelSelector
from policies.topology.term import Term, alternatives, to_json


def requirement(expression: Any) -> str:
    """One of a node selector's requirements, in the API's form: `example.org/rack=12`."""
    if not isinstance(expression, dict):
        return str(expression)
    operator = expression.get("operator")
    values = ", ".join(str(value) for value in expression.get("values") or ())
    forms = {
        "In": f" in ({values})" if ", " in values else f"={values}",
        "NotIn": f" not in ({values})" if ", " in values else f"!={values}",
        "Exists": " is there",
        "DoesNotExist": " is not there",
        "Gt": f" > {values}",
        "Lt": f" < {values}",
    }
    return f"{expression.get('key')}{forms.get(str(operator), f' {operator} {values}')}"


def term(requirements: Term) -> str:
    """All of a term's requirements."""
    return " and ".join(map(requirement, to_json(requirements)))


def selector(chosen: LabelSelector) -> str:
    """What labels must have that a selector chooses."""
    return " and ".join(requirement(each.to_json()) for each in chosen.requirements)


def node_requirement(chosen: LabelSelector) -> list[str]:
    """The alternatives of which a Node must meet one for what a topology requires; none where it requires nothing."""
    return [] if chosen == EVERYTHING else [term(each) for each in alternatives((), chosen)]


def counted(number: int, noun: str) -> str:
    """`1 Node`, `2,000 Nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of columns, those with the indexes in `right` to the right; a column without anything is left out."""
    found = [list(row) for row in rows]
    shown = [index for index in range(len(head)) if any(row[index] for row in found)]
    widths = {index: max(len(row[index]) for row in (head, *found)) for index in shown}
    to_right = frozenset(right)
    lines = []
    for row in (head, *found):
        cells = [row[i].rjust(widths[i]) if i in to_right else row[i].ljust(widths[i]) for i in shown]
        lines.append("  ".join(cells).rstrip())
    return [click.style(lines[0], bold=True), *lines[1:]]
