"""Values as the reference's messages show them: Go's `%v`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from policies.cel.types import Type
from policies.cel.values import ABSENT, Duration, Optional, Timestamp, Value
from policies.golang.strconv import general
from policies.golang.time import format_timestamp, go_duration


def shown(value: Value) -> str:
    """A value as messages show it (fmt's %v on a value of cel-go)."""
    match value:
        case None:
            return "0"  # the number of structpb.NullValue
        case list():
            return f"[{', '.join(map(_native, value))}]"
        case dict():
            return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
        case _:
            return _scalar(value)


def _native(value: Value) -> str:
    """A value of decoded JSON as Go itself shows it."""
    match value:
        case None:
            return "<nil>"
        case list():
            return f"[{' '.join(map(_native, value))}]"
        case dict():
            entries = sorted((shown(key), _native(item)) for key, item in value.items())
            return f"map[{' '.join(f'{key}:{item}' for key, item in entries)}]"
        case _:
            return _scalar(value)


def _scalar(value: Any) -> str:
    call = _SHOWN.get(value.__class__)
    return str(value) if call is None else call(value)


def _optional(value: Optional) -> str:
    return "optional.none()" if value.value is ABSENT else f"optional({shown(value.value)})"


def type_name(described: Type) -> str:
    """A type as cel-go's Type.String shows it at run time."""
    return {"list": "list(dyn)", "map": "map(dyn, dyn)"}.get(described.name, described.name)


def _moment(moment: Timestamp) -> str:
    text = format_timestamp(moment.nanoseconds, moment.offset).replace("T", " ")
    if not moment.offset:
        return f"{text[:-1]} +0000 UTC"
    zone = text[-6:].replace(":", "")
    return f"{text[:-6]} {zone} {zone}"


_SHOWN: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    float: general,
    bytes: lambda value: f"[{' '.join(map(str, value))}]",
    Optional: _optional,
    Type: type_name,
    Duration: lambda value: go_duration(value.nanoseconds),
    Timestamp: _moment,
}
