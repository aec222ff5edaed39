"""The schema of what `check -o json` prints."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_DECISION: dict[str, Any] = {
    "type": "object",
    "required": ["rule", "verdict"],
    "properties": {
        "rule": {**_TEXT, "description": "The built-in rule or policy."},
        "verdict": {"enum": ["admit", "deny", "warn", "audit", "excepted", "patch", "error"]},
        "violations": {"type": "array", "items": {"type": "object", "properties": {"path": _TEXT, "text": _TEXT}}},
        "exception": {"type": "object", "properties": {"name": _TEXT, "until": _TEXT, "reason": _TEXT}},
    },
}


def schema() -> dict[str, Any]:
    """The schema. Fields may be added, so those that it does not name are allowed."""
    judged: dict[str, Any] = {
        "type": "object",
        "required": ["where", "kind", "namespace", "name", "allowed", "message", "warnings", "decisions", "patch"],
        "properties": {
            "where": {**_TEXT, "description": "File and line."},
            "kind": _TEXT,
            "namespace": _TEXT,
            "name": _TEXT,
            "allowed": {"type": "boolean", "description": "Whether the object would be written."},
            "message": {**_TEXT, "description": "The refusal; empty if there is none."},
            "warnings": {"type": "array", "items": _TEXT},
            "decisions": {"type": "array", "items": _DECISION},
            "patch": {"type": "array", "items": {"type": "object"}, "description": "JSON Patch: what would change."},
        },
    }
    failed = {"type": "object", "required": ["error"], "properties": {"error": _TEXT}}
    return {
        "title": "Report of cks-admission check",
        "type": "array",
        "items": {"anyOf": [judged, failed]},
    }
