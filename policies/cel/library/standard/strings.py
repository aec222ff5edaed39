"""String functions: `charAt`, `indexOf`, `join`, `lowerAscii`, `replace`, `split`, `substring`, `trim` and others.

Source: version 2 of cel-go's ext/strings.go; costs from k8s.io/apiserver's pkg/cel/library/cost.go. Positions count
characters (code points).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from string import ascii_lowercase, ascii_uppercase

from policies.cel import cost, types
from policies.cel.display import shown
from policies.cel.errors import BudgetError, CelError
from policies.cel.function import Function, Implementation, Library, Overload, function, single
from policies.cel.library.standard.textformat import LONGEST, format_text
from policies.cel.types import Type
from policies.cel.values import Value
from policies.golang.quote import ESCAPES, trimmed

_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_TO_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_QUOTED = str.maketrans(ESCAPES)
_QUICK_SEARCH = 1_000_000  # the most comparisons of a plain backward search


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset) if part else min(offset, len(text))


def index_of_anywhere(text: str, part: str, offset: int) -> int:
    """`text.indexOf(part, offset)` of 1.36, which finds an empty text anywhere."""
    return _index_of(text, part, offset) if part else offset


def _last_index_of(text: str, part: str) -> int:
    return _find_last(text, part) if part else len(text)


def last_index_of_anywhere(text: str, part: str, offset: int) -> int:
    """`text.lastIndexOf(part, offset)` of 1.36, which finds an empty text anywhere."""
    return _last_index_of_offset(text, part, offset) if part else offset


def _last_index_of_offset(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else _find_last(text[: offset + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """The last position of a part, or -1. Python's forward search never takes quadratic time, unlike `rfind`."""
    if len(text) * len(part) <= _QUICK_SEARCH:
        return text.rfind(part)
    behind = text[::-1].find(part[::-1])
    return behind if behind < 0 else len(text) - behind - len(part)


def _lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)


def _upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_TO_UPPER)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    growth = len(new) - len(old)
    if growth > 0 and len(text) * growth > LONGEST:
        times = text.count(old)
        length = len(text) + growth * (times if count < 0 else min(times, count))
        if length > LONGEST:
            raise BudgetError(ceil(length * cost.STRING_TRAVERSAL))
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count > len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end > len(text):
        raise _out_of_range(end)
    return text[start:end]


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _join(items: list[Value], separator: str = "") -> str:
    if not set(map(type, items)) <= {str}:
        wrong = next(item for item in items if item.__class__ is not str)
        raise CelError(f"join: invalid input: {shown(wrong)}")
    length = sum(map(len, items)) + len(separator) * max(len(items) - 1, 0)
    if _of_length(length) > cost.EXPRESSION_LIMIT:
        raise BudgetError(_of_length(length))
    return separator.join(items)


def _of_length(length: int) -> int:
    return ceil(length * 2 * cost.STRING_TRAVERSAL)


def _of_result(_: Sequence[Value], result: Value) -> int:
    return _of_length(cost.size(result))


def _member(id: str, parameters: tuple[Type, ...], result: Type, call: Implementation) -> Overload:
    """An overload as cel-go binds it: three or more arguments are evaluated one by one."""
    return Overload(id=id, parameters=parameters, result=result, call=call, member=True, stepwise=len(parameters) > 2)


def _of_text(name: str, id: str, call: Callable[[str], str]) -> Function:
    return single(name, id, (types.STRING,), types.STRING, call, member=True, cost=cost.of_first)


_STRING, _INT, _LIST = types.STRING, types.INT, types.list_of(types.STRING)

LIBRARY = Library(
    name="strings",
    functions=(
        function("charAt", _member("string_char_at_int", (_STRING, _INT), _STRING, _char_at)),
        function(
            "indexOf",
            _member("string_index_of_string", (_STRING, _STRING), _INT, _index_of),
            _member("string_index_of_string_int", (_STRING, _STRING, _INT), _INT, _index_of),
            cost=cost.of_tree,
        ),
        function(
            "lastIndexOf",
            _member("string_last_index_of_string", (_STRING, _STRING), _INT, _last_index_of),
            _member("string_last_index_of_string_int", (_STRING, _STRING, _INT), _INT, _last_index_of_offset),
            cost=cost.of_tree,
        ),
        _of_text("lowerAscii", "string_lower_ascii", _lower_ascii),
        function(
            "replace",
            _member("string_replace_string_string", (_STRING, _STRING, _STRING), _STRING, _replace),
            _member("string_replace_string_string_int", (_STRING, _STRING, _STRING, _INT), _STRING, _replace),
            cost=cost.of_first_twice,
        ),
        function(
            "split",
            _member("string_split_string", (_STRING, _STRING), _LIST, _split),
            _member("string_split_string_int", (_STRING, _STRING, _INT), _LIST, _split),
            cost=cost.of_first_twice,
        ),
        function(
            "substring",
            _member("string_substring_int", (_STRING, _INT), _STRING, _substring),
            _member("string_substring_int_int", (_STRING, _INT, _INT), _STRING, _substring_range),
            cost=cost.of_first,
        ),
        _of_text("trim", "string_trim", trimmed),
        _of_text("upperAscii", "string_upper_ascii", _upper_ascii),
        function(
            "format",
            Overload(
                id="string_format",
                parameters=(_STRING, types.LIST),
                result=_STRING,
                call=format_text,
                member=True,
                stepwise=True,
                cost=cost.of_first,
            ),
        ),
        single("strings.quote", "strings_quote", (_STRING,), _STRING, _quote, cost=cost.of_first),
        function(
            "join",
            _member("list_join", (_LIST,), _STRING, _join),
            _member("list_join_string", (_LIST, _STRING), _STRING, _join),
            cost=_of_result,
        ),
    ),
)
