"""Policies and bindings with random fields and values, most of them invalid, made from the table of fields."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from support.policies.refusedpolicies import good

from policies.admissionpolicy.documents.document import KINDS, Shape

_WORDS = (
    *("", " ", "a", "A b", "a\nb", "a.b/c", "a/b/c", "-", "x" * 64, "é<&>\u2028", "v1", "apps/v1", "ConfigMap"),
    *("*", "*/*", "pods", "pods/*", "pods/status", "*/status", "CREATE", "DELETE", "create", "Namespaced"),
    *("Fail", "fail", "Deny", "Warn", "Audit", "Allow", "In", "NotIn", "Exists", "Exact", "Never", "Forbidden"),
    *("JSONPatch", "ApplyConfiguration", "true", "1", "'x'", "null", "[]", "Object{}", "'unclosed"),
    *("object.x", " object.x == 1 \n", "params.y", "variables.a", "variables.a == 1", "string(object.x)"),
    *("authorizer.path('/').check('get').allowed()", "[JSONPatch{op: 'add', path: '/a', value: 1}]"),
)
_WRONG: tuple[Any, ...] = (None, 1, True, 1.5, "x", [], {}, ["a"], {"a": 1})
_UNSURE = ("uid", "resourceVersion", "deletionGracePeriodSeconds")  # a request with these is another request


def documents(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Documents with one to five random changes each."""
    chance = random.Random(seed)  # noqa: S311 - no secrets are made here
    for _ in range(count):
        kind = chance.choice(tuple(KINDS))
        document = good(kind)
        for _ in range(chance.randint(1, 5)):
            _change(document, kind, chance)
        yield document


def _change(document: dict[str, Any], kind: str, chance: random.Random) -> None:
    """Set a field somewhere in the spec or the metadata."""
    target, fields = document, KINDS[kind].fields or {}
    choices = ["metadata", "spec", "spec", "spec"]
    while True:
        name = chance.choice(choices)
        below, value = fields[name], target.get(name)
        if below.json == "array" and below.item is not None and isinstance(value, list) and value:
            below, value = below.item, value[0]
        if below.fields is None or not isinstance(value, dict) or chance.random() < 0.1:
            break
        target, fields, choices = value, below.fields, [name for name in below.fields if name not in _UNSURE]
    if name not in ("metadata", "spec") and fields[name].json:
        target[name] = _value(fields[name], chance)


def _value(shape: Shape, chance: random.Random) -> Any:
    """A value for a field, sometimes of a wrong type."""
    return chance.choice(_WRONG) if chance.random() < 0.02 else _typed(shape, chance)


def _typed(shape: Shape, chance: random.Random) -> Any:
    if shape.fields is not None:
        unknown = {"foo": 1} if chance.random() < 0.02 else {}
        return {k: _value(v, chance) for k, v in shape.fields.items() if chance.random() < 0.75} | unknown
    if shape.json == "array" and shape.item is not None:
        return [_value(shape.item, chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    if shape.json == "object":  # one key: the API server goes through a map in random order
        return {chance.choice(("a", "b")): chance.choice(_WORDS)}
    if shape.json == "number":
        return chance.randint(-1, 3)
    return chance.choice(_WORDS) if shape.json else None
