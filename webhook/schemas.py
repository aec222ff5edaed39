"""JSON Schemas for editors, of the documents that people write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from policies.admissionpolicy.documents.document import EXCEPTION, Shape
from policies.admissionpolicy.documents.reader import EXCEPTION_GROUP, EXCEPTION_KIND, EXCEPTION_VERSION
from policies.objects.workload import SHIPPED
from webhook.configuration.settings import Settings


def _configuration() -> dict[str, Any]:
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


def _exception() -> dict[str, Any]:
    made = _of(EXCEPTION)
    made["required"] = ["apiVersion", "kind", "metadata", "spec"]
    fields = made["properties"]
    fields["apiVersion"], fields["kind"] = (
        {"const": f"{EXCEPTION_GROUP}/{EXCEPTION_VERSION}"},
        {"const": EXCEPTION_KIND},
    )
    fields["metadata"]["required"] = ["name"]
    spec = fields["spec"]
    spec["required"] = ["policies", "reason", "until"]
    spec["properties"]["policies"] |= {"minItems": 1, "description": "Names of policies or built-in rules."}
    spec["properties"]["reason"] |= {"minLength": 1, "description": "Why; shown in the audit log."}
    spec["properties"]["until"] |= {
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        "description": "The last day (UTC) on which it holds.",
    }
    return {"title": "PolicyException of cks-admission", **made}


def _of(shape: Shape) -> dict[str, Any]:
    if shape.fields is not None:
        properties = {name: _of(field) for name, field in shape.fields.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    made: dict[str, Any] = {"type": "integer" if shape.json == "number" else shape.json} if shape.json else {}
    if shape.item is not None:
        made |= {"items" if shape.json == "array" else "additionalProperties": _of(shape.item)}
    return made


_TEXTS = {"type": "array", "items": {"type": "string"}}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_FIELDS: dict[str, Any] = {
    "user": {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "groups": _TEXTS},
        "description": "Who makes the request.",
    },
    "namespace": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "labels": _STRINGS},
        "description": "The Namespace of the object; an empty name for what is in none.",
    },
    "params": {
        "type": "object",
        "additionalProperties": _STRINGS,
        "description": "Data of ConfigMaps by name, over that of the policies' own.",
    },
    "derived": {
        "type": "boolean",
        "description": "Whether the templates of workloads are judged too, as by the service.",
    },
}
_OBJECT = {"type": ["string", "object"], "description": "A name in objects, {file: NAME}, or the object itself."}
_PATCH = {"type": "object", "description": "A merge patch for the object."}
_CASE: dict[str, Any] = {
    "name": {"type": "string", "minLength": 1},
    "object": _OBJECT,
    "patch": _PATCH,
    "oldObject": _OBJECT,
    "oldPatch": _PATCH,
    "operation": {"enum": ["CREATE", "UPDATE", "DELETE", "CONNECT"]},
    **_FIELDS,
    "expect": {"enum": ["allowed", "denied"]},
    "messages": {**_TEXTS, "description": "Whole texts of the refusals, in the order of the policies."},
    "warnings": {**_TEXTS, "description": "Whole texts of the warnings."},
    "audit": {**_TEXTS, "description": "Whole texts that only the audit log has."},
    "patched": {"type": "object", "description": "A merge patch that makes of the object what mutating policies do."},
}


_SUITE: dict[str, Any] = {
    "title": "Suite of cks-admission",
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "policies", "cases"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "policies": {**_TEXTS, "minItems": 1, "description": "Files with policies, from the suite's folder."},
        **_FIELDS,
        "objects": {"type": "object", "additionalProperties": {"type": "object"}},
        "cases": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "expect"],
                "anyOf": [{"required": ["object"]}, {"required": ["oldObject"]}],
                "properties": _CASE,
            },
        },
    },
}


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
NAMES: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "configuration": _configuration,
    "suite": lambda: _SUITE,
    "exception": _exception,
}


def schema(name: str) -> dict[str, Any]:
    """The schema of that name. Raises KeyError."""
    return {"$schema": DIALECT, **NAMES[name]()}
