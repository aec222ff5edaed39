"""Conversions between types, accessors of timestamps and durations, and functions of text up to `format`.

Sources: cel-go's common/stdlib/standard.go, common/types/duration.go, and ConvertToType of each type in common/types;
ext/strings.go and ext/formatting.go (version 2); costs are from k8s.io/apiserver's pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from string import ascii_lowercase, ascii_uppercase
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from policies.cel import cost, types
from policies.cel.environment import Implementation, Overload, library
from policies.cel.library.operators import unsigned as as_unsigned
from policies.cel.library.operators import whole
from policies.cel.patchtypes import JSONPatch
from policies.cel.types import Type
from policies.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    BudgetError,
    CelError,
    Duration,
    Timestamp,
    Uint,
    Value,
    no_such_overload,
    shown,
    type_of,
)
from policies.engine.interruption import spend
from policies.golang import time
from policies.golang.strconv import ESCAPES, atoi, double, general, integer, quote, trimmed, unsigned

# Conversions ---------------------------------------------------------------------------------------------------------

_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


def _identity(value: Value) -> Value:
    return value


def _impossible(source: Type, target: Type) -> CelError:
    return CelError(f"type conversion error from '{source.name}' to '{target.name}'")


def _text_of(value: Value) -> str:
    """`string(value)`, for every type that supports it."""
    return _TEXTS[value.__class__](value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _reading(read: Callable[[str], Value | None], target: Type, make: Implementation = _identity) -> Implementation:
    """A conversion of texts. read: returns None, or raises OverflowError, for a text that is none of the type's."""

    def converted(text: str) -> Value:
        try:
            value = read(text)
        except OverflowError:
            value = None
        if value is None:
            raise _impossible(types.STRING, target)
        return make(value)

    return converted


_text_to_double = _reading(double, types.DOUBLE)


