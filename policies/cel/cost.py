"""Cost as kube-apiserver charges it while an expression runs: sizes, factors and limits.

Sources: cel-go's interpreter/runtimecost.go and common/cost.go, k8s.io/apiserver's pkg/cel/library/cost.go and
pkg/apis/cel/config.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from policies.cel.values import ABSENT, Optional, Value
from policies.engine.interruption import spend

EXPRESSION_LIMIT = 1_000_000
"""The limit for one evaluation of an expression, and of each variable."""
POLICY_LIMIT = 10_000_000
"""The limit for all expressions of a policy with one binding."""
MATCH_CONDITIONS_LIMIT = 2_500_000
"""The limit for the match conditions of one policy or webhook."""

LIST_CREATION = 10
MAP_CREATION = 30
STRUCT_CREATION = 40
STRING_TRAVERSAL = 0.1
REGEX_LENGTH = 0.25


def size(value: Value) -> int:
    """The size on which costs depend: characters, bytes, elements or entries; 1 for others, including failures."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if value.__class__ is Optional and value.value is not ABSENT:
        return size(value.value)
    sized = getattr(value, "cel_size", None)
    return 1 if sized is None else int(sized)


def traversal(value: Value) -> int:
    """The cost of one pass over a text: a tenth of its size, rounded up."""
    return ceil(size(value) * STRING_TRAVERSAL)


def of_first(arguments: Sequence[Value], _: Value) -> int:
    """The cost of one pass over the first argument."""
    return traversal(arguments[0])


def of_second(arguments: Sequence[Value], _: Value) -> int:
    """The cost of one pass over the second argument."""
    return traversal(arguments[1])


def of_first_twice(arguments: Sequence[Value], _: Value) -> int:
    """The cost of one pass over the first argument and one to build the result."""
    return ceil(size(arguments[0]) * 2 * STRING_TRAVERSAL)


def tree(value: Value) -> int:
    """The cost of one pass over everything in a value: texts by bytes (rounded down), other leaves 1."""
    match value:
        case str():
            return int(len(value.encode(errors="surrogatepass")) * STRING_TRAVERSAL)
        case bytes():
            return int(len(value) * STRING_TRAVERSAL)
        case list():
            spend(len(value) * 0.5)
            return sum(map(tree, value))
        case dict():
            spend(len(value) * 1.0)
            return sum(tree(key) + tree(item) for key, item in value.items())
        case _:
            return 1


def of_tree(arguments: Sequence[Value], _: Value) -> int:
    """The cost of one pass over everything in the first argument."""
    return tree(arguments[0])


def matching(text: Value, pattern: Value) -> int:
    """The cost of a search for a regular expression, from the lengths of the text and the pattern."""
    return ceil((1.0 + size(text)) * STRING_TRAVERSAL) * ceil(size(pattern) * REGEX_LENGTH)


def of_match(arguments: Sequence[Value], _: Value) -> int:
    """The cost of a search for the second argument in the first."""
    return matching(arguments[0], arguments[1])
