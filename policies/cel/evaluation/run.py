"""What steps are: parts of an evaluation in progress, and selection at run time (cel-go's attributes.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.environment import NEW, Cost, Dialect, Function, Overload
from policies.cel.equality import find
from policies.cel.syntax import ast
from policies.cel.types import Kind, Type
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    BudgetError,
    CelError,
    Optional,
    Uint,
    Value,
    no_such_overload,
    type_of,
)
from policies.engine.interruption import Expired, look, spend
from policies.golang.strconv import general

Outcome = Any
"""A value, or the CelError that an expression failed with."""

_TURNS = 256  # turns of loops between two looks at the clock, since some turns cost nothing
_BETWEEN_LOOKS = 2_000  # cost units, a few milliseconds at most


@dataclass(slots=True)
class Run:
    """The state of one evaluation of one expression.

    `names`: the variables of the activation. `scopes`: those of the macros, innermost last. `absorbed`: whether a
    failure was absorbed. `dialect`: that of the environment.
    """

    names: Mapping[str, Value]
    limit: int = EXPRESSION_LIMIT
    expired: Expired | None = None
    dialect: Dialect = NEW
    cost: int = 0
    absorbed: bool = False
    scopes: list[dict[str, Any]] = field(default_factory=list)
    _turns: int = 0
    _mark: int = -1

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises BudgetError above the limit, and TimeLimitError."""
        self.cost += cost
        if self.cost > self._mark:
            if self.cost > self.limit:
                raise BudgetError(self.cost)
            if self._mark >= 0:
                look(self.expired)
            self._mark = min(self.limit, self.cost + _BETWEEN_LOOKS)

    def turn(self) -> None:
        """Count a turn of a loop and look at the clock at intervals. Raises TimeLimitError."""
        self._turns += 1
        if self._turns % _TURNS == 0:
            look(self.expired)

    def lookup(self, name: str) -> Outcome:
        """The value of a name: the variable of the innermost macro, or of the activation."""
        for depth in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[depth]
            if name in scope:
                value = scope[name]
                if value.__class__ is Deferred:  # it is computed on first use, in the scope around the macro
                    inner, self.scopes = self.scopes, self.scopes[:depth]
                    try:
                        scope[name] = value = value.compute(self)
                    finally:  # the budget may end in there
                        self.scopes = inner
                return value
        if name in self.names:
            return self.names[name]
        return CelError(f"no such attribute(s): {name}")


@dataclass(frozen=True, slots=True)
class Deferred:
    """The first value of an accumulator that was not used yet."""

    compute: Callable[[Run], Outcome]


class Step:
    """A part of an expression. evaluate: returns its value, or the failure."""

    def __init__(self, evaluate: Callable[[Run], Outcome]) -> None:
        self.evaluate = evaluate


class Constant(Step):
    """A constant value, which costs nothing. It is a failure if a literal list could not be built."""

    def __init__(self, value: Outcome) -> None:
        super().__init__(lambda _: value)
        self.value = value


def failed(outcome: Outcome) -> bool:
    """Whether an outcome is a failure."""
    return outcome.__class__ is CelError


KEYS = (str, int, Uint, bool, float)


def qualify(value: Value, key: Value) -> Value:
    """`value.key` or `value[key]`. Raises CelError if it is absent."""
    if value.__class__ is list:
        index = index_of(key)
        if 0 <= index < len(value):
            return value[index]
        raise CelError(f"index out of bounds: {show_key(key)}")
    if value.__class__ is dict:
        content = find(value, key)
    else:
        fields = getattr(value, "cel_field", None)
        content = ABSENT if fields is None else fields(key)
    if content is ABSENT:
        raise CelError(f"no such key: {show_key(key)}")
    return content


def present(value: Value, key: Value) -> Value:
    """`value.key` or `value[key]`; ABSENT if missing or if the value has no fields. Raises CelError for a bad index."""
    if value.__class__ is dict:
        return find(value, key)
    if value.__class__ is list:
        index = index_of(key)
        return value[index] if 0 <= index < len(value) else ABSENT
    has = getattr(value, "cel_has", None)
    return value.cel_field(key) if has is not None and has(key) else ABSENT


def index_of(key: Value) -> int:
    """The list index for a key, an integer or a double without a fraction. Raises CelError for others."""
    kind = key.__class__
    if kind is int:
        return int(key)
    if kind is Uint and key <= INT_MAX:
        return int(key)
    if kind is float and key == key // 1 and INT_MIN <= key <= INT_MAX:
        return int(key)
    if kind in (Uint, float):
        raise CelError(f"unsupported index value {show_key(key)} in list")
    raise CelError(f"unsupported index type '{type_of(key)}' in list")


def check_key(key: Value) -> None:
    """Raises CelError for a value that cannot be a key or an index."""
    if key.__class__ not in KEYS:
        raise CelError(f"invalid qualifier type: {type_of(key).name}")


