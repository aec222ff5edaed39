from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel import types
from policies.cel.library.standard.conversion import LIBRARY
from policies.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, Duration, Timestamp, Uint

NAN, INFINITY = float("nan"), float("inf")
INT_OVERFLOW, UINT_OVERFLOW = Failed("integer overflow"), Failed("unsigned integer overflow")


def _impossible(target: str, source: str = "string") -> Failed:
    return Failed(f"type conversion error from '{source}' to '{target}'")


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference, in its order."""
    moment, length = "google.protobuf.Timestamp", "google.protobuf.Duration"
    assert declared(LIBRARY) == {
        "type": ["type: (A) -> type(A)"],
        "bool": ["bool_to_bool: (bool) -> bool", "string_to_bool: (string) -> bool"],
        "bytes": ["bytes_to_bytes: (bytes) -> bytes", "string_to_bytes: (string) -> bytes"],
        "double": [
            "double_to_double: (double) -> double",
            "int64_to_double: (int) -> double",
            "string_to_double: (string) -> double",
            "uint64_to_double: (uint) -> double",
        ],
        "duration": [
            f"duration_to_duration: ({length}) -> {length}",
            f"string_to_duration: (string) -> {length}",
        ],
        "dyn": ["to_dyn: (A) -> dyn"],
        "int": [
            "int64_to_int64: (int) -> int",
            "double_to_int64: (double) -> int",
            f"duration_to_int64: ({length}) -> int",
            "string_to_int64: (string) -> int",
            f"timestamp_to_int64: ({moment}) -> int",
            "uint64_to_int64: (uint) -> int",
        ],
        "string": [
            "string_to_string: (string) -> string",
            "bool_to_string: (bool) -> string",
            "bytes_to_string: (bytes) -> string",
            "double_to_string: (double) -> string",
            f"duration_to_string: ({length}) -> string",
            "int64_to_string: (int) -> string",
            f"timestamp_to_string: ({moment}) -> string",
            "uint64_to_string: (uint) -> string",
        ],
        "timestamp": [
            f"timestamp_to_timestamp: ({moment}) -> {moment}",
            f"int64_to_timestamp: (int) -> {moment}",
            f"string_to_timestamp: (string) -> {moment}",
        ],
        "uint": [
            "uint64_to_uint64: (uint) -> uint",
            "double_to_uint64: (double) -> uint",
            "int64_to_uint64: (int) -> uint",
            "string_to_uint64: (string) -> uint",
        ],
    }


@pytest.mark.parametrize(
    ("id", "value", "expected"),
    [
        ("bool_to_bool", True, True),
        ("string_to_bool", "t", True),
        ("string_to_bool", "TRUE", True),
        ("string_to_bool", "0", False),
        ("string_to_bool", "tRUE", _impossible("bool")),
        ("bytes_to_bytes", b"a", b"a"),
        ("string_to_bytes", "\u00e9", b"\xc3\xa9"),
        ("double_to_double", 1.5, 1.5),
        ("int64_to_double", INT_MAX, 9.223372036854775807e18),
        ("uint64_to_double", Uint(1), 1.0),
        ("string_to_double", "1_000.5", 1000.5),
        ("string_to_double", "1e400", _impossible("double")),
        ("duration_to_duration", Duration(1), Duration(1)),
        ("string_to_duration", "1h", Duration(3_600_000_000_000)),
        ("string_to_duration", "1d", _impossible("google.protobuf.Duration")),
        ("int64_to_int64", 1, 1),
        ("double_to_int64", -1.9, -1),
        ("double_to_int64", 9223372036854774784.0, 9223372036854774784),
        ("double_to_int64", 9223372036854775807.0, INT_OVERFLOW),
        ("double_to_int64", float(INT_MIN), INT_OVERFLOW),
        ("double_to_int64", NAN, INT_OVERFLOW),
        ("double_to_int64", -INFINITY, INT_OVERFLOW),
        ("duration_to_int64", Duration(5), 5),
        ("string_to_int64", "+5", 5),
        ("string_to_int64", "9223372036854775808", _impossible("int")),
        ("string_to_int64", "0x10", _impossible("int")),
        ("timestamp_to_int64", Timestamp(-500_000_000), -1),
        ("uint64_to_int64", Uint(INT_MAX), INT_MAX),
        ("uint64_to_int64", Uint(INT_MAX + 1), INT_OVERFLOW),
        ("string_to_string", "a", "a"),
        ("bool_to_string", True, "true"),
        ("bytes_to_string", b"\xc3\xa9", "\u00e9"),
        ("bytes_to_string", b"\xed\xa0\x80", Failed("invalid UTF-8 in bytes, cannot convert to string")),
        ("double_to_string", 1e6, "1e+06"),
        ("double_to_string", -INFINITY, "-Inf"),
        ("duration_to_string", Duration(5_400_000_000_000), "5400s"),
        ("int64_to_string", INT_MIN, "-9223372036854775808"),
        ("timestamp_to_string", Timestamp(1), "1970-01-01T00:00:00.000000001Z"),
        ("uint64_to_string", Uint(UINT_MAX), "18446744073709551615"),
        ("timestamp_to_timestamp", Timestamp(1), Timestamp(1)),
        ("int64_to_timestamp", -62_135_596_800, Timestamp(-62_135_596_800_000_000_000)),
        ("int64_to_timestamp", 253_402_300_800, Failed("timestamp overflow")),
        ("string_to_timestamp", "1970-01-01T00:00:01Z", Timestamp(1_000_000_000)),
        ("string_to_timestamp", "0000-01-01T00:00:00Z", Failed("timestamp overflow")),
        ("string_to_timestamp", "x", _impossible("google.protobuf.Timestamp")),
        ("uint64_to_uint64", Uint(1), Uint(1)),
        ("double_to_uint64", 1.9, Uint(1)),
        ("double_to_uint64", -0.0, Uint(0)),
        ("double_to_uint64", -0.5, UINT_OVERFLOW),
        ("double_to_uint64", 18446744073709551616.0, UINT_OVERFLOW),
        ("double_to_uint64", NAN, UINT_OVERFLOW),
        ("int64_to_uint64", -1, UINT_OVERFLOW),
        ("string_to_uint64", "5", Uint(5)),
        ("string_to_uint64", "+5", _impossible("uint")),
    ],
)
def test_conversions(id: str, value: object, expected: object) -> None:
    """A value becomes that of the other type, or the call fails in the reference's words."""
    found = outcome(LIBRARY, id, value)
    assert (found.__class__, found) == (expected.__class__, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null_type"),
        (True, "bool"),
        (1, "int"),
        (Uint(1), "uint"),
        (1.0, "double"),
        ("", "string"),
        (b"", "bytes"),
        ([], "list"),
        ({}, "map"),
        (Duration(0), "google.protobuf.Duration"),
        (Timestamp(0), "google.protobuf.Timestamp"),
        (NONE, "optional_type"),
        (types.INT, "type"),
    ],
)
def test_type(value: Any, expected: str) -> None:
    """Every value has a type, and `dyn` leaves the value as it is."""
    assert outcome(LIBRARY, "type", value).name == expected
    assert outcome(LIBRARY, "to_dyn", value) is value


@pytest.mark.parametrize(
    ("id", "value", "expected"),
    [
        ("string_to_bytes", "a" * 21, 3),
        ("bytes_to_string", b"a" * 21, 3),
        ("string_to_string", "a" * 21, 1),
        ("string_to_int64", "1" * 21, 1),
        ("to_dyn", "a" * 21, 1),
    ],
)
def test_costs(id: str, value: object, expected: int) -> None:
    """Only between texts and bytes does the length count."""
    assert price(LIBRARY, id, value) == expected
