"""Cases: expressions with inputs and the results of Kubernetes, for running against an evaluator.

A document (already parsed) has `fixtures`, the inputs that its cases share, and `cases`, each with `id`, `expression`,
and optionally `category`, `mode` (any, bool, jsonpatch or applyconfig), `variables`, its own inputs, and `expect`:
`value`, `type` and `cost`, or `stage`, `error` and `cost`, where `{oneOf: [...]}` stands for any of several. Where
releases of Kubernetes differ, `expect` has one of these for the oldest and one for each that answers otherwise than
the release before it, by its name: `{'1.36': {...}, '1.38': {...}}`.

The input `authorizer` is a list of answers to authorization checks: `allowed`, `reason` and `error`, and the `user`,
`namespace`, `verb`, `resource` and `path` of the checks that it answers. The first one that matches answers a check. If
none does, the check is denied with the reason `no rule`.

Types that JSON lacks are written as a map with one key: `$double`, `$uint`, `$bytes` (base64), `$duration` (as Go
writes it), `$timestamp` (RFC 3339, UTC), `$optional` (null for none), `$object` (an `Object{}`), `$type`, and `$` with
the name of any other type, with its text.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from msgspec import Struct, ValidationError, convert

from policies.cel import types
from policies.cel.activation import activation
from policies.cel.cost import POLICY_LIMIT
from policies.cel.environment import STORED, Dialect
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import Check, CheckAnswer
from policies.cel.library.texts import Format
from policies.cel.patchtypes import JSON_PATCH, OBJECT, JSONPatch, ObjectValue
from policies.cel.program import Composition, Program, Variables, compile_expression
from policies.cel.syntax.source import CompileError
from policies.cel.types import Type
from policies.cel.values import ABSENT, CelError, Duration, Optional, Timestamp, Uint, Value, type_of
from policies.golang.time import format_timestamp, go_duration
from policies.kubernetes.release import NEWEST, RELEASES, Release

_RELEASES = frozenset(release.name for release in RELEASES)
INPUTS = ("object", "oldObject", "params", "namespaceObject", "request", "authorizer")
COMPILE, EVAL, BUDGET = "compile", "eval", "budget"
"""Stages: Kubernetes refuses the expression; it fails at run time; the policy as a whole has used up its budget."""


class CaseError(Exception):
    """The document is not a valid file of cases. The text names the place and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CelCase:
    """One expression. `variables`: names with their expressions. `inputs`: the values of `INPUTS`, or None."""

    id: str
    expression: str
    category: str = ""
    mode: str = "any"
    variables: tuple[tuple[str, str], ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] | None = None

    def expected(self, release: Release) -> Mapping[str, Any] | None:
        """What a release of Kubernetes answers; None if the case does not say."""
        if self.expect is None or not _RELEASES & self.expect.keys():
            return self.expect
        known = [self.expect[one.name] for one in RELEASES if one <= release and one.name in self.expect]
        return known[-1] if known else None


