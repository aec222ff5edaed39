"""Environments: the variables, functions, types and fields that an expression may use with an API server of a release.

An environment is immutable and shared by all expressions of a kind. `kubernetes.py` makes those of admission policies.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go and environment.go. New expressions may use what the previous
minor release knows too, so that an API server of that release can still read them after a rollback; stored ones may use
all that the release knows. Grammar, overloads of the language itself, values, errors and costs are those of the
release's own program for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from policies.cel import types
from policies.cel.function import Function, Library
from policies.cel.patchtypes import JSON_PATCH_FIELDS, is_patch_type
from policies.cel.types import Kind, Type
from policies.kubernetes.release import NEWEST, V1_37, V1_38, Release


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

    @property
    def since(self) -> Release:
        """The first release that has it."""
        return self.value[0]

    @property
    def what(self) -> str:
        """What it is."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API server's reading of expressions.

    release: the API server's. stored: whether it reads them from its store, and not from a request that writes them.

    >>> from policies.cel.function import Library
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
