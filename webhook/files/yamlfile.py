"""Reads YAML and JSON files as kubectl does, and keeps the line of each value.

As in kubectl, keys and dates are strings, and `12:30` is not a number of base 60.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import yaml

from policies.objects.fieldpath import render
from webhook.files import jsonstream

# libyaml is ten times faster. Every wheel of PyYAML contains it, but not every build.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Deeper than any Kubernetes object. libyaml's composer is recursive and crashes at some ten thousand levels.
DEPTH = 100
# The most values after the expansion of aliases: far more than in an object of 3 MiB.
VALUES = 1_000_000
_INDENTATION = re.compile(r"^[-?: \t]*", re.MULTILINE)
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9]+)(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.(?:inf|nan)\Z", re.IGNORECASE
)
_VISIBLE = re.compile(r"[^\r\n\x85\u2028\u2029]")
_TAG = "tag:yaml.org,2002:"
_STRING, _MAP, _SEQUENCE = f"{_TAG}str", f"{_TAG}map", f"{_TAG}seq"
_MARKER = re.compile(r"^(?:%.*\n)*---(?=\s|$)", re.MULTILINE)


class FileError(Exception):
    """A file is not YAML. The text has the file, line, column and the problem."""


class _Loader(_Base):  # type: ignore[misc]
    """Kubernetes' reading of YAML."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own form
        first: [
            (tag, regexp) for tag, regexp in resolvers if tag.removeprefix(_TAG) not in ("int", "float", "timestamp")
        ]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Make a map whose keys are strings."""
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep) for key, value in node.value}

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "found unhashable key", node.start_mark)
        key = self.construct_object(node)
        return key if isinstance(key, str) else json.dumps(key)


_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))


class Part(NamedTuple):
    """A part of a file that can be read on its own. before: the lines above it. json: whether it begins as JSON."""

    name: str
    text: str
    before: int = 0
    json: bool = False

    def where(self, line: int, column: int | None = None) -> str:
        """The place of a line of the part, counted from 0, as people read it."""
        place = f"{self.name}:{self.before + line + 1}"
        return place if column is None else f"{place}:{column + 1}"


class YamlDocument:
    """One document: its value, and `node` with the places of its parts.

    first: the line on which it begins. before: the lines of the file above the node. make: makes it.
    """

    def __init__(self, name: str, value: Any, first: int, before: int, make: Callable[[], yaml.Node]) -> None:
        self.name = name
        self.value = value
        self.first = first
        self.before = before
        self._make = make

    @cached_property
    def node(self) -> yaml.Node:
        """The root of the nodes."""
        return self._make()

    def parts(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """The document, or the items of a List such as `kubectl get` prints, each with its path."""
        items = self.value.get("items") if isinstance(self.value, dict) else None
        if isinstance(items, list) and str(self.value.get("kind", "")).endswith("List"):
            yield from ((("items", index), item) for index, item in enumerate(items))
        else:
            yield (), self.value

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line, from 1, of the value at a path of keys and indexes, or of its nearest existing parent."""
        return self.place(path)[0] if path else self.first

    def place(self, path: Sequence[str | int] = ()) -> tuple[int, int]:
        """Line and column, from 1, of the key or item at a path, or of its nearest existing parent."""
        node = self.node
        mark = node.start_mark
        for step in path:
            key, below = child(node, step)
            if below is None:
                break
            mark, node = (key or below).start_mark, below
        return int(mark.line) + 1 + self.before, int(mark.column) + 1


def decoded(name: str, content: str | bytes) -> str:
    """The text of a file. Raises FileError."""
    try:
        return content if isinstance(content, str) else content.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None


def load(name: str, content: str | bytes) -> list[YamlDocument]:
    """The documents of a file, without empty ones. Raises FileError."""
    return _stream(Part(name, decoded(name, content)))


def _stream(part: Part) -> list[YamlDocument]:
    """The documents of a part that may begin with JSON."""
    name, text, before, _ = part
    values, end = jsonstream.values(name, text, DEPTH)
    for read in values:
        if read.duplicates:
            _refuse_duplicates(part, read.node())
    documents = [YamlDocument(name, read.value, read.line + before + 1, before, read.node) for read in values]
    if documents and end == len(text):
        return documents
    return [*documents, *_documents(part._replace(text=_blanked(text, end)))]


def parts(name: str, content: str | bytes) -> Iterator[Part]:
    """The parts of a file that can be read one by one.

    They are what is between lines of `---`, the items of a List in JSON, or other JSON as a whole. Wherever a line of
    `---` is, a document ends (YAML 1.1, section 9.1.1), so a mistake in one stays there. Raises FileError.
    """
    text = decoded(name, content)
    if jsonstream.begins(text):
        items = jsonstream.items(text)
        yield from [Part(name, text, json=True)] if items is None else _items(name, text, items)
        return
    start = before = 0
    for marker in _MARKER.finditer(text):
        if marker.start():
            part = text[start : marker.start()]
            yield Part(name, part, before)
            before += part.count("\n")
            start = marker.start()
    yield Part(name, text[start:], before)


def load_part(part: Part) -> list[YamlDocument]:
    """The documents of a part, without empty ones. Raises FileError."""
    return _stream(part) if part.json else _documents(part)


