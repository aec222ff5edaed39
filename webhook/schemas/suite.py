"""The schema of a suite, as docs/reference/suites.md describes it."""

from __future__ import annotations

from typing import Any

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


def schema() -> dict[str, Any]:
    """The schema."""
    case = {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "expect"],
        "anyOf": [{"required": ["object"]}, {"required": ["oldObject"]}],
        "properties": _CASE,
    }
    return {
        "title": "Suite of cks-admission",
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "policies", "cases"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "policies": {**_TEXTS, "minItems": 1, "description": "Files with policies, from the suite's folder."},
            **_FIELDS,
            "objects": {"type": "object", "additionalProperties": {"type": "object"}},
            "cases": {"type": "array", "minItems": 1, "items": case},
        },
    }
