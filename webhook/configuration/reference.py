"""The reference of the configuration: a YAML file with every key, its meaning and its default."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from pydantic import BaseModel

from webhook.configuration.settings import Settings

WIDTH = 110


def configuration() -> str:
    """The whole configuration. Keys without a default are comments."""
    return "\n".join(_fields(Settings, 0)) + "\n"


def _fields(model: type[BaseModel], depth: int) -> Iterator[str]:
    """A block of lines for each key of a model. SHORT of a section names the key whose value may stand for it."""
    indent = "  " * depth
    for field in model.model_fields.values():
        if depth == 0 and field.alias != "listen":
            yield ""
        for line in wrap(str(field.description), WIDTH - len(indent) - 2):
            yield f"{indent}# {line}"
        inner = _model(field.annotation)
        default = field.get_default()
        short = getattr(inner, "SHORT", "")
        if inner is not None and short:
            yield f"{indent}{field.alias}: {_flow(getattr(default, short))}"
            yield from (f"{indent}#   {line}" for line in _entry(inner, WIDTH - len(indent) - 4, "Or a map:"))
        elif inner is not None and isinstance(default, BaseModel):
            yield f"{indent}{field.alias}:"
            yield from _fields(inner, depth + 1)
        else:
            yield f"{indent}{field.alias}: {_flow(default)}"
            if inner is not None:
                yield from (f"{indent}#   {line}" for line in _entry(inner, WIDTH - len(indent) - 4))


def _entry(model: type[BaseModel], width: int, head: str = "Each entry:") -> Iterator[str]:
    """The keys of a list's entry and, below keys with lists of maps, the keys of their entries.

    The description of a single map explains its keys: all such maps are label selectors.
    """
    yield head
    for field in model.model_fields.values():
        default = None if field.is_required() else field.get_default()
        need = "required" if field.is_required() else f"default {_flow(default)}"
        yield from wrap(f"{field.alias}: {field.description} ({need})", width, subsequent_indent="  ")
        inner = _model(field.annotation)
        if inner is not None and not isinstance(default, BaseModel):
            yield from (f"  {line}" for line in _entry(inner, width - 2))


def _flow(value: Any) -> str:
    """A default on one line, in JSON's form, which is YAML too."""
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, exclude_defaults=True)
    if isinstance(value, tuple):
        value = [v.model_dump(by_alias=True, exclude_defaults=True) if isinstance(v, BaseModel) else v for v in value]
    return json.dumps(value)


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model of a field, or of the items of its tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    arguments = [a for a in getattr(annotation, "__args__", ()) if a is not ...]
    return _model(arguments[0]) if len(arguments) == 1 else None
