"""The functions that generated code may call, besides the implementations of the libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any, NoReturn

from policies.cel.cost import STRING_TRAVERSAL, size, traversal
from policies.cel.equality import equal
from policies.cel.evaluation.run import check_key, present, qualify
from policies.cel.library.lists import insert, insert_all
from policies.cel.library.operators import different, is_in, length
from policies.cel.patchtypes import construct
from policies.cel.values import ABSENT, NONE, BudgetError, Optional, Value
from policies.engine.interruption import Expired, look

SIZED = frozenset({str, bytes, list, dict})
PASS = tuple(ceil(count * STRING_TRAVERSAL) for count in range(4096))
"""The cost of one pass over a text, by its size. For a longer text IndexError hands over to the exact evaluator."""

BETWEEN_LOOKS = 4_000  # cost units, a few milliseconds at most


class HandOverError(Exception):
    """The generated function leaves this case to the exact evaluator."""


def fail() -> NoReturn:
    """Hand over to the exact evaluator."""
    raise HandOverError


def has(value: Value, field: str) -> bool:
    """`has(value.field)`."""
    return maybe(value, field) is not ABSENT


def maybe(value: Value, key: Value) -> Value:
    """`value[?key]`, or ABSENT. Hands over to the exact evaluator for an unexpected optional."""
    check_key(key)
    return fail() if value.__class__ is Optional else present(value, key)


def item(value: Value, key: Value) -> Value:
    """`value[key]` with a computed key."""
    check_key(key)
    return qualify(value, key)


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """The pairs over which a macro with two variables iterates."""
    if value.__class__ is dict:
        return value.items()
    return enumerate(value) if value.__class__ is list else fail()


def elements(value: Value) -> Value:
    """The value over which a macro with one variable iterates."""
    return value if value.__class__ is list or value.__class__ is dict else fail()


def unwrap(value: Value) -> Value:
    """The content of an optional, or ABSENT."""
    return value.value if value.__class__ is Optional else fail()


def wrap(value: Value) -> Optional:
    """An optional of a value or of ABSENT."""
    return NONE if value is ABSENT else Optional(value)


def guard(cost: int, limit: int, expired: Expired | None) -> int:
    """The next mark, in a loop whose cost has passed the last one. Raises TimeLimitError; hands over at the limit."""
    look(expired)
    if cost > limit:
        fail()
    return min(limit, cost + BETWEEN_LOOKS)


def certain_guard(cost: int, limit: int, expired: Expired | None, early: int) -> int:
    """The next mark, in a loop before which nothing is left to be computed. Raises BudgetError and TimeLimitError.

    early: the most that may be charged so far for what the reference charges later.
    """
    look(expired)
    if cost > limit + early:
        raise BudgetError(limit + 1, certain=True)
    return min(limit + early, cost + BETWEEN_LOOKS)


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    equal, different, is_in, length, construct, qualify, fail, has, item, maybe, pairs,
    elements, unwrap, wrap, guard, certain_guard, size, traversal, insert, insert_all,
)  # fmt: skip
NAMESPACE: Mapping[str, Any] = {
    "__builtins__": {"len": len, "iter": iter, "next": next, "min": min, "list": list, "dict": dict},
    "ABSENT": ABSENT,
    "SIZED": SIZED,
    "PASS": PASS,
    "int_": int,
    "str_": str,
    **{function.__name__: function for function in _FUNCTIONS},
}
