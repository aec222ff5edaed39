"""The values of a program: those of decoded JSON, and a class for each type that JSON lacks.

CEL       Python
null      None
bool      bool
int       int, within 64 bits
uint      Uint
double    float
string    str
bytes     bytes
list      list
map       dict; keys are str, int, Uint or bool
duration  Duration
timestamp Timestamp
optional  Optional
type      types.Type
others    a class of the library that defines them, with a `cel_type`

Values never change after they are made: lists and dicts belong to the request. Messages show them as Go's `%v` does.

What an evaluation raises:

CelError              the expression failed; `&&`, `||`, `all` and `exists` absorb it as CEL defines
BudgetError           the cost limit was exceeded; nothing absorbs it, as nothing does the next two
TimeLimitError        (policies/engine/interruption.py) the time for the review is over
Missing               (policies/engine/interruption.py) an authorization check without an answer yet
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from policies.cel import types
from policies.cel.types import Type
from policies.engine.interruption import spend
from policies.golang.strconv import general
from policies.golang.time import format_timestamp, go_duration

Value = Any
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer of 64 bits. Equal to the int of the same value, as in CEL."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in nanoseconds (int64, as Go's time.Duration)."""

    cel_type: ClassVar[Type] = types.DURATION
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment: nanoseconds since 1970-01-01T00:00:00Z, between the years 1 and 9999.

    `offset`: the zone in which it was written, in seconds east of UTC. It only affects how the timestamp is shown.
    """

    cel_type: ClassVar[Type] = types.TIMESTAMP
    nanoseconds: int
    offset: int = field(default=0, compare=False)


class CelError(Exception):
    """A run-time failure that CEL defines, with the reference's message, such as `no such key: limits`."""

    @property
    def message(self) -> str:
        """The reference's message."""
        return str(self.args[0])


def no_such_overload() -> CelError:
    """The error of an operator or function that is not declared for the type of a value."""
    return CelError("no such overload")


class BudgetError(Exception):
    """The cost limit was exceeded. `cost`: the sum at that moment, in kube-apiserver's units.

    certain: whether the sum was counted as the reference does. A function that refuses to build a huge result knows
    only its own cost.
    """

    def __init__(self, cost: int, *, certain: bool = False) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.cost = cost
        self.certain = certain


def lacking(function: str, value: Value) -> CelError:
    """The error of a function that does not support a value. For types with methods it names no function."""
    return no_such_overload() if value.__class__ in _RECEIVERS else CelError(f"no such overload: {function}")


_RECEIVERS = (str, Duration, Timestamp)


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """`optional.of(value)`, or `optional.none()` if the value is ABSENT."""

    cel_type: ClassVar[Type] = types.OPTIONAL
    value: Value = ABSENT


NONE = Optional()


class Incomparable:
    """A library's value that cannot be compared with a value of another type.

    identity: returns what two equal values have in common. Python's `==` fails as well, so generated code may use it.
    """

    __slots__ = ()
    cel_type: ClassVar[Type]
    identity: ClassVar[Any]

    def __eq__(self, other: object) -> bool:
        """Whether the values are equal. Raises CelError for a value of another type."""
        return self.cel_equal(other)

    def __hash__(self) -> int:
        """The same hash for all values of a class: equal values must not differ, and none is used as a key."""
        return hash(self.__class__)

    def cel_equal(self, other: object) -> bool:
        """Whether CEL's `==` holds. Raises CelError for a value of another type."""
        if other.__class__ is not self.__class__:
            raise no_such_overload()
        identity = self.__class__.identity
        return bool(identity(self) == identity(other))


_TYPES: dict[type, Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: types.LIST,
    dict: types.MAP,
    Type: types.TYPE,
}


def type_of(value: Value) -> Type:
    """The type of a value at run time. As in the reference, lists and maps are of dyn."""
    type_ = _TYPES.get(value.__class__)
    return value.cel_type if type_ is None else type_


def shown(value: Value) -> str:  # noqa: PLR0911 - a return for each type
    """A value as messages show it."""
    match value:
        case None:
            return "null"
        case list():
            spend(len(value))
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            spend(len(value))
            return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
        case Optional():
            return "optional.none()" if value.value is ABSENT else f"optional({shown(value.value)})"
        case bool():
            return "true" if value else "false"
        case float():
            return general(value)
        case bytes():
            return f"[{' '.join(map(str, value))}]"
        case Type():
            return type_name(value)
        case Duration():
            return go_duration(value.nanoseconds)
        case Timestamp():
            return format_timestamp(value.nanoseconds, value.offset)
        case _:
            return str(value)


def type_name(described: Type) -> str:
    """A type as cel-go's Type.String shows it at run time."""
    return {"list": "list(dyn)", "map": "map(dyn, dyn)"}.get(described.name, described.name)
