"""Files of YAML and JSON whose values know their lines: regular files of a bounded size, opened without waiting."""

import json
import os
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.patience import PATIENCE

from webhook.cli.output import to_yaml
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError, Part, content, load

_TEXT = """\
# first
apiVersion: v1
metadata:
  name: a
  labels:
    x: "1"
items:
- a: 1
-
  b: [c,
      d]
---
---
kind: second
"""


def _values(text: str) -> list[Any]:
    return [document.value for document in load("a.yaml", text)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("# c\n---\n---\n", []),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: {b: [c, null, true, 1.5]}\n", [{"a": {"b": ["c", None, True, 1.5]}}]),
        ("until: 2026-03-01\n", [{"until": "2026-03-01"}]),
        ('{"a": "\\u00fc", "b": [1, 2]}', [{"a": "ü", "b": [1, 2]}]),
        ('{\n\t"a": 1,\n\t"b":\t2\n}\n', [{"a": 1, "b": 2}]),
        ('{"a": "b\\/c"}', [{"a": "b/c"}]),
        ('{"a": "\\ud83d\\ude00"}', [{"a": "\N{GRINNING FACE}"}]),
        ('{"a": "\\ud800"}', [{"a": "\ufffd"}]),
        ('{"a": "\\\\ud800", "b": "x\\udc00y"}', [{"a": "\\ud800", "b": "x\ufffdy"}]),
        ('{"a": "b\u0085c"}', [{"a": "b\u0085c"}]),
        ('{"a": 1}{"b": 2}\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('# c\n---\n{\t"a": 1}\n--- # d\n{"b": 2}', [{"a": 1}, {"b": 2}]),
        ('{\t"a": 1}---\nb: 2\n---\n{c: 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('"a": 1\n', [{"a": 1}]),
        ('{"a": NaN}', [{"a": "NaN"}]),
        ("x: &a {b: 1}\nz: *a\n", [{"x": {"b": 1}, "z": {"b": 1}}]),
        ("x: &a {b: 1, c: 1}\nz: {<<: *a, c: 2}\n", [{"x": {"b": 1, "c": 1}, "z": {"b": 1, "c": 2}}]),
        ("a: !!str 1\nb: !!int '2'\nc: !!float 3\n", [{"a": "1", "b": 2, "c": 3}]),
        ("1: a\ntrue: b\n~: c\n", [{"1": "a", "true": "b", "null": "c"}]),
        ("a: [2026-01-01, 12:30:45]\n", [{"a": ["2026-01-01", "12:30:45"]}]),
        ("'<<': a\n", [{"<<": "a"}]),
    ],
)
def test_documents_are_read(text: str, values: list[Any]) -> None:
    """Each document that holds something is read as kubectl reads it, as YAML 1.1, JSON too; times are texts."""
    assert repr(_values(text)) == repr(values)  # 1, 1.0 and True are equal


_LINES: list[dict[tuple[str | int, ...], int]] = [
    {
        (): 2,
        ("apiVersion",): 2,
        ("metadata",): 3,
        ("metadata", "labels", "x"): 6,
        ("metadata", "labels", "gone"): 5,
        ("metadata", "gone", "deeper"): 3,
        ("items",): 7,
        ("items", 0): 8,
        ("items", 0, "a"): 8,
        ("items", 1): 10,
        ("items", 1, "b", 1): 11,
        ("items", 7): 7,
        ("items", "x"): 7,
        ("gone",): 2,
        ("metadata", "name", "deeper"): 4,
    },
    {(): 14, ("kind",): 14},
]
_JSON_TEXT = """\
{"kind": "first", "say": "\\ud83d\\ude00!", "list": [1,
  {"a": "b"}]}
{
\t"kind": "second"
}
---
kind: third
list:
- 1
"""
_LINES_OF_JSON: list[dict[tuple[str | int, ...], int]] = [
    {(): 1, ("say",): 1, ("list", 0): 1, ("list", 1, "a"): 2, ("list", 2): 1},
    {(): 3, ("kind",): 4},
    {(): 7, ("list", 0): 9},
]


@pytest.mark.parametrize(("text", "lines"), [(_TEXT, _LINES), (_JSON_TEXT, _LINES_OF_JSON)], ids=["yaml", "json"])
def test_a_place_has_its_line(text: str, lines: list[dict[tuple[str | int, ...], int]]) -> None:
    """The line, from the top of the file, is that of the key or item, or of the nearest parent of what is not there."""
    found = load("a.yaml", text)

    assert [{path: one.line(path) for path in rows} for one, rows in zip(found, lines, strict=True)] == lines


_NUL = 'unacceptable character #x0000: control characters are not allowed in "<unicode string>", position 3'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a": {"b": 1,\n"b": 1}}', 'a.yaml:2:1: duplicate field "a.b", first on line 1'),
        ("a: 1\nb: 2\na: 3\n", 'a.yaml:3:1: duplicate field "a", first on line 1'),
        ("a:\n- b: 1\n  b: 2\n", 'a.yaml:3:3: duplicate field "a[0].b", first on line 2'),
        ("a: 1\n---\nb: {c: 1, c: 1}\n", 'a.yaml:3:11: duplicate field "b.c", first on line 3'),
        ("a: [b\n", "a.yaml:2:1: not valid YAML: did not find expected ',' or ']'"),
        ("a: b: c\n", "a.yaml:1:5: not valid YAML: mapping values are not allowed in this context"),
        ("a: !x b\n", "a.yaml:1:4: not valid YAML: could not determine a constructor for the tag '!x'"),
        ("? [a]\n: b\n", "a.yaml:1:3: not valid YAML: found unhashable key"),
        ("a: \0\n", f"a.yaml: not valid YAML: {_NUL}"),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_place(text: str, error: str) -> None:
    """A mistake is named by file, line and column, a key that stands twice by both its lines."""
    with pytest.raises(FileError) as caught:
        list(load("a.yaml", text))

    assert str(caught.value) == error


@pytest.mark.parametrize(
    "text",
    [
        "a: !!int x\n",
        "a: !!float x\n",
        "a: !!bool x\n",
        "a: !!timestamp x\n",
        pytest.param("a: " + "1" * 5000 + "\n", id="an-int-without-end"),
        "a: &a [*a]\n",
        "a: \ud800\n",
        pytest.param("[" * 2000 + "]" * 2000, id="too-deep"),
    ],
)
def test_a_value_that_cannot_be_made_is_a_mistake_in_the_file(text: str) -> None:
    """Whatever a file holds, reading it raises the file's own error and no other."""
    with pytest.raises(FileError, match=r"^a\.yaml"):
        list(load("a.yaml", text))


_NINE = ", ".join(["{}"] * 9)
_BOMBS = {
    "aliases": "a: &a [x]\n"
    + "".join(f"{b}: &{b} [{_NINE.format(*[f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")),
    "brackets": "[" * 200_000,
    "braces": "{a: " * 200_000,
    "dashes": "- " * 200_000,
}
_PROGRAM = """
import sys
from webhook.cli.output import to_yaml
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError, Part, load
try:
    list(load("a.yaml", sys.stdin.read()))
except FileError:
    print("refused")
"""


