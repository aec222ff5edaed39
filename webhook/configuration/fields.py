"""The types of the configuration's fields, the base of its sections, and label selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import Action
from policies.kubernetes.release import named
from policies.objects.fieldpath import parse

T = TypeVar("T")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?")
TOLD: Final = "told"
"""The type of an error whose text says already what was found."""


class SettingsError(Exception):
    """A configuration that cannot be used. The text has a line per mistake: file, line, key, what was found."""


class Model(BaseModel):
    """A section of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)


def _check(is_right: Callable[[str], object], problem: str) -> AfterValidator:
    """Refuses a text that is not right, and says what is."""

    def validate(text: str) -> str:
        if not is_right(text):
            raise ValueError(problem)
        return text

    return AfterValidator(validate)


def _path(text: str) -> str:
    parse(text)
    return text


def _quoted(value: object) -> object:
    """Refuse the release without quotes, of which YAML makes a number: 1.40 would be 1.4."""
    if isinstance(value, float):
        raise ValueError('write it in quotes, such as "1.36"')  # noqa: TRY004 - pydantic expects a ValueError
    return value


def _on_or_off(value: object) -> object:
    """Take the words on and off as people write them: without quotes YAML makes booleans of them."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Glob = Annotated[str, _check(bool, "an empty glob matches nothing")]
FieldPath = Annotated[str, AfterValidator(_path)]
InnerPath = Annotated[
    str, _check(bool, "an empty path means the object itself, which is not allowed here"), AfterValidator(_path)
]
KindAndName = Annotated[
    str, _check(lambda text: all(text.partition("/")), "write kind/name, such as MutatingAdmissionPolicy/cks-*")
]
Resource = Annotated[
    str,
    _check(_RESOURCE.fullmatch, "write the plural in lower case and its group, such as ippools.example.org"),
    _check(lambda text: text != "pods", "people write Pods, and an outage would let all of them pass"),
]
_SERVICE_URL, _ADDRESS = r"^(https://[^?#@]+)?$", r"^(https?://\S{1,500})?$"
ServiceUrl = Annotated[
    str,
    _check(re.compile(_SERVICE_URL).fullmatch, "write https://HOST[:PORT][/PATH]"),
    Field(json_schema_extra={"pattern": _SERVICE_URL}),
]
Address = Annotated[
    str,
    _check(
        re.compile(_ADDRESS).fullmatch, "write http://ADDRESS or https://ADDRESS, of at most 500 letters and no blanks"
    ),
    Field(json_schema_extra={"pattern": _ADDRESS}),
]
ReleaseName = Annotated[str, BeforeValidator(_quoted), AfterValidator(lambda text: text and named(text).name)]
RuleAction = Annotated[Action, BeforeValidator(_on_or_off)]
PackMode = Annotated[Literal["enforce", "warn", "audit", "off"], BeforeValidator(_on_or_off)]
DenyOrWarn = Literal["deny", "warn"]
DenyWarnOff = Annotated[Literal["deny", "warn", "off"], BeforeValidator(_on_or_off)]
WarnAuditOff = Annotated[Literal["warn", "audit", "off"], BeforeValidator(_on_or_off)]
DaemonSets = Annotated[Literal["inject", "warn", "off"], BeforeValidator(_on_or_off)]
OnOff = Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)]
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
