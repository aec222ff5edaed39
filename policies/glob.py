"""Globs in which only `*` and `?` are special, so a name with brackets matches itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def expression(glob: str) -> str:
    """The regular expression that matches what the glob matches, for Python's `re` and for RE2."""
    return "".join({"*": ".*", "?": "."}.get(character) or re.escape(character) for character in glob)


# No name in a cluster is as long. A longer one, which the API server has yet to refuse, would cost a glob with several
# stars a time that grows with a power of its length.
LONGEST = 1024


def matches(value: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs matches the whole value; False for a value that is too long for any name."""
    return len(value) <= LONGEST and any(_compiled(glob).fullmatch(value) is not None for glob in globs)


@lru_cache(maxsize=1024)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(expression(glob))