def _text_to_index(text: str) -> int:
    """An integer as Go's strconv.Atoi reads it. Raises CelError with its message."""
    try:
        return atoi(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _parse_duration(value: str) -> int | None:
    spend(len(value) * 0.4)
    return time.parse_duration(value)


def _timestamp(value: str | int) -> Timestamp:
    try:
        if isinstance(value, int):
            return Timestamp(time.in_range(value) * time.SECOND)
        moment = time.parse_timestamp(value)
    except OverflowError as error:
        raise CelError(str(error)) from None
    if moment is None:
        raise _impossible(types.STRING, types.TIMESTAMP)
    return Timestamp(*moment)


def _int_to_duration(_: int) -> Duration:
    raise _impossible(types.INT, types.DURATION)  # declared, but cel-go has no such conversion


def _double_to_int(value: float) -> int:
    if not INT_MIN < value < float(INT_MAX):  # NaN and the least integer fail as well
        raise CelError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(UINT_MAX):
        raise CelError("unsigned integer overflow")
    return Uint(value)


_TEXTS: dict[type, Callable[[Value], str]] = {
    str: _identity,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    Uint: int.__repr__,
    float: general,
    bytes: _decoded,
    Duration: lambda value: time.format_duration(value.nanoseconds),
    Timestamp: lambda value: time.format_timestamp(value.nanoseconds, value.offset),
    Type: lambda value: value.name,
}


def _type(value: Value) -> Type:
    """`type(value)`. For a JSONPatch the reference returns `type`."""
    return types.TYPE if value.__class__ is JSONPatch else type_of(value)


INT_TO_DURATION = Overload("int64_to_duration", (types.INT,), types.DURATION, _int_to_duration)

CONVERSION = library(
    "conversion",
    ("type: type(A) -> type(A)", _type),
    ("bool_to_bool: bool(bool) -> bool", _identity),
    ("string_to_bool: bool(string) -> bool", _reading(_BOOLEANS.get, types.BOOL)),
    ("bytes_to_bytes: bytes(bytes) -> bytes", _identity),
    ("string_to_bytes: bytes(string) -> bytes", lambda text: text.encode(errors="surrogatepass"), cost.of_first),
    ("double_to_double: double(double) -> double", _identity),
    ("int64_to_double: double(int) -> double", float),
    ("string_to_double: double(string) -> double", _text_to_double),
    ("uint64_to_double: double(uint) -> double", float),
    ("duration_to_duration: duration(duration) -> duration", _identity),
    ("string_to_duration: duration(string) -> duration", _reading(_parse_duration, types.DURATION, Duration)),
    ("to_dyn: dyn(A) -> dyn", _identity),
    ("int64_to_int64: int(int) -> int", _identity),
    ("double_to_int64: int(double) -> int", _double_to_int),
    ("duration_to_int64: int(duration) -> int", lambda value: value.nanoseconds),
    ("string_to_int64: int(string) -> int", _reading(integer, types.INT)),
    ("timestamp_to_int64: int(timestamp) -> int", lambda value: value.nanoseconds // time.SECOND),
    ("uint64_to_int64: int(uint) -> int", lambda value: whole(int(value))),
    ("string_to_string: string(string) -> string", _identity),
    ("bool_to_string: string(bool) -> string", _text_of),
    ("bytes_to_string: string(bytes) -> string", _decoded, cost.of_first),
    ("double_to_string: string(double) -> string", general),
    ("duration_to_string: string(duration) -> string", _text_of),
    ("int64_to_string: string(int) -> string", int.__repr__),
    ("timestamp_to_string: string(timestamp) -> string", _text_of),
    ("uint64_to_string: string(uint) -> string", int.__repr__),
    ("timestamp_to_timestamp: timestamp(timestamp) -> timestamp", _identity),
    ("int64_to_timestamp: timestamp(int) -> timestamp", _timestamp),
    ("string_to_timestamp: timestamp(string) -> timestamp", _timestamp),
    ("uint64_to_uint64: uint(uint) -> uint", _identity),
    ("double_to_uint64: uint(double) -> uint", _double_to_uint),
    ("int64_to_uint64: uint(int) -> uint", as_unsigned),
    ("string_to_uint64: uint(string) -> uint", _reading(unsigned, types.UINT, Uint)),
)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AWAY_FROM_THE_EDGE = timedelta(days=3)
_UTC_NAMES = frozenset({"", "UTC", "Local"})  # a server's own zone is UTC


def _offset_at(name: str, moment: int) -> int:
    """The offset of a zone from UTC at a moment, in seconds east: an IANA name, or `+01:30` as cel-go reads it."""
    hours, colon, minutes = name.partition(":")
    if colon:  # as in the reference, it has no bounds
        hour, minute = _text_to_index(hours), _text_to_index(minutes)
        return 60 * (hour * 60 - minute if name[0] == "-" else hour * 60 + minute)
    if name in _UTC_NAMES:
        return 0
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    try:
        zone = ZoneInfo(name)
    except IsADirectoryError:
        raise CelError("is a directory") from None
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        is_invalid = isinstance(error, ValueError) and "\0" in name
        raise CelError("invalid argument" if is_invalid else f"unknown time zone {name}") from None
    near = _EPOCH + timedelta(seconds=moment)
    try:
        local = near.astimezone(zone)
    except OverflowError:  # the local date is in the year 0 or 10000, when no zone changes
        inwards = _AWAY_FROM_THE_EDGE if moment < 0 else -_AWAY_FROM_THE_EDGE
        local = (near + inwards).astimezone(zone)
    offset = local.utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    _offset_at(zone, moment.nanoseconds // time.SECOND)  # the zone must exist
    return moment.nanoseconds % time.SECOND // 10**6


def _of_local(read: Callable[[time.CalendarFields], int]) -> Implementation:
    def part(moment: Timestamp, zone: str = "") -> int:
        second = moment.nanoseconds // time.SECOND
        return read(time.fields(second, _offset_at(zone, second)))

    return part


def _of_duration(unit: int) -> Implementation:
    return lambda duration: int(time.seconds(duration.nanoseconds, unit))


def _duration_milliseconds(duration: Duration) -> int:
    whole = abs(duration.nanoseconds) // 10**6
    return -whole if duration.nanoseconds < 0 else whole


_PARTS: tuple[tuple[str, str, Implementation], ...] = (
    ("getFullYear", "year", _of_local(lambda local: local.year)),
    ("getMonth", "month", _of_local(lambda local: local.month - 1)),
    ("getDayOfYear", "day_of_year", _of_local(lambda local: local.day_of_year)),
    ("getDayOfMonth", "day_of_month", _of_local(lambda local: local.day - 1)),
    ("getDate", "day_of_month_1_based", _of_local(lambda local: local.day)),
    ("getDayOfWeek", "day_of_week", _of_local(lambda local: local.day_of_week)),
    ("getHours", "hours", _of_local(lambda local: local.hour)),
    ("getMinutes", "minutes", _of_local(lambda local: local.minute)),
    ("getSeconds", "seconds", _of_local(lambda local: local.second)),
    ("getMilliseconds", "milliseconds", _milliseconds),
)


_ZONED = {name: f"{part}_tz" if part == "seconds" else f"{part}_with_tz" for name, part, _ in _PARTS}
TIME = library(
    "time",
    *((f"timestamp_to_{part}: timestamp.{name}() -> int", call) for name, part, call in _PARTS),
    *((f"timestamp_to_{_ZONED[name]}: timestamp.{name}(string) -> int", call) for name, _, call in _PARTS),
    ("duration_to_hours: duration.getHours() -> int", _of_duration(time.HOUR)),
    ("duration_to_minutes: duration.getMinutes() -> int", _of_duration(time.MINUTE)),
    ("duration_to_seconds: duration.getSeconds() -> int", _of_duration(time.SECOND)),
    ("duration_to_milliseconds: duration.getMilliseconds() -> int", _duration_milliseconds),
)


# Text ---------------------------------------------------------------------------------------------------------------

_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_TO_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_QUOTED = str.maketrans(ESCAPES)
_QUICK_SEARCH = 1_000_000  # the most comparisons of a plain backward search


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset) if part else min(offset, len(text))


def index_of_anywhere(text: str, part: str, offset: int) -> int:
    """`text.indexOf(part, offset)` of 1.36, which finds an empty text anywhere."""
    return _index_of(text, part, offset) if part else offset


def last_index_of_anywhere(text: str, part: str, offset: int) -> int:
    """`text.lastIndexOf(part, offset)` of 1.36, which finds an empty text anywhere."""
    return _last_index_of(text, part, offset) if part else offset


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return _find_last(text, part) if part else len(text)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else _find_last(text[: offset + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """The last position of a part, or -1. Python's forward search never takes quadratic time, unlike `rfind`."""
    if len(text) * len(part) <= _QUICK_SEARCH:
        return text.rfind(part)
    behind = text[::-1].find(part[::-1])
    return behind if behind < 0 else len(text) - behind - len(part)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    growth = len(new) - len(old)
    if growth > 0 and len(text) * growth > LONGEST:
        times = text.count(old)
        length = len(text) + growth * (times if count < 0 else min(times, count))
        if length > LONGEST:
            raise BudgetError(ceil(length * cost.STRING_TRAVERSAL))
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count > len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
    elif start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end > len(text):
        raise _out_of_range(end)
    return text[start:end]


def _cased(change: Callable[[str], str], ascii_only: dict[int, int]) -> Implementation:
    return lambda text: change(text) if text.isascii() else text.translate(ascii_only)


def _join(items: list[Value], separator: str = "") -> str:
    if not set(map(type, items)) <= {str}:
        wrong = next(item for item in items if item.__class__ is not str)
        raise CelError(f"join: invalid input: {shown(wrong)}")
    length = sum(map(len, items)) + len(separator) * max(len(items) - 1, 0)
    if _of_length(length) > cost.EXPRESSION_LIMIT:
        raise BudgetError(_of_length(length))
    return separator.join(items)


def _of_length(length: int) -> int:
    return ceil(length * 2 * cost.STRING_TRAVERSAL)


def _of_result(_: Sequence[Value], result: Value) -> int:
    return _of_length(cost.size(result))


def _searching(search: Callable[[str, str], bool]) -> Implementation:
    def call(text: Value, part: Value) -> bool:
        if text.__class__ is not str or part.__class__ is not str:
            raise no_such_overload()  # the message names no types, because the reference checks them late here
        return search(text, part)

    return call


def _of_product(arguments: Sequence[Value], _: Value) -> int:
    return cost.traversal(arguments[0]) * cost.traversal(arguments[1])


TEXT = library(
    "text",
    ("contains_string: string.contains(string) -> bool", None, _of_product),
    ("ends_with_string: string.endsWith(string) -> bool", None, cost.of_second),
    ("starts_with_string: string.startsWith(string) -> bool", None, cost.of_second),
    calls={
        "contains": _searching(str.__contains__),
        "endsWith": _searching(str.endswith),
        "startsWith": _searching(str.startswith),
    },
)


LONGEST = int(cost.EXPRESSION_LIMIT / cost.STRING_TRAVERSAL)
"""The maximum length of a text. One pass over a longer one would cost more than an evaluation may."""

_PRECISION = 6
_MOST_DIGITS = 1074  # of the fraction of a double
_HIGHEST_PRECISION = 10**4
_SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_NUMBERS_IN_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})

_UNSUITABLE = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        "durations, and timestamps, was given {}"
    ),
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
}

