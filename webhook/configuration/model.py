"""What every section of the configuration has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Port = Annotated[int, Field(ge=0, le=65535)]


class Model(BaseModel):
    """A section: its keys are in camel case, and unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)
