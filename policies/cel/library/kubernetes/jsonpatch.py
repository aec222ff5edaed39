"""`jsonpatch.escapeKey(key)` (k8s.io/apiserver's pkg/cel/library/jsonpatch.go)."""

from __future__ import annotations

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.function import Library, single


def escape_key(key: str) -> str:
    """A key as in a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


LIBRARY = Library(
    name="kubernetes.jsonpatch",
    functions=(
        single(
            "jsonpatch.escapeKey",
            "string_jsonpatch_escapeKey_string",
            (types.STRING,),
            types.STRING,
            escape_key,
            cost=of_first,
        ),
    ),
)