_Clause = Callable[[Value], str]


class _Failure(Exception):  # noqa: N818 - the problem of a clause, before the prefix of the message is added
    """A clause is invalid or does not support its value."""


def format_text(text: str, arguments: list[Value]) -> str:
    """The text with each clause replaced by its argument. More arguments than clauses are allowed."""
    pieces: list[str] = []
    position, taken, length = 0, 0, len(text)
    while (percent := text.find("%", position)) >= 0:
        pieces.append(text[position:percent])
        if text.startswith("%%", percent):
            pieces.append("%")
            position = percent + 2
            continue
        if taken >= len(arguments):
            raise CelError(f"index {taken} out of range")
        clause, position = _read(text, percent + 1)
        try:
            piece = clause(arguments[taken])
        except _Failure as failure:
            raise CelError(f"error during formatting: {failure}") from None
        pieces.append(piece)
        taken += 1
        length += len(piece)
        if length > LONGEST:
            raise BudgetError(ceil(length * cost.STRING_TRAVERSAL))
    pieces.append(text[position:])
    return "".join(pieces)


def letters(text: str, count: int) -> Iterator[str]:
    """The letter of each clause that takes an argument, for the check of a literal text at compile time.

    `count`: the number of arguments. Like cel-go's validator of format strings, raises CelError if a clause is invalid
    or has no argument.
    """
    position = taken = 0
    while (percent := text.find("%", position)) >= 0:
        if text.startswith("%%", percent):
            position = percent + 2
            continue
        if taken >= count and percent + 1 < len(text):
            raise CelError(f"index {taken} out of range")
        _, position = _read(text, percent + 1)
        yield text[position - 1]
        taken += 1


