"""Environments: the variables, functions, types and fields that an expression may use with an API server of a release.

An environment is immutable and shared by all expressions of a kind. `kubernetes.py` makes those of admission policies
from libraries. The order of their functions and overloads is the reference's, because the first overload whose
parameters fit the values runs if the types are not known in advance.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go and environment.go. New expressions may use what the previous
minor release knows too, so that an API server of that release can still read them after a rollback; stored ones may use
all that the release knows. Grammar, overloads of the language itself, values, errors and costs are those of the
release's own program for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from policies.cel import types
from policies.cel.patchtypes import JSON_PATCH_FIELDS, is_patch_type
from policies.cel.types import Kind, Type
from policies.cel.values import CelError, Value
from policies.kubernetes.release import NEWEST, V1_37, V1_38, Release

Implementation = Callable[..., Value]
"""Takes the values of the arguments, target first; raises CelError."""

Cost = Callable[[Sequence[Value], Value], int]
"""The cost of a call from its arguments (target first) and its result, which is a CelError of size 1 if it failed."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `id`: the reference's overload id. `cost` applies only if the types allow no other overload; an int is a constant
    cost. `stepwise`: the first argument that fails ends the call, which then costs nothing (cel-go's FunctionBinding,
    which it has for three arguments and more); otherwise all are evaluated first (its UnaryBinding and BinaryBinding).
    """

    id: str
    parameters: tuple[Type, ...]
    result: Type
    call: Implementation | None = None  # None: the function's own
    member: bool = False
    cost: Cost | int | None = None
    stepwise: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A name with its overloads.

    `call`: one implementation for all overloads (cel-go's singleton binding), which checks the types itself. `cost`
    applies to all overloads without a cost of their own; without either a call costs 1. `work`: the microseconds that a
    call may take for each character or element of its arguments.
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    cost: Cost | int | None = None
    pattern: int | None = None  # the index of the argument that is a regular expression: literals are compiled early
    work: float = 0.0


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of one extension, and the types that it adds, by name.

    since: the release of Kubernetes that added it; None if all followed releases have it. until: the one in which
    another version of it took its place. work: that of its functions.
    """

    name: str
    functions: tuple[Function, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    since: Release | None = None
    until: Release | None = None
    work: float = 0.0


Row = str | tuple[str, Implementation] | tuple[str, Implementation | None, Cost | int]
"""A signature, its implementation, and its cost: `("string_char_at_int: string.charAt(int) -> string", call)`.

Before the colon stands the reference's overload id. Types with a name of one letter are variables.
"""


def library(
    name: str,
    *rows: Row,
    named: Mapping[str, Type] | None = None,
    calls: Mapping[str, Implementation] | None = None,
    costs: Mapping[str, Cost | int] | None = None,
    patterns: Collection[str] = (),
    stepwise: Collection[str] = (),
    **about: Any,
) -> Library:
    """A library with an overload for each row.

    named: the types of signatures beside CEL's own. calls: implementations for all overloads of a function. costs: of
    calls to which several overloads of a function may apply; otherwise that of each if it is the same. patterns:
    functions of which the second argument is a regular expression. stepwise: ids of such overloads with less than three
    arguments. about: the other fields of a Library.
    """
    known = {**_TYPES, **(named or {}), **about.get("types", {})}
    overloads: dict[str, list[Overload]] = {}
    for row in rows:
        signature, *rest = (row,) if isinstance(row, str) else row
        call, cost = (*rest, None, None)[:2]
        match = _SIGNATURE.fullmatch(signature)
        assert match is not None, signature  # noqa: S101 - the rows are our own
        id_, function, arguments, result = match.groups()
        target, _, method = function.rpartition(".")
        if member := target in known or target.endswith(")"):
            function, arguments = method, f"{target}, {arguments}"
        parameters = tuple(_type(parameter, known) for parameter in _PART.findall(arguments))
        overload = Overload(id_, parameters, _type(result, known), call, member, cost, id_ in stepwise)
        overloads.setdefault(function, []).append(overload)
    functions = []
    for function, several in overloads.items():
        cost = several[0].cost if len({overload.cost for overload in several}) == 1 else None
        cost, pattern = (costs or {}).get(function, cost), 1 if function in patterns else None
        functions.append(Function(function, tuple(several), (calls or {}).get(function), cost, pattern))
    return Library(name, tuple(functions), **about)


_TYPES = {t.name: t for t in (types.BOOL, types.BYTES, types.DOUBLE, types.DYN, types.INT, types.STRING, types.UINT)}
_TYPES |= {"duration": types.DURATION, "timestamp": types.TIMESTAMP}
_COMPOSED: Mapping[str, Callable[..., Type]] = {
    "list": types.list_of,
    "map": types.map_of,
    "optional": types.optional_of,
    "type": types.type_of,
}
# Types in types are read to the third level, as in optional(list(V)).
_PART = re.compile(r"[\w.]+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?")
_SIGNATURE = re.compile(rf"(\S+): (.+?)\(((?:{_PART.pattern}(?:, )?)*)\) -> (.+)")


def _type(text: str, named: Mapping[str, Type]) -> Type:
    base, _, inner = text.partition("(")
    if inner:
        return _COMPOSED[base](*(_type(part, named) for part in _PART.findall(inner[:-1])))
    return named.get(base) or types.parameter(base)


def succeeds(read: Implementation) -> Implementation:
    """A function that returns whether an implementation accepts its arguments, such as `isIP` for `ip`."""

    def is_readable(*arguments: Value) -> bool:
        try:
            read(*arguments)
        except CelError:
            return False
        return True

    return is_readable


# What an API server makes of them


class Feature(Enum):
    """What the language has since a release, in a sentence each."""

    QUOTED_FIELDS = V1_37, "Fields may be written in backticks: labels.`app.kubernetes.io/name`."
    SHADOWING = V1_37, "A macro's variable hides longer names that begin with it, and `.x` always means the outer x."
    STRICT_ALTERNATIVES = V1_37, "`or` and `orValue` fail on what is no optional, rather than give it back."
    WHOLE_OPTIONALS = V1_37, "A variable that holds an optional keeps its content as it is, also an optional."
    FREE_FAILURES = (
        V1_38,
        "What fails for a part that failed is free, but for `==`, `!=` and `!`; with `?` it costs 1.",
    )
    CHOSEN_PRESENCE = V1_38, "`has((a ? b : c).d)` costs 1 more; as a branch of `?:`, `has(a.?b.c)` gives no value."
    OPTIONAL_PARTS = V1_38, "`Object{...}.?field` gives the field."
    EMPTY_RANGES = V1_38, "A macro takes an empty text or empty bytes for an empty list."

    def __init__(self, since: Release, what: str) -> None:
        self.since, self.what = since, what


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API server's reading of expressions.

    release: the API server's. stored: whether it reads them from its store, and not from a request that writes them.

    >>> library = Library(name="example", since=NEWEST)
    >>> Dialect(NEWEST, stored=True).knows(library), Dialect(NEWEST).knows(library)
    (True, False)
    """

    release: Release = NEWEST
    stored: bool = False

    def knows(self, library: Library) -> bool:
        """Whether expressions may use a library."""
        added = library.since is None or self._reaches(library.since)
        return added and not (library.until is not None and self._reaches(library.until))

    def _reaches(self, release: Release) -> bool:
        return release < self.release or (self.stored and release == self.release)

    def has(self, feature: Feature) -> bool:
        """Whether the language has a feature, which new expressions may use at once."""
        return self.release >= feature.since


NEW = Dialect()
"""What the newest release takes: for policies that are loaded, linted, checked and tested."""
STORED = Dialect(stored=True)
"""What the newest release evaluates: for expressions asked about alone, and for policies read from a cluster."""


_STANDARD_TYPES = (
    types.BOOL, types.BYTES, types.DOUBLE, types.DURATION, types.INT, types.LIST, types.MAP, types.NULL,
    types.STRING, types.TIMESTAMP, types.TYPE, types.UINT,
)  # fmt: skip
STANDARD_TYPES: Mapping[str, Type] = {type_.name: type_ for type_ in _STANDARD_TYPES}
_GENERIC = {
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
}


NOT_A_VALUE = Type(Kind.ERROR, "not a value")
"""The constant of a type that can be constructed but not be used as a value: Kubernetes refuses that when it plans."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The meaning of a name: a variable or, with `constant`, a type (the one value in the tuple)."""

    name: str
    type: Type
    constant: tuple[Type] | None = None


def merged(libraries: Iterable[Library]) -> dict[str, Function]:
    """The functions of libraries by name. Overloads of one name are in the order of the libraries."""
    functions: dict[str, Function] = {}
    for library in libraries:
        for function in library.functions:
            known = functions.get(function.name, Function(function.name, ()))
            functions[function.name] = Function(
                function.name,
                known.overloads + function.overloads,
                known.call or function.call,
                function.cost if known.cost is None else known.cost,
                function.pattern if known.pattern is None else known.pattern,
                max(known.work, library.work),
            )
    return functions


@lru_cache(maxsize=1024)
def _with_fields(environment: Environment, struct: str, fields: tuple[tuple[str, Type], ...]) -> Environment:
    return replace(environment, structs={**environment.structs, struct: dict(fields)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environment:
    """Names and their meanings. An environment is equal only to itself.

    `structs`: types with declared fields, by name. `patch_types` adds `JSONPatch`, `Object` and all types below it.
    `dialect`: the grammar, costs and limits.
    """

    functions: Mapping[str, Function]
    variables: Mapping[str, Type] = field(default_factory=dict)
    structs: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    type_names: Mapping[str, Type] = field(default_factory=lambda: STANDARD_TYPES)
    patch_types: bool = False
    dialect: Dialect = NEW

    def with_fields(self, struct: str, fields: Mapping[str, Type]) -> Environment:
        """An environment that also has these fields for a type: the same one for the same fields."""
        return _with_fields(self, struct, tuple(fields.items()))

    def lookup(self, name: str) -> Declared | None:
        """The meaning of a name. It does not know the variables of macros."""
        name = name.removeprefix(".")
        if (type_ := self.variables.get(name)) is not None:
            return Declared(name, type_)
        return self.type_named(name)

    def type_named(self, name: str) -> Declared | None:
        """The type with a name."""
        name = name.removeprefix(".")
        if (type_ := self.type_names.get(name)) is not None:
            return Declared(name, types.type_of(_GENERIC.get(name, type_)), (type_,))
        if self.is_struct(name):
            return Declared(name, types.type_of(types.struct(name)), (NOT_A_VALUE,))
        return None

    def function(self, name: str) -> Function | None:
        """The function with a name, including its namespace: `optional.of`."""
        return self.functions.get(name.removeprefix("."))

    def is_struct(self, name: str) -> bool:
        """Whether a name is a type with fields."""
        return name in self.structs or (self.patch_types and is_patch_type(name))

    def field(self, struct: str, name: str) -> Type | None:
        """The type of a field; None if the type has no such field."""
        if self.patch_types and is_patch_type(struct):
            return JSON_PATCH_FIELDS.get(name, types.ERROR) if struct == "JSONPatch" else types.DYN
        return self.structs.get(struct, {}).get(name)

    def fields(self, struct: str) -> Iterable[str]:
        """The names of a type's fields, for suggestions."""
        return JSON_PATCH_FIELDS if struct == "JSONPatch" else self.structs.get(struct, {})
