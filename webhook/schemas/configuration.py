"""The schema of the configuration file, made from the settings."""

from __future__ import annotations

from typing import Any

from policies.objects.workload import SHIPPED
from webhook.configuration.settings import Settings


def schema() -> dict[str, Any]:
    """The schema, with the short forms that the file may have."""
    made = Settings.model_json_schema(by_alias=True)
    kinds = made["$defs"]
    kinds["PackSettings"] = _or(kinds["PackSettings"]["properties"]["mode"], kinds["PackSettings"])
    names = {"enum": [row.kind for row in SHIPPED], "description": "A kind that is known by its name."}
    kinds["WorkloadSettings"] = _or(names, kinds["WorkloadSettings"])
    named: dict[str, Any] = {**_spoken(made), "title": "Configuration of cks-admission"}
    return named


def _or(short: dict[str, Any], long: dict[str, Any]) -> dict[str, Any]:
    return {"description": long.get("description", ""), "anyOf": [short, long]}


def _spoken(node: Any, *, names: bool = False) -> Any:
    """The schema without titles that only repeat a name, and with the word off as YAML 1.1 reads it.

    names: whether the keys of the node are those of an object, of which one may be called title.
    """
    if isinstance(node, list):
        return [_spoken(item) for item in node]
    if not isinstance(node, dict):
        return node
    spoken = {
        key: _spoken(value, names=key in ("properties", "$defs"))
        for key, value in node.items()
        if names or key != "title"
    }
    if not names and "off" in spoken.get("enum", ()):
        spoken.pop("type", None)
        spoken["enum"] = [*spoken["enum"], *([True] if "on" in spoken["enum"] else []), False]
    return spoken
