"""The values of the chart as its values.yaml documents them: a comment above each, and the table made from these."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

BEGIN, END = "<!-- values: made by `make chart` -->\n", "<!-- end of values -->\n"


class Value(NamedTuple):
    """One value. path: its keys from the root on. description: its comment as one line, empty where it has none."""

    path: tuple[str, ...]
    default: Any
    description: str

    @property
    def key(self) -> str:
        """The path as people write it with `--set`."""
        return ".".join(self.path)


def values(text: str) -> list[Value]:
    """The values of a values.yaml in their order: all that is no map written as a block."""
    root = yaml.compose(text, yaml.CSafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_below(root, text.splitlines(), ()))


def _below(node: yaml.MappingNode, lines: Sequence[str], above: tuple[str, ...]) -> Iterator[Value]:
    for key, value in node.value:
        path = (*above, key.value)
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from _below(value, lines, path)
        else:
            yield Value(path, yaml.safe_load(yaml.serialize(value)), _comment(lines, key.start_mark.line))


def _comment(lines: Sequence[str], line: int) -> str:
    """The comment that ends right above a line."""
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(found)


def table(found: Sequence[Value]) -> str:
    """The values as a Markdown table."""
    rows = (f"| `{value.key}` | `{json.dumps(value.default)}` | {value.description} |" for value in found)
    return "\n".join(["| Value | Default | Meaning |", "|---|---|---|", *rows, ""])


def with_table(readme: str, found: Sequence[Value]) -> str:
    """A README with the table between its two marks. Raises ValueError where a mark is missing."""
    before, mark, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the README needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{table(found)}\n{END}{after}"
