"""Optional values: `optional.of(x)`, `a.?b`, `[?i]`, `or`, `orValue` (cel-go's cel/library.go)."""

from __future__ import annotations

from policies.cel import types
from policies.cel.errors import CelError
from policies.cel.function import Function, Library, Overload, function, single
from policies.cel.types import BOOL, DYN, INT, STRING
from policies.cel.values import ABSENT, NONE, Duration, Optional, Timestamp, Uint, Value, shown

_K, _V = types.parameter("K"), types.parameter("V")
_OPTIONAL, _LIST, _MAP = types.optional_of(_V), types.list_of(_V), types.map_of(_K, _V)
_OPTIONALS = types.list_of(_OPTIONAL)
_ZERO_LENGTH = (str, bytes, list, dict)
_NUMBERS = (bool, int, Uint, float)


def of_non_zero(value: Value) -> Optional:
    """`optional.ofNonZeroValue(value)`, which is none for null, false, 0, and an empty text, list or map."""
    if value is None:
        return NONE
    kind = value.__class__
    zero = kind in (*_ZERO_LENGTH, *_NUMBERS) and not value
    zero = zero or (kind is Duration and value.nanoseconds == 0)
    zero = zero or (kind is Timestamp and value.nanoseconds == _ZERO_TIME)
    return NONE if zero else Optional(value)


_ZERO_TIME = -62135596800 * 1_000_000_000  # Go's zero time, 0001-01-01T00:00:00Z


def value_of(optional: Optional) -> Value:
    """`optional.value()`."""
    if optional.value is ABSENT:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if value.__class__ is not Optional:
            raise CelError(f"value {shown(value)} is not optional")
    return [optional.value for optional in values if optional.value is not ABSENT]


LIBRARY = Library(
    name="optional",
    types={"optional_type": _OPTIONAL},
    functions=(
        single("optional.of", "optional_of", (_V,), _OPTIONAL, Optional),
        single("optional.ofNonZeroValue", "optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero),
        single("optional.none", "optional_none", (), _OPTIONAL, lambda: NONE, stepwise=True),
        single("value", "optional_value", (_OPTIONAL,), _V, value_of, member=True),
        single(
            "hasValue",
            "optional_hasValue",
            (_OPTIONAL,),
            BOOL,
            lambda optional: optional.value is not ABSENT,
            member=True,
        ),
        Function(  # has a step of its own, which evaluates the right side only if needed
            name="or",
            overloads=(
                Overload(id="optional_or_optional", parameters=(_OPTIONAL, _OPTIONAL), result=_OPTIONAL, member=True),
            ),
        ),
        single("orValue", "optional_orValue_value", (_OPTIONAL, _V), _V, member=True),
        single("_?._", "select_optional_field", (DYN, STRING), _OPTIONAL),
        function(
            "_[?_]",
            Overload(id="list_optindex_optional_int", parameters=(_LIST, INT), result=_OPTIONAL),
            Overload(
                id="optional_list_optindex_optional_int",
                parameters=(types.optional_of(_LIST), INT),
                result=_OPTIONAL,
            ),
            Overload(id="map_optindex_optional_value", parameters=(_MAP, _K), result=_OPTIONAL),
            Overload(
                id="optional_map_optindex_optional_value",
                parameters=(types.optional_of(_MAP), _K),
                result=_OPTIONAL,
            ),
        ),
        function(
            "_[_]",
            Overload(id="optional_list_index_int", parameters=(types.optional_of(_LIST), INT), result=_OPTIONAL),
            Overload(id="optional_map_index_value", parameters=(types.optional_of(_MAP), _K), result=_OPTIONAL),
        ),
        single(
            "last",
            "list_last",
            (_LIST,),
            _OPTIONAL,
            lambda values: Optional(values[-1]) if values else NONE,
            member=True,
        ),
        single(
            "first",
            "list_first",
            (_LIST,),
            _OPTIONAL,
            lambda values: Optional(values[0]) if values else NONE,
            member=True,
        ),
        single("optional.unwrap", "optional_unwrap", (_OPTIONALS,), _LIST, _unwrap),
        single("unwrapOpt", "optional_unwrapOpt", (_OPTIONALS,), _LIST, _unwrap, member=True),
    ),
)