class AuthorizerRule(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to the checks that match all fields that are not None. `path` "" matches checks without a path."""

    allowed: bool
    reason: str = ""
    error: str | None = None
    user: str | None = None
    namespace: str | None = None
    verb: str | None = None
    resource: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class AuthorizerRules:
    """An authorizer with fixed answers."""

    rules: tuple[AuthorizerRule, ...]

    def answer(self, check: Check) -> CheckAnswer:
        """The answer of the first rule that matches, or else a denial."""
        asked = (check.user.name, check.namespace, check.verb, check.resource, check.path or "")
        for rule in self.rules:
            own = (rule.user, rule.namespace, rule.verb, rule.resource, rule.path)
            if all(mine is None or mine == other for mine, other in zip(own, asked, strict=True)):
                return CheckAnswer(rule.allowed, rule.reason, rule.error)
        return CheckAnswer(allowed=False, reason="no rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an expression: `value`, as `encode` writes it, and `type`; or `error` at a `stage`."""

    cost: int = 0
    value: Any = None
    type: str | None = None
    error: str | None = None
    stage: str | None = None


# Reading -------------------------------------------------------------------------------------------------------------


def cases(document: Any) -> tuple[CelCase, ...]:
    """The cases of a document. Raises CaseError."""
    if not isinstance(document, dict) or not isinstance(document.get("cases"), list):
        raise CaseError("cases: a list of cases is needed")
    fixtures = document.get("fixtures") or {}
    if not isinstance(fixtures, dict):
        raise CaseError("fixtures: must be a map")
    return tuple(_case(raw, fixtures, f"cases[{number}]") for number, raw in enumerate(document["cases"]))


def _case(raw: Any, fixtures: Mapping[str, Any], path: str) -> CelCase:
    if not isinstance(raw, dict) or not isinstance(raw.get("expression"), str):
        raise CaseError(f"{path}.expression: a text is needed")
    mode = raw.get("mode", "any")
    if mode not in _MODES:
        raise CaseError(f"{path}.mode: {mode!r} is none of {', '.join(_MODES)}")
    inputs = {name: raw.get(name, fixtures.get(name)) for name in INPUTS}
    try:
        authorizer_rules(inputs)
    except ValidationError as error:
        raise CaseError(f"{path}: authorizer: {error}") from None
    try:
        variables = tuple((str(one["name"]), str(one["expression"])) for one in raw.get("variables") or ())
    except (KeyError, TypeError):
        raise CaseError(f"{path}.variables: each needs a name and an expression") from None
    return CelCase(
        id=str(raw.get("id", path)),
        expression=raw["expression"],
        category=str(raw.get("category", "")),
        mode=mode,
        variables=variables,
        inputs=inputs,
        expect=raw.get("expect"),
    )


def authorizer_rules(inputs: Mapping[str, Any]) -> AuthorizerRules:
    """The authorizer among the inputs of a case."""
    return AuthorizerRules(convert(inputs.get("authorizer") or (), tuple[AuthorizerRule, ...]))


_MODES = ("any", "bool", "jsonpatch", "applyconfig")


# Values --------------------------------------------------------------------------------------------------------------


def encode(value: Value) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case for each type
    """A value as JSON.

    >>> encode([Uint(1), 0.5, {True: b"a"}])
    [{'$uint': 1}, {'$double': 0.5}, {'true': {'$bytes': 'YQ=='}}]
    """
    match value:
        case Uint():
            return {"$uint": int(value)}
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return {"$double": value}
            return {"$double": "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"}
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case list():
            return [encode(item) for item in value]
        case Variables():
            return {}
        case dict():
            return {_key(key): encode(item) for key, item in value.items()}
        case Duration():
            return {"$duration": go_duration(value.nanoseconds)}
        case Timestamp():
            return {"$timestamp": format_timestamp(value.nanoseconds)}
        case Optional():
            return {"$optional": None if value.value is ABSENT else encode(value.value)}
        case Type():
            return {"$type": value.name}
        case Format():
            return {"$kubernetes.NamedFormat": value.name}
        case JSONPatch():
            fields = {"op": value.op, "path": value.path, "from": value.from_ or ABSENT, "value": value.value}
            return {name: encode(item) for name, item in fields.items() if item is not ABSENT}
        case ObjectValue():
            return {"$object": _native(value)}
        case CelError():  # an optional may hold one
            return {"$error": str(value)}
        case _:  # authorizers, checks and decisions have no text
            name = type_of(value).name
            return {f"${name}": "" if name.startswith("kubernetes.authorization.") else str(value)}


def _key(key: Any) -> str:
    if key is None:
        return "null"
    if key.__class__ is Optional:
        return "<nil>" if key.value is ABSENT else _key(key.value)
    return str(key).lower() if isinstance(key, bool) else str(key)


def _native(value: Value) -> Any:  # noqa: PLR0911 - a case for each type
    """The content of an `Object{}` as plain JSON, as when it is applied."""
    match value:
        case Uint():
            return int(value)
        case None | bool() | int() | str():
            return value
        case float():
            is_whole = value.is_integer() and abs(value) < 1e21
            return int(Decimal(repr(value))) if is_whole else value  # the fewest digits of the double, then zeros
        case ObjectValue():
            return {name: _native(item) for name, item in value.fields.items()}
        case dict():
            return {_key(key): _native(item) for key, item in value.items()}
        case list() | bytes():
            return list(map(_native, value))
        case Duration():
            return value.nanoseconds
        case Timestamp():
            return format_timestamp(value.nanoseconds)
        case Optional():
            return None if value.value is ABSENT else _native(value.value)
        case Type():
            return value.name
        case _:
            return str(value)


# Comparison ----------------------------------------------------------------------------------------------------------


_OWN_WORDS = re.compile(
    r"(Syntax error: |error parsing regexp: |ParseAddr\(|invalid qualifier type: |unsupported conversion to ref.Val: |"
    r"unsupported comprehension range type: |got (?='.*', expected iterable type)|"
    r"cannot initialize optional .* from non-optional value |join: invalid input: |value (?=.* is not optional)|"
    r"unexpected type (?=.* for JSONPatchType)).*",
    re.DOTALL,
)
"""These errors have our own wording, or name a type where the reference names a class of Go. The text before that,
including the place, must match the reference."""
_CONTAINER = " (in container '')"
_UNKNOWN = re.compile(r"(\d+:\d+: )(undeclared reference to '[^'.]*)([^']*)'(?: \(.*?\))?")
"""Since 1.38 there is no container behind an unknown name, but what is like it, if anything is. Where that is a
qualified name, 1.38 names all of it and its last point: `obje.spec` is like `format.named`. Ours is the first part."""


def difference(case: CelCase, outcome: Outcome, release: Release = NEWEST) -> str | None:
    """How an outcome differs from the one expected of a release; None if it does not, or if none is expected."""
    expect = case.expected(release)
    if expect is None:
        return None
    for name in ("stage", "error", "type", "value", "cost"):
        if name not in expect and (name != "stage" or "error" in expect):
            continue  # the case does not name it; but an error must be expected
        expected, actual = expect.get(name), getattr(outcome, name)
        choices = expected["oneOf"] if isinstance(expected, dict) and "oneOf" in expected else [expected]
        if not any((_same_error if name == "error" else _equal)(choice, actual) for choice in choices):
            return f"{name}: expected {expected!r}, found {actual!r}"
    return None


def _equal(expected: Any, actual: Any) -> bool:
    """Whether JSON values are equal with their types: true is not 1. A `$double` may be written without a point."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() == actual.keys() == {"$double"}:
            left, right = expected["$double"], actual["$double"]
            if isinstance(left, str) or isinstance(right, str):
                return bool(left == right)
            return float(left) == float(right) and math.copysign(1.0, left) == math.copysign(1.0, right)
        return expected.keys() == actual.keys() and all(_equal(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_equal, expected, actual))
    return expected.__class__ is actual.__class__ and bool(expected == actual)


def _same_error(expected: Any, actual: Any) -> bool:
    texts = isinstance(expected, str) and isinstance(actual, str)
    if texts and _CONTAINER not in expected and (names := [match[3] for match in _UNKNOWN.finditer(expected)]):
        form = r"\2'" if any(names) else r"\1\2'"
        return _UNKNOWN.sub(form, expected) == _UNKNOWN.sub(form, actual)
    return _OWN_WORDS.sub(r"\1", expected) == _OWN_WORDS.sub(r"\1", actual) if texts else expected is actual


RESULTS: Mapping[str, tuple[Type, ...]] = {
    "any": (),
    "bool": (types.BOOL,),
    "string": (types.STRING,),
    "jsonpatch": (types.list_of(JSON_PATCH),),
    "applyconfig": (OBJECT,),
}
"""The result types that each mode allows; none: all."""
PATCHING = frozenset({"jsonpatch", "applyconfig"})
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def run(case: CelCase, dialect: Dialect = STORED) -> Outcome:
    """The outcome of a case."""
    try:
        program, composition = compiled(case, dialect)
    except CompileError as error:
        return Outcome(stage=COMPILE, error=error.reference())
    names = bound(case.inputs, composition)
    evaluation = program.evaluate(names)
    cost = evaluation.cost + names["variables"].cost
    if not 0 <= cost <= POLICY_LIMIT:
        return Outcome(stage=BUDGET, error=OUT_OF_BUDGET, cost=POLICY_LIMIT + 1)
    if evaluation.error is not None:
        return Outcome(stage=EVAL, error=str(evaluation.error), cost=cost)
    return Outcome(value=encode(evaluation.value), type=type_of(evaluation.value).name, cost=cost)


def compiled(case: CelCase, dialect: Dialect = STORED) -> tuple[Program, Composition]:
    """The program of a case, and the variables with which it was compiled. Raises CompileError."""
    return _compiled(case.expression, case.mode, case.variables, dialect)


def bound(inputs: Mapping[str, Any], composition: Composition) -> Mapping[str, Any]:
    """The names that a program reads, from the inputs of a case. No variable is evaluated yet."""
    return composition.bind(
        activation(
            inputs.get("request") or {},
            authorizer_rules(inputs),
            object=inputs.get("object"),
            old_object=inputs.get("oldObject"),
            params=inputs.get("params"),
            namespace=inputs.get("namespaceObject"),
        )
    )


@lru_cache(maxsize=1024)
def _compiled(
    expression: str, mode: str, variables: tuple[tuple[str, str], ...], dialect: Dialect
) -> tuple[Program, Composition]:
    composition = _composition(variables, dialect)
    if mode in PATCHING:
        composition = composition.for_mutations()
    return compile_expression(expression, composition.environment, *RESULTS[mode]), composition


@lru_cache(maxsize=64)
def _composition(variables: tuple[tuple[str, str], ...], dialect: Dialect) -> Composition:
    composition = Composition(admission(dialect=dialect))
    for name, expression in variables:
        composition = composition.declare(name, expression)
    return composition
