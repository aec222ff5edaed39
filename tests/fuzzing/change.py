"""Random changes of JSON values, texts and bytes; the same ones for the same Random."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

Place = tuple[Any, Any]
"""A map or list, and the key or index of a value in it."""

JUNK: tuple[Any, ...] = (
    None, {}, [], "", "x", 0, -1, 1.5, True, False, 2**63, -(2**70), 1e308, "\x00", "ü" * 70, "a" * 5000, "\u2028",
    "\ud7ff", "a\nb\tc", "${x}", "1" * 400, ["x"], [None], [[]], [{}], {"": ""}, {"x": None}, {"a/b": {"~1": "~0"}},
)  # fmt: skip
INSERTS = (
    "\n",
    "\t",
    "'",
    '"',
    "\\",
    "{",
    "}",
    "[",
    ":",
    "- ",
    "#",
    "&a ",
    "*a",
    "!!int ",
    "|",
    "\u0000",
    "ü",
    "%",
    "<<: ",
)
DEPTH = 200


def value(random: Random, original: Any, changes: int) -> Any:
    """A copy of a JSON value with so many changes, each at a random place."""
    held = [deepcopy(original)]
    for _ in range(changes):
        container, key = random.choice(list(_places(held)))
        random.choice(_CHANGES)(random, container, key)
    return held[0]


def _places(container: Any) -> Iterator[Place]:
    """Every place in a map or list, at any depth."""
    pairs = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
    for key, inner in pairs:
        yield container, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _put_junk(random: Random, container: Any, key: Any) -> None:
    container[key] = deepcopy(random.choice(JUNK))


def _remove(_random: Random, container: Any, key: Any) -> None:
    if isinstance(container, dict):
        del container[key]
    else:
        container[key] = None


def _nest(random: Random, container: Any, key: Any) -> None:
    for _ in range(random.randint(1, DEPTH)):
        container[key] = [container[key]] if random.random() < 0.5 else {"x": container[key]}


def _repeat(random: Random, container: Any, key: Any) -> None:
    inner = container[key]
    if isinstance(inner, list):
        container[key] = inner * random.randint(2, 60)
    elif isinstance(inner, dict):
        container[key] = {**inner, **{f"k{number}": "v" for number in range(random.randint(1, 60))}}
    else:
        container[key] = [inner] * random.randint(2, 60)


def _rename(random: Random, container: Any, key: Any) -> None:
    if isinstance(container, dict):
        container[text(random, str(key))] = container.pop(key)


def _edit(random: Random, container: Any, key: Any) -> None:
    container[key] = text(random, str(container[key]))


_CHANGES = (_put_junk, _put_junk, _remove, _nest, _repeat, _rename, _edit)


def text(random: Random, original: str) -> str:
    """A text with one edit: something inserted, a part left out, or a part twice."""
    start, end = sorted(random.randint(0, len(original)) for _ in range(2))
    match random.randrange(3):
        case 0:
            return original[:start] + random.choice(INSERTS) + original[start:]
        case 1:
            return original[:start] + original[end:]
        case _:
            return original[:end] + original[start:]


def torn(random: Random, original: bytes) -> bytes:
    """Bytes with one fault: cut off, one byte changed, a part left out or twice, or no UTF-8."""
    start, end = sorted(random.randint(0, len(original)) for _ in range(2))
    match random.randrange(5):
        case 0:
            return original[:start]
        case 1:
            return original[:start] + bytes([random.randrange(256)]) + original[start + 1 :]
        case 2:
            return original[:start] + original[end:]
        case 3:
            return original[:end] + original[start:]
        case _:
            return original[:start] + b"\xc3\x28\xff" + original[start:]
