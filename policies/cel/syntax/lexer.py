"""Text to tokens, with the rules of CEL's grammar: the longest token wins, and what is no token is an issue.

The kind of an operator, of punctuation and of `in`, `true`, `false` and `null` is its text; the others are named below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.cel.syntax.source import ISSUES_LIMIT, Issue

IDENTIFIER, QUOTED_IDENTIFIER = "IDENTIFIER", "ESC_IDENTIFIER"
INT, UINT, DOUBLE, STRING, BYTES = "NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES"
END = "<EOF>"
KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_EXPONENT = r"(?:[eE][+-]?[0-9]++)"
_BEGUN_ESCAPE = r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
_DOUBLE_QUOTED = rf'"(?:[^\\"\n\r]|{_ESCAPE})*+'
_SINGLE_QUOTED = rf"'(?:[^\\'\n\r]|{_ESCAPE})*+"
_QUOTED = rf"""
    (?: \"\"\" (?:[^\\]|{_ESCAPE})*? \"\"\" | ''' (?:[^\\]|{_ESCAPE})*? '''
      | [rR] (?: \"\"\" .*? \"\"\" | ''' .*? ''' | "[^"\n\r]*+" | '[^'\n\r]*+' )
      | {_DOUBLE_QUOTED}" | {_SINGLE_QUOTED}' )
"""

# In ANTLR a token that fails takes everything that could have begun one, and the character that could not follow.
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
      | (?P<error>
          (?: (?: {_DOUBLE_QUOTED} | {_SINGLE_QUOTED} ) (?: {_BEGUN_ESCAPE} )? | `[A-Za-z0-9_./ -]*+ | [=&|] )?+ .? )
    )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class Tokens:
    """The tokens of an expression, as lists of the same length; the last token is END.

    `gaps` are the spans of what is no token.
    """

    kinds: list[str]
    texts: list[str]
    starts: list[int]
    issues: list[Issue]
    gaps: list[tuple[int, int]]

    def between(self, text: str, first: int, last: int) -> str:
        """The text from one token to another, without the gaps."""
        at, pieces = self.starts[first], []
        end = self.starts[last] + (0 if self.kinds[last] == END else len(self.texts[last]))
        for gap in self.gaps:
            if at <= gap[0] < end:
                pieces.append(text[at : gap[0]])
                at = gap[1]
        return "".join([*pieces, text[at:end]])


def tokenize(text: str) -> Tokens:
    """All tokens of a text. What is no token is left out and noted as an issue."""
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    issues: list[Issue] = []
    gaps: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or END
        word = match[kind]
        if kind == "operator" or word in KEYWORDS:
            kinds.append(word)
        elif kind != "error":
            kinds.append(kind)
        elif word:
            if len(issues) < ISSUES_LIMIT:
                issues.append(Issue(match.start(kind), f"Syntax error: token recognition error at: '{word}'"))
            gaps.append(match.span(kind))
            continue
        else:
            break
        texts.append(word)
        starts.append(match.start(kind))
    kinds.append(END)
    texts.append(END)
    starts.append(len(text))
    return Tokens(kinds, texts, starts, issues, gaps)
