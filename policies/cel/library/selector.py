"""The selectors of authorization checks, as the requirements that a SubjectAccessReview has for them.

A review has no words for a comparison of numbers, or for a field without a name, and the API server refuses what cannot
be parsed. Without these a review asks for more rights, never for fewer. Sources: k8s.io/apimachinery's
pkg/labels/selector.go and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.engine.match import Operator, SelectorRequirement
from policies.kubernetes.name import label_key, label_value

Requirements = tuple[SelectorRequirement, ...]

_TERM = re.compile(r"(?:[^,\\]|\\.|\\\Z)+", re.DOTALL)
_FIELD = re.compile(r"((?:(?!!?=).)*)(!=|==?)((?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
# A NUL right after a token ends that token; any other one ends the text.
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),><]|[^ \t\r\n=!(),><\0]+)\0?")
_SYMBOLS: Final = frozenset({"", "==", "!=", *"=!(),><"})
_AMONG: Final[dict[str, Operator]] = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn"}
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch
_INT64_DIGITS: Final = 19  # Python refuses to parse thousands of them


class _MalformedError(Exception):
    """The API server cannot parse the selector."""


def field_requirements(text: str) -> Requirements:
    """The requirements of a field selector such as `spec.nodeName=a,status.phase!=Failed`, sorted by its terms."""
    requirements = []
    for term in sorted(_TERM.findall(text)):
        match = _FIELD.fullmatch(term)
        if match is None:
            return ()
        key, operator, value = match.groups()
        if key:
            value = re.sub(r"\\(.)", r"\1", value)
            requirements.append(SelectorRequirement(key, "NotIn" if operator == "!=" else "In", (value,)))
    return tuple(requirements)


def label_requirements(text: str) -> Requirements:
    """The requirements of a label selector such as `a in (b,c),!d,e=f`, by key."""
    tokens, position = list[str](), 0
    while (match := _TOKEN.match(text, position)) is not None:
        tokens.append(match[1])
        position = match.end()
    try:
        return tuple(sorted(_labels(tokens), key=lambda requirement: requirement.key))
    except _MalformedError:
        return ()


def _labels(tokens: list[str]) -> Iterator[SelectorRequirement]:
    left = ["", *reversed(tokens)]
    while tokens:
        is_absent = left[-1] == "!"
        if is_absent:
            left.pop()
        key, operator = left.pop(), left[-1] if left else ""
        if key in _SYMBOLS or label_key(key):
            raise _MalformedError
        if is_absent or operator in ("", ","):
            yield SelectorRequirement(key, "DoesNotExist" if is_absent else "Exists")
        else:
            left.pop()
            values = _members(left) if operator in ("in", "notin") else [_name(left)]
            is_number = operator in (">", "<") and all(map(_is_int64, values))
            if not (operator in _AMONG or is_number) or any(map(label_value, values)):
                raise _MalformedError
            if operator in _AMONG:
                yield SelectorRequirement(key, _AMONG[operator], tuple(sorted(set(values))))
        match left.pop():
            case "":
                return
            case ",":
                pass
            case _:
                raise _MalformedError


def _name(left: list[str]) -> str:
    """A value, which is empty where a comma or the end stands in its place."""
    if left[-1] in ("", ",", ")"):
        return ""
    name = left.pop()
    if name in _SYMBOLS:
        raise _MalformedError
    return name


def _members(left: list[str]) -> list[str]:
    """The values in parentheses, of which any may be empty."""
    separator, members = left.pop(), list[str]()
    if separator != "(":
        raise _MalformedError
    while separator != ")":
        members.append(_name(left))
        separator = left.pop()
        if separator not in (",", ")"):
            raise _MalformedError
    return members


def _is_int64(text: str) -> bool:
    is_short = len(text.lstrip("+-0")) <= _INT64_DIGITS
    return _INTEGER(text) is not None and is_short and -(2**63) <= int(text) < 2**63
