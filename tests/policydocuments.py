"""Policy documents from YAML text, with the place of every value, as a reader of files hands them over."""

from __future__ import annotations

from typing import Any

import yaml

from policies.admissionpolicy import scalars
from policies.admissionpolicy.document import Document, Path, Place
from webhook import yamlfile


def documents(text: str, name: str = "policy.yaml") -> list[Document]:
    """The documents of a file."""
    lines = text.splitlines()
    return [_document(found, lines) for found in yamlfile.load(name, text)]


def _document(found: yamlfile.Document, lines: list[str]) -> Document:
    root: Any = found._node

    def places(path: Path) -> Place:
        node = _node(root, path)[1]
        place = node.start_mark.line + 1, node.start_mark.column + 1
        return scalars.place(lines, *place) if isinstance(node, yaml.ScalarNode) else place

    def keys(path: Path) -> Place:
        key, node = _node(root, path)
        mark = (key or node).start_mark
        return mark.line + 1, mark.column + 1

    def inside(path: Path, offset: int) -> Place:
        node = _node(root, path)[1]
        mark = node.start_mark
        return scalars.inside(lines, mark.line + 1, mark.column + 1, node.value, offset)

    return Document(value=found.value, name=found.name, line=found.line(), places=places, keys=keys, inside=inside)


def _node(root: yaml.Node, path: Path) -> tuple[yaml.Node | None, yaml.Node]:
    key, node = None, root
    for step in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == step), None)
            if pair is None:
                break
            key, node = pair
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            key, node = None, node.value[step]
        else:
            break
    return key, node
