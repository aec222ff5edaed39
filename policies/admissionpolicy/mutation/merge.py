"""The structured merge of server-side apply: the fields of an apply configuration are set, the rest stays.

Source of rules and messages: sigs.k8s.io/structured-merge-diff v6 (typed/validate.go and merge.go), and validatePatch
in k8s.io/apiserver's pkg/admission/plugin/policy/mutating/patch/smd.go. Arguments are not changed; the result shares
with them what the configuration does not change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

from policies.admissionpolicy.mutation.conversion import Foreign, shown
from policies.admissionpolicy.schema import Atom, ListType, MapType, SchemaNode
from policies.cel.values import ABSENT
from policies.golang.strconv import general, quote

Key = tuple[tuple[str, Hashable], ...]
"""The identity of a list's item: the names and values of its key fields; in a set the value, with an empty name."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that the schema does not allow, with its path."""

    path: str
    text: str

    def below(self, step: str) -> Mismatch:
        """The same mismatch, with its path from one level up."""
        return Mismatch(step + self.path, self.text)

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class MergeError(Exception):
    """A configuration that the schema does not allow."""

    def __init__(self, problems: Sequence[Mismatch]) -> None:
        super().__init__(str(problems[0]) if len(problems) == 1 else "\n  ".join(["errors:", *map(str, problems)]))
        self.mismatches = tuple(problems)


def check(value: Any, node: SchemaNode) -> None:
    """Check a configuration. Raises MergeError with everything that the schema does not allow."""
    problems = list(_problems(value, node))
    if problems:
        raise MergeError(problems)


def atomics(value: Any, node: SchemaNode, path: str = "") -> Iterator[str]:
    """The paths of what would be replaced as a whole. As in the API server, maps with any keys are not searched."""
    atom = node.atom
    if isinstance(value, dict) and atom.map is not None:
        if atom.map.atomic:
            yield path
        for key, item in value.items():
            if key in atom.map.fields:
                yield from atomics(item, atom.map.fields[key], f"{path}.{key}")
    if isinstance(value, list) and atom.list is not None:
        if atom.list.relation == "atomic":
            yield path
        for index, item in enumerate(value):
            yield from atomics(item, atom.list.element, f"{path}[{index}]")


def merge(live: Any, applied: Any, node: SchemaNode) -> Any:
    """The live value with the applied one merged into it; ABSENT means that one does not exist.

    The configuration must have passed `check`. Raises MergeError if an item of a live list has no key.
    """
    if applied is ABSENT or applied is live:
        return live
    if live is ABSENT:
        return applied
    atom = node.atom
    before, after = _deduced(atom, live), _deduced(atom, applied)
    if not before.same(after):
        _merged(live, applied, before)  # only for its errors, because the result has the form of the applied value
    return _merged(live, applied, after)


def _merged(live: Any, applied: Any, atom: Atom) -> Any:
    if atom.map is not None and not atom.map.atomic:
        return _merged_containers(dict, live, applied, partial(_merged_maps, kind=atom.map))
    if atom.map is None and atom.scalar is None and atom.list is not None and atom.list.relation != "atomic":
        return _merged_containers(list, live, applied, partial(_merged_lists, kind=atom.list))
    return applied


def _merged_containers(container: type, live: Any, applied: Any, merged: Callable[[Any, Any], Any]) -> Any:
    """Both values merged, if both are such containers and not empty. Null merges like an empty container."""
    if not (isinstance(applied, container) and applied):
        return live if isinstance(live, container) and live else applied
    return merged(live, applied) if isinstance(live, container) and live else applied


def _merged_maps(live: Any, applied: Any, kind: MapType) -> Any:
    result = dict(live)
    for key, item in applied.items():
        child = kind.fields.get(key, kind.element)
        if child is None:
            raise MergeError([Mismatch(f".{key}", "field not declared in schema")])
        try:
            result[key] = merge(live.get(key, ABSENT), item, child)
        except MergeError as error:
            raise MergeError([mismatch.below(f".{key}") for mismatch in error.mismatches]) from error
    return live if all(result[key] is live.get(key, ABSENT) for key in applied) else result


def _merged_lists(live: Any, applied: Any, kind: ListType) -> Any:
    problems: list[Mismatch] = []
    live_keys = list(_keys(live, kind, problems))
    applied_keys = list(_keys(applied, kind, problems))
    if problems:
        raise MergeError(problems)
    known: dict[Key, Any] = {}
    for key, item in zip(live_keys, live, strict=True):
        known[key] = None if key in known else item  # items with duplicate keys are not merged
    given = dict(zip(applied_keys, applied, strict=True))

    def item_of(key: Key) -> Any:
        try:
            return merge(known.get(key, ABSENT), given[key], kind.element)
        except MergeError as error:
            raise MergeError([mismatch.below(step(key)) for mismatch in error.mismatches]) from error

    result = [live[at] if key is None else item_of(key) for at, key in _order(live_keys, applied_keys)]
    return live if len(result) == len(live) and all(map(is_, result, live)) else result


