"""JSON Patches (RFC 6902) that apply to an object as it was sent, even if parents are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import jsonpatch
from msgspec import UNSET

from policies.engine.request import JsonObject
from policies.engine.rule import PatchOperation
from policies.objects.fieldpath import Location, lookup, render


class PatchError(Exception):
    """A patch does not apply to its object. The API server would fail the request."""


@lru_cache(maxsize=256)
def pointer(location: Location) -> str:
    """The JSON Pointer (RFC 6901) of a location."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


def append(obj: JsonObject, keys: Sequence[str], items: Sequence[Any]) -> tuple[PatchOperation, ...]:
    """Operations that append items to the list at `keys`. They create parents that are missing or null.

    The API server fails a request whose patch names a missing parent, whatever the failure policy is. It cannot append
    to a list that was sent as null. Raises PatchError if a parent is not a map, or the value at `keys` not a list.
    """
    if not items:
        return ()
    place = tuple(keys)
    value = lookup(obj, place)
    if value is None:
        return put(obj, place, list(items))
    if not isinstance(value, list):
        raise PatchError(f"{render(place)} is not a list")
    return tuple({"op": "add", "path": f"{pointer(place)}/-", "value": item} for item in items)


def put(obj: JsonObject, location: Location, value: Any) -> tuple[PatchOperation, ...]:
    """The operation that sets a value, with parents that are missing. Raises PatchError if one has another type."""
    parent: Any = obj
    for depth, step in enumerate(location[:-1]):
        if isinstance(step, int) and isinstance(parent, list) and step < len(parent):
            parent = parent[step]
            continue
        if not isinstance(parent, dict):
            raise PatchError(f"{render(location[:depth])} is not a map")
        parent = parent.get(step)
        if parent is None:
            for key in reversed(location[depth + 1 :]):
                value = {key: value}
            return ({"op": "add", "path": pointer(location[: depth + 1]), "value": value},)
    if not isinstance(parent, dict):
        raise PatchError(f"{render(location[:-1])} is not a map")
    return ({"op": "add", "path": pointer(location), "value": value},)


def remove(location: Location) -> PatchOperation:
    """The operation that removes the value at a location."""
    return {"op": "remove", "path": pointer(location)}


def apply(obj: JsonObject, operations: Iterable[PatchOperation]) -> JsonObject:
    """A copy of the object with the operations applied. Raises PatchError if they do not apply."""
    return _apply(copied(obj), operations)


def sequence(obj: JsonObject, edits: Iterable[tuple[Location, Any]]) -> tuple[PatchOperation, ...]:
    """Edits as one patch, each of what those before leave; UNSET removes. Raises PatchError if one does not apply."""
    made: list[PatchOperation] = []
    current, count = obj, 0
    for location, value in edits:
        # What is added must not be changed by later edits; and a single edit needs no copy of the object.
        current = obj if not made else _apply(copied(obj) if current is obj else current, copied(made[count:]))
        count = len(made)
        made += (remove(location),) if value is UNSET else put(current, location, value)
    return tuple(made)


def _apply(obj: JsonObject, operations: Iterable[PatchOperation]) -> JsonObject:
    try:
        result: JsonObject = jsonpatch.JsonPatch(list(operations)).apply(obj, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise PatchError(f"the patch does not apply: {error}") from error
    return result


def copied(value: Any) -> Any:
    """A copy of decoded JSON, which takes a fifth of the time of `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def adds_in_place(obj: JsonObject, operations: Iterable[PatchOperation]) -> bool:
    """Whether all operations add keys to maps or append to lists, and so apply. It is far cheaper than applying."""
    for operation in operations:
        *parents, last = operation["path"].split("/")[1:]
        if operation["op"] != "add" or "~" in operation["path"]:
            return False
        place: Any = obj
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        fits = last not in place if isinstance(place, dict) else isinstance(place, list) and last == "-"
        if not fits:
            return False
    return True
