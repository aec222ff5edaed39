"""Reads the configuration from a file and the command line. Errors name the line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from policies.kubernetes.spelling import closest
from webhook.configuration.settings import TOLD, Settings, SettingsError
from webhook.files.yamlfile import FileError, YamlDocument, load


def read(path: Path) -> Settings:
    """The settings in a file. Raises SettingsError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    try:
        documents = load(str(path), text)
    except FileError as error:
        raise SettingsError(str(error)) from None
    if not documents:
        return Settings()
    if len(documents) > 1:
        raise SettingsError(f"{path}:{documents[1].line()}: a second document; the configuration is one")
    return _validated(documents[0])


def override(settings: Settings, changes: Iterable[tuple[str, Any]]) -> Settings:
    """The settings with values from the command line, such as ("listen.port", 8443). Raises SettingsError."""
    values = settings.model_dump(by_alias=True)
    for key, value in changes:
        section, _, name = key.partition(".")
        values[section][name] = value
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = [_line("command line", e) for e in error.errors()]
        raise SettingsError("\n".join(lines)) from None


def _validated(document: YamlDocument) -> Settings:
    if not isinstance(document.value, dict):
        raise SettingsError(f"{document.name}:{document.line()}: a map of settings was expected")
    try:
        return Settings.model_validate(document.value)
    except ValidationError as error:
        lines = [_line(f"{document.name}:{document.line(e['loc'])}", e) for e in error.errors()]
        raise SettingsError("\n".join(lines)) from None


def _line(place: str, error: Any) -> str:
    """A mistake with its place and key; what concerns several keys names them itself."""
    return ": ".join(part for part in (place, _dotted(error["loc"]), _problem(error)) if part)


def _dotted(location: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")


def _problem(error: Any) -> str:
    """The problem of one value, with what was found."""
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        near = closest(str(error["loc"][-1]), known)
        return "unknown key" + (f"; did you mean {near}?" if near else f"; known here: {', '.join(known)}")
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        return "this key is required"
    if error["type"] == TOLD:
        return message
    return f"{message[0].lower()}{message[1:]}, found {error['input']!r}"


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys of the model at a location."""
    model: Any = Settings
    for step in location:
        if isinstance(step, str):
            field = next(f for f in model.model_fields.values() if f.alias == step)
            model = _model_in(field.annotation)
    return [str(field.alias) for field in model.model_fields.values()]


def _model_in(annotation: Any) -> Any:
    """The model of a field, or of the items of its tuple."""
    arguments = getattr(annotation, "__args__", ())
    return _model_in(arguments[0]) if arguments else annotation
