"""The state of a parse: what is open, what is complete, and how operators and frames are taken from it."""

from __future__ import annotations

from policies.cel.syntax.ast import Literal, Node
from policies.cel.syntax.lexer import END, Tokens
from policies.cel.syntax.source import NOWHERE, Issue

MAX_DEPTH = 250
FRAME, TERNARY, OR, AND, RELATION, SUM, PRODUCT, UNARY = range(8)


class UnexpectedTokenError(Exception):
    """The grammar does not go on with the current token; the text says why not."""


def missing(what: str) -> UnexpectedTokenError:
    """Something has to stand before the current token."""
    return UnexpectedTokenError(f"{what} is missing before it")


class LimitError(Exception):
    """The expression is nested deeper than the reference allows."""


class OpenOperator:
    """An operator whose right operand is being read."""

    __slots__ = ()
    level = FRAME

    @property
    def follow(self) -> tuple[str, ...]:
        """The tokens that may follow an expression in it, operators apart; none if what is around decides."""
        return ()

    def reduce(self, parser: ParseState) -> None:
        """Take the operands from the parser's nodes and put the whole there."""
        raise NotImplementedError


class Frame(OpenOperator):
    """Something with a closer. `separated`: it takes commas; `trailing`: also one before the closer."""

    __slots__ = ("position", "start")
    closer = END
    may_be_empty = separated = trailing = False

    def __init__(self, position: int, start: int) -> None:
        self.position, self.start = position, start

    @property
    def follow(self) -> tuple[str, ...]:
        """The closer, and a comma."""
        return (",", self.closer) if self.separated else (self.closer,)

    def prefix(self, parser: ParseState) -> None:
        """Read what stands before an expression: a question mark, the name of a field."""

    def colon(self, parser: ParseState) -> None:  # noqa: ARG002
        """Take the expression before a colon."""
        raise UnexpectedTokenError("it belongs to no `?`")

    def take(self, parser: ParseState) -> None:
        """Take the expression before a comma or the closer."""

    def build(self, parser: ParseState, end: int) -> None:
        """Put the whole on the parser's nodes, now that the closer is read."""
        raise NotImplementedError


class ParseState:
    """Where a parser is. `stack` holds what is open, `nodes` the operands that are complete, `at` is the current token.

    `expressions`, `relations` and `sums` count how deep the reference would be in its rules of these names (`sums` for
    its calc), each of which it limits.
    """

    __slots__ = (
        "_depths",
        "_too_deep",
        "at",
        "done",
        "expressions",
        "issues",
        "kinds",
        "nodes",
        "relations",
        "stack",
        "starts",
        "sums",
        "texts",
        "tokens",
    )

    def __init__(self, tokens: Tokens, whole: Frame) -> None:
        self.tokens = tokens
        self.kinds, self.texts, self.starts = tokens.kinds, tokens.texts, tokens.starts
        self.at = 0
        self.done = False
        self.nodes: list[Node] = []
        self.stack: list[OpenOperator] = [whole]
        self.issues: list[Issue] = []
        self.expressions = self.relations = self.sums = 1
        # With so few tokens no limit can be reached, and depths need no account.
        self._too_deep = False
        self._depths: dict[Node, int] | None = None if len(self.kinds) <= MAX_DEPTH else {}

    # What frames need

    def add(self, node: Node, *parts: Node, deeper: int = 0) -> None:
        """A node is complete. `deeper` is 1 where the reference counts it as a level of depth."""
        self.nodes.append(node)
        if self._depths is not None:
            self._measure(node, parts, deeper)

    def skip(self, kind: str) -> bool:
        """Go past a token of that kind, if there is one."""
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: str) -> None:
        """Go past a token that must be there."""
        if not self.skip(kind):
            raise missing(f"`{kind}`")

    def failed(self, issue: Issue) -> Node:
        """Note an issue and go on with a node that stands for what is missing."""
        self.issues.append(issue)
        return Literal(None, position=issue.position, start=issue.position, end=issue.position)

    def refuse_quoted(self, position: int) -> None:
        """A name in backticks, which the grammar has and Kubernetes does not allow."""
        self.issues.append(Issue(position, "unsupported syntax: '`'", "write names with other characters as ['a-b']"))

    def refuse_reserved(self, name: str, position: int) -> Node:
        """A name that CEL keeps for later."""
        return self.failed(Issue(position, f"reserved identifier: {name.removeprefix('.')}"))

    # Depth

    def _measure(self, node: Node, parts: tuple[Node, ...], deeper: int) -> None:
        depths = self._depths
        assert depths is not None  # noqa: S101 # asked by the caller
        depth = deeper + max((depths.get(part, 0) for part in parts), default=0)
        depths[node] = max(depth, depths.get(node, 0))
        if depth > MAX_DEPTH and not self._too_deep:
            self._too_deep = True
            self.issues.append(Issue(NOWHERE, "max recursion depth exceeded"))

    def enter(self) -> None:
        """An expression of a frame begins. Raises LimitError."""
        self.expressions += 1
        self.relations += 1
        self.sums += 1
        if self.expressions > MAX_DEPTH or self.relations > MAX_DEPTH or self.sums > MAX_DEPTH:
            raise LimitError

    def leave(self) -> None:
        """An expression of a frame has ended."""
        self.expressions -= 1
        self.relations -= 1
        self.sums -= 1

    # Frames

    def open(self, frame: Frame) -> bool:
        """A frame begins. If it is empty it ends at once, and an operand is complete."""
        self.stack.append(frame)
        kind = self.kinds[self.at]
        if frame.may_be_empty and kind == frame.closer:
            self.at += 1
            return self.finish(frame)
        if frame.trailing and kind == ",":
            self.at += 1
            self.expect(frame.closer)
            return self.finish(frame)
        frame.prefix(self)
        self.enter()
        return False

    def finish(self, frame: Frame) -> bool:
        """A frame has ended; an operand is complete."""
        self.stack.pop()
        at = self.at - 1
        frame.build(self, self.starts[at] + len(self.texts[at]))
        return True

    def innermost(self) -> Frame:
        """The innermost frame, when all its operators have their operands."""
        self.reduce(TERNARY)
        frame = self.stack[-1]
        assert isinstance(frame, Frame)  # noqa: S101 # nothing else has a level below
        return frame

    def reduce(self, level: int) -> None:
        """Give their operands to all operators that bind at least as tightly as the level."""
        stack = self.stack
        while stack[-1].level >= level:
            stack.pop().reduce(self)