def show_key(key: Value) -> str:
    """A key in an error message, as Go's `%v` shows it."""
    if key.__class__ is bool:
        return "true" if key else "false"
    if key.__class__ is float:
        return general(key)
    return str(key)


# Calls: the only overload that the types allow, or one that the values choose

_ANYTHING = {Kind.DYN, Kind.PARAMETER}
_COMPOSED = {Kind.LIST, Kind.MAP}
_LONG = _ANYTHING | _COMPOSED | {Kind.STRING, Kind.BYTES}
_SIZED = frozenset({str, bytes, list, dict})
_SOME = 50  # characters or elements, with which a call takes no longer than any other


@dataclass(frozen=True, slots=True)
class CallBinding:
    """The implementation and cost of a call. stepwise: whether the first failing argument ends it."""

    call: Callable[..., Value]
    cost: Cost | int
    stepwise: bool
    exact: Callable[..., Value] | None
    """The overload's own implementation, for arguments whose types are known to fit; None for several overloads."""


def bind(node: ast.Call) -> CallBinding:
    """The binding of a checked call."""
    function = node.declared
    assert function is not None  # noqa: S101 - the checker has set it
    overload = node.overloads[0] if len(node.overloads) == 1 else None
    count = len(node.arguments)
    exact = function.call or (None if overload is None else overload.call)
    if function.call is not None:
        call, stepwise = function.call, False
    else:
        candidates = function.overloads if exact is None else node.overloads
        call = _choosing(function, candidates, count)
        stepwise = candidates[0].stepwise if len(candidates) == 1 else True
    cost = function.cost if overload is None or overload.cost is None else overload.cost
    return CallBinding(
        call=_announced(call, function, count),
        cost=1 if cost is None else cost,
        stepwise=stepwise or count > 2,  # cel-go has unary, binary, and the rest
        exact=None if exact is None else _announced(exact, function, count),
    )


def _announced(call: Callable[..., Value], function: Function, count: int) -> Callable[..., Value]:
    """The implementation, which first says how long it may take with so many arguments of their lengths."""
    work = function.work
    if not any(parameter.kind in _LONG for overload in function.overloads for parameter in overload.parameters):
        work = 0.0
    if not work or not count:
        return call

    def of_one(value: Value) -> Value:
        if value.__class__ in _SIZED and len(value) > _SOME:
            spend(len(value) * work)
        return call(value)

    def of_several(first: Value, second: Value, *others: Value) -> Value:
        if first.__class__ in _SIZED and len(first) > _SOME:
            spend(len(first) * work)
        if second.__class__ in _SIZED and len(second) > _SOME:
            spend(len(second) * work)
        return call(first, second, *others)

    return of_one if count == 1 else of_several


def _choosing(function: Function, overloads: Sequence[Overload], count: int) -> Callable[..., Value]:
    """A call of the first overload with so many parameters whose types fit the values."""
    candidates = [
        (overload.parameters, overload.call)
        for overload in overloads
        if overload.call is not None and len(overload.parameters) == count
    ]
    if len(candidates) == 1 and all(parameter.kind in _ANYTHING for parameter in candidates[0][0]):
        return candidates[0][1]

    def chosen(*values: Value) -> Value:
        for parameters, call in candidates:
            if all(map(fits, parameters, values)):
                return call(*values)
        given = ", ".join(type_of(value).name for value in values)
        raise CelError(f"no such overload: {function.name}({given})")

    return chosen


def fits(parameter: Type, value: Value) -> bool:
    """Whether a value has the type of a parameter. In a list or map only the first element is checked."""
    if parameter.kind in _ANYTHING:
        return True
    if parameter.name != type_of(value).name:
        return False
    if parameter.kind not in _COMPOSED or not value:
        return True
    if parameter.kind is Kind.LIST:
        return fits(parameter.parameters[0], value[0])
    key, item = next(iter(value.items()))
    return fits(parameter.parameters[0], key) and fits(parameter.parameters[1], item)


def literal_pattern(node: ast.Call) -> str | None:
    """The regular expression of a call if it is a string literal, else None."""
    given = node.arguments
    if node.declared is None or node.declared.pattern is None or node.declared.pattern >= len(given):
        return None
    pattern = given[node.declared.pattern]
    return pattern.value if isinstance(pattern, ast.Literal) and isinstance(pattern.value, str) else None


def text_only(call: Callable[..., Value]) -> Callable[..., Value]:
    """A search with a pattern that is known to be valid. It checks only the types of the other arguments."""

    def searching(text: Value, *rest: Value) -> Value:
        while text.__class__ is Optional:  # the reference looks for a string in the result of Go's Value()
            text = text.value
        if text.__class__ is Type:
            text = text.name
        if text.__class__ is not str or any(limit.__class__ is not int for limit in rest[1:]):
            raise no_such_overload()
        return call(text, *rest)

    return searching