def _items(name: str, text: str, places: Iterable[tuple[int, int]]) -> Iterator[Part]:
    """The items at some places, each with blanks for what is before it on its line, so that columns stay."""
    before = line = 0
    for start, end in places:
        before += text.count("\n", line, start)
        line = text.rfind("\n", 0, start) + 1
        yield Part(name, " " * (start - line) + text[start:end], before, json=True)


def _blanked(text: str, end: int) -> str:
    """The text with blanks for all that is before an offset, so that the rest keeps its places."""
    return _VISIBLE.sub(" ", text[:end]) + text[end:]


def _documents(part: Part) -> list[YamlDocument]:
    documents = []
    loader: Any = None
    try:
        _refuse_bombs(part)
        loader = _Loader(part.text)
        while loader.check_node():
            node = loader.get_node()
            value = _value(part, loader, node)
            if value is not None:
                first = int(node.start_mark.line) + 1 + part.before
                documents.append(YamlDocument(part.name, value, first, part.before, partial(_itself, node)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = part.where(mark.line, mark.column) if mark else part.name
        raise FileError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except FileError:
        raise
    except Exception as error:  # noqa: BLE001 - the library's constructors raise whatever Python's types do
        raise FileError(f"{part.name}: not valid YAML: {' '.join(str(error).split())}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return documents


def _itself(node: yaml.Node) -> yaml.Node:
    return node


class _OddError(Exception):
    """A node that is left to the library: a merge, a tag, a key that is no text or is there twice."""


def _value(part: Part, loader: Any, node: yaml.Node) -> Any:
    """The value of a document. Raises FileError for a duplicate key."""
    scalars = {
        f"{_TAG}int": loader.construct_yaml_int,
        f"{_TAG}float": loader.construct_yaml_float,
        f"{_TAG}bool": loader.construct_yaml_bool,
        f"{_TAG}null": loader.construct_yaml_null,
    }
    try:
        return _plain(node, scalars)
    except _OddError:
        _refuse_duplicates(part, node)
        return loader.construct_document(node)


def _plain(node: yaml.Node, scalars: Mapping[str, Callable[[yaml.Node], Any]]) -> Any:
    """The value of a node, some three times as fast as the library's constructor. Raises _OddError."""
    tag = node.tag
    if isinstance(node, yaml.ScalarNode):
        if tag == _STRING:
            return node.value
        if tag in scalars:
            return scalars[tag](node)
    elif isinstance(node, yaml.MappingNode) and tag == _MAP:
        value = {_plain_key(key): _plain(item, scalars) for key, item in node.value}
        if len(value) == len(node.value):
            return value
    elif isinstance(node, yaml.SequenceNode) and tag == _SEQUENCE:
        return [_plain(item, scalars) for item in node.value]
    raise _OddError


def _plain_key(node: yaml.Node) -> str:
    if node.tag != _STRING or not isinstance(node, yaml.ScalarNode):
        raise _OddError
    return str(node.value)


def _refuse_bombs(part: Part) -> None:
    """Refuse text that nests too deeply or expands to too many values, before recursive code processes it."""
    name, text = part.name, part.text
    if "&" not in text and _deepest(text) <= DEPTH:
        return
    open_counts: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    total, has_aliases = 0, False
    for event in yaml.parse(text, Loader=_Base):
        where = part.where(event.start_mark.line) if event.start_mark else name
        size = 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_counts.append((event.anchor, total))
            if len(open_counts) > DEPTH:
                raise FileError(f"{where}: nested more than {DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_counts.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_counts):
                raise FileError(f"{where}: *{event.anchor} stands inside of itself")
            size, has_aliases = sizes.get(str(event.anchor), 1), True
        total += size
        if has_aliases and total > VALUES:
            raise FileError(f"{name}: its aliases unfold to more than {VALUES} values")


def _deepest(text: str) -> int:
    """A depth that no value in the text exceeds, from its indentation and brackets.

    An inner block is indented further than the one around it, but for a list below its key.
    """
    indented = max(map(len, _INDENTATION.findall(text)), default=0)
    return 2 * (indented + 1) + text.count("[") + text.count("{")


def child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key node (in a map) and the value node one step below a node; None if they do not exist."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def _refuse_duplicates(part: Part, root: yaml.Node) -> None:
    """Refuse duplicate keys, which are mistakes. YAML forbids them, but PyYAML keeps the last one."""
    for node in _collections(root, set()):
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                line, column = key.start_mark.line, key.start_mark.column
                if key.value in lines:
                    field = render((*_path(root, node), key.value))  # the words of the API server's strict decoder
                    first = part.before + lines[key.value] + 1
                    raise FileError(f'{part.where(line, column)}: duplicate field "{field}", first on line {first}')
                lines[key.value] = line


def _path(node: yaml.Node, wanted: yaml.Node) -> tuple[str | int, ...]:
    """The path to a node that is below another one."""
    for step, below in _entries(node):
        if below is wanted:
            return (step,)
        if path := _path(below, wanted):
            return (step, *path)
    return ()


def _entries(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    """The nodes one step below a node, with these steps."""
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def _collections(node: yaml.Node, visited: set[int]) -> Iterator[yaml.MappingNode]:
    """All maps below a node, each once, however many aliases it has."""
    if id(node) in visited or not isinstance(node, yaml.CollectionNode):
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
    for entry in node.value:
        for part in entry if isinstance(entry, tuple) else (entry,):
            yield from _collections(part, visited)