@pytest.mark.parametrize("bomb", _BOMBS)
def test_a_bomb_is_a_mistake_in_the_file(bomb: str) -> None:
    """A small file that unfolds to a huge one, or nests without end, ends in an error soon and not in a crash."""
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, input=_BOMBS[bomb], text=True, capture_output=True, timeout=PATIENCE, check=False)

    assert (done.stdout, done.returncode) == ("refused\n", 0), done.stderr[-300:]


# Not the control characters and separators that YAML takes for something else, and nobody writes.
_WORDS = st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"]) | st.sampled_from("\n\t"), max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(value=_JSON.filter(lambda value: value is not None), indent=st.sampled_from([None, 2, "\t"]), raw=st.booleans())
def test_all_json_is_read(value: Any, indent: int | str | None, *, raw: bool) -> None:
    """What any JSON writer writes, people's objects in JSON files among it, is read as what it means."""
    assert _values(json.dumps(value, indent=indent, ensure_ascii=not raw)) == [value]


@settings(max_examples=300)
@given(st.text(alphabet="ab:-?[]{},&*!|>'\"#%@ \n\t1.e", max_size=30) | st.text(max_size=30))
def test_any_text_leads_to_a_file_error_at_worst(text: str) -> None:
    """Whatever a file holds, reading it raises nothing but its own error."""
    try:
        for document in load("a.yaml", text):
            document.line(("a", 0))
    except FileError as error:
        assert str(error).startswith("a.yaml")  # noqa: PT017 - most texts raise none


def test_a_long_file_without_aliases_is_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is refused for what its aliases unfold to, not for its length."""
    monkeypatch.setattr(yamlfile, "VALUES", 100)

    assert _values(f"[{'a,' * 200}]") == [["a"] * 200]
    with pytest.raises(FileError, match="its aliases unfold to more than 100 values"):
        _values(f"[&a [{'a,' * 50}], *a, *a]")


_LIST = """\
{"apiVersion": "v1", "items": [ {"kind": "Pod",
   "metadata": {"name": "a"}},

  {"kind": "Pod", "metadata":
    {"name": "b"}}], "kind": "PodList", "metadata": {}}
