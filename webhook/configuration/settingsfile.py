"""The configuration as a file: read, changed by the command line, and as a reference with every key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import BaseModel, ValidationError

from policies.kubernetes.spelling import closest
from webhook.configuration.rulesettings import OWN_MESSAGE
from webhook.configuration.settings import Settings, SettingsError
from webhook.files.yamlfile import FileError, content, load

WIDTH = 110
"""Columns of the reference."""


def read(path: Path, *, pipes: bool = False) -> Settings:
    """The settings in a file. pipes: whether it may be a FIFO. Raises SettingsError."""
    try:
        text = content(path, pipes=pipes)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        documents = load(str(path), text)
    except FileError as error:
        raise SettingsError(str(error)) from None
    if not documents:
        return Settings()
    if len(documents) > 1:
        raise SettingsError(f"{path}:{documents[1].line()}: a second document; the configuration is one")
    document = documents[0]
    if not isinstance(document.value, dict):
        raise SettingsError(f"{document.name}:{document.line()}: a map of settings was expected")
    return _validated(document.value, lambda key: f"{document.name}:{document.line(key)}")


def override(settings: Settings, changes: Iterable[tuple[str, Any]]) -> Settings:
    """The settings with values from the command line, such as ("listen.port", 8443). Raises SettingsError."""
    values = settings.model_dump(by_alias=True)
    for key, value in changes:
        section, _, name = key.partition(".")
        values[section][name] = value
    return _validated(values, lambda _: "command line")


def _validated(values: Any, place: Callable[[Any], str]) -> Settings:
    """The settings. Of each mistake the place and key are told; what concerns several keys names them itself."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = []
        for one in error.errors():
            key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]).lstrip(".")
            lines.append(": ".join(filter(None, (place(one["loc"]), key, _problem(one)))))
        raise SettingsError("\n".join(lines)) from None


# What people write, in the place of what Python makes of it.
_PLAIN = {
    "a valid tuple": "a list",
    "a valid dictionary": "a map",
    "a valid string": "a text",
    "a valid integer": "a whole number",
    "a valid date or datetime": "a date such as 2026-12-31",
    ", input is too short": "",
}


def _problem(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        model: Any = Settings
        for step in error["loc"][:-1]:
            if isinstance(step, str):
                field = next(f for f in model.model_fields.values() if f.alias == step)
                model = _model_in(field.annotation)
        known = [str(field.alias) for field in model.model_fields.values()]
        near = closest(str(error["loc"][-1]), known)
        return "unknown key" + (f"; did you mean {near}?" if near else f"; known here: {', '.join(known)}")
    message = str(error["msg"]).removeprefix("Value error, ")
    for term, plain in _PLAIN.items():
        message = message.replace(term, plain)
    if error["type"] == "missing":
        return "this key is required"
    if error["type"] == OWN_MESSAGE:
        return message
    return f"{message[0].lower()}{message[1:]}, found {error['input']!r}"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field, or of the items of its tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    arguments = [a for a in getattr(annotation, "__args__", ()) if a is not ...]
    return _model_in(arguments[0]) if arguments else None


def reference() -> str:
    """The configuration with every key, its meaning and its default. Keys without a default are comments."""
    return "\n".join(_fields(Settings, 0)) + "\n"


def _fields(model: type[BaseModel], depth: int) -> Iterator[str]:
    """A block of lines for each key of a model. SHORT of a section names the key whose value may stand for it."""
    indent = "  " * depth
    for field in model.model_fields.values():
        if depth == 0 and field.alias != "listen":
            yield ""
        for line in wrap(str(field.description), WIDTH - len(indent) - 2):
            yield f"{indent}# {line}"
        inner = _model_in(field.annotation)
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
        inner = _model_in(field.annotation)
        if inner is not None and not isinstance(default, BaseModel):
            yield from (f"  {line}" for line in _entry(inner, width - 2))


def _flow(value: Any) -> str:
    """A default on one line, in JSON's form, which is YAML too."""
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, exclude_defaults=True)
    if isinstance(value, tuple):
        value = [v.model_dump(by_alias=True, exclude_defaults=True) if isinstance(v, BaseModel) else v for v in value]
    return json.dumps(value)
