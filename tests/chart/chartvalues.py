"""The values of the chart as values.yaml documents them, for the table of the README and for the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from policies.objects.workload import SHIPPED
from webhook.configuration.settings import Settings

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


Json = dict[str, Any]


def filled(text: str, found: Sequence[Value]) -> str:
    """The text of values.schema.json, of which people write the types, with the rest filled in.

    That are the descriptions; that each key is required, so that a `null` is refused with its name; and what `config`
    may hold, from the settings of the service.
    """
    schema: Json = json.loads(text)
    for value in found:
        _describe(schema, value)
    own = {name: each for name, each in schema["definitions"].items() if name[0].islower()}
    schema["definitions"] = own | settings()
    return json.dumps(schema, indent=2) + "\n"


def _describe(schema: Json, value: Value) -> None:
    """Give the description of a value, and require it and all above it. Raises KeyError where the schema has it not."""
    at = schema
    for step in value.path:
        at["required"] = sorted({*at.get("required", ()), step})
        at = at["properties"][step]
    at["description"] = value.description


def settings() -> Json:
    """The definitions for `config`: that of the whole configuration is `Settings`."""
    whole = Settings.model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions: Json = whole.pop("$defs")
    definitions["Settings"] = whole
    # A level may be its key alone, a pack its mode, a kind that is shipped its name.
    definitions["PackSettings"] = {
        "anyOf": [definitions["PackSettings"]["properties"]["mode"], definitions["PackSettings"]]
    }
    definitions["LevelSettings"] = {"anyOf": [{"type": "string"}, definitions["LevelSettings"]]}
    names: Json = {"enum": [row.kind for row in SHIPPED]}
    definitions["WorkloadSettings"] = {"anyOf": [names, definitions["WorkloadSettings"]]}
    return {name: _plain(each) for name, each in sorted(definitions.items())}


def _plain(node: Any) -> Any:
    """A part of the schema without titles, and with booleans where on and off may stand: YAML reads them so."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _plain(each) for key, each in node.items() if key != "title" or not isinstance(each, str)}
    if words := [word == "on" for word in node.get("enum", ()) if word in ("on", "off")]:
        found["enum"] = [*node["enum"], *words]
        found.pop("type", None)
    return found