def unsuitable(letter: str, name: str) -> str:
    """The message for a clause that does not support values of a type, by its letter and the type's name."""
    return f"error during formatting: {_UNSUITABLE[letter].format(name)}"


def _read(text: str, position: int) -> tuple[_Clause, int]:
    if position >= len(text):
        raise CelError("unexpected end of string")
    precision = _PRECISION
    if text[position] == ".":
        start = position = position + 1
        while position < len(text) and text[position] in "0123456789":
            position += 1
        precision = _precision(text, start, position)
    letter = text[position]
    if letter in _WITH_PRECISION:
        return partial(_WITH_PRECISION[letter], precision), position + 1
    if letter in _CLAUSES:
        return _CLAUSES[letter], position + 1
    first_byte = chr(letter.encode(errors="surrogatepass")[0])
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{first_byte}"')


def _precision(text: str, start: int, end: int) -> int:
    problem = ""
    if end == len(text):
        problem = "could not find end of precision specifier"
    else:
        try:
            precision = _text_to_index(text[start:end])
            if precision <= _HIGHEST_PRECISION:
                return precision
            problem = f"{precision} is more than {_HIGHEST_PRECISION}"
        except CelError as error:
            problem = f"error while converting precision to integer: {error.message}"
    raise CelError(f"could not parse formatting clause: error while parsing precision: {problem}")


def _wrong(letter: str, value: Value) -> _Failure:
    return _Failure(_UNSUITABLE[letter].format(type_of(value).name))


def _string(value: Value) -> str:
    match value:
        case None:
            return "null"
        case list():
            spend(len(value) * 2.0)
            return f"[{', '.join(_bounded(map(_literal, value)))}]"
        case dict():
            spend(len(value) * 3.0)
            written = sorted((_literal(key), _literal(item)) for key, item in value.items())
            return f"{{{', '.join(_bounded(f'{key}:{item}' for key, item in written))}}}"
        case str() | bool() | int() | float() | Timestamp() | Duration() | Type():
            return _text_of(value)
        case bytes():
            return _bytes(value)
        case _:
            raise _wrong("s", value)


def _bytes(value: bytes) -> str:
    try:
        return _text_of(value)
    except CelError as error:
        raise _Failure(f"could not convert argument {quote(error.message)} to string") from None


def _bounded(pieces: Iterable[str]) -> list[str]:
    """The pieces. Raises BudgetError if they are too long: values may contain the same part many times."""
    length = 0
    kept: list[str] = []
    for piece in pieces:
        length += len(piece)
        if length > LONGEST:
            raise BudgetError(ceil(length * cost.STRING_TRAVERSAL))
        kept.append(piece)
    return kept


