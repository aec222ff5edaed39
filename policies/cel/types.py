"""The types of CEL, as in cel-go's checker. They also describe values at run time.

A type is an immutable value. `str()` returns the reference's notation: `list(string)`, `map(string, dyn)`.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct


class Kind(Enum):
    """The kinds of types that the checker distinguishes."""

    __hash__ = object.__hash__  # types are compared and looked up all the time

    DYN = auto()
    ERROR = auto()
    PARAMETER = auto()  # a type variable: A, B, _var1
    NULL = auto()
    BOOL = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    DURATION = auto()
    TIMESTAMP = auto()
    LIST = auto()
    MAP = auto()
    STRUCT = auto()  # a type with declared fields: kubernetes.AdmissionRequest, Object.spec, kubernetes.Quantity
    OPAQUE = auto()  # optional_type(T), net.IP
    TYPE = auto()


class Type(Struct, frozen=True, cache_hash=True):
    """A type: its kind, its name as `type(x)` shows it, and its parameters (element; key and value; type variables)."""

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """The notation of the type checker's messages."""
        if self.parameters:
            return f"{self.name}({', '.join(map(str, self.parameters))})"
        return _SHORT.get(self.kind, self.name)

    @property
    def declared(self) -> str:
        """The notation in `must evaluate to bool but got list(string)`: full names, and `<A>` for type variables."""
        if self.kind is Kind.PARAMETER:
            return f"<{self.name}>"
        if self.parameters:
            return f"{self.name}({', '.join(parameter.declared for parameter in self.parameters)})"
        return self.name

    @property
    def is_dyn(self) -> bool:
        """Whether the checker leaves everything to run time."""
        return self.kind is Kind.DYN


_SHORT = {Kind.ERROR: "!error!", Kind.NULL: "null", Kind.DURATION: "duration", Kind.TIMESTAMP: "timestamp"}

DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "error")
NULL = Type(Kind.NULL, "null_type")
BOOL = Type(Kind.BOOL, "bool")
INT = Type(Kind.INT, "int")
UINT = Type(Kind.UINT, "uint")
DOUBLE = Type(Kind.DOUBLE, "double")
STRING = Type(Kind.STRING, "string")
BYTES = Type(Kind.BYTES, "bytes")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """`optional_type(value)`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(described: Type) -> Type:
    """`type(described)`, the type of `type(x)` and of a type's name."""
    return Type(Kind.TYPE, "type", (described,))


def struct(name: str) -> Type:
    """The type with declared fields of this name (cel-go's ObjectType)."""
    return Type(Kind.STRUCT, name)


def opaque(name: str) -> Type:
    """The type without fields of this name."""
    return Type(Kind.OPAQUE, name)


def parameter(name: str) -> Type:
    """A type variable of a signature."""
    return Type(Kind.PARAMETER, name)


LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = optional_of(DYN)


def equivalent(left: Type, right: Type) -> bool:
    """Whether two types are equal except for the names of type variables."""
    if left.kind is not right.kind or len(left.parameters) != len(right.parameters):
        return False
    if left.kind is not Kind.PARAMETER and left.name != right.name:
        return False
    return all(map(equivalent, left.parameters, right.parameters))