def _order(live: Sequence[Key], applied: Sequence[Key]) -> Iterator[tuple[int, Key | None]]:
    """The source of each item of the merged list: an index in the live list, or the key of an applied item.

    Live items that are not applied keep their place before the next shared item. Shared items have the applied order.
    New items follow their applied predecessor.
    """
    given, known = set(applied), set(live)
    shared = [key for key in applied if key in known]
    done: set[Key] = set()
    left = right = 0
    while left < len(live) or right < len(applied):
        if left < len(live) and right < len(applied):
            key = live[left]
            if key == applied[right]:
                yield -1, key
                done.add(key)
                left, right, shared = left + 1, right + 1, shared[1:]
                continue
            if key in given and shared and shared[0] != key:
                left += 1  # it comes later, at its applied position
                continue
        if left < len(live):
            key = live[left]
            if key not in given:
                yield left, None
                left += 1
                continue
            if key in done:
                left += 1
        if right < len(applied):
            key = applied[right]
            yield -1, key
            done.add(key)
            right += 1
            if shared and shared[0] == key:
                shared = shared[1:]


def step(key: Key) -> str:
    """The name of a list's item in messages: `[name="main"]`, or `[="a"]` in a set."""
    return f"[{','.join(f'{name}={_text(value)}' for name, value in key)}]"


def _text(value: Any) -> str:
    kind, plain = value
    if kind == "null":
        return "null"
    if isinstance(plain, str):
        return quote(plain) if kind == "string" else plain
    return general(plain) if isinstance(plain, float) else str(plain).lower()


def _hashable(value: Any) -> Hashable:
    """A value as part of a key: 1 equals 1.0, but not true."""
    match value:
        case None:
            return ("null", "")
        case bool():
            return ("bool", value)
        case int() | float():
            return ("number", value)
        case str():
            return ("string", value)
        case _:
            return ("other", json.dumps(value, sort_keys=True, default=str))


def _keys(items: Sequence[Any], kind: ListType, problems: list[Mismatch]) -> Iterator[Key]:
    for index, item in enumerate(items):
        try:
            yield _key(item, kind)
        except ValueError as error:
            problems.append(Mismatch("", f"element {index}: {error}"))


def _key(item: Any, kind: ListType) -> Key:
    """The key of an item. Raises ValueError, with the API server's message, if it has none."""
    if kind.relation == "set":
        match item:
            case dict():
                raise ValueError("associative list without keys has an element that's a map type")
            case list():
                raise ValueError("not supported: associative list with lists as elements")
            case None:
                raise ValueError("associative list without keys has an element that's an explicit null")
            case _:
                return (("", _hashable(item)),)
    if item is None:
        raise ValueError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ValueError("associative list with keys may not have non-map elements")  # noqa: TRY004 - no bug of ours
    described = kind.element.atom.map
    defaults = {} if described is None else described.defaults
    given = ((name, item.get(name, defaults.get(name, ABSENT))) for name in sorted(kind.keys))
    key = tuple((name, _hashable(value)) for name, value in given if value is not ABSENT)
    if not key:
        names = " ".join(map(quote, kind.keys))
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key


def _deduced(atom: Atom, value: Any) -> Atom:
    """The part of a schema that a value belongs to; the whole schema if it belongs to none."""
    match value:
        case bool() | int() | float() | str() if atom.scalar is not None:
            return Atom(scalar=atom.scalar)
        case list() if atom.list is not None:
            return Atom(list=atom.list)
        case dict() if atom.map is not None:
            return Atom(map=atom.map)
        case _:
            return atom


def _problems(value: Any, node: SchemaNode) -> Iterator[Mismatch]:
    atom = _deduced(node.atom, value)
    if value is None:
        return
    if atom.map is not None:
        if not isinstance(value, dict):
            yield Mismatch("", f"expected map, got {shown(value)}")
            return
        for key, item in value.items():
            child = atom.map.fields.get(key, atom.map.element)
            if child is None:
                yield Mismatch(f".{key}", "field not declared in schema")
                return
            yield from (problem.below(f".{key}") for problem in _problems(item, child))
    elif atom.scalar is not None:
        name, belongs = _SCALARS[atom.scalar.type]
        if not belongs(value):
            yield Mismatch("", f"expected {name}, got {shown(value)}")
    elif atom.list is not None:
        yield from _problems_in_list(value, atom.list)


def _problems_in_list(value: Any, kind: ListType) -> Iterator[Mismatch]:
    if not isinstance(value, list):
        yield Mismatch("", f"expected list, got {shown(value)}")
        return
    keys: set[Key] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind.relation != "atomic":
            try:
                key = _key(item, kind)
            except ValueError as error:
                yield Mismatch("", f"element {index}: {error}")
                return
            place = step(key)
            if key in keys:
                yield Mismatch("", f"duplicate entries for key {place}")
            keys.add(key)
        yield from (problem.below(place) for problem in _problems(item, kind.element))


_SCALARS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "numeric": ("numeric (int or float)", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "string": ("string", lambda value: isinstance(value, str)),
    "boolean": ("boolean", lambda value: isinstance(value, bool)),
    "untyped": ("any scalar", lambda value: not isinstance(value, Foreign | list | dict)),
}
"""The types of scalars, as messages call them, and what belongs to them."""
