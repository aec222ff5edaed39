"""JSON as the API server writes it (Go's encoding/json)."""

from __future__ import annotations

import json
from typing import Any


def to_json(value: Any) -> str:
    """The value as JSON on one line. Characters that a browser could misread are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def json_name(value: Any) -> str:
    """The name of a JSON value in messages of Go's decoder."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
