"""A label key of Nodes: what it says about a Node, and which values it has."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

Sort = Literal["place", "measure", "trait"]
"""What a label says: where a Node is, how it is connected, or what it is."""


class Form(Struct, frozen=True):
    """The form of a label's values. pattern: matches them all; empty if they may be any text.

    called: the form in words, such as `a number`. choices: the only values that there are, if they are few.
    """

    pattern: str = ""
    called: str = ""
    choices: tuple[str, ...] = ()

    def fits(self, value: str) -> bool:
        """Whether a value has the form."""
        if self.choices:
            return value in self.choices
        return not self.pattern or re.fullmatch(self.pattern, value) is not None


ANY = Form()


class Key(Struct, frozen=True):
    """A label key that is known. name: the key; a `*` in it stands for any text.

    sort: see `Sort`. form: of its values. instead: the key, or what else to name, for who looks for a place; empty for
    places. replaced: by which key, if it is an older name and its values are the same.
    """

    name: str
    sort: Sort = "place"
    form: Form = ANY
    instead: str = ""
    replaced: str = ""

    @property
    def prefix(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]

    @property
    def short(self) -> str:
        """The part behind the slash."""
        return self.name.partition("/")[2]

    @property
    def is_pattern(self) -> bool:
        """Whether the name stands for several keys."""
        return "*" in self.name
