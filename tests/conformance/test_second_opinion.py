"""A second opinion on what the language is: the grammar of cel-python, written by others from the same text."""

from __future__ import annotations

import re

from celpy.celparser import CELParseError, CELParser
from conformance.casefile import files, read

from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source

BEYOND = re.compile(r"\.\?|\[\?|[{,\[(]\s*\?|,\s*[\])}]|`")
"""Syntax that is newer than cel-python: optionals, trailing commas, quoted names."""

WE_REFUSE = {
    r"argument (must be|is not)|variable name|(duplicate|iteration) variable|has\(\) macro|sortBy can": (
        "rules of macros, which its grammar does not know"
    ),
    r"invalid (int|uint|double) literal|invalid unicode|unescape|string is not closed|no such token|unexpected `b`": (
        "it looks at ranges and escapes later"
    ),
    r"reserved identifier|unexpected `(in|null)`": "it takes keywords for names where they cannot mean anything else",
    r"may follow `!-`|a parenthesis is missing|end of the expression: a name": "it reads `-!x`, and `1.` as a number",
}
"""What our parser says of expressions that cel-python accepts, and why that is right."""
THEY_REFUSE = {r"\d\.[a-z]": "it reads the point of `1.size()` as that of a number"}
"""Expressions that cel-python refuses, and why they are right."""


def _ours(expression: str) -> str | None:
    try:
        parse(Source(expression))
    except CompileError as error:
        return error.reference()
    return None


def _accepted(theirs: CELParser, expression: str) -> bool:
    try:
        theirs.parse(expression)
    except CELParseError:
        return False
    return True


def _explained(explanations: dict[str, str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in explanations)


def test_another_parser_accepts_the_same_expressions() -> None:
    """cel-python's parser accepts and refuses what ours does, but for the differences listed above."""
    theirs = CELParser()
    expressions = {case.expression for path in files() for case in read(path)}
    unexplained = {}
    for expression in sorted(expressions):
        if BEYOND.search(expression):
            continue
        refusal, accepted = _ours(expression), _accepted(theirs, expression)
        if refusal is not None and accepted and not _explained(WE_REFUSE, refusal):
            unexplained[expression] = refusal
        elif refusal is None and not accepted and not _explained(THEY_REFUSE, expression):
            unexplained[expression] = "cel-python refuses it"
    assert unexplained == {}
