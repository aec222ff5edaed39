"""What to write instead, for the mistakes that habits from other languages make frequent."""

from __future__ import annotations

import re
from dataclasses import replace

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
_OPEN_STRING = "the string is not closed, or has an escape that CEL does not know; a backslash is written \\\\"
_CONTEXT = 2


def hinted(issue: Issue, text: str) -> Issue:
    """The issue with a hint, if what stands at its place is a known habit."""
    if issue.hint or issue.position < 0:
        return issue
    return replace(issue, hint=_hint(issue, text))


def _hint(issue: Issue, text: str) -> str:
    at = issue.position
    if issue.message.startswith("reserved identifier"):
        return _at(text, at) or "CEL keeps this word for itself; a field of that name is read as object['name']"
    if not issue.message.startswith("Syntax error"):
        return ""
    if re.match("[\"']", text[at : at + 1]) and "token recognition" in issue.message:
        return _OPEN_STRING
    return _before(text, at) or _at(text, at) or _missing(issue.message)


def _before(text: str, at: int) -> str:
    """The hint for what ends before a place, or begins before and goes on there."""
    if re.search(r"\bnot\s+$", text[:at]):
        return "write ! for 'not'"
    before = text[max(0, at - _CONTEXT) : at].rstrip()
    for begin in range(len(before), 0, -1):  # an operator of several characters may have begun before
        found = _at(before[-begin:] + text[at:], 0, least=begin + 1)
        if found:
            return found
    return "" if text.strip() else "the expression is empty"


def _at(text: str, at: int, least: int = 1) -> str:
    """The hint for what stands at a place, if it is at least so long."""
    for pattern, hint in _TABLE:
        match = pattern.match(text, at)
        if match and len(match[0]) >= least:
            return hint
    return ""


def _missing(message: str) -> str:
    if "input '<EOF>' expecting ':'" in message:
        return "write condition ? a : b; an optional field is a.?b"
    closer = re.search(r"missing '([])}])'|input '<EOF>' expecting '([])}])'", message)
    if closer:
        return f"a {closer[1] or closer[2]} is missing"
    if re.search(r"input '(?:[])}])' expecting <EOF>", message):
        return "this closes nothing"
    if "input '<EOF>' expecting {" in message:
        return "something is missing at the end"
    return ""