"""
_PARTS = {
    "documents": ("a: 1\n---\nb:\n  c: 2\n---\n# nothing\n--- {d: 3}\n...\n---\n- 4\n", 5),
    "directives": ("%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", 2),
    "marks in texts": ("a: |\n  ---\n  b\nc: '--- d'\n---\ne: f\n", 2),
    "a list": (_LIST, 2),
    "an empty list": ('{"kind": "List", "items": []}', 0),
    "a list and more": (_LIST + "---\na: b\n", 1),
    "no list": ('{"kind": "Menu", "items": [{"a": 1}]}', 1),
    "two lists in one": ('{"kind": "List", "items": [{"a": 1}], "items": [{"a": 2}]}', 1),
    "json": ('{"a": 1}\n{"b": {"c": 2}}\n', 1),
    "a text": ('"a"', 1),
}


@pytest.mark.parametrize(("text", "count"), _PARTS.values(), ids=_PARTS)
def test_parts_are_read_one_by_one(text: str, count: int) -> None:
    """A file in parts has the same values at the same places as the whole file, and the same errors."""
    parts = list(yamlfile.parts("a.yaml", text))

    assert (len(parts), _read_or_refused(parts)) == (count, _read_or_refused([Part("a.yaml", text, json=True)]))


@pytest.mark.parametrize(
    ("text", "count"),
    [("%a\n" * 200_000 + "a: 1\n", 1), (f'{{"kind": "List", "items": [{"{}," * 100_000}{{}}]}}', 100_001)],
    ids=["directives", "a list on one line"],
)
def test_long_files_have_their_parts_in_time_in_proportion(text: str, count: int) -> None:
    """None is looked at again for each of its lines or items: that would take minutes."""
    assert sum(1 for _ in yamlfile.parts("a.yaml", text)) == count


def _read_or_refused(parts: list[Part]) -> list[object]:
    """The objects in parts, each with the places of all that is in it; or the error."""
    try:
        documents = [document for part in parts for document in yamlfile.load_part(part)]
    except yamlfile.FileError as error:
        return [str(error)]
    return [
        (value, document.line(path), {deep: document.place((*path, *deep)) for deep in _paths(value)})
        for document in documents
        for path, value in document.parts()
    ]


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, child in children for path in _paths(child, (*at, key)))]


def test_a_duplicate_in_an_item_is_named_by_its_line() -> None:
    """The lines of items count from the beginning of the file."""
    text = _LIST.replace('"kind": "Pod", "metadata":\n', '"kind": "Pod", "metadata": 1, "metadata":\n')
    _, second = yamlfile.parts("a.json", text)

    with pytest.raises(yamlfile.FileError, match=r'a\.json:4:\d+: duplicate field "metadata", first on line 4'):
        yamlfile.load_part(second)


def test_scalars_are_those_of_gos_reader() -> None:
    """Each text has the value that sigs.k8s.io/yaml gives it, null for an error; what is printed is read as a text."""
    rows = json.loads(Path(__file__).with_name("scalars.json").read_text(encoding="utf-8"))

    def value(text: str) -> Any:
        try:
            return _values(f"a: {text}\n")[0]["a"]
        except FileError:
            return None

    different = {text: (value(text), expected) for text, expected in rows if value(text) != expected}
    assert different == {}
    assert [_values(to_yaml([text, {text: text}])) for text, _ in rows] == [[[text, {text: text}]] for text, _ in rows]
    assert len(rows) >= 298


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_fifo, "it is a FIFO, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
        (_socket, "No such device or address"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.write_bytes(b"x" * 11), "it is too large"),
    ],
)
def test_what_is_not_read(tmp_path: Path, make: object, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for a writer or reads for ever; the error names the file as the user did."""
    monkeypatch.chdir(tmp_path)
    assert callable(make)
    make(Path("a.yaml"))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is compared
        content("a.yaml", most=10)

    assert (caught.value.filename, caught.value.strerror) == ("a.yaml", reason)


def test_a_pipe_that_somebody_has_named(tmp_path: Path) -> None:
    """It is read to its end, which may come later, and not beyond the most bytes."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    for most in (10, 9):
        writer = threading.Thread(target=path.write_bytes, args=(b"x" * 10,))
        writer.start()
        try:
            found.append(content(path, most=most, pipes=True))
        except OSError as error:
            found.append(str(error.strerror).encode())
        writer.join()

    assert found == [b"x" * 10, b"it is too large"]
