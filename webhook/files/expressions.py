"""Formats the expressions of the policies in a YAML file, and touches nothing else in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from policies.admissionpolicy.documents.fields import KINDS
from policies.admissionpolicy.documents.reader import GROUP
from policies.cel.syntax.formatting import WIDTH, KeptError, formatted, one_line
from policies.cel.syntax.source import CompileError, Source
from webhook.files import yamlfile, yamlscalar
from webhook.files.yamlblock import Edit, Scalar, edited
from webhook.files.yamlfile import FileError

_EXPRESSIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "matchConditions": (("expression",),),
    "variables": (("expression",),),
    "validations": (("expression",), ("messageExpression",)),
    "auditAnnotations": (("valueExpression",),),
    "mutations": (("applyConfiguration", "expression"), ("jsonPatch", "expression")),
}
_Steps = tuple[str | int, ...]


class Formatting(NamedTuple):
    """The new text of a file, the expressions that were left alone, and those that are no CEL, each with its place."""

    text: str
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class _Written(NamedTuple):
    """An expression in a file."""

    scalar: Scalar
    source: Source


def format_file(name: str, text: str) -> Formatting:
    """The file with formatted expressions; unchanged if there is an error. Raises FileError."""
    edits: list[Edit] = []
    kept: list[str] = []
    errors: list[str] = []
    for written in _expressions(name, text):
        try:
            edit = _edit(written)
        except CompileError as error:
            errors.append(str(error))
        except KeptError as reason:
            kept.append(f"{name}:{written.source.line}: this expression is left as it is: {reason}")
        else:
            edits += [] if edit is None else [edit]
    if errors:
        return Formatting(text, tuple(kept), tuple(errors))
    result = edited(text, edits)
    _compare(name, text, result)
    return Formatting(result, tuple(kept))


def _edit(written: _Written) -> Edit | None:
    scalar, source = written
    if not scalar.is_editable:
        raise KeptError("its YAML has an anchor, a tag or a fixed indentation")
    if not scalar.is_block:
        edit, width = scalar.on_line(one_line(source))
        broken = formatted(source, WIDTH - scalar.indent)
        if scalar.flows or width <= WIDTH or "\n" not in broken:
            return None if one_line(source) == scalar.value.strip() else edit
    else:
        broken = formatted(source, WIDTH - scalar.indent)
    return None if broken == scalar.value.strip() else scalar.as_block(broken)


def _expressions(name: str, text: str) -> Iterator[_Written]:
    lines = text.splitlines()
    done: set[tuple[int, int]] = set()
    for document in yamlfile.load(name, text):
        for path, part in document.parts():
            for steps in _paths(part):
                scalar = _scalar(document.node, (*path, *steps), text)
                if scalar is None:
                    continue
                node, written = scalar
                place = node.start_mark.line + 1, node.start_mark.column + 1
                if place not in done:  # an alias stands for an expression that is written elsewhere
                    done.add(place)
                    yield _Written(written, Source(written.value, name, *yamlscalar.place(lines, *place)))


def _paths(value: Any) -> Iterator[_Steps]:
    """The paths of the expressions in an object."""
    if not isinstance(value, dict) or value.get("kind") not in KINDS:
        return
    spec = value.get("spec")
    if str(value.get("apiVersion")).partition("/")[0] != GROUP or not isinstance(spec, dict):
        return
    for field, paths in _EXPRESSIONS.items():
        items = spec.get(field)
        for index in range(len(items) if isinstance(items, list) else 0):
            for path in paths:
                yield "spec", field, index, *path


def _scalar(root: yaml.Node, path: _Steps, text: str) -> tuple[yaml.ScalarNode, Scalar] | None:
    """The scalar at a path; None if there is none."""
    key: yaml.Node | None = None
    node: yaml.Node | None = root
    flows = False
    for step in path:
        if node is None:
            return None
        flows = flows or bool(getattr(node, "flow_style", False))
        key, node = yamlfile.child(node, step)
    if key is None or not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        return None
    return node, Scalar(text, node, int(key.start_mark.column), flows=flows)


def _compare(name: str, before: str, after: str) -> None:
    """Make sure that only expressions have changed."""
    if before == after:
        return
    old, new = ([document.value for document in yamlfile.load(name, text)] for text in (before, after))
    if list(map(_without_expressions, old)) != list(map(_without_expressions, new)):
        raise FileError(f"{name}: its expressions cannot be written otherwise without changing other things in it")


def _without_expressions(value: Any) -> Any:
    """A value in which all expressions have the same text."""
    if isinstance(value, list):
        return list(map(_without_expressions, value))
    if not isinstance(value, dict):
        return value
    words = ("expression", "messageExpression", "valueExpression")
    return {
        key: "" if key in words and isinstance(part, str) else _without_expressions(part) for key, part in value.items()
    }
