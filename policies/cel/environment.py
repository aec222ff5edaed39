"""Environments: the variables, functions, types and fields that an expression may use.

An environment is immutable and shared by all expressions of a kind. `kubernetes.py` makes those of admission policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from policies.cel import types
from policies.cel.function import Function, Library
from policies.cel.patchtypes import JSON_PATCH_FIELDS, is_patch_type
from policies.cel.types import Kind, Type

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
            known = functions.get(function.name)
            functions[function.name] = function if known is None else _joined(known, function)
    return functions


@lru_cache(maxsize=1024)
def _with_fields(environment: Environment, struct: str, fields: tuple[tuple[str, Type], ...]) -> Environment:
    return replace(environment, structs={**environment.structs, struct: dict(fields)})


def _joined(first: Function, second: Function) -> Function:
    return Function(
        name=first.name,
        overloads=first.overloads + second.overloads,
        call=first.call or second.call,
        stepwise=first.stepwise or second.stepwise,
        cost=first.cost if first.cost is not None else second.cost,
        guarded=first.guarded or second.guarded,
        pattern=first.pattern if first.pattern is not None else second.pattern,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environment:
    """Names and their meanings. An environment is equal only to itself.

    `structs`: types with declared fields, by name. `patch_types` adds `JSONPatch`, `Object` and all types below it.
    """

    functions: Mapping[str, Function]
    variables: Mapping[str, Type] = field(default_factory=dict)
    structs: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    type_names: Mapping[str, Type] = field(default_factory=lambda: STANDARD_TYPES)
    patch_types: bool = False

    def with_fields(self, struct: str, fields: Mapping[str, Type]) -> Environment:
        """An environment that also has these fields for a type: the same one for the same fields."""
        return _with_fields(self, struct, tuple(fields.items()))

    def lookup(self, name: str) -> Declared | None:
        """The meaning of a name. It does not know the variables of macros."""
        name = name.removeprefix(".")
        if (type_ := self.variables.get(name)) is not None:
            return Declared(name, type_)
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
