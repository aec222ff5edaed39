"""Values as explanations show them: short, and without secrets.

The values of environment variables, everything below `data` and `stringData` of a Secret, and every value computed from
such a place are masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from policies.cel.cases.document import encode
from policies.cel.checking.validation import walk
from policies.cel.explanation.places import Place
from policies.cel.syntax.ast import Call, Ident, Literal, Node, Select
from policies.cel.values import ABSENT, Optional, Value

MASK = "(masked)"
_LONGEST = 100
_SECRET_FIELDS = frozenset({"data", "stringData"})


def show(value: Value, place: Place | None, *, is_secret: bool) -> str:
    """A value on one line. `place`: where it was read. `is_secret`: whether the object is a Secret."""
    if place is not None and is_masked(place, is_secret=is_secret):
        return MASK
    if value.__class__ is Optional:
        return "none" if value.value is ABSENT else show(value.value, place, is_secret=is_secret)
    within_secret = is_secret and place in (("object",), ("oldObject",))
    encoded = encode(_masked(value, within_secret=within_secret))
    if isinstance(encoded, dict) and len(encoded) == 1 and (special := next(iter(encoded))).startswith("$"):
        encoded = encoded[special]
    text = json.dumps(encoded, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def is_masked(place: Place, *, is_secret: bool) -> bool:
    """Whether nothing at a place may be shown."""
    if is_secret and len(place) > 1 and place[1] in _SECRET_FIELDS:
        return True
    return any(step == "env" for step in place) and place[-1] == "value"


def _masked(value: Value, *, within_secret: bool = False, is_environment: bool = False) -> Value:
    """The value with its secret parts replaced."""
    if isinstance(value, list):
        return [_masked(item, is_environment=is_environment) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: MASK
        if (within_secret and key in _SECRET_FIELDS) or (is_environment and key == "value")
        else _masked(item, is_environment=key == "env")
        for key, item in value.items()
    }


def reads_secrets(node: Node, variables: Mapping[str, Node], *, is_secret: bool) -> bool:
    """Whether a node may be computed from a secret, by the names of the fields that it selects."""
    fields = set(_fields(node, variables, set()))
    return {"env", "value"} <= fields or (is_secret and bool(fields & _SECRET_FIELDS))


def _fields(node: Node, variables: Mapping[str, Node], followed: set[str]) -> Iterator[str]:
    for part in walk(node):
        if isinstance(part, Select):
            yield part.field
            if isinstance(part.operand, Ident) and part.operand.name == "variables" and part.field not in followed:
                followed.add(part.field)
                if part.field in variables:
                    yield from _fields(variables[part.field], variables, followed)
        elif isinstance(part, Call) and part.function in ("_[_]", "_[?_]", "_?._"):
            yield from (key.value for key in part.args if isinstance(key, Literal) and isinstance(key.value, str))
