"""The section `decisions` of the configuration: the log of decisions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from webhook.configuration.fields import Globs, Many, Model

Content = Literal["none", "messages", "objects"]


class SampleSettings(Model):
    """Which answers are recorded."""

    verdicts: Annotated[
        Many[Literal["admit", "patch", "deny", "warn", "audit", "excepted", "error"]], Field(min_length=1)
    ] = Field(description="Verdicts: admit, patch, deny, warn, audit, excepted or error.")
    rules: Globs = Field(("*",), description="Names of rules and policies, as globs.")
    share: float = Field(1.0, ge=0, le=1, description="Share of these answers that is recorded, from 0 to 1.")


class DecisionsSettings(Model):
    """The log of decisions: a JSON line for each answer that is sampled, apart from the logs on stderr."""

    log: str = Field("", description="File, or - for stdout. Empty: no log.")
    content: Content = Field(
        "none",
        description="none: identities, verdicts and field paths; messages: also what people were told; objects: all "
        "that replay needs. Secrets and values of environment variables are always masked.",
    )
    samples: Many[SampleSettings] = Field(
        (SampleSettings(verdicts=("deny", "error")),),
        description="For each rule and verdict the first entry that has both counts; no entry: not recorded. A list "
        "given here replaces this one.",
    )
    max_record_bytes: int = Field(
        128 * 1024,
        ge=4096,
        le=1024 * 1024,
        description="Messages and objects of a review or record with more bytes are left out, which the record says.",
    )
    max_file_bytes: int = Field(
        64 * 1024 * 1024, ge=1024 * 1024, description="A file with more bytes is renamed, with a number at its end."
    )
    max_files: int = Field(5, ge=1, le=100, description="How many of these are kept besides the one written to.")
