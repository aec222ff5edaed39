"""What the service says about itself, and the findings of lint, are documented, name by name, and nothing else is.

tests/webhook/test_metrics.py compares the metrics.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from policies.lint.finding import CODES, Meaning
from webhook.cluster.api.events import Reason
from webhook.tracing import ATTRIBUTES, NAMES, PREFIX

_ROOT = Path(__file__).parents[2]
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
# What a function is handed, and what a sink says.
_ELSEWHERE = {"review", "log lines lost"}
_TELEMETRY = (_ROOT / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")


def _section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _first_cells(text: str) -> Iterator[str]:
    """The names in backticks in the first cell of each row."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def _trees() -> Iterator[ast.Module]:
    for path in sorted((_ROOT / "webhook").rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def _patterns(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """What a text may be, as regular expressions; nothing for one that another function is handed."""
    match node:
        case ast.Constant(str(text)):
            yield re.escape(text)
        case ast.JoinedStr(values):
            yield "".join(re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in values)
        case ast.IfExp(_, body, orelse):
            yield from _patterns(body, constants)
            yield from _patterns(orelse, constants)
        case ast.Name(name) if name in constants:
            yield re.escape(constants[name])
        case _:
            pass


def _logged(tree: ast.Module) -> Iterator[str]:
    """The events that a module logs."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(attr=level), [event, *_]) if level in _LEVELS:
                yield from _patterns(event, constants)
            case ast.Call(ast.Name("Problem"), [event, *_]):
                yield from _patterns(event, constants)
            case ast.Assign([ast.Name("failure")], ast.Constant(str()) as event) if event.value:
                yield from _patterns(event, constants)
            case _:
                pass


def test_every_event_of_the_log_is_documented() -> None:
    """Each event that is logged has a row on the page, and each row is logged."""
    documented = set(_first_cells(_section(_TELEMETRY, "Log events")))
    trees = list(_trees())
    patterns = {pattern for tree in trees for pattern in _logged(tree)}
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}

    assert sorted(p for p in patterns if not any(re.fullmatch(p, name) for name in documented)) == []
    assert sorted(
        name for name in documented - _ELSEWHERE
        if name not in texts and not any(re.fullmatch(pattern, name) for pattern in patterns)
    ) == []  # fmt: skip


def test_every_span_is_documented() -> None:
    """Spans and attributes are those of the page, both ways."""
    spans = _section(_TELEMETRY, "Spans")
    attributes = {
        name
        for line in spans.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z_]+)`", line.strip(" |").split(" | ")[2])
    }

    assert sorted(_first_cells(spans)) == sorted(NAMES)
    assert {PREFIX + name for name in attributes} == ATTRIBUTES


def test_every_event_on_objects_is_documented() -> None:
    """The reasons of Events are those of the page, both ways, and nothing else is written."""
    assert sorted(_first_cells(_section(_TELEMETRY, "Events"))) == sorted(get_args(Reason))


def test_every_finding_of_lint_is_documented() -> None:
    """The page of the findings has a section for each code, with its name and its meaning first."""
    page = (_ROOT / "docs" / "reference" / "lint.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+): (.*)\n\n(.*)\.$", page, re.MULTILINE)

    assert [(code, Meaning(name, text)) for code, name, text in sections] == list(CODES.items())
