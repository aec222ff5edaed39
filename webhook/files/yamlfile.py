"""Reads YAML and JSON files as kubectl does, and keeps the line of each value.

As in kubectl, keys and dates are strings, and `12:30` is not a number of base 60. kubectl reads a file as JSON as long
as objects of JSON follow each other, and the rest as YAML (decoder.go in k8s.io/apimachinery's pkg/util/yaml). JSON
differs from YAML in escaped surrogate pairs, tabs and Unicode's line breaks. Unlike kubectl, this also reads objects
after a line of `---` or a comment, and another value that is alone in its file.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from policies.objects.fieldpath import render

# libyaml is ten times faster. Every wheel of PyYAML contains it, but not every build.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Deeper than any Kubernetes object. libyaml's composer is recursive and crashes at some ten thousand levels.
DEPTH = 100
# The most values after the expansion of aliases: far more than in an object of 3 MiB.
VALUES = 1_000_000
_INDENTATION = re.compile(r"^[-?: \t]*", re.MULTILINE)
_BOOL = re.compile(r"(?:[yY]|yes|Yes|YES|[nN]|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)\Z")
_TRUE = ("y", "yes", "true", "on")
_NUMBER = re.compile(
    r"[-+]?_*(?:0_*[xX][0-9a-fA-F_]+|0_*[oO][0-7_]+|0_*[bB][01_]+"
    r"|(?:\.[0-9]+(?:_[0-9]+)*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?)\Z|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)
_WITH_BASE = re.compile(r"([-+]?)0([xXoObB])(.*)")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_BASES = {"x": 16, "o": 8, "b": 2}
_VISIBLE = re.compile(r"[^\r\n\x85\u2028\u2029]")
_TAG = "tag:yaml.org,2002:"
_STRING, _MAP, _SEQUENCE = f"{_TAG}str", f"{_TAG}map", f"{_TAG}seq"
# The second form passes over lines that begin with % together, which would each be looked at again.
_MARKER = re.compile(r"^(?:%.*\n)*+---(?=\s|$)|^(?:%.*\n)++", re.MULTILINE)

_BETWEEN = re.compile(r"(?:\s+|#[^\n]*|---[^\S\n]*(?=[#\n]|\Z))*")
_WHITE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
# An escape with its backslash; the group is a half of a surrogate pair without the other half.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
_JSON_TAGS = {'"': "str", "t": "bool", "f": "bool", "n": "null"}


LARGEST = 16 * 2**20
"""The bytes of a file with policies, topologies or a configuration, at most."""
OBJECTS = 2**30
"""The bytes of a file with objects, at most: more than all of a large cluster."""
FIFO = "a FIFO"
_ODD = {stat.S_IFIFO: FIFO, stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


class FileError(Exception):
    """A file holds no YAML, or not what it is read for. The text has a line per mistake: file, line, what is wrong."""


class Part(NamedTuple):
    """A part of a file that can be read on its own.

    before: the lines above it. json: whether it begins as JSON. left: the characters before it on its first line.
    """

    name: str
    text: str
    before: int = 0
    json: bool = False
    left: int = 0

    def place(self, mark: Any) -> tuple[int, int]:
        """Line and column in the file, from 1, of a mark of the library."""
        return mark.line + 1 + self.before, mark.column + 1 + (self.left if mark.line == 0 else 0)

    def where(self, mark: Any) -> str:
        """The same, as people read it."""
        return ":".join(map(str, (self.name, *self.place(mark))))


@dataclass(eq=False)
class YamlDocument:
    """One document: its value, and `node` with the places of its parts.

    first: the line on which it begins. source: the root of the nodes, or what makes it.
    """

    part: Part
    value: Any
    first: int
    source: yaml.Node | Callable[[], yaml.Node]

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.part.name

    @cached_property
    def node(self) -> yaml.Node:
        """The root of the nodes."""
        return self.source if isinstance(self.source, yaml.Node) else self.source()

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
        key, node = nearest(self.node, path)
        return self.part.place((key or node).start_mark)


def child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key node (in a map) and the value node one step below a node; None if they do not exist."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def nearest(root: yaml.Node, path: Sequence[str | int]) -> tuple[yaml.Node | None, yaml.Node]:
    """The key node (in a map) and the value node at a path, or those of its nearest existing parent."""
    key, node = None, root
    for step in path:
        below = child(node, step)
        if below[1] is None:
            break
        key, node = below[0], below[1]
    return key, node


def odd(path: str | Path) -> str:
    """What stands at a path if it can be opened but is no file or folder, such as `a FIFO`; else an empty text."""
    with suppress(OSError):
        return _ODD.get(stat.S_IFMT(Path(path).stat().st_mode), "")
    return ""


def content(path: str | Path, *, most: int = LARGEST, pipes: bool = False) -> bytes:
    """The bytes of a regular file of at most some bytes, which is opened without waiting. Raises OSError.

    pipes: whether it may be a FIFO, such as `<(...)` of a shell, which somebody has named and waits for.
    """
    waiting = 0 if pipes else os.O_NONBLOCK
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOCTTY | waiting)) as file:
        what = _ODD.get(stat.S_IFMT(os.fstat(file.fileno()).st_mode), "")
        if what and not (pipes and what == FIFO):
            raise OSError(errno.EINVAL, f"it is {what}, not a regular file", str(path))
        chunks = [b""]
        while most >= 0 and (chunk := file.read(1 << 20)):
            chunks.append(chunk)
            most -= len(chunk)
    if most < 0:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return b"".join(chunks)


def decoded(name: str, content: str | bytes) -> str:
    """The text of a file. Raises FileError."""
    try:
        return content if isinstance(content, str) else content.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None


def load(name: str, content: str | bytes) -> list[YamlDocument]:
    """The documents of a file, without empty ones. Raises FileError."""
    return load_part(Part(name, decoded(name, content), json=True))


def parts(name: str, content: str | bytes) -> Iterator[Part]:
    """The parts of a file that can be read one by one.

    They are what is between lines of `---`, the items of a List in JSON, or other JSON as a whole. Wherever a line of
    `---` is, a document ends (YAML 1.1, section 9.1.1), so a mistake in one stays there. Raises FileError.
    """
    text = decoded(name, content)
    if _begins_as_json(text):
        places = _json_items(text)
        if places is None:
            yield Part(name, text, json=True)
        before = line = 0
        for begin, end in places or ():
            before += text.count("\n", line, begin)
            line = max(text.rfind("\n", line, begin) + 1, line)
            yield Part(name, text[begin:end], before, json=True, left=begin - line)
        return
    start = before = 0
    for marker in markers(text):
        if marker.start():
            part = text[start : marker.start()]
            yield Part(name, part, before)
            before += part.count("\n")
            start = marker.start()
    yield Part(name, text[start:], before)


def markers(text: str) -> Iterator[re.Match[str]]:
    """The lines of `---` in YAML, with the directives above them."""
    return (match for match in _MARKER.finditer(text) if match[0].endswith("---"))


def load_part(part: Part) -> list[YamlDocument]:
    """The documents of a part, without empty ones. Raises FileError."""
    if not part.json or not _begins_as_json(part.text):
        return _yaml_documents(part)
    documents, end = _json_documents(part)
    if documents and end == len(part.text):
        return documents
    # Blanks for all that is before the rest, so that it keeps its places.
    return [*documents, *_yaml_documents(part._replace(text=_VISIBLE.sub(" ", part.text[:end]) + part.text[end:]))]


def number(text: str) -> int | float | str:
    """The number that a scalar is for Go's reader of YAML, as JSON has it; the text itself if it is none.

    A whole number has no fraction, however it is written. Source: resolve in go.yaml.in/yaml/v2.
    """
    plain = text.replace("_", "")
    if based := _WITH_BASE.fullmatch(plain):
        sign, base, digits = based.groups()
        whole = int(sign + digits, _BASES[base.lower()]) if digits else None
    else:
        octal = _OCTAL.fullmatch(plain)
        whole = int(plain, 8 if octal else 10) if octal or plain.lstrip("+-").isdigit() else None
    if whole is not None and -(2**63) <= whole < 2**64:
        return whole
    value = math.inf if based else float(plain)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


class _Loader(_Base):  # type: ignore[misc]
    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own form
        first: [(tag, regexp) for tag, regexp in resolvers if tag.removeprefix(_TAG) in ("null", "merge")]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }

    def construct_bool(self, node: yaml.ScalarNode) -> bool:
        """Make a boolean, of which y and n are two."""
        if not _BOOL.match(node.value):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} is no boolean", node.start_mark)
        return node.value.lower() in _TRUE

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """Make a number, of which JSON has no infinite ones."""
        if node.value[-3:].lower() in ("inf", "nan"):
            raise yaml.constructor.ConstructorError(None, None, f"JSON has no number {node.value}", node.start_mark)
        return number(node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Make a map whose keys are strings."""
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep) for key, value in node.value}

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "found unhashable key", node.start_mark)
        key = self.construct_object(node)
        return key if isinstance(key, str) else json.dumps(key)


