"""Expressions made to be costly to compile: shapes that grow with a number of characters."""

from __future__ import annotations

from collections.abc import Callable

Shape = Callable[[int], str]


def _often(part: str, separator: str = " || ") -> Shape:
    return lambda size: separator.join([part] * max(1, size // (len(part) + len(separator))))


def _listed(part: str) -> Shape:
    return lambda size: f"[{_often(part, ', ')(size)}]"


def _around(opening: str, inner: str, closing: str, depth: int = 150, ending: str = "") -> Shape:
    return _often(opening * depth + inner + closing * depth + ending)


def _each(part: str, separator: str = " || ") -> Shape:
    """A part with another number each time."""
    return lambda size: separator.join(part.format(number) for number in range(max(1, size // (len(part) + 4))))


SHAPES: dict[str, Shape] = {
    "alternatives": _often("object.a"),
    "comparisons": _often("object.a.b == object.c.d"),
    "known fields": _each("has(object.a{0}) && object.a{0} == 1", " && "),
    "unknown names": _often("nothing"),
    "unknown functions": _often("nothing()"),
    "unknown methods": _often("''.startWith('')"),
    "copies": _listed("object.?a" + ".optMap(x, x)" * 2),
    "doubled copies": _listed("object.?a" + ".optMap(x, x)" * 8),
    "names in names": _listed("object.?a.optMap(x, " * 8 + "x" + ")" * 8),
    "doubled types": lambda size: "size([1]" + ".map(x, {x: x})" * min(size // 15, 100) + ") == 1",
    "doubled entries": lambda size: "{1: 1}" + ".transformMap(k, v, {v: v})" * min(size // 30, 100),
    "doubled unknown types": lambda size: "[]" + ".map(x, {x: x})" * min(size // 15, 100),
    "types that wait for one another": lambda size: (
        "".join(f"[].map(x{number}, " for number in range(60))
        + f"[{', '.join(f'x{number} == {{x{number + 1}: x{number + 1}}}' for number in range(min(size // 20, 59)))}]"
        + ")" * 60
    ),
    "maps in maps": _around("[1].map(x, ", "1", ")"),
    "filters in filters": _around("object.l.filter(x, object.l.filter(y, x == y) == ", "[]", ")", 60),
    "lists in lists": _listed("[" * 100 + "1" + "]" * 100),
    "computed lists in lists": _listed("[" * 100 + "object.a" + "]" * 100),
    "empty lists": _often("[]", " + "),
    "searches in searches": _around("(", "object.a", " in [true])"),
    "long ways": _around("", "object", ".a", 240, " == 1"),
    "long optional ways": _around("", "object", ".?a", 240, ".hasValue()"),
    "long ways by index": _around("", "object", "['a']", 240, " == 1"),
    "ways in ways": _around("object[", "1", "]", ending=" == 1"),
    "choices": _around("(true ? 1 : ", "2", ")", 100, " == 1"),
    "choices of choices": _around("(", "object", " ? object : object).a", 75),
    "sums": _around("", "object.a", " + object.a", 200, " == 1"),
    "sums of lists": _around("", "[1]", " + [1]", 200, " == []"),
    "negations": _around("!(", "object.a", ")"),
    "one of many": lambda size: f"object.a in {_listed('1')(size)}",
    "elements": _listed("object.a"),
    "optional elements": _listed("?object.?a"),
    "entries": lambda size: "{" + _each("'a{0}': object.b", ", ")(size) + "}",
    "loops": _often("object.a.all(x, x == 1)"),
    "sorted lists": _often("[1]" + ".sortBy(x, x)" * 20 + " == []"),
    "formats in formats": _around("'%s'.format([", "1", "])", 100, " == ''"),
    "patterns": _each("object.a.matches('[a-z]{0}')"),
    "quantities": _each("quantity('{0}').isInteger()"),
    "many scopes": lambda size: (
        "".join(f"[1].all(x{number}, " for number in range(100)) + _often("x0 == 1")(size) + ")" * 100
    ),
    "many lines": _often("a", "\n|| "),
}  # fmt: skip
"""By what is special about them. Each takes the number of characters, more or less."""
