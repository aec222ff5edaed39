"""Label selectors in the configuration."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from policies.engine.match import LabelSelector, SelectorRequirement
from webhook.configuration.fields import Many, Strings
from webhook.configuration.fields import Model as _Model


class Requirement(_Model):
    """One requirement of a label selector."""

    key: str = Field(min_length=1, description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Strings = Field((), description="Values for In and NotIn.")

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError(f"{self.operator} {'takes no' if self.values else 'needs'} values")
        return self


class Selector(_Model):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] = Field({}, description="Labels that must have these values.")
    match_expressions: Many[Requirement] = Field((), description="Requirements.")

    @property
    def label_selector(self) -> LabelSelector:
        """The same selector, as rules use it."""
        equal = (SelectorRequirement(key, "In", (value,)) for key, value in self.match_labels.items())
        others = (SelectorRequirement(r.key, r.operator, r.values) for r in self.match_expressions)
        return LabelSelector((*equal, *others))
