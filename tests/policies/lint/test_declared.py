"""CEL types from OpenAPI schemas."""

from typing import Any

import pytest

from policies.cel import types
from policies.lint.typecheck import declare, escaped

_TEXT = {"type": "string"}
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}


def _fields(schema: dict[str, Any], untyped: types.Type | None = None) -> dict[str, str]:
    declared = declare("Thing", {"type": "object", "properties": {"spec": schema}}, untyped)
    assert declared is not None
    return {path: str(declared.structs[path]["spec"]) for path in declared.structs if "spec" in declared.structs[path]}


@pytest.mark.parametrize(
    ("schema", "exact", "lenient"),
    [
        (_TEXT, "string", "string"),
        ({"type": "string", "format": "date-time"}, "timestamp", "timestamp"),
        ({"type": "string", "format": "byte"}, "bytes", "bytes"),
        ({"type": "integer", "format": "int32"}, "int", "int"),
        ({"type": "number"}, "double", "double"),
        ({"type": "array", "items": _TEXT}, "list(string)", "list(string)"),
        ({"type": "object", "additionalProperties": _TEXT}, "map(string, string)", "map(string, string)"),
        ({"x-kubernetes-int-or-string": True}, "dyn", "dyn"),
        (_OPEN, None, "dyn"),
        ({"type": "array"}, None, "list(dyn)"),
        ({"type": "object", "additionalProperties": _OPEN}, None, "map(string, dyn)"),
        ({"type": "object", **_OPEN}, "Thing.spec", "dyn"),
        ({"type": "object", "properties": {"a": _TEXT}}, "Thing.spec", "Thing.spec"),
    ],
    ids=[
        "text", "time", "bytes", "int", "number", "list", "map", "int or text", "anything", "list of anything",
        "map of anything", "open object", "object",
    ],
)  # fmt: skip
def test_type_of_a_schema(schema: dict[str, Any], exact: str | None, lenient: str) -> None:
    """What Kubernetes has no type for has no field; where that would mislead it is dyn."""
    assert _fields(schema) == ({"Thing": exact} if exact else {})
    assert _fields(schema, types.DYN) == {"Thing": lenient}


def test_root_always_has_a_kind_and_a_name() -> None:
    """The fields of every object are there even where a schema leaves them out."""
    declared = declare("Thing", {"type": "object"})

    assert declared is not None
    assert declared.structs == {
        "Thing": {"kind": types.STRING, "apiVersion": types.STRING, "metadata": types.struct("Thing.metadata")},
        "Thing.metadata": {"name": types.STRING, "generateName": types.STRING},
    }


def test_required_fields_and_defaults_are_always_there() -> None:
    """A field without either may be absent."""
    properties = {"a": _TEXT, "b": {**_TEXT, "default": ""}, "c": _TEXT}
    declared = declare("Thing", {"type": "object", "required": ["a"], "properties": properties})

    assert declared is not None
    assert declared.present["Thing"] == {"a", "b"}


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("replicas", "replicas"),
        ("namespace", "__namespace__"),
        ("some-key", "some__dash__key"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("$ref", None),
        ("1st", None),
    ],
)
def test_names_of_properties_are_escaped(name: str, identifier: str | None) -> None:
    """A name that is no identifier is written with words between underscores; some cannot be written."""
    assert escaped(name) == identifier
