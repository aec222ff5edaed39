"""`cel.@mapInsert`, to which transformMap and transformMapEntry expand (cel-go's ext/comprehensions.go)."""

from __future__ import annotations

from policies.cel import types
from policies.cel.equality import find
from policies.cel.errors import CelError
from policies.cel.evaluation.qualify import show_key
from policies.cel.function import Library, Overload, function
from policies.cel.values import ABSENT, Value

_MAP = types.map_of(types.parameter("K"), types.parameter("V"))


def insert(mapping: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    """The map with one more entry, added in place: only macros call it, on their own map. A known key is a CelError."""
    if find(mapping, key) is not ABSENT:
        raise CelError(f"insert failed: key {show_key(key)} already exists")
    mapping[key] = value
    return mapping


def insert_all(mapping: dict[Value, Value], entries: dict[Value, Value]) -> dict[Value, Value]:
    """The map with all entries of another one, added in place."""
    for key, value in entries.items():
        insert(mapping, key, value)
    return mapping


LIBRARY = Library(
    name="comprehensions",
    functions=(
        function(
            "cel.@mapInsert",
            Overload(
                id="@mapInsert_map_key_value",
                parameters=(_MAP, types.parameter("K"), types.parameter("V")),
                result=_MAP,
                call=insert,
                stepwise=True,
            ),
            Overload(id="@mapInsert_map_map", parameters=(_MAP, _MAP), result=_MAP, call=insert_all),
        ),
    ),
)