def _literal(value: Value) -> str:
    """A value inside of a list or map, as an expression would write it."""
    match value:
        case str():
            return quote(value)
        case bytes():
            return f"b{quote(_bytes(value))}"
        case float():
            return f"{value:.{_PRECISION}f}" if math.isfinite(value) else f'"{general(value)}"'
        case Timestamp():
            return f'timestamp("{_text_of(value)}")'
        case Duration():
            return f'duration("{_text_of(value)}")'
        case None | bool() | int() | list() | dict() | Type():
            return _string(value)
        case _:
            raise _Failure(f"no formatting function for {type_of(value).name}")


def _integer(letter: str, value: Value) -> str:
    """`%d`, `%o` and `%b`, whose letters are the same in Python. Only the last one takes booleans."""
    if value.__class__ in (int, Uint) or (letter == "b" and value.__class__ is bool):
        return format(value, letter)
    raise _wrong(letter, value)


def _hexadecimal(value: Value) -> str:
    spend(cost.size(value) * 0.01)
    match value:
        case str():
            return value.encode(errors="surrogatepass").hex()
        case bytes():
            return value.hex()
        case int() if not isinstance(value, bool):
            return format(value, "x")
        case _:
            raise _wrong("x", value)


def _number(letter: str, value: Value) -> float:
    if value.__class__ is str and value in _NUMBERS_IN_WORDS:
        return float(_text_to_double(value))
    if value.__class__ is not float:
        raise _wrong(letter, value)
    return float(value)


def _fixed_point(precision: int, value: Value) -> str:
    number = _number("f", value)
    if not math.isfinite(number):
        return _not_finite(number)
    return f"{'-' if number < 0 else ''}{abs(number):,.{min(precision, _MOST_DIGITS)}f}"


def _scientific(width: int, value: Value) -> str:
    number = _number("e", value)
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    digits, _, exponent = f"{abs(number):.{_PRECISION}e}".partition("e")
    power = exponent.replace("+", "").translate(_SUPERSCRIPT)
    return f"{'-' if number < 0 else ''}{digits}\u00d710{power}".rjust(width)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "\u221e" if number > 0 else "-\u221e"


_WITH_PRECISION: dict[str, Callable[[int, Value], str]] = {"f": _fixed_point, "e": _scientific}
_CLAUSES: dict[str, _Clause] = {
    "s": _string,
    "d": partial(_integer, "d"),
    "b": partial(_integer, "b"),
    "o": partial(_integer, "o"),
    "x": _hexadecimal,
    "X": lambda value: _hexadecimal(value).upper(),
}


STRINGS = library(
    "strings",
    ("string_char_at_int: string.charAt(int) -> string", _char_at),
    ("string_index_of_string: string.indexOf(string) -> int", _index_of, cost.of_tree),
    ("string_index_of_string_int: string.indexOf(string, int) -> int", _index_of, cost.of_tree),
    ("string_last_index_of_string: string.lastIndexOf(string) -> int", _last_index_of, cost.of_tree),
    ("string_last_index_of_string_int: string.lastIndexOf(string, int) -> int", _last_index_of, cost.of_tree),
    ("string_lower_ascii: string.lowerAscii() -> string", _cased(str.lower, _TO_LOWER), cost.of_first),
    ("string_replace_string_string: string.replace(string, string) -> string", _replace, cost.of_first_twice),
    ("string_replace_string_string_int: string.replace(string, string, int) -> string", _replace, cost.of_first_twice),
    ("string_split_string: string.split(string) -> list(string)", _split, cost.of_first_twice),
    ("string_split_string_int: string.split(string, int) -> list(string)", _split, cost.of_first_twice),
    ("string_substring_int: string.substring(int) -> string", _substring, cost.of_first),
    ("string_substring_int_int: string.substring(int, int) -> string", _substring, cost.of_first),
    ("string_trim: string.trim() -> string", trimmed, cost.of_first),
    ("string_upper_ascii: string.upperAscii() -> string", _cased(str.upper, _TO_UPPER), cost.of_first),
    ("string_format: string.format(list(dyn)) -> string", format_text, cost.of_first),
    ("strings_quote: strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"', cost.of_first),
    ("list_join: list(string).join() -> string", _join, _of_result),
    ("list_join_string: list(string).join(string) -> string", _join, _of_result),
    stepwise=("string_format",),
    work=0.2,
)
