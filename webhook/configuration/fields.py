"""The types of the configuration's fields, the base of its sections, and label selectors."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import Action
from policies.kubernetes.release import named
from policies.objects.fieldpath import parse

T = TypeVar("T")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
TOLD: Final = "told"
"""The type of an error whose text says already what was found."""


class SettingsError(Exception):
    """A configuration that cannot be used. The text has a line per mistake: file, line, key, what was found."""


class Model(BaseModel):
    """A section of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)


def _glob(text: str) -> str:
    if not text:
        raise ValueError("an empty glob matches nothing")
    return text


def _kind_and_name(text: str) -> str:
    if not all(text.partition("/")):
        raise ValueError("write kind/name, such as MutatingAdmissionPolicy/cks-*")
    return text


def _resource(text: str) -> str:
    name, dot, group = text.partition(".")
    if not _NAME.fullmatch(name) or (dot and not _NAME.fullmatch(group)):
        raise ValueError("write the plural in lower case and its group, such as ippools.example.org")
    if text == "pods":
        raise ValueError("people write Pods, and an outage would let all of them pass")
    return text


def _path(text: str) -> str:
    parse(text)
    return text


def _inner_path(text: str) -> str:
    if not text:
        raise ValueError("an empty path means the object itself, which is not allowed here")
    return _path(text)


def _quoted(value: object) -> object:
    """Refuse the release without quotes, of which YAML makes a number: 1.40 would be 1.4."""
    if isinstance(value, float):
        raise ValueError('write it in quotes, such as "1.36"')  # noqa: TRY004 - pydantic expects a ValueError
    return value


def _release(text: str) -> str:
    return text and named(text).name


def _off(value: object) -> object:
    """Take the word off as people write it: without quotes YAML makes a boolean of it."""
    return "off" if value is False else value


def _on_or_off(value: object) -> object:
    """Take the words on and off as people write them: without quotes YAML makes booleans of them."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Glob = Annotated[str, AfterValidator(_glob)]
FieldPath = Annotated[str, AfterValidator(_path)]
KindAndName = Annotated[str, AfterValidator(_kind_and_name)]
Resource = Annotated[str, AfterValidator(_resource)]
ReleaseName = Annotated[str, BeforeValidator(_quoted), AfterValidator(_release)]
InnerPath = Annotated[str, AfterValidator(_inner_path)]
RuleAction = Annotated[Action, BeforeValidator(_off)]
PackMode = Annotated[Literal["enforce", "warn", "audit", "off"], BeforeValidator(_off)]
DenyOrWarn = Literal["deny", "warn"]
DenyWarnOff = Annotated[Literal["deny", "warn", "off"], BeforeValidator(_off)]
DaemonSets = Annotated[Literal["inject", "warn", "off"], BeforeValidator(_off)]
OnOff = Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)]
UnknownOrOff = Annotated[Literal["unknown", "off"], BeforeValidator(_off)]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "text"]
Port = Annotated[int, Field(ge=0, le=65535)]
Many = Annotated[tuple[T, ...], Field(strict=False)]
Strings = Many[str]
Globs = Many[Glob]
FieldPaths = Many[FieldPath]
InnerPaths = Many[InnerPath]
KindsAndNames = Many[KindAndName]
Resources = Many[Resource]


class Requirement(Model):
    """One requirement of a label selector."""

    key: str = Field(min_length=1, description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Strings = Field((), description="Values for In and NotIn.")

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError(f"{self.operator} {'takes no' if self.values else 'needs'} values")
        return self


class Selector(Model):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] = Field({}, description="Labels that must have these values.")
    match_expressions: Many[Requirement] = Field((), description="Requirements.")

    @property
    def label_selector(self) -> LabelSelector:
        """The same selector, as rules use it."""
        equal = (SelectorRequirement(key, "In", (value,)) for key, value in self.match_labels.items())
        others = (SelectorRequirement(r.key, r.operator, r.values) for r in self.match_expressions)
        return LabelSelector((*equal, *others))
