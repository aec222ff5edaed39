"""Selecting and indexing at run time: `value.key`, `value[key]` and presence tests (cel-go's attributes.go)."""

from __future__ import annotations

from policies.cel.equality import find
from policies.cel.errors import CelError
from policies.cel.values import ABSENT, INT_MAX, INT_MIN, Duration, Optional, Timestamp, Uint, Value, type_of
from policies.golang.strconv import general

KEYS = (str, int, Uint, bool, float)


def qualify(value: Value, key: Value) -> Value:
    """`value.key` or `value[key]`. Raises CelError if it is absent."""
    if value.__class__ is list:
        index = index_of(key)
        if 0 <= index < len(value):
            return value[index]
        raise CelError(f"index out of bounds: {show_key(key)}")
    if value.__class__ is dict:
        content = find(value, key)
    else:
        fields = getattr(value, "cel_field", None)
        content = ABSENT if fields is None else fields(key)
    if content is ABSENT:
        raise CelError(f"no such key: {show_key(key)}")
    return content


def present(value: Value, key: Value) -> Value:
    """`value.key` or `value[key]`; ABSENT if missing or if the value has no fields. Raises CelError for a bad index."""
    if value.__class__ is dict:
        return find(value, key)
    if value.__class__ is list:
        index = index_of(key)
        return value[index] if 0 <= index < len(value) else ABSENT
    has = getattr(value, "cel_has", None)
    return value.cel_field(key) if has is not None and has(key) else ABSENT


def index_of(key: Value) -> int:
    """The list index for a key, an integer or a double without a fraction. Raises CelError for others."""
    kind = key.__class__
    if kind is int:
        return int(key)
    if kind is Uint and key <= INT_MAX:
        return int(key)
    if kind is float and key == key // 1 and INT_MIN <= key <= INT_MAX:
        return int(key)
    if kind in (Uint, float):
        raise CelError(f"unsupported index value {show_key(key)} in list")
    raise CelError(f"unsupported index type '{type_of(key)}' in list")


def check_key(key: Value) -> None:
    """Raises CelError for a value that cannot be a key or an index."""
    if key.__class__ not in KEYS:
        raise CelError(f"invalid qualifier type: {go_type(key)}")


def show_key(key: Value) -> str:
    """A key in an error message, as Go's `%v` shows it."""
    if key.__class__ is bool:
        return "true" if key else "false"
    if key.__class__ is float:
        return general(key)
    return str(key)


_GO_TYPES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    list: "*types.baseList",
    dict: "*types.baseMap",
}


_GO_NATIVE_TYPES: dict[type, str] = {type(None): "<nil>", list: "[]interface {}", dict: "map[string]interface {}"}
_GO_OWN_TYPES = {
    "kubernetes.URL": "cel.URL",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
    "kubernetes.authorization.Authorizer": "library.authorizerVal",
    "kubernetes.authorization.PathCheck": "library.pathCheckVal",
    "kubernetes.authorization.GroupCheck": "library.groupCheckVal",
    "kubernetes.authorization.ResourceCheck": "library.resourceCheckVal",
    "kubernetes.authorization.Decision": "library.decisionVal",
    "kubernetes.variables": "*lazy.MapValue",
    "JSONPatch": "*mutation.JSONPatchVal",
}


def go_type(value: Value) -> str:
    """The name of the reference's Go type for a value, which some messages show."""
    name = _GO_TYPES.get(value.__class__)
    if getattr(value, "computed", False):  # a quantity
        return "*cel.Quantity"
    return name or _GO_OWN_TYPES.get(type_of(value).name, "*types.Type")


def native_type(value: Value) -> str:
    """The name of the Go type for a value of decoded JSON that no macro or function has wrapped."""
    return _GO_NATIVE_TYPES.get(value.__class__) or go_type(value)
