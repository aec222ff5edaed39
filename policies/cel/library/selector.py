"""Parsers of label and field selectors, with the reference's messages.

Sources: k8s.io/apimachinery's pkg/labels/selector.go, pkg/fields/selector.go, pkg/api/validate/content and
pkg/util/validation/field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from policies.golang.strconv import clean, quote
from policies.kubernetes.name import label_key, label_value

EQUALS, DOUBLE_EQUALS, NOT_EQUALS = "=", "==", "!="
IN, NOT_IN, GREATER, LESS = "in", "notin", "gt", "lt"
EXISTS, DOES_NOT_EXIST = "exists", "!"

_OPERATORS = {"in": IN, "notin": NOT_IN, "=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER, "<": LESS}
_BINARY = "in, notin, =, ==, !=, gt, lt"
_SPACES = " \t\r\n"
_SPECIAL = "=!(),><"
_TOKENS = frozenset([")", ",", "!", "==", "=", ">", "<", "!=", "("])
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = len(str(_INT64_MAX))


class SelectorError(Exception):
    """The reference cannot parse the selector. The message is its own."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a selector. All conditions of a selector must hold.

    `operator`: as in k8s.io/apimachinery's pkg/selection. `values`: sorted and unique; a requirement on a field has
    exactly one.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """The selector of an authorization check: the text, and its requirements or the error."""

    text: str = ""
    requirements: tuple[Requirement, ...] = ()
    error: str | None = None


NO_SELECTOR = Selector()


def field_selector(text: str) -> Selector:
    """The field selector of a check; NO_SELECTOR for an empty text."""
    return _parsed(text, parse_fields)


def label_selector(text: str) -> Selector:
    """The label selector of a check; NO_SELECTOR for an empty text."""
    return _parsed(text, parse_labels)


def _parsed(text: str, parse: Callable[[str], tuple[Requirement, ...]]) -> Selector:
    if not text:
        return NO_SELECTOR
    try:
        return Selector(text, parse(text))
    except SelectorError as error:
        return Selector(text, error=str(error))


# Fields ------------------------------------------------------------------------------------------------------------

_TERM = re.compile(r"(?:[^,\\]|\\.|\\\Z)*", re.DOTALL)
_SPLIT = re.compile(r"!=|==|=")


def parse_fields(text: str) -> tuple[Requirement, ...]:
    """The requirements of a field selector such as `spec.nodeName=a,status.phase!=Failed`. Raises SelectorError.

    Like fields.ParseSelector, it sorts them by their text and leaves out terms without key and value.
    """
    requirements = []
    for term in sorted(_terms(text)):
        if not term:
            continue
        split = _SPLIT.search(term)
        if split is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        key, value = term[: split.start()], _unescaped(term[split.end() :])
        if key or value:
            requirements.append(Requirement(key, NOT_EQUALS if split[0] == NOT_EQUALS else EQUALS, (value,)))
    return tuple(requirements)


def _terms(text: str) -> Iterator[str]:
    """The parts between commas. A comma after a backslash does not separate parts."""
    position = 0
    while position <= len(text):
        match = _TERM.match(text, position)
        term = match[0] if match else ""  # the pattern matches the empty text too
        yield term
        position += len(term) + 1


def _unescaped(value: str) -> str:
    r"""A value without the backslashes before `\`, `,` and `=`. Raises SelectorError."""
    plain = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if not escaped or escaped not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            plain.append(escaped)
        elif character in ",=":
            # the reference prints the number of the character
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    return "".join(plain)


# Labels ------------------------------------------------------------------------------------------------------------


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector such as `a in (b,c),!d,e=f`, by key. Raises SelectorError.

    Source: labels.ParseToRequirements.
    """
    return tuple(sorted(_Parser(list(_scan(text))).parse(), key=lambda requirement: requirement.key))


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind` is the symbol itself, `name` for keys and values, or `end`."""

    kind: str
    text: str = ""

    @property
    def is_value(self) -> bool:
        """Whether the token may be a key or a value. `in` and `notin` may."""
        return self.kind in ("name", IN, NOT_IN)


_END = _Token("end")


