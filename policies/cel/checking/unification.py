"""Which types are assignable to others, and the types of type variables (cel-go's checker/types.go)."""

from __future__ import annotations

from policies.cel import types
from policies.cel.types import Kind, Type

_NULLABLE = {Kind.OPAQUE, Kind.STRUCT, Kind.DURATION, Kind.TIMESTAMP}
_COMPOSED = {Kind.OPAQUE, Kind.LIST, Kind.MAP}
_WILD = {Kind.DYN, Kind.ERROR}


class Unifier:
    """The type variables of one expression and their known types."""

    def __init__(self) -> None:
        self._known: dict[Type, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new type variable."""
        self._count += 1
        return types.parameter(f"_var{self._count - 1}")

    def assignable(self, given: tuple[Type, ...], expected: tuple[Type, ...]) -> bool:
        """Whether the given types are assignable to the expected. If so, keeps what that implies for type variables."""
        before = dict(self._known)
        if len(given) == len(expected) and all(map(self._fits, given, expected)):
            return True
        self._known = before
        return False

    def _fits(self, given: Type, expected: Type) -> bool:  # noqa: PLR0911 - one return per kind of type
        kind, other = given.kind, expected.kind
        if other is Kind.PARAMETER:
            valid, known = self._substitutes(given, expected)
            if valid or known:
                return valid
        if kind is Kind.PARAMETER:
            return self._substitutes(expected, given)[0]
        if kind in _WILD or other in _WILD:
            return True
        if kind is Kind.NULL:
            return other is Kind.NULL or other in _NULLABLE
        if other is Kind.NULL:
            return kind in _NULLABLE
        if kind is Kind.TYPE:
            return other is Kind.TYPE
        if kind in _COMPOSED:
            return (
                kind is other
                and given.name == expected.name
                and len(given.parameters) == len(expected.parameters)
                and all(map(self._fits, given.parameters, expected.parameters))
            )
        return kind is other and given.name == expected.name

    def _substitutes(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the type may replace the variable, and whether the variable already had a type."""
        if type_ == variable:
            return True, True
        known = self._known.get(variable)
        if known is None:
            if not self._free_of(variable, type_):
                return False, False
            self._known[variable] = type_
            return True, False
        if type_ == known:
            return True, True
        if not self._fits(type_, known):
            return False, True
        general = more_general(type_, known)
        if self._free_of(variable, general):
            self._known[variable] = general
        return True, True

    def _free_of(self, variable: Type, type_: Type) -> bool:
        """Whether the variable does not occur in the type. Without this check a type could contain itself."""
        if variable == type_:
            return False
        if type_.kind is Kind.PARAMETER:
            known = self._known.get(type_)
            return known is None or self._free_of(variable, known)
        return all(self._free_of(variable, parameter) for parameter in type_.parameters)

    def resolve(self, type_: Type, *, unknown_is_dyn: bool = False) -> Type:
        """The type with its variables replaced by their known types."""
        if type_.kind is Kind.PARAMETER:
            known = self._known.get(type_)
            if known is not None:
                return self.resolve(known, unknown_is_dyn=unknown_is_dyn)
            return types.DYN if unknown_is_dyn else type_
        if not type_.parameters:
            return type_
        parameters = tuple(self.resolve(parameter, unknown_is_dyn=unknown_is_dyn) for parameter in type_.parameters)
        return type_ if parameters == type_.parameters else Type(type_.kind, type_.name, parameters)

    def instance(self, signature: tuple[Type, ...]) -> tuple[Type, ...]:
        """A signature with its type variables renamed to new ones."""
        names: dict[Type, Type] = {}
        return tuple(self._renamed(type_, names) for type_ in signature)

    def _renamed(self, type_: Type, names: dict[Type, Type]) -> Type:
        if type_.kind is Kind.PARAMETER:
            if type_ not in names:
                names[type_] = self.fresh()
            return names[type_]
        if not type_.parameters:
            return type_
        return Type(type_.kind, type_.name, tuple(self._renamed(parameter, names) for parameter in type_.parameters))


def more_general(left: Type, right: Type) -> Type:
    """The more general of two compatible types."""
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.kind in (Kind.DYN, Kind.PARAMETER):
        return True
    if right.kind in (Kind.DYN, Kind.PARAMETER) or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOSED:
        return (
            left.name == right.name
            and len(left.parameters) == len(right.parameters)
            and all(map(_less_specific, left.parameters, right.parameters))
        )
    return left == right


def equivalent(left: Type, right: Type) -> bool:
    """Whether two types are equal except for the names of type variables."""
    if left.kind is not right.kind or len(left.parameters) != len(right.parameters):
        return False
    if left.kind is not Kind.PARAMETER and left.name != right.name:
        return False
    return all(map(equivalent, left.parameters, right.parameters))
