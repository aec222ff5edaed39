"""CEL's grammar as the network of states that ANTLR makes of it, for error messages only (see diagnosis.py).

A state has edges: to go on at once, to take a token of a set, to call a rule, or to go on if the precedence allows it.
States where ANTLR looks at the next token have a kind, which decides how it treats a token that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from policies.cel.syntax.lexer import BYTES, DOUBLE, END, IDENTIFIER, INT, QUOTED_IDENTIFIER, STRING, UINT

EPSILON = ""
"""In a set of tokens: the end of the rule."""


class Kind(Enum):
    """What a state is."""

    BASIC = auto()
    BLOCK = auto()  # the start of alternatives
    ENTRY = auto()  # of a loop
    BACK = auto()  # of a loop, after one turn
    STOP = auto()  # of a rule


@dataclass(slots=True)
class Edge:
    """The way to another state. At most one of the three is set."""

    target: int
    tokens: frozenset[str] = frozenset()
    rule: str = ""
    precedence: int = 0  # of the rule that is called, or with no rule the least that is needed


@dataclass(slots=True)
class State:
    """`adaptive`: ANTLR looks as far ahead as needed here. `operators`: a loop over operators with their precedence.

    `leaves`: the last edge goes past what the state is the start of.
    """

    rule: str
    kind: Kind = Kind.BASIC
    adaptive: bool = False
    operators: bool = False
    leaves: bool = False
    edges: list[Edge] = field(default_factory=list)


@dataclass(slots=True)
class Part:
    """A piece of a rule, not yet made into states."""

    sort: str
    parts: tuple[Part, ...] = ()
    tokens: frozenset[str] = frozenset()
    rule: str = ""
    precedence: int = 0
    adaptive: bool = False
    operators: bool = False


def _token(*tokens: str) -> Part:
    return Part("token", tokens=frozenset(tokens))


def _rule(name: str, precedence: int = 0) -> Part:
    return Part("rule", rule=name, precedence=precedence)


def _needs(precedence: int) -> Part:
    return Part("needs", precedence=precedence)


def _sequence(*parts: Part) -> Part:
    return Part("sequence", parts)


def _one_of(*parts: Part, adaptive: bool = True) -> Part:
    return Part("block", parts, adaptive=adaptive)


def _maybe(part: Part) -> Part:
    return Part("maybe", (part,))


def _star(part: Part, *, adaptive: bool = False, operators: bool = False) -> Part:
    return Part("star", (part,), adaptive=adaptive, operators=operators)


def _plus(part: Part, *, adaptive: bool = False) -> Part:
    return Part("plus", (part,), adaptive=adaptive)


def _separated(*parts: Part, adaptive: bool = True) -> Part:
    return _sequence(*parts, _star(_sequence(_token(","), *parts), adaptive=adaptive))


_ARGUMENTS = _sequence(_token("("), _maybe(_rule("exprList")), _token(")"))
_POINT = _maybe(_token("."))
_QUESTION = _maybe(_token("?"))
_COMMA = _maybe(_token(","))
_SIGN = _maybe(_token("-"))

_RULES = {
    "start": _sequence(_rule("expr"), _token(END)),
    "expr": _sequence(
        _rule("conditionalOr"),
        _maybe(_sequence(_token("?"), _rule("conditionalOr"), _token(":"), _rule("expr"))),
    ),
    "conditionalOr": _sequence(_rule("conditionalAnd"), _star(_sequence(_token("||"), _rule("conditionalAnd")))),
    "conditionalAnd": _sequence(_rule("relation"), _star(_sequence(_token("&&"), _rule("relation")))),
    "relation": _sequence(
        _rule("calc"),
        _star(
            _sequence(_needs(1), _token("<", "<=", ">=", ">", "==", "!=", "in"), _rule("relation", 2)),
            operators=True,
        ),
    ),
    "calc": _sequence(
        _rule("unary"),
        _star(
            _one_of(
                _sequence(_needs(2), _token("*", "/", "%"), _rule("calc", 3)),
                _sequence(_needs(1), _token("+", "-"), _rule("calc", 2)),
            ),
            operators=True,
        ),
    ),
    "unary": _one_of(
        _rule("member"),
        _sequence(_plus(_token("!")), _rule("member")),
        _sequence(_plus(_token("-"), adaptive=True), _rule("member")),
    ),
    "member": _sequence(
        _rule("primary"),
        _star(
            _one_of(
                _sequence(_token("."), _QUESTION, _rule("escapeIdent")),
                _sequence(_token("."), _token(IDENTIFIER), _ARGUMENTS),
                _sequence(_token("["), _QUESTION, _rule("expr"), _token("]")),
            ),
            operators=True,
        ),
    ),
    "primary": _one_of(
        _sequence(_POINT, _token(IDENTIFIER)),
        _sequence(_POINT, _token(IDENTIFIER), _ARGUMENTS),
        _sequence(_token("("), _rule("expr"), _token(")")),
        _sequence(_token("["), _maybe(_rule("listInit")), _COMMA, _token("]")),
        _sequence(_token("{"), _maybe(_rule("mapInitializerList")), _COMMA, _token("}")),
        _sequence(
            _POINT,
            _token(IDENTIFIER),
            _star(_sequence(_token("."), _token(IDENTIFIER))),
            _token("{"),
            _maybe(_rule("fieldInitializerList")),
            _COMMA,
            _token("}"),
        ),
        _rule("literal"),
    ),
    "exprList": _separated(_rule("expr"), adaptive=False),
    "listInit": _separated(_rule("optExpr")),
    "fieldInitializerList": _separated(_rule("optField"), _token(":"), _rule("expr")),
    "optField": _sequence(_QUESTION, _rule("escapeIdent")),
    "mapInitializerList": _separated(_rule("optExpr"), _token(":"), _rule("expr")),
    "escapeIdent": _one_of(_token(IDENTIFIER), _token(QUOTED_IDENTIFIER), adaptive=False),
    "optExpr": _sequence(_QUESTION, _rule("expr")),
    "literal": _one_of(
        _sequence(_SIGN, _token(INT)),
        _token(UINT),
        _sequence(_SIGN, _token(DOUBLE)),
        _token(STRING),
        _token(BYTES),
        _token("true"),
        _token("false"),
        _token("null"),
    ),
}


class Network:
    """All states. `starts` are the rules' first states, `follows` where each rule may have been called from."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.starts = {name: self._state(name) for name in _RULES}
        self.stops = {name: self._state(name, Kind.STOP) for name in _RULES}
        self.follows: dict[str, list[int]] = {name: [] for name in _RULES}
        for name, part in _RULES.items():
            self._link(self._build(part, name, self.starts[name]), self.stops[name])
        self._looked: dict[int, frozenset[str]] = {}

    def look(self, state: int) -> frozenset[str]:
        """The tokens that may come next from a state within its rule, and EPSILON if the rule may end."""
        if state not in self._looked:
            self._looked[state] = self._look(state)
        return self._looked[state]

    def _look(self, state: int) -> frozenset[str]:
        found: set[str] = set()
        work: list[tuple[int, tuple[int, ...]]] = [(state, ())]
        seen = set(work)
        while work:
            at, stack = work.pop()
            if self.states[at].kind is Kind.STOP and not stack:
                found.add(EPSILON)
            following = [(stack[-1], stack[:-1])] if self.states[at].kind is Kind.STOP and stack else []
            for edge in self.states[at].edges:
                found |= edge.tokens
                if edge.rule:
                    following.append((self.starts[edge.rule], (*stack, edge.target)))
                elif not edge.tokens:
                    following.append((edge.target, stack))
            work += [place for place in following if place not in seen]
            seen.update(following)
        return frozenset(found)

    def _state(self, rule: str, kind: Kind = Kind.BASIC, *, adaptive: bool = False, operators: bool = False) -> int:
        self.states.append(State(rule, kind, adaptive, operators))
        return len(self.states) - 1

    def _link(self, start: int, target: int) -> None:
        self.states[start].edges.append(Edge(target))

    def _leave(self, start: int, target: int) -> None:
        self._link(start, target)
        self.states[start].leaves = True

    def _build(self, part: Part, rule: str, start: int) -> int:
        """Add the states of a part after a state; the last of them."""
        match part.sort:
            case "sequence":
                for one in part.parts:
                    start = self._build(one, rule, start)
                return start
            case "token" | "rule" | "needs":
                return self._step(part, rule, start)
            case "block" | "maybe":
                return self._block(part, rule, start)
            case _:
                return self._loop(part, rule, start)

    def _step(self, part: Part, rule: str, start: int) -> int:
        before, end = self._state(rule), self._state(rule)
        self._link(start, before)
        self.states[before].edges.append(Edge(end, part.tokens, part.rule, part.precedence))
        if part.rule:
            self.follows[part.rule].append(end)
        return end

    def _block(self, part: Part, rule: str, start: int) -> int:
        block, end = self._state(rule, Kind.BLOCK, adaptive=part.adaptive), self._state(rule)
        self._link(start, block)
        self._alternatives(part.parts, rule, block, end)
        if part.sort == "maybe":
            self._leave(block, end)
        return end

    def _alternatives(self, parts: Iterable[Part], rule: str, block: int, end: int) -> None:
        for one in parts:
            first = self._state(rule)
            self._link(block, first)
            self._link(self._build(one, rule, first), end)

    def _loop(self, part: Part, rule: str, start: int) -> int:
        """A star begins at its entry; a plus makes one turn first, and has no entry after that."""
        kind = Kind.ENTRY if part.sort == "star" else Kind.BLOCK
        entry = self._state(rule, kind, adaptive=part.adaptive, operators=part.operators)
        back = self._state(rule, Kind.BACK, adaptive=part.adaptive, operators=part.operators)
        body, end = self._state(rule), self._state(rule)
        self._link(start, entry)
        self._link(entry, body)
        if part.sort == "star":
            self._leave(entry, end)
        self._link(self._build(part.parts[0], rule, body), back)
        self._link(back, body)
        self._leave(back, end)
        return end
