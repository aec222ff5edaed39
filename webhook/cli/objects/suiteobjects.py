"""Objects of suites that no API server would hand to a policy, so that their cases prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.objects.fieldpath import Location
from policies.schema.schemas import Schemas
from webhook.files.yamlfile import YamlDocument

_IN_CASES = ("object", "oldObject")


def warnings(document: YamlDocument, schemas: Schemas) -> Iterator[str]:
    """A warning for each field that the API server cannot read in the objects that stand in a suite.

    What a field must hold besides is not judged: the objects of a suite may be as small as their case needs.
    """
    for path, obj in _objects(document.value):
        for flaw in schemas.judge(obj).decoding:
            if flaw.level == "error":
                line, column = document.place((*path, *flaw.path))
                yield f"{document.name}:{line}:{column}: warning: {flaw.text}"


def _objects(suite: Any) -> Iterator[tuple[Location, dict[str, Any]]]:
    """The objects in a suite, each with its path."""
    named = suite.get("objects") or {}
    yield from ((("objects", name), obj) for name, obj in named.items() if _is_object(obj))
    for index, case in enumerate(suite.get("cases") or ()):
        for field in _IN_CASES:
            if isinstance(case, dict) and _is_object(case.get(field)):
                yield ("cases", index, field), case[field]


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(field), str) for field in ("apiVersion", "kind"))
