"""An object that somebody sends, as the API server hands it to admission: read into its type, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.admissionpolicy.builtin import defaults
from policies.admissionpolicy.builtin.reader import Reader
from policies.admissionpolicy.schema import Schema, SchemaNode
from policies.cel.values import ABSENT
from policies.engine.request import GroupVersionKind, JsonObject


def kind_of(obj: Mapping[str, Any]) -> GroupVersionKind:
    """The kind that an object names."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return GroupVersionKind(group, version, str(obj.get("kind")))


def received(obj: JsonObject, schema: Schema) -> JsonObject:
    """A copy of an object as policies see it when it is created. The argument is not changed.

    A built-in kind is read into its Go type, written again and filled with the API server's defaults. A custom resource
    stays as it is written, with the defaults of its CRD. Values of a wrong type and unknown fields are left alone: they
    are refused elsewhere.
    """
    if not schema.typed:
        own: JsonObject = _with_defaults(obj, schema.root)
        return own
    encoded: JsonObject = Reader(as_json=True, lenient=True).read(ABSENT, obj, schema.root)
    return filled(encoded, schema)


def filled(obj: JsonObject, schema: Schema) -> JsonObject:
    """An object of a built-in kind in its canonical encoding, with the API server's defaults.

    It is the same object if it has them all.
    """
    result: JsonObject = defaults.copied(obj)
    defaults.fill(result, schema.root.atom.name, schema.release)
    return obj if result == obj else result


def _with_defaults(value: Any, node: SchemaNode) -> Any:
    """A value with the defaults of a CRD's schema. A null stands for a default, if there is one."""
    atom = node.atom
    if isinstance(value, list):
        return value if node.item is None else [_with_defaults(item, node.item) for item in value]
    if not isinstance(value, dict) or atom.map is None or atom.map.omissions is not None:
        return value
    defaulted = {name: default for name, default in atom.map.defaults.items() if value.get(name) is None}
    whole = {**value, **defaults.copied(defaulted)}
    children = {key: node.child(key) for key in whole}
    return {
        key: item if (below := children[key]) is None else _with_defaults(item, below) for key, item in whole.items()
    }
