"""Which way ANTLR goes where one token does not decide: its adaptive prediction, first without and then with context.

A configuration is where the parser might be: a state, the alternative that led there, what is to be done after the
rules that it is in (a number, see `Contexts`), and whether it has left the rule that the decision is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.cel.syntax.grammar import Kind, Network
from policies.cel.syntax.lexer import END

Configuration = tuple[int, int, int, bool]
NO_CONTEXT = 0


class NoViableAlternativeError(Exception):
    """No way goes on. `at` is the index of the token where the last one ended."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class EffortError(Exception):
    """The tokens are so many or so strange that finding ANTLR's message would take too long."""


class Contexts:
    """Stacks of states to return to, each a number; 0 is the empty one."""

    def __init__(self) -> None:
        self._parents: list[tuple[int, int]] = [(-1, -1)]
        self._numbers: dict[tuple[int, int], int] = {}

    def push(self, context: int, state: int) -> int:
        """The stack with one more state."""
        key = (state, context)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._parents)
            self._parents.append(key)
        return number

    def pop(self, context: int) -> tuple[int, int]:
        """The state on top and the stack below."""
        return self._parents[context]


class Predictor:
    """Decides at one state after the other. `effort` is how many configurations it may still look at."""

    def __init__(self, network: Network, kinds: Sequence[str], effort: int) -> None:
        self.network = network
        self.kinds = kinds
        self.effort = effort
        self.contexts = Contexts()

    def predict(self, state: int, at: int, stack: Iterable[int]) -> int:
        """The index of the edge to take. `stack` are the states to return to, the outermost first."""
        alternative, conflict = self._run(state, at, NO_CONTEXT, full=False)
        if not conflict:
            return alternative
        context = NO_CONTEXT
        for follow in stack:
            context = self.contexts.push(context, follow)
        return self._run(state, at, context, full=True)[0]

    def _run(self, state: int, at: int, context: int, *, full: bool) -> tuple[int, bool]:
        """The alternative, and whether context is needed to tell."""
        edges = self.network.states[state].edges
        found = self._closure([(edge.target, number, context, False) for number, edge in enumerate(edges)], full=full)
        while True:
            kind = self.kinds[at]
            reached = self._closure(self._after(found, kind), full=full)
            if not reached:
                return self._finished(found, at), False
            alternatives = {one[1] for one in reached}
            if len(alternatives) == 1:
                return alternatives.pop(), False
            if full:
                viable = _viable(reached)
                if len(viable) == 1 or kind == END:
                    return min(viable), False
            elif self._conflicting(reached):
                return min(alternatives), True
            found = reached
            at += 1

    def _after(self, found: Iterable[Configuration], kind: str) -> list[Configuration]:
        states = self.network.states
        return [
            (edge.target, alternative, context, outside)
            for state, alternative, context, outside in found
            for edge in states[state].edges
            if kind in edge.tokens
        ]

    def _closure(self, begun: list[Configuration], *, full: bool) -> set[Configuration]:
        """All configurations that are reached without a token and wait for one."""
        found: set[Configuration] = set()
        seen = set(begun)
        work = list(seen)
        while work:
            self.effort -= 1
            if self.effort < 0:
                raise EffortError
            one = work.pop()
            following = self._following(one, full=full)
            if following is None:
                found.add(one)
                continue
            fresh = [place for place in following if place not in seen]
            seen.update(fresh)
            work += fresh
        return found

    def _following(self, one: Configuration, *, full: bool) -> list[Configuration] | None:
        """Where a configuration goes on without a token; None if it needs one, or is at the end of all."""
        number, alternative, context, outside = one
        state = self.network.states[number]
        if state.kind is not Kind.STOP:
            if state.edges[0].tokens:
                return None
            return [
                (self.network.starts[edge.rule], alternative, self.contexts.push(context, edge.target), outside)
                if edge.rule
                else (edge.target, alternative, context, outside)
                for edge in state.edges
            ]
        if context != NO_CONTEXT:
            follow, rest = self.contexts.pop(context)
            return [(follow, alternative, rest, outside)]
        follows = self.network.follows[state.rule]
        if full or not follows:
            return None
        return [(follow, alternative, NO_CONTEXT, True) for follow in follows]

    def _finished(self, found: Iterable[Configuration], at: int) -> int:
        """Where no way goes on, the first alternative that has at least left the rule."""
        states = self.network.states
        finished = [
            alternative
            for state, alternative, context, outside in found
            if outside or (context == NO_CONTEXT and states[state].kind is Kind.STOP)
        ]
        if not finished:
            raise NoViableAlternativeError(at)
        return min(finished)

    def _conflicting(self, reached: Iterable[Configuration]) -> bool:
        """Whether more tokens do not help without context."""
        by_place: dict[tuple[int, int], set[int]] = {}
        by_state: dict[int, set[int]] = {}
        for state, alternative, context, _ in reached:
            by_place.setdefault((state, context), set()).add(alternative)
            by_state.setdefault(state, set()).add(alternative)
        if all(self.network.states[state].kind is Kind.STOP for state in by_state):
            return True
        undecided = any(len(alternatives) > 1 for alternatives in by_place.values())
        return undecided and all(len(alternatives) > 1 for alternatives in by_state.values())


def _viable(reached: Iterable[Configuration]) -> set[int]:
    """The first alternative of each place: when they are all the same, it is the one."""
    first: dict[tuple[int, int], int] = {}
    for state, alternative, context, _ in reached:
        place = (state, context)
        first[place] = min(alternative, first.get(place, alternative))
    return set(first.values())
