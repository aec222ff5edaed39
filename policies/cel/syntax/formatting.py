"""The text of an expression in the one format: at most 120 columns, broken at operators, arguments and items."""

from __future__ import annotations

from typing import Final

from policies.cel.evaluation.recursion import deeply
from policies.cel.syntax.lexer import BYTES, DOUBLE, END, INT, STRING, UINT, Tokens, tokenize
from policies.cel.syntax.parser import parse
from policies.cel.syntax.sameness import same
from policies.cel.syntax.source import Source
from policies.cel.syntax.unparse import ONE_LINE, Spelling, unparse

WIDTH: Final = 120
_LITERALS = {INT, UINT, DOUBLE, STRING, BYTES}


class KeptError(Exception):
    """The expression is left as it is. The text says why."""


def formatted(source: Source, width: int = WIDTH) -> str:
    """The expression in its format. Literals stay as they were written. Raises CompileError, and KeptError.

    An expression with comments, or with a string of several lines, is left alone: nothing says where they belong.
    """
    deeply(lambda: parse(source))  # the rules of macros, which are not expanded below
    tokens = tokenize(source.text)
    if _has_comment(source.text, tokens):
        raise KeptError("it has comments")
    spelling = _spelling(tokens)
    if any("\n" in text for text in spelling.values()):
        raise KeptError("it has a string of several lines")
    tree = parse(source, expand=False)
    text = deeply(lambda: unparse(tree, width, spelling))
    if not same(parse(Source(text), expand=False), tree):
        raise KeptError("it cannot be written otherwise")
    return text


def one_line(source: Source) -> str:
    """The expression on one line. Raises as `formatted`."""
    return formatted(source, ONE_LINE)


def _has_comment(text: str, tokens: Tokens) -> bool:
    """Whether there is more than blanks between tokens."""
    end = 0
    for token, start in zip(tokens.texts, tokens.starts, strict=True):
        if text[end:start].strip():
            return True
        end = start + (0 if token == END else len(token))
    return False


def _spelling(tokens: Tokens) -> Spelling:
    """The literals by their positions, and numbers by those of a sign before them."""
    spelling: dict[int, str] = {}
    for index, (kind, text, start) in enumerate(zip(tokens.kinds, tokens.texts, tokens.starts, strict=True)):
        if kind in _LITERALS:
            spelling[start] = text
            if index and tokens.kinds[index - 1] == "-":
                spelling[tokens.starts[index - 1]] = f"-{text}"
    return spelling
