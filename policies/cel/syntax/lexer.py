"""Splits text into tokens by CEL's grammar. The longest token wins.

The kind of an operator, of punctuation and of `in`, `true`, `false` and `null` is its text; others are named below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

IDENTIFIER, QUOTED_IDENTIFIER = "IDENTIFIER", "ESC_IDENTIFIER"
INT, UINT, DOUBLE, STRING, BYTES = "NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES"
END = "<EOF>"
ERROR = "ERROR"
"""A character that does not start a token. Only END follows it."""
KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_EXPONENT = r"(?:[eE][+-]?[0-9]++)"
_QUOTED = rf"""
    (?: \"\"\" (?:[^\\]|{_ESCAPE})*? \"\"\" | ''' (?:[^\\]|{_ESCAPE})*? '''
      | [rR] (?: \"\"\" .*? \"\"\" | ''' .*? ''' | "[^"\n\r]*+" | '[^'\n\r]*+' )
      | "(?:[^\\"\n\r]|{_ESCAPE})*+" | '(?:[^\\'\n\r]|{_ESCAPE})*+' )
"""

_TOKEN = re.compile(
    rf"""
    (?: [ \t\r\n\f]++ | //[^\n]*+ )*+
    (?: (?P<{DOUBLE}> [0-9]++ (?: \.[0-9]++ {_EXPONENT}? | {_EXPONENT} ) | \.[0-9]++ {_EXPONENT}? )
      | (?P<{UINT}> (?: 0x[0-9a-fA-F]++ | [0-9]++ ) [uU] )
      | (?P<{INT}> 0x[0-9a-fA-F]++ | [0-9]++ )
      | (?P<{STRING}> {_QUOTED} )
      | (?P<{BYTES}> [bB] {_QUOTED} )
      | (?P<{IDENTIFIER}> [A-Za-z_][A-Za-z0-9_]*+ )
      | (?P<operator> == | != | <= | >= | && | \|\| | [][(){{}}<>.,!?:+*/%-] )
      | (?P<{QUOTED_IDENTIFIER}> `[A-Za-z0-9_./ -]++` )
      | (?P<{ERROR}> . )
      | \Z
    )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class Tokens:
    """The tokens of an expression, as lists of the same length; the last token is END."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]


def tokenize(text: str) -> Tokens:
    """All tokens of a text, up to the first invalid character."""
    tokens = Tokens([], [], [])
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            break
        word = match[kind]
        tokens.kinds.append(word if kind == "operator" or word in KEYWORDS else kind)
        tokens.texts.append(word)
        tokens.starts.append(match.start(kind))
        if kind == ERROR:
            break
    tokens.kinds.append(END)
    tokens.texts.append(END)
    tokens.starts.append(len(text))
    return tokens
