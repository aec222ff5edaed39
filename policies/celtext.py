"""Writing CEL: literals, and steps into objects of unknown shape.

Every step is optional (`object.?spec.?template`): it yields nothing if a parent is missing, null or of another type. An
error in a match condition of a webhook that fails closed would count as a match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from policies.kubernetes.name import glob_expression
from policies.objects.fieldpath import Pattern, Wildcard

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Reserved by https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax: no field selection by these names.
_KEYWORDS = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let"),
        *("loop", "namespace", "null", "package", "return", "true", "var", "void", "while"),
    )
)
# The backslash comes first because the other escapes contain one.
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}


def is_identifier(name: str) -> bool:
    """Whether CEL allows this name for a variable or in a field selection."""
    return bool(_IDENTIFIER.match(name)) and name not in _KEYWORDS


def steps(base: str, pattern: Pattern) -> str:
    """The optional value at a path without wildcards; the base itself if the path is empty."""
    for key in map(str, pattern):
        base = f"{base}.?{key}" if is_identifier(key) else f"{base}[?{text(key)}]"
    return base


def value(base: str, pattern: Pattern) -> str:
    """The value at a path without wildcards; null if there is none."""
    return f"{steps(base, pattern)}.orValue(null)" if pattern else base


def pairs(pattern: Pattern, new: str = "object", old: str = "oldObject") -> str:
    """A list of pairs `[value, old value]`, one for each place in `new` that matches the pattern.

    Several wildcards in one pattern need `flatten`, which kube-apiserver has from 1.34 on.
    """
    for position, key in enumerate(pattern):
        if isinstance(key, Wildcard):
            head, tail = pattern[:position], pattern[position + 1 :]
            kind, empty = ("list", "[]") if key is Wildcard.ITEMS else ("map", "{}")
            children = f"(type({value(new, head)}) == {kind} ? {steps(new, head)}.orValue({empty}) : {empty})"
            deeper = sum(isinstance(step, Wildcard) for step in tail)
            index, child = f"i{deeper or ''}", f"c{deeper or ''}"  # an inner variable must not hide an outer one
            before = f"{steps(old, head)}[?{index}]"
            if deeper:
                inner = pairs(tail, child, f"{before}.orValue(dyn(null))")
                return f"{children}.transformList({index}, {child}, {inner}).flatten()"
            pair = f"[{value(child, tail)}, {steps(before, tail)}.orValue(dyn(null))]"
            return f"{children}.transformList({index}, {child}, {pair})"
    return f"[[{value(new, pattern)}, {value(old, pattern)}]]"


def split(pattern: Pattern) -> tuple[Pattern, Pattern]:
    """A pattern before and from its last wildcard but one on; all of it and nothing if it has one wildcard at most.

    The places of the second part are then listed within each value of the first. A list of all of them would need
    `flatten`.
    """
    wild = [index for index, step in enumerate(pattern) if isinstance(step, Wildcard)]
    at = wild[-2] + 1 if len(wild) > 1 else len(pattern)
    return pattern[:at], pattern[at:]


def values(base: str, pattern: Pattern, *, typed: bool = False) -> str:
    """The list of the values at the pattern, of an object that may have any shape.

    A step that is missing or of another type yields nothing, and no error: `&&` ends at the first test that is false.
    For the API server a path from a variable is one look-up, while every optional step is an evaluation of its own.
    typed: the object has the shape of its kind; of another it is an error. That saves the tests of types, which the API
    server compiles in a time that grows with their square.
    """
    for position, key in enumerate(pattern):
        if isinstance(key, Wildcard):
            tests, children = guarded(base, pattern[:position], typed=typed)
            tail = pattern[position + 1 :]
            deeper = sum(isinstance(step, Wildcard) for step in tail)
            variable = f"x{deeper or ''}"
            kind, child = ("list", variable) if key is Wildcard.ITEMS else ("map", f"{children}[{variable}]")
            if deeper:
                mapped = f"{children}.map({variable}, {values(child, tail, typed=typed)}).flatten()"
            else:
                inner, value_there = guarded(child, tail, typed=typed)
                mapped = f"{children}.map({', '.join([variable, *([every(inner)] if inner else []), value_there])})"
            tests += [] if typed else [f"type({children}) == {kind}"]
            return f"({every(tests)} ? {mapped} : [])" if tests else mapped
    tests, value_there = guarded(base, pattern, typed=typed)
    return f"({every(tests)} ? [{value_there}] : [])" if tests else f"[{value_there}]"


def at(base: str, pattern: Pattern, predicate: Callable[[str], str]) -> str:
    """Whether there is a value at a path without wildcards for which the predicate is true; never an error."""
    tests, value_there = guarded(base, pattern)
    return every([*tests, predicate(value_there)])


def is_map(value: str) -> str:
    """Whether a value is a map."""
    return f"type({value}) == map"


def guarded(base: str, pattern: Pattern, *, typed: bool = False) -> tuple[list[str], str]:
    """The tests that there is a value at a path without wildcards, and the value."""
    tests = []
    for key in map(str, pattern):
        is_there = f"has({base}.{key})" if is_identifier(key) else f"{text(key)} in {base}"
        tests += [is_there] if typed else [is_map(base), is_there]
        base = f"{base}.{key}" if is_identifier(key) else f"{base}[{text(key)}]"
    return tests, base


def let(name: str, expression: str, body: str) -> str:
    """The body, a boolean, with a name for an expression. CEL in Kubernetes has no other way to bind a name."""
    return f"[{expression}].exists({name},\n{body})"


def by_kind(cases: Iterable[tuple[Iterable[str], str]]) -> str:
    """The list for the value of `kind`; an empty list if no case names it."""
    return "".join(f"kind in {texts(kinds)} ? {result} :\n  " for kinds, result in cases) + "[]"


def every(clauses: Iterable[str]) -> str:
    """The conjunction, evaluated in order."""
    return " && ".join(clauses)


def some(clauses: Iterable[str], between: str = " || ") -> str:
    """The disjunction in parentheses; `false` without clauses."""
    joined = between.join(clauses)
    return f"({joined})" if joined else "false"


def text(literal: str) -> str:
    """A string literal."""
    for character, escape in _ESCAPES.items():
        literal = literal.replace(character, escape)
    return f"'{literal}'"


def texts(literals: Iterable[str]) -> str:
    """A list of string literals."""
    return "[" + ", ".join(text(literal) for literal in literals) + "]"


def globs(patterns: Iterable[str]) -> str:
    """A string literal with the regular expression that matches what any of the globs matches."""
    return text("^(" + "|".join(glob_expression(pattern) for pattern in patterns) + ")$")