def _scan(text: str) -> Iterator[_Token]:
    """The tokens of a label selector. A NUL right after a token ends that token; any other NUL ends the text."""
    position = 0
    while True:
        while position < len(text) and text[position] in _SPACES:
            position += 1
        if position >= len(text) or text[position] == "\0":
            yield _END
            return
        start = position
        if text[start] in _SPECIAL:
            position += 2 if text[start : start + 2] in _TOKENS else 1
            kind = text[start:position]
        else:
            while position < len(text) and text[position] not in _SPACES + _SPECIAL + "\0":
                position += 1
            kind = text[start:position] if text[start:position] in (IN, NOT_IN) else "name"
        yield _Token(kind, text[start:position])
        position += text[position : position + 1] == "\0"


class _Parser:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def parse(self) -> Iterator[Requirement]:
        while self._next is not _END:
            if not self._starts_requirement:
                raise SelectorError(f"found '{self._next.text}', expected: !, identifier, or 'end of string'")
            try:
                requirement = self._requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            yield requirement
            after = self._take()
            if after is _END:
                return
            if after.kind != ",":
                raise SelectorError(f"found '{after.text}', expected: ',' or 'end of string'")
            if not self._starts_requirement:
                raise SelectorError(f"found '{self._next.text}', expected: identifier after ','")

    @property
    def _starts_requirement(self) -> bool:
        return self._next.is_value or self._next.kind == "!"

    def _requirement(self) -> Requirement:
        token = self._take()
        negated = token.kind == "!"
        if negated:
            token = self._take()
        if not token.is_value:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        key = token.text
        if problems := label_key(key):
            raise SelectorError(_invalid("<nil>", key, problems))
        if negated or self._next.kind in ("end", ","):
            return Requirement(key, DOES_NOT_EXIST if negated else EXISTS)
        token = self._take()
        operator = _OPERATORS.get(token.kind)
        if operator is None:
            raise SelectorError(f"found '{token.text}', expected: {_BINARY}")
        values = self._set() if operator in (IN, NOT_IN) else {self._exact()}
        return _checked(Requirement(key, operator, tuple(sorted(values))))

    def _exact(self) -> str:
        if self._next.kind in ("end", ","):
            return ""
        token = self._take()
        if not token.is_value:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _set(self) -> set[str]:
        token = self._take()
        if token.kind != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        if self._next.kind == ")":
            values = {""}
        elif self._next.is_value or self._next.kind == ",":
            values = self._members()
        else:
            raise SelectorError(f"found '{self._next.text}', expected: ',', ')' or identifier")
        self._take()  # the closing parenthesis
        return values

    def _members(self) -> set[str]:
        """The values up to the closing parenthesis. A missing value beside a comma is empty."""
        values: set[str] = set()
        while True:
            token = self._take()
            if token.is_value:
                values.add(token.text)
                if self._next.kind == ")":
                    return values
                if self._next.kind != ",":
                    raise SelectorError(f"found '{self._next.text}', expected: ',' or ')'")
            elif token.kind == ",":
                if not values or self._next.kind in (")", ","):
                    values.add("")
                if self._next.kind == ")":
                    return values
            else:
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")


# What keys and values may be -----------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch


def _checked(requirement: Requirement) -> Requirement:
    """The requirement, if its values are valid label values (NewRequirement). Raises SelectorError."""
    faults = []
    for position, value in enumerate(requirement.values):
        if requirement.operator in (GREATER, LESS) and not _is_int64(value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            faults.append(_invalid(f"values[{position}]", value, [detail]))
    for position, value in enumerate(requirement.values):
        if problems := label_value(value):
            faults.append(_invalid(f"values[{position}][{requirement.key}]", value, problems))
    if faults:
        raise SelectorError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return requirement


def _is_int64(text: str) -> bool:
    short = len(text.lstrip("+-0")) <= _INT64_DIGITS  # Python refuses to parse thousands of digits
    return _INTEGER(text) is not None and short and -_INT64_MAX - 1 <= int(text) <= _INT64_MAX


def _invalid(path: str, value: str, problems: Sequence[str]) -> str:
    return f"{path}: Invalid value: {quote(clean(value))}: {'; '.join(problems)}"
