"""Why tokens are no expression, in the words of the reference's parser.

That parser is made by ANTLR, whose messages depend on how it recovers from one error to find the next. This module goes
through the same grammar with the same rules of recovery. It is slow, and runs only when there is an error to explain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from policies.cel.syntax.grammar import EPSILON, Edge, Kind, Network, State
from policies.cel.syntax.lexer import BYTES, DOUBLE, END, IDENTIFIER, INT, QUOTED_IDENTIFIER, STRING, UINT, Tokens
from policies.cel.syntax.prediction import EffortError, NoViableAlternativeError, Predictor
from policies.cel.syntax.source import NOWHERE, Issue

_ORDER = (
    END, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "true", "false", "null", DOUBLE, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED_IDENTIFIER,
)  # fmt: skip
_NAMED = {END, DOUBLE, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED_IDENTIFIER}
_RESERVED = re.compile(r"no viable alternative at input '.(true|false|null)'", re.DOTALL)
_DEPTH_LIMIT = 250
_ERRORS_LIMIT = 100
_RECOVERIES_LIMIT = 30
_SKIPPED_LIMIT = 256
_EFFORT = 300_000
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_NEEDED = {"*": 2, "/": 2, "%": 2}


def diagnose(text: str, tokens: Tokens, at: int) -> tuple[list[Issue], Tokens]:
    """The issues of tokens that the parser could not read from the token `at` on, and the tokens repaired.

    The reference repairs what it cannot read, and looks for other errors in what that makes.
    """
    diagnosis = _Diagnosis(text, tokens)
    return diagnosis.issues_or(at), diagnosis.repaired


@cache
def _network() -> Network:
    return Network()


class _MismatchError(Exception):
    """The current rule cannot go on."""


class _StopError(Exception):
    """The reference gives up."""


@dataclass(slots=True)
class _Call:
    """A rule that is being read: where it was called and is to return to, and the precedence it was called with."""

    rule: str
    caller: int
    follow: int
    precedence: int
    begun: int  # how many tokens were taken before


class _Diagnosis:
    def __init__(self, text: str, tokens: Tokens) -> None:
        self._text, self._tokens = text, tokens
        self._kinds = tokens.kinds
        self._network = _network()
        self._predictor = Predictor(self._network, tokens.kinds, _EFFORT)
        self._calls = [_Call("start", -1, -1, 0, 0)]
        self._depths: dict[str, int] = {}
        self._state = self._network.starts["start"]
        self._at = 0
        self._issues = list(tokens.issues)
        self._recovering = False
        self.repaired = Tokens([], [], [], [], [])
        self._errors = 0
        self._recoveries = 0
        self._last_error = -1
        self._last_states: set[int] = set()

    def issues_or(self, at: int) -> list[Issue]:
        """The issues; with one of our own about the token `at` where it would take too long to find the reference's."""
        try:
            while self._calls:
                self._step()
        except EffortError:
            self._issues.append(Issue(self._tokens.starts[at], f"Syntax error: unexpected {self._shown(at)}"))
        except _StopError:
            pass
        return self._issues

    # One step after the other

    def _step(self) -> None:
        state = self._network.states[self._state]
        if state.kind is Kind.STOP:
            self._return()
            return
        try:
            if state.kind is not Kind.BASIC:
                self._synchronize(state)
                self._state = state.edges[self._choose(self._state)].target
                return
            edge = state.edges[0]
            if edge.rule:
                self._call(edge.rule, edge.target, edge.precedence)
            else:
                if edge.tokens:
                    self._match(edge)
                self._state = edge.target
        except _MismatchError as error:
            self._fail(str(error.args[0]), error.args[1])

    def _call(self, rule: str, follow: int, precedence: int) -> None:
        self._calls.append(_Call(rule, self._state, follow, precedence, len(self.repaired.kinds)))
        depth = self._depths[rule] = self._depths.get(rule, 0) + 1
        if depth > _DEPTH_LIMIT:
            self._issues.append(Issue(NOWHERE, f"expression recursion limit exceeded: {_DEPTH_LIMIT}"))
            raise _StopError
        self._state = self._network.starts[rule]

    def _return(self) -> None:
        call = self._calls.pop()
        if self._calls:
            self._depths[call.rule] -= 1
            self._state = call.follow

    def _choose(self, number: int) -> int:
        """The edge to take where there are several."""
        state = self._network.states[number]
        if len(state.edges) == 1:
            return 0
        kind = self._kinds[self._at]
        if state.adaptive and not (
            state.rule == "unary" and kind == "-" and self._kinds[self._at + 1] in {INT, DOUBLE}
        ):
            return self._predict(number)
        if not state.operators or _NEEDED.get(kind, 1) >= self._calls[-1].precedence:
            for index, edge in enumerate(state.edges):
                if kind in self._network.look(edge.target):
                    return index
        if not state.leaves:
            raise self._no_viable(self._at)
        return len(state.edges) - 1

    def _predict(self, number: int) -> int:
        stack = [call.follow for call in self._calls[1:]]
        try:
            return self._predictor.predict(number, self._at, stack)
        except NoViableAlternativeError as error:
            raise self._no_viable(error.at) from None

    # Errors and how to go on after them

    def _synchronize(self, state: State) -> None:
        """Before a choice: leave out a token that does not fit."""
        expected = self._network.look(self._state)
        if self._recovering or EPSILON in expected or self._kinds[self._at] in expected:
            return
        if state.kind is Kind.BACK:
            self._report_unwanted()
            self._skip_to(self._expected(self._state) | self._followers(), limit=None)
        elif not self._delete():
            raise self._mismatch()

    def _match(self, edge: Edge) -> None:
        """Take a token; if it is another, assume that one is too much or that one is missing."""
        if self._kinds[self._at] in edge.tokens:
            self._recovered()
            self._take()
            return
        self._count_recovery()
        if self._delete():
            self._take()
            return
        if self._kinds[self._at] not in self._expected(edge.target):
            raise self._mismatch()
        self._repair(min(edge.tokens))
        if not self._recovering:
            self._report(f"missing {_listed(self._expected(self._state))} at {self._shown(self._at)}", self._at)

    def _delete(self) -> bool:
        """Leave out the current token if the next one fits."""
        following = self._kinds[min(self._at + 1, len(self._kinds) - 1)]
        if following not in self._expected(self._state):
            return False
        self._report_unwanted()
        self._consume()
        self._recovered()
        return True

    def _fail(self, message: str, at: int) -> None:
        """Give the current rule up, and go on where one of its callers can."""
        if not self._recovering:
            self._report(message, at)
        self._count_recovery()
        limit = self._at + _SKIPPED_LIMIT
        if self._last_error == self._at and self._state in self._last_states:
            self._consume()
        self._last_error = self._at
        self._last_states.add(self._state)
        self._skip_to(self._followers(), limit)
        self._complete(self._calls[-1])
        self._return()

    def _complete(self, call: _Call) -> None:
        """Repair what was read of a rule that is given up, so that the reference's later checks can be made on it."""
        kinds = self.repaired.kinds[call.begun :]
        if call.rule in {"unary", "primary"} and {"!", "-"}.issuperset(kinds):
            self._repair(IDENTIFIER)
        if call.rule in {"primary", "member"}:
            for closer in _open_brackets(kinds):
                self._repair(closer)
        if call.rule == "expr" and "?" in kinds and ":" not in kinds:
            self._repair(":")
            self._repair(IDENTIFIER)

    def _recovered(self) -> None:
        self._recovering = False
        self._last_error = -1
        self._last_states.clear()

    def _count_recovery(self) -> None:
        self._recoveries += 1
        if self._recoveries > _RECOVERIES_LIMIT:
            self._report(f"error recovery attempt limit exceeded: {_RECOVERIES_LIMIT}", self._at)
            raise _StopError

    def _take(self) -> None:
        at = self._at
        self._repair(self._kinds[at], self._tokens.texts[at])
        self._consume()

    def _repair(self, kind: str, text: str = "") -> None:
        """Add a token to those that the reference goes on with."""
        self.repaired.kinds.append(kind)
        self.repaired.texts.append(text)
        self.repaired.starts.append(self._tokens.starts[self._at])

    def _consume(self) -> None:
        if self._kinds[self._at] != END:
            self._at += 1

    def _skip_to(self, kinds: set[str], limit: int | None) -> None:
        while self._kinds[self._at] != END and self._kinds[self._at] not in kinds:
            if self._at == limit:
                message = f"error recovery token lookahead limit exceeded: {_SKIPPED_LIMIT}"
                self._issues.append(Issue(NOWHERE, message))
                raise _StopError
            self._at += 1

    def _expected(self, state: int) -> set[str]:
        """The tokens that may come next, also after the end of the rule and of its callers."""
        following = self._network.look(state)
        expected = set(following)
        for call in reversed(self._calls[1:]):
            if EPSILON not in following:
                break
            following = self._network.look(call.follow)
            expected |= following
        if EPSILON in following:
            expected.add(END)
        return expected - {EPSILON}

    def _followers(self) -> set[str]:
        """The tokens that any of the rules that are being read may go on with after its callee."""
        return {token for call in self._calls[1:] for token in self._network.look(call.follow)} - {EPSILON}

    # Messages

    def _report(self, message: str, at: int) -> None:
        self._recovering = True
        self._errors += 1
        if self._errors > _ERRORS_LIMIT:
            message = f"More than {_ERRORS_LIMIT} syntax errors"
        self._issues.append(Issue(self._tokens.starts[at], f"Syntax error: {message}"))
        if self._errors > _ERRORS_LIMIT:
            raise _StopError

    def _report_unwanted(self) -> None:
        if not self._recovering:
            expected = _listed(self._expected(self._state))
            self._report(f"extraneous input {self._shown(self._at)} expecting {expected}", self._at)

    def _mismatch(self) -> _MismatchError:
        expected = _listed(self._expected(self._state))
        return _MismatchError(f"mismatched input {self._shown(self._at)} expecting {expected}", self._at)

    def _no_viable(self, at: int) -> _MismatchError:
        read = END if self._kinds[self._at] == END else self._tokens.between(self._text, self._at, at)
        message = f"no viable alternative at input '{_escaped(read)}'"
        return _MismatchError(_RESERVED.sub(r"mismatched input '\1' expecting IDENTIFIER", message), at)

    def _shown(self, at: int) -> str:
        return f"'{_escaped(self._tokens.texts[at])}'"


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _listed(kinds: set[str]) -> str:
    names = [kind if kind in _NAMED else f"'{kind}'" for kind in _ORDER if kind in kinds]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _open_brackets(kinds: list[str]) -> list[str]:
    """The closers that are missing, in the order in which they are needed."""
    closers: list[str] = []
    for kind in kinds:
        if kind in _CLOSERS:
            closers.insert(0, _CLOSERS[kind])
        elif closers and kind == closers[0]:
            del closers[0]
    return closers
