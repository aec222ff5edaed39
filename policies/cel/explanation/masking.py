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
from policies.objects.masking import MASK, SECRET_FIELDS, Masking

_LONGEST = 100


def show(value: Value, place: Place | None, *, is_secret: bool) -> str:
    """A value on one line. `place`: where it was read. `is_secret`: whether the object is a Secret."""
    if place is not None and is_masked(place, is_secret=is_secret):
        return MASK
    if value.__class__ is Optional:
        return "none" if value.value is ABSENT else show(value.value, place, is_secret=is_secret)
    encoded = encode(_masked(value, place or (), is_secret=is_secret))
    if isinstance(encoded, dict) and len(encoded) == 1 and (special := next(iter(encoded))).startswith("$"):
        encoded = encoded[special]
    text = json.dumps(encoded, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def is_masked(place: Place, *, is_secret: bool) -> bool:
    """Whether nothing at a place may be shown."""
    if is_secret and len(place) > 1 and place[1] in SECRET_FIELDS:
        return True
    return any(step == "env" for step in place) and place[-1] == "value"


def _masked(value: Value, place: Place, *, is_secret: bool) -> Value:
    """The value of a place with its secret parts replaced."""
    masking = Masking(keys=False)
    if place[-1:] == ("env",):
        return masking.masked({"env": value})["env"]
    if place[-2:-1] == ("env",):
        return masking.masked({"env": [value]})["env"][0]
    return masking.masked(value, is_secret=is_secret and place in (("object",), ("oldObject",)))


def reads_secrets(node: Node, variables: Mapping[str, Node], *, is_secret: bool) -> bool:
    """Whether a node may be computed from a secret, by the names of the fields that it selects."""
    fields = set(_fields(node, variables, set()))
    return {"env", "value"} <= fields or (is_secret and bool(fields & SECRET_FIELDS))


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
