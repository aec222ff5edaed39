"""The section `packs` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from policies.kubernetes.spelling import did_you_mean
from webhook.configuration.fields import TOLD, PackMode
from webhook.configuration.fields import Model as _Model
from webhook.sources import packfiles


def _text(value: object) -> object:
    """A parameter as a ConfigMap has it: numbers as text, lists with blanks between their items."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Parameter = Annotated[
    str,
    BeforeValidator(_text),
    WithJsonSchema({"type": ["string", "integer", "array"], "items": {"type": "string"}}),
]


class PackSettings(_Model):
    """A pack: its mode, or a map with more."""

    SHORT: ClassVar[str] = "mode"

    mode: PackMode = Field("warn", description="enforce, warn, audit or off.")
    policies: dict[str, PackMode] = Field({}, description="Modes of single policies, by name.")
    parameters: dict[str, Parameter] = Field(
        {}, description="Values that replace those in the ConfigMaps of the pack: texts, numbers, or lists of texts."
    )

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict | PackSettings) else {"mode": value}


class PacksSettings(_Model):
    """Shipped policies: enforce, warn, audit or off. Another policy with the name of one takes its place."""

    interruptable_qos: PackSettings = Field(
        PackSettings(), alias="interruptable-qos", description="What is labelled interruptable can be interrupted."
    )
    scheduling_safety: PackSettings = Field(
        PackSettings(), alias="scheduling-safety", description="Tolerations and node selectors that do no harm."
    )
    sunk: PackSettings = Field(PackSettings(), description="Nodes that Slurm has locked are left alone.")

    @field_validator("*", mode="after")
    @classmethod
    def _is_shipped(cls, value: PackSettings, info: ValidationInfo) -> PackSettings:
        pack = str(cls.model_fields[str(info.field_name)].alias)
        if problems := list(_unknown(pack, value)):
            raise PydanticCustomError(TOLD, "{problems}", {"problems": "; ".join(problems)})
        return value

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all packs."""
        return tuple(str(field.alias) for field in cls.model_fields.values())

    @property
    def by_name(self) -> dict[str, PackSettings]:
        """The packs by name."""
        return {str(field.alias): getattr(self, name) for name, field in type(self).model_fields.items()}

    @property
    def is_on(self) -> bool:
        """Whether a policy of any pack may be in force."""
        return any(mode != "off" for pack in self.by_name.values() for mode in (pack.mode, *pack.policies.values()))


def _unknown(pack: str, chosen: PackSettings) -> Iterator[str]:
    """A text for each name that the pack does not have."""
    if not (chosen.policies or chosen.parameters):
        return
    known = packfiles.names(pack)
    for what, given, names in (
        ("policy", chosen.policies, known.switches),
        ("parameter", chosen.parameters, known.parameters),
    ):
        for name in given:
            if name not in names:
                otherwise = f"it has {', '.join(names) or 'none'}"
                yield f"the pack has no {what} {name!r}; {did_you_mean(name, names, otherwise)}"