def resolve_as_kubernetes(resolver: Any) -> None:
    """Make a loader or a dumper of the library tell texts from other scalars as Kubernetes does."""
    resolver.add_implicit_resolver(f"{_TAG}bool", _BOOL, list("yYnNtTfFoO"))
    resolver.add_implicit_resolver(f"{_TAG}float", _NUMBER, list("-+0123456789."))


resolve_as_kubernetes(_Loader)
_Loader.add_constructor(f"{_TAG}bool", _Loader.construct_bool)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}merge", _Loader.construct_yaml_str)


def _yaml_documents(part: Part) -> list[YamlDocument]:
    documents = []
    loader: Any = None
    try:
        _refuse_bombs(part)
        loader = _Loader(part.text)
        scalars = {
            f"{_TAG}float": loader.construct_number,
            f"{_TAG}bool": loader.construct_bool,
            f"{_TAG}null": loader.construct_yaml_null,
            f"{_TAG}merge": loader.construct_yaml_str,
        }
        while loader.check_node():
            node = loader.get_node()
            try:
                value = _plain(node, scalars)
            except _OddError:
                _refuse_duplicates(part, node)
                value = loader.construct_document(node)
            if value is not None:
                documents.append(YamlDocument(part, value, part.place(node.start_mark)[0], node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = part.where(mark) if mark else part.name
        raise FileError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except (FileError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - the library's constructors raise whatever Python's types do
        raise FileError(f"{part.name}: not valid YAML: {' '.join(str(error).split())}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return documents


class _OddError(Exception):
    """A node that is left to the library: a merge, a tag, a key that is no text or is there twice."""


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
    # No value is deeper than this. An inner block is indented further than the one around it, but for lists below keys.
    deepest = 2 * (max(map(len, _INDENTATION.findall(text)), default=0) + 1) + text.count("[") + text.count("{")
    if "&" not in text and deepest <= DEPTH:
        return
    open_counts: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    total, has_aliases = 0, False
    for event in yaml.parse(text, Loader=_Base):
        size = 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_counts.append((event.anchor, total))
            if len(open_counts) > DEPTH:
                raise FileError(f"{name}:{part.place(event.start_mark)[0]}: nested more than {DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_counts.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_counts):
                line, _ = part.place(event.start_mark)
                raise FileError(f"{name}:{line}: *{event.anchor} stands inside of itself")
            size, has_aliases = sizes.get(str(event.anchor), 1), True
        total += size
        if has_aliases and total > VALUES:
            raise FileError(f"{name}: its aliases unfold to more than {VALUES} values")


def _refuse_duplicates(part: Part, root: yaml.Node) -> None:
    """Refuse duplicate keys, which are mistakes. YAML forbids them, but PyYAML keeps the last one."""
    pending: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)]
    visited: set[int] = set()  # a collection counts once, however many aliases it has
    while pending:
        path, node = pending.pop()
        if id(node) in visited or not isinstance(node, yaml.CollectionNode):
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += [((*path, index), item) for index, item in reversed(list(enumerate(node.value)))]
            continue
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in lines:
                    field = render((*path, key.value))  # in the words of the API server's strict decoder
                    first = lines[key.value]
                    raise FileError(f'{part.where(key.start_mark)}: duplicate field "{field}", first on line {first}')
                lines[key.value] = part.place(key.start_mark)[0]
        pending += [((*path, str(key.value)), below) for key, value in reversed(node.value) for below in (value, key)]


def _json_documents(part: Part) -> tuple[list[YamlDocument], int]:
    """The values at the beginning of a part, and the offset of the rest, which is not JSON or nested deeper."""
    text = part.text
    # Half a surrogate pair is the replacement character, as Go reads it, which is as long.
    readable = _ESCAPE.sub(lambda escape: str(escape[0]) if escape[1] is None else "\\ufffd", text)
    documents: list[YamlDocument] = []
    at, line, seen = _next(text, 0), part.before, 0
    doubled: list[dict[str, Any]] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            doubled.append(value)
        return value

    decoder = json.JSONDecoder(parse_constant=_refused, object_pairs_hook=read)
    while at < len(text):
        doubled.clear()
        try:
            value, end = decoder.raw_decode(readable, at)
        except (ValueError, RecursionError):
            break
        after = _next(text, end)
        if _is_deeper(value, DEPTH) or not (isinstance(value, dict) or (after == len(text) and not documents)):
            break
        make = partial(_json_node, part.name, text, at, end)
        if doubled:  # the nodes, which say where, take ten times as long
            _refuse_duplicates(part, make())
        line, seen = line + len(text[seen : at + 1].splitlines()), at
        documents.append(YamlDocument(part, value, line, make))
        line, at = line - 1, after
    return documents, at if documents else 0


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether a value has more levels of maps and lists."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return children is not None and (depth <= 0 or any(_is_deeper(child, depth - 1) for child in children))


def _json_items(text: str) -> list[tuple[int, int]] | None:
    """Where each item of a List begins and ends, if the text is one and nothing else; else None.

    Each item is JSON of its own, so it can be read without the others.
    """
    places: list[tuple[int, int]] = []
    kind: Any = ""
    try:
        at, done = _within(text, _next(text, 0), "{"), False
        while not done:
            key, at = _DECODER.raw_decode(text, at)
            at = _within(text, _next(text, at, _WHITE), ":")
            if key == "items" and text[at] == "[" and not places:
                at = _next(text, at + 1, _WHITE)
                while text[at] != "]":
                    _, end = _DECODER.raw_decode(text, at)
                    places.append((at, end))
                    at = _next(text, end, _WHITE)
                    at = at if text[at] == "]" else _within(text, at, ",")
                at += 1
            else:
                value, at = _DECODER.raw_decode(text, at)
                kind = value if key == "kind" else kind
                if key == "items":
                    return None
            at = _next(text, at, _WHITE)
            done = text[at] == "}"
            at = at + 1 if done else _within(text, at, ",")
    except (ValueError, IndexError, RecursionError):
        return None
    return places if isinstance(kind, str) and kind.endswith("List") and _next(text, at) == len(text) else None


def _within(text: str, at: int, sign: str) -> int:
    """The offset of what follows a sign. Raises ValueError if another one is there."""
    if text[at] != sign:
        raise ValueError(f"{sign} is missing")
    return _next(text, at + 1, _WHITE)


def _begins_as_json(text: str) -> bool:
    return text.startswith(("{", "[", '"'), _next(text, 0))


def _next(text: str, offset: int, between: re.Pattern[str] = _BETWEEN) -> int:
    """The offset of the next value of JSON, or of what follows something else."""
    passed = between.match(text, offset)
    return offset if passed is None else passed.end()


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


def _json_node(name: str, text: str, start: int, end: int) -> yaml.Node:
    """The node of the value between two offsets."""
    lines = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))

    def mark(offset: int) -> yaml.Mark:
        line = bisect_right(lines, offset) - 1
        return yaml.Mark(name, offset, line, offset - lines[line], None, 0)

    nodes: list[list[Any]] = [[]]
    begun: list[yaml.Mark] = []
    for token in _TOKEN.finditer(text, start, end):
        first, marks = token[0][0], (mark(token.start()), mark(token.end()))
        if first in "{[":
            nodes.append([])
            begun.append(marks[0])
        elif first in "}]":
            items, marks = nodes.pop(), (begun.pop(), marks[1])
            pairs = list(zip(items[::2], items[1::2], strict=True)) if first == "}" else items
            kind, tag = (yaml.MappingNode, _MAP) if first == "}" else (yaml.SequenceNode, _SEQUENCE)
            nodes[-1].append(kind(tag, pairs, *marks, flow_style=True))
        else:
            tag, value = _JSON_TAGS.get(first, "float"), json.loads(token[0]) if first == '"' else token[0]
            nodes[-1].append(yaml.ScalarNode(f"{_TAG}{tag}", value, *marks, style='"' if first == '"' else None))
    root: yaml.Node = nodes[0][0]
    return root
