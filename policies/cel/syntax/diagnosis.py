"""Messages for syntax errors, and hints for authors who know another language."""

from __future__ import annotations

import re
from dataclasses import replace

from policies.cel.syntax.frames import COLON
from policies.cel.syntax.lexer import END, ERROR, Tokens
from policies.cel.syntax.source import Issue

_HINTS: tuple[tuple[str, str], ...] = (
    (r"(?:==|!=)\s*=", "CEL compares with == and !=; there is no === or !=="),
    (r"<\s*>", "write != for 'is not equal'"),
    (r"=>|->", "a macro takes its variable and its body as two arguments: items.all(x, x > 0)"),
    (r"=<", "write <= for 'at most'"),
    (r":=|[-+*/%]=", "CEL has no assignment; an expression only computes a value"),
    (r"=", "write == to compare; CEL has no assignment"),
    (r"&", "write && for 'and'"),
    (r"\|", "write || for 'or'"),
    (r"and\b", "write && for 'and'"),
    (r"or\b", "write || for 'or'"),
    (r"not\s+in\b", "write !(a in b) for 'not in'"),
    (r"not\b", "write ! for 'not'"),
    (r"is\b", "write == to compare, as in a == null"),
    (r"if\b|else\b|then\b", "write condition ? a : b for 'if'"),
    (r"for\b|lambda\b", "loops are macros: items.all(x, ...), items.exists(x, ...), items.map(x, ...)"),
    (r"return\b", "an expression is its own result; leave out 'return'"),
    (r"let\b|var\b|const\b", "CEL has no local variables; a policy's variables are under `variables`"),
    (r"[\u2018-\u201f\u00ab\u00bb]", "use plain quotes, ' or \""),
    (r"`", "for a name with other characters write object['a-b']"),
    (r";", "an expression has no statements; join conditions with &&"),
    (r"\$", "write variables by their plain names, without $"),
    (r"#", "a comment begins with //"),
    (r"\^|\*\*", "CEL has no such operator"),
    (r"~", "for a regular expression write text.matches('pattern')"),
    (r"\?\.", "an optional field is written a.?b, not a?.b"),
    (r"\?\?", "write a.?b.orValue(c) for a default"),
    (r"\[\s*:", "CEL has no slices; lists have slice(start, end)"),
)
_TABLE = [(re.compile(pattern), hint) for pattern, hint in _HINTS]
_CONTEXT = 2
_LONGEST = 40  # characters of a token that are shown
_PREFIX = "Syntax error"  # as in the reference


def unexpected(tokens: Tokens, at: int, reason: str) -> Issue:
    """The issue of a token that the grammar does not allow."""
    kind, text = tokens.kinds[at], tokens.texts[at]
    if kind == ERROR:
        reason = "CEL has no such token"
    if kind == ERROR and text in "\"'":
        message = "the string is not closed, or has an escape that CEL does not know; a backslash is written \\\\"
    else:
        message = f"unexpected {'end of the expression' if kind == END else _shown(text)}: {reason}"
    return Issue(tokens.starts[at], f"{_PREFIX}: {message}")


def _shown(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"`{''.join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in cut)}`"


def hinted(issue: Issue, text: str) -> Issue:
    """The issue with a hint, if the text at its place is a known habit."""
    if issue.hint or issue.position < 0:
        return issue
    return replace(issue, hint=_hint(issue, text))


def _hint(issue: Issue, text: str) -> str:
    at = issue.position
    if issue.message.startswith("reserved identifier"):
        return _habit(text, at) or "CEL keeps this word for itself; a field of that name is read as object['name']"
    if not issue.message.startswith(_PREFIX):
        return ""
    choice = "write condition ? a : b; an optional field is a.?b" if COLON in issue.message else ""
    return _before(text, at) or _habit(text, at) or choice


def _before(text: str, at: int) -> str:
    """The hint for text that ends before a place, or starts before it and continues there."""
    if not text.strip():
        return "the expression is empty"
    if re.search(r"\bnot\s+$", text[:at]):
        return "write ! for 'not'"
    before = text[max(0, at - _CONTEXT) : at].rstrip()
    hints = (_habit(before[-begin:] + text[at:], 0, least=begin + 1) for begin in range(len(before), 0, -1))
    return next(filter(None, hints), "")  # an operator of several characters may start before the place


def _habit(text: str, at: int, least: int = 1) -> str:
    """The hint for the text at a place. `least`: the minimum length of the match."""
    for pattern, hint in _TABLE:
        match = pattern.match(text, at)
        if match and len(match[0]) >= least:
            return hint
    return ""
