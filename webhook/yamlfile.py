"""YAML and JSON files whose values remember the line that they came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

# libyaml is ten times faster; it is in every wheel of PyYAML but not in every build.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileError(Exception):
    """A file that is no YAML: the text says file, line, column and what is wrong there."""


class Document:
    """One document: its value, and where in the file each part of it stands."""

    def __init__(self, name: str, value: Any, node: yaml.Node) -> None:
        self.name = name
        self.value = value
        self._node = node

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line, from 1, of the value at a path of keys and indexes, or of its nearest parent that is there."""
        node: yaml.Node = self._node
        line = node.start_mark.line
        for step in path:
            key, child = _child(node, step)
            if child is None:
                break
            line, node = (key or child).start_mark.line, child
        return int(line) + 1


def load(name: str, text: str) -> Iterator[Document]:
    """The documents of a file, empty ones left out; JSON is YAML. Raises FileError."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _refuse_duplicates(name, node)
            value = loader.construct_document(node)
            if value is not None:
                yield Document(name, value, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise FileError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise FileError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    finally:
        loader.dispose()


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def _refuse_duplicates(name: str, node: yaml.Node) -> None:
    """A key that stands twice is a mistake in a file that people write; YAML forbids it and PyYAML keeps the last."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise FileError(
                        f"{name}:{line}: the key {key.value!r} is there twice, first on line {seen[key.value]}"
                    )
                seen[key.value] = key.start_mark.line + 1
            _refuse_duplicates(name, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_duplicates(name, value)
