"""Random cases with a fixed seed: conditions, variables, validations, messages, annotations, actions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from cluster.policycases.case import CONFIG_MAPS, Ask, Case, Json, mutating, validating

if TYPE_CHECKING:
    from collections.abc import Iterator

VALIDATING, MUTATING = 140, 60

_VARIABLES = [
    {"name": "a", "expression": "string(object.data.a)"},
    {"name": "n", "expression": "int(variables.a)"},
    {"name": "bad", "expression": "object.data.missing"},
    {"name": "worse", "expression": "variables.bad + variables.a"},
]
_CONDITIONS = [
    "has(object.data.a)",
    "object.data.a != '3'",
    "object.data.missing == '1'",
    "request.operation == 'CREATE'",
    "object.metadata.annotations['x'] == 'y'",
    "oldObject == null",
]
_VALIDATIONS = [
    "true",
    "variables.n < 2",
    "variables.n == 2 || variables.bad == 'x'",
    "variables.worse == ''",
    "variables.bad == 'x' || variables.n > 0",
    "object.data.all(k, object.data[k] != variables.a)",
    "object.data.?b.orValue('1') == variables.a",
    "has(object.data.b) && object.data.b == 'b'",
    "request.userInfo.groups.exists(g, g == 'admins')",
    "namespaceObject.metadata.labels['team'] == 'blue'",
    "10 / variables.n > 5",
    "size(object.data.a) > 0\n  && object.data.a != '1'",
]
_MESSAGES = [
    "'n is ' + string(variables.n)",
    "string(variables.bad)",
    "'  '",
    "request.operation + ' of ' + request.name",
    "'%s and %d'.format([variables.a, variables.n])",
    "'a\\nb'",
]
_ANNOTATIONS = ["variables.a", "string(variables.n + 1)", "null", "string(variables.bad)", "' '", "request.operation"]
_ACTIONS = [["Deny"], ["Deny"], ["Warn"], ["Audit"], ["Deny", "Audit"], ["Warn", "Audit"]]
_REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_MUTATIONS = [
    "[JSONPatch{op: 'add', path: '/data/b', value: variables.a}]",
    "[JSONPatch{op: 'add', path: '/data/' + variables.a, value: object.data.b}]",
    "[JSONPatch{op: 'remove', path: '/data/b'}]",
    "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'replace', path: '/data/a', value: '2'}]",
    "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/c'}]",
    "[JSONPatch{op: 'add', path: '/data/d', value: variables.bad}]",
    "Object{metadata: Object.metadata{labels: {'size': 's' + string(object.data.size())}}}",
    "Object{metadata: Object.metadata{annotations: {'a': variables.a}}}",
    "Object{data: {'e': 'x'}}",
    "has(object.data.b) ? Object{metadata: Object.metadata{labels: {'b': 'yes'}}} : Object{}",
]


def _asks(lot: Random) -> list[Ask]:
    data = [{"a": "1"}, {"a": "2", "b": "b"}, {"a": "0"}, {"a": "3", "b": "1"}, {"a": "x"}]
    contents = [{"data": each} for each in lot.sample(data, 2)]
    notes = (("x", lot.choice("xy")),)
    made = [
        Ask(content=contents[0], annotations=notes),
        Ask(content=contents[1], user="bob", groups=("testers", "admins")),
    ]
    if lot.random() < 0.3:
        made.append(Ask(lot.choice(["UPDATE", "DELETE"]), content=contents[1], old=contents[0]))
    return made


def _conditions(lot: Random) -> list[Json]:
    chosen = lot.sample(_CONDITIONS, lot.choice([0, 0, 1, 1, 2, 3]))
    return [{"name": f"c{index}", "expression": text} for index, text in enumerate(chosen)]


def _validation(lot: Random) -> Json:
    found: Json = {"expression": lot.choice(_VALIDATIONS)}
    if lot.random() < 0.5:
        found["messageExpression"] = lot.choice(_MESSAGES)
    if lot.random() < 0.5:
        found["message"] = lot.choice(["said", " said <b> ", "\u00fcber & \u2603"])
    if lot.random() < 0.3:
        found["reason"] = lot.choice(_REASONS)
    return found


def _reference(lot: Random) -> tuple[Json, Json]:
    """A paramKind and a binding's paramRef, or neither."""
    name = lot.choice([None, None, "five", "nowhere"])
    if name is None:
        return {}, {}
    found = lot.choice(["Allow", "Deny"])
    return {"paramKind": CONFIG_MAPS}, {"paramRef": {"name": name, "parameterNotFoundAction": found}}


def _validating(number: int) -> Case:
    lot = Random(number)  # noqa: S311 - the same every time is what is wanted
    kind, reference = _reference(lot)
    notes = lot.sample(_ANNOTATIONS, lot.choice([0, 0, 1, 2]))
    validations = [_validation(lot) for _ in range(lot.randint(1, 4))]
    binding = {"validationActions": lot.choice(_ACTIONS), **reference}
    return validating(
        f"mixed-{number}",
        *validations,
        asks=_asks(lot),
        bindings=[binding],
        variables=_VARIABLES,
        matchConditions=_conditions(lot),
        auditAnnotations=[{"key": f"k{index}", "valueExpression": text} for index, text in enumerate(notes)],
        failurePolicy=lot.choice(["Fail", "Fail", "Ignore"]),
        **kind,
    )


def _mutating(number: int) -> Case:
    lot = Random(number)  # noqa: S311 - as above
    kind, reference = _reference(lot)
    return mutating(
        f"mixed-{number}",
        *(lot.choice(_MUTATIONS) for _ in range(lot.randint(1, 4))),
        asks=[ask for ask in _asks(lot) if ask.operation != "DELETE"],
        bindings=[reference],
        variables=_VARIABLES,
        matchConditions=_conditions(lot),
        failurePolicy=lot.choice(["Fail", "Ignore"]),
        reinvocationPolicy=lot.choice(["Never", "IfNeeded"]),
        **kind,
    )


def _all() -> Iterator[Case]:
    yield from map(_validating, range(VALIDATING))
    yield from map(_mutating, range(MUTATING))


CASES: tuple[Case, ...] = tuple(_all())
