"""The state of a parser: open operators and frames, and complete operands."""

from __future__ import annotations

from policies.cel.syntax.ast import Literal, Node
from policies.cel.syntax.lexer import END, Tokens
from policies.cel.syntax.source import NOWHERE, Issue

MAX_DEPTH = 250
FRAME, TERNARY, OR, AND, RELATION, SUM, PRODUCT, UNARY = range(8)


class UnexpectedTokenError(Exception):
    """The grammar does not allow the current token. The text says why."""


def missing(what: str) -> UnexpectedTokenError:
    """The error that something is missing before the current token."""
    return UnexpectedTokenError(f"{what} is missing before it")


class LimitError(Exception):
    """The expression is nested deeper than the reference allows."""


class OpenOperator:
    """An operator whose right operand is being read."""

    __slots__ = ()
    level = FRAME

    @property
    def follow(self) -> tuple[str, ...]:
        """The tokens besides operators that may follow an expression in it; empty if the surroundings decide."""
        return ()

    def reduce(self, parser: ParseState) -> None:
        """Replace the operands on the parser's nodes by the whole."""
        raise NotImplementedError


class Frame(OpenOperator):
    """A construct with a closer. `separated`: it may have commas. `trailing`: also one before the closer."""

    __slots__ = ("position", "start")
    closer = END
    may_be_empty = separated = trailing = False

    def __init__(self, position: int, start: int) -> None:
        self.position, self.start = position, start

    @property
    def follow(self) -> tuple[str, ...]:
        """The closer, and a comma if it separates expressions."""
        return (",", self.closer) if self.separated else (self.closer,)

    def prefix(self, parser: ParseState) -> None:
        """Read the part before an expression, such as a question mark or the name of a field."""

    def colon(self, parser: ParseState) -> None:  # noqa: ARG002
        """Take the expression before a colon."""
        raise UnexpectedTokenError("it belongs to no `?`")

    def take(self, parser: ParseState) -> None:
        """Take the expression before a comma or the closer."""

    def build(self, parser: ParseState, end: int) -> None:
        """Put the whole on the parser's nodes once the closer is read."""
        raise NotImplementedError


class ParseState:
    """The state of a parser. `stack`: open operators and frames. `nodes`: complete operands. `at`: the current token.

    `expressions`, `relations` and `sums` count the depth of the reference in its grammar rules of these names (`sums`
    for calc). It limits each of them. `expands`: whether macros are expanded. `quoted`: whether names may have backticks.
    """

    __slots__ = (
        "_depths",
        "_too_deep",
        "at",
        "done",
        "expands",
        "expressions",
        "issues",
        "kinds",
        "nodes",
        "quoted",
        "relations",
        "stack",
        "starts",
        "sums",
        "texts",
        "tokens",
    )

    def __init__(self, tokens: Tokens, whole: Frame, *, expands: bool, quoted: bool) -> None:
        self.tokens = tokens
        self.kinds, self.texts, self.starts = tokens.kinds, tokens.texts, tokens.starts
        self.at = 0
        self.done = False
        self.expands = expands
        self.quoted = quoted
        self.nodes: list[Node] = []
        self.stack: list[OpenOperator] = [whole]
        self.issues: list[Issue] = []
        self.expressions = self.relations = self.sums = 1
        # So few tokens cannot reach a limit, so depths need not be counted.
        self._too_deep = False
        self._depths: dict[Node, int] | None = None if len(self.kinds) <= MAX_DEPTH else {}

    # What frames need

    def add(self, node: Node, *parts: Node, deeper: int = 0) -> None:
        """Add a complete node. `deeper`: 1 if the reference counts it as a level of depth."""
        self.nodes.append(node)
        if self._depths is not None:
            self._measure(node, parts, deeper)

    def skip(self, kind: str) -> bool:
        """Skip a token of this kind. Returns whether there was one."""
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: str) -> None:
        """Skip a token of this kind. Raises UnexpectedTokenError if there is none."""
        if not self.skip(kind):
            raise missing(f"`{kind}`")

    def failed(self, issue: Issue) -> Node:
        """Note an issue. Returns a node that stands for the missing one."""
        self.issues.append(issue)
        return Literal(None, position=issue.position, start=issue.position, end=issue.position)

    def unquoted(self, name: str, position: int) -> str:
        """A name without its backticks. Notes an issue where they are not allowed, which the grammar has all the same."""
        if not self.quoted:
            hint = "Kubernetes reads this since 1.37; write ['a-b'] for 1.36"
            self.issues.append(Issue(position, "unsupported syntax: '`'", hint))
        return name[1:-1]

    def refuse_reserved(self, name: str, position: int) -> Node:
        """Note an issue for a name that CEL reserves."""
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
        """Start an expression of a frame. Raises LimitError."""
        self.expressions += 1
        self.relations += 1
        self.sums += 1
        if self.expressions > MAX_DEPTH or self.relations > MAX_DEPTH or self.sums > MAX_DEPTH:
            raise LimitError

    def leave(self) -> None:
        """End an expression of a frame."""
        self.expressions -= 1
        self.relations -= 1
        self.sums -= 1

    # Frames

    def open(self, frame: Frame) -> bool:
        """Start a frame. An empty frame ends at once. Returns whether an operand is complete then."""
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
        """End a frame. Returns True: an operand is complete."""
        self.stack.pop()
        at = self.at - 1
        frame.build(self, self.starts[at] + len(self.texts[at]))
        return True

    def innermost(self) -> Frame:
        """The innermost frame, after all its operators are reduced."""
        self.reduce(TERNARY)
        frame = self.stack[-1]
        assert isinstance(frame, Frame)  # noqa: S101 # nothing else has a level below
        return frame

    def reduce(self, level: int) -> None:
        """Reduce all operators that bind at least as tightly as the level."""
        stack = self.stack
        while stack[-1].level >= level:
            stack.pop().reduce(self)
