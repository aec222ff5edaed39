"""JSON Schemas for editors, of the documents that people write and of the report that programs read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.schemas import configuration, exception, report, suite

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
NAMES: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "configuration": configuration.schema,
    "suite": suite.schema,
    "exception": exception.schema,
    "report": report.schema,
}


def schema(name: str) -> dict[str, Any]:
    """The schema of that name. Raises KeyError."""
    return {"$schema": DIALECT, **NAMES[name]()}
