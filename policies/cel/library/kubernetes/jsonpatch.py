"""`jsonpatch.escapeKey(key)` (k8s.io/apiserver's pkg/cel/library/jsonpatch.go)."""

from __future__ import annotations

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.function import Function, Library, Overload


def escape_key(key: str) -> str:
    """A key as a JSON Pointer has it (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


LIBRARY = Library(
    name="kubernetes.jsonpatch",
    functions=(
        Function(
            name="jsonpatch.escapeKey",
            overloads=(
                Overload(
                    id="string_jsonpatch_escapeKey_string",
                    parameters=(types.STRING,),
                    result=types.STRING,
                    call=escape_key,
                ),
            ),
            cost=of_first,
        ),
    ),
)
