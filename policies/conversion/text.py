"""CEL as text: literals, patterns with wildcards, and conditions joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from policies.golang.quote import quote


def literal(value: Any) -> str:
    """A decoded JSON value as an expression. Entries of maps and lists are dynamic, as those of parameters are."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return quote(value)
        case Mapping():
            return "{" + ", ".join(f"{quote(str(key))}: dyn({literal(one)})" for key, one in value.items()) + "}"
        case _:
            return "[" + ", ".join(f"dyn({literal(one)})" for one in value) + "]"


def matches(subject: str, patterns: Iterable[str]) -> str:
    """The condition that a text is one of some, which may have the wildcards * and ?."""
    plain = [pattern for pattern in patterns if not is_wild(pattern)]
    parts = [f"{subject} in [{', '.join(map(quote, plain))}]"] if len(plain) > 1 else []
    parts += [f"{subject} == {quote(plain[0])}"] if len(plain) == 1 else []
    parts += [f"{subject}.matches({quote(_pattern(pattern))})" for pattern in patterns if is_wild(pattern)]
    return either(parts)


def is_wild(pattern: str) -> bool:
    """Whether a text has wildcards."""
    return "*" in pattern or "?" in pattern


def _pattern(glob: str) -> str:
    return f"^{re.escape(glob).replace(re.escape('*'), '.*').replace(re.escape('?'), '.')}$"


def both(parts: Iterable[str]) -> str:
    """All conditions; empty if there is none."""
    return _joined([part for part in parts if part], " && ")


def either(parts: Iterable[str]) -> str:
    """Any of the conditions; empty if there is none."""
    return _joined([part for part in parts if part], " || ")


def _joined(parts: list[str], operator: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return operator.join(f"({part})" if "&&" in part or "||" in part else part for part in parts)
