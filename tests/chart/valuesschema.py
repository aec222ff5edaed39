"""The values.schema.json of the chart: types are written there by hand, the rest is filled in.

Filled in are the descriptions, from values.yaml; that each key is required, so that a `null` is refused with its name;
and what `config` may hold, from the settings of the service.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chart.valuestable import Value
from policies.objects.workload import SHIPPED
from webhook.configuration.settings import Settings

Json = dict[str, Any]


def filled(text: str, found: Sequence[Value]) -> str:
    """The text of the schema with all that is filled in."""
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
