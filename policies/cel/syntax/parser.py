"""Turns tokens into a tree, with the precedence, the places and the limits of the reference.

The parser uses stacks instead of recursion, so that the reference's limits bound the depth and not Python's (see
parsestate.py and frames.py).
"""

from __future__ import annotations

from collections.abc import Callable

from policies.cel.syntax.ast import Call, Ident, Literal, Node, Select
from policies.cel.syntax.diagnosis import hinted, unexpected
from policies.cel.syntax.frames import (
    COLON,
    Arguments,
    Binary,
    Chain,
    Elements,
    Entries,
    Fields,
    Index,
    Parentheses,
    Ternary,
    Unary,
    Whole,
)
from policies.cel.syntax.lexer import (
    BYTES,
    DOUBLE,
    END,
    IDENTIFIER,
    INT,
    QUOTED_IDENTIFIER,
    STRING,
    UINT,
    Tokens,
    tokenize,
)
from policies.cel.syntax.literals import LiteralValueError, double, integer, octets, string, unsigned
from policies.cel.syntax.macros import TooLargeError
from policies.cel.syntax.parsestate import (
    AND,
    MAX_DEPTH,
    OR,
    PRODUCT,
    RELATION,
    SUM,
    Frame,
    LimitError,
    ParseState,
    UnexpectedTokenError,
    missing,
)
from policies.cel.syntax.source import NOWHERE, CompileError, Issue, Source
from policies.cel.values import Value

MAX_LENGTH = 100_000
_RESERVED = "as break const continue else for function if import let loop namespace package return var void while"
RESERVED = frozenset(_RESERVED.split())


def parse(source: Source, *, expand: bool = True, quoted: bool = True) -> Node:
    """The tree of an expression. Raises CompileError with all issues.

    expand: whether macros are expanded. Without, they are calls as they were written, and their rules are not checked.
    quoted: whether fields may be written in backticks (Feature.QUOTED_FIELDS).
    """
    length = len(source.text)
    if length > MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        raise CompileError(source, [Issue(NOWHERE, message)])
    parser = Parser(tokenize(source.text), expands=expand, quoted=quoted)
    try:
        node = parser.run()
    except TooLargeError as error:
        raise CompileError(source, [error.issue]) from None
    except UnexpectedTokenError as error:
        parser.issues.append(unexpected(parser.tokens, parser.at, str(error)))
    except LimitError:
        raise CompileError(source, [Issue(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")]) from None
    if parser.issues:
        raise CompileError(source, [hinted(issue, source.text) for issue in parser.issues])
    return node


class Parser(ParseState):
    """Reads tokens. Each method reads the current token and returns whether an operand is complete after it."""

    __slots__ = ("_messages",)

    def __init__(self, tokens: Tokens, *, expands: bool = True, quoted: bool = True) -> None:
        super().__init__(tokens, Whole(0, 0), expands=expands, quoted=quoted)
        self._messages = "{" in self.kinds

    def run(self) -> Node:
        """The tree. Raises UnexpectedTokenError at the first token that does not fit, and LimitError."""
        complete = False
        kinds = self.kinds
        while not self.done:
            handler = (_AFTER_OPERAND if complete else _OPERAND).get(kinds[self.at])
            if handler is None:
                raise self._misplaced(complete=complete)
            complete = handler(self)
        return self.nodes[0]

    def _misplaced(self, *, complete: bool) -> UnexpectedTokenError:
        """The error of a token that neither starts nor follows an operand."""
        if not complete:
            return missing("an expression")
        follow = next(pending.follow for pending in reversed(self.stack) if pending.follow)
        *others, last = ["an operator", *(f"`{kind}`" for kind in follow if kind != END)]
        return missing(f"{', '.join(others)} or {last}" if others else last)

    def _unclosed(self, frame: Frame) -> UnexpectedTokenError:
        """The error of a comma or a closer that the innermost frame does not accept."""
        closer = frame.follow[-1]
        if closer != END:
            return missing(f"`{closer}`")
        return UnexpectedTokenError("it separates nothing" if self.kinds[self.at] == "," else "it closes nothing")

    # An operand begins

    def literal(self) -> bool:
        """A constant of one token."""
        at = self.at
        self.at += 1
        return self._literal(at, at, "")

    def _literal(self, first: int, at: int, sign: str) -> bool:
        text, start = self.texts[at], self.starts[first]
        read = _LITERALS[self.kinds[at]]
        try:
            value = read(text, sign) if sign else read(text)
        except LiteralValueError as error:
            self.nodes.append(self.failed(Issue(start, str(error))))
        else:
            self.nodes.append(Literal(value, position=start, start=start, end=self.starts[at] + len(text)))
        return True

    def name(self) -> bool:
        """A name, a function or a message."""
        return self._name(self.at, "")

    def dotted_name(self) -> bool:
        """A name that starts with a point."""
        self.at += 1
        if self.kinds[self.at] != IDENTIFIER:
            raise missing("a name")
        return self._name(self.at - 1, ".")

    def _name(self, first: int, dot: str) -> bool:
        at = self.at
        start, text = self.starts[first], self.texts[at]
        if self._messages and (brace := self._brace(at)):
            type_name = dot + ".".join(self.texts[at:brace:2])
            self.at = brace + 1
            return self.open(Fields(self.starts[brace], start, type_name))
        if self.kinds[at + 1] == "(":
            self.at = at + 2
            reserved = len(self.issues) if text in RESERVED else None
            return self.open(Arguments(self.starts[at + 1], start, dot + text, None, reserved))
        self.at = at + 1
        if text in RESERVED:
            self.nodes.append(self.refuse_reserved(text, start))
            return True
        position = self.starts[at]
        self.nodes.append(Ident(dot + text, position=position, start=start, end=position + len(text)))
        return True

    def _brace(self, at: int) -> int:
        """The index of the brace that follows the names from here on, which then name a message; else 0."""
        kinds = self.kinds
        at += 1
        while kinds[at] == "." and kinds[at + 1] == IDENTIFIER:
            at += 2
        return at if kinds[at] == "{" else 0

    def bracketed(self) -> bool:
        """`(`, `[` or `{`."""
        start = self.starts[self.at]
        frame = _BRACKETS[self.kinds[self.at]](start, start)
        self.at += 1
        return self.open(frame)

    def minus(self) -> bool:
        """`-`, the sign of a number or an operator."""
        at = self.at
        if self._number_follows(at):
            self.at += 2
            return self._literal(at, at + 1, "-")
        return self.unary()

    def _number_follows(self, at: int) -> bool:
        return self.kinds[at + 1] in {INT, DOUBLE}

    def unary(self) -> bool:
        """`!` or `-`, which may be repeated; two cancel each other out. The other unary operator must not follow."""
        first, sign = self.at, self.kinds[self.at]
        while self.skip(sign):
            pass
        kind = self.kinds[self.at]
        if kind == "!":
            raise missing("a parenthesis")
        if kind == "-" and not self._number_follows(self.at):
            self.at += 1
            raise UnexpectedTokenError("only a number may follow `!-`; write !(-a)")
        if (self.at - first) % 2:
            self.stack.append(Unary(f"{sign}_", self.starts[first]))
        return False

    # An operand is complete

    def binary(self) -> bool:
        """A relation, a sum or a product."""
        level, function = _BINARY[self.kinds[self.at]]
        self.reduce(level)
        self.stack.append(Binary(level, function, self.starts[self.at]))
        self.relations += level == RELATION
        self.sums += level != RELATION
        if self.relations > MAX_DEPTH or self.sums > MAX_DEPTH:
            raise LimitError
        self.at += 1
        return False

    def logical(self) -> bool:
        """`&&` or `||`."""
        level, function = _LOGICAL[self.kinds[self.at]]
        self.reduce(level + 1)
        chain = self.stack[-1]
        if not isinstance(chain, Chain) or chain.level != level:
            chain = Chain(level, function)
            self.stack.append(chain)
        chain.terms.append(self.nodes.pop())
        chain.positions.append(self.starts[self.at])
        self.at += 1
        return False

    def question(self) -> bool:
        """`?` of a ternary."""
        self.reduce(OR)
        top = self.stack[-1]
        if isinstance(top, Ternary) and top.waiting:
            raise missing(COLON)
        self.stack.append(Ternary(self.starts[self.at]))
        self.at += 1
        return False

    def colon(self) -> bool:
        """`:` of a ternary or of an entry."""
        self.reduce(OR)
        while isinstance(top := self.stack[-1], Ternary):
            if top.waiting:
                top.waiting = False
                self.expressions += 1
                if self.expressions > MAX_DEPTH:
                    raise LimitError
                self.at += 1
                return False
            self.stack.pop().reduce(self)
        self.innermost().colon(self)
        self.at += 1
        return False

    def comma(self) -> bool:
        """`,` between expressions, or before a closer."""
        frame = self.innermost()
        if not frame.separated:
            raise self._unclosed(frame)
        frame.take(self)
        self.leave()
        self.at += 1
        if frame.trailing and self.skip(frame.closer):
            return self.finish(frame)
        frame.prefix(self)
        self.enter()
        return False

    def closer(self) -> bool:
        """The end of a frame."""
        frame = self.innermost()
        if frame.closer != self.kinds[self.at]:
            raise self._unclosed(frame)
        frame.take(self)
        self.leave()
        self.at += 1
        return self.finish(frame)

    def end(self) -> bool:
        """The end of the expression."""
        self.done = True
        return self.closer()

    def point(self) -> bool:
        """`.name`, `.?name` or `.name(`."""
        position = self.starts[self.at]
        self.at += 1
        optional = self.skip("?")
        at = self.at
        kind, text, start = self.kinds[at], self.texts[at], self.starts[at]
        end = start + len(text)
        if kind == QUOTED_IDENTIFIER:
            text = self.unquoted(text, start)
        elif kind != IDENTIFIER:
            raise missing("a name")
        self.at += 1
        if not optional and kind == IDENTIFIER and self.skip("("):
            operand = self.nodes.pop()
            return self.open(Arguments(self.starts[at + 1], operand.start, text, operand))
        operand = self.nodes.pop()
        if optional:
            field = Literal(text, position=start, start=start, end=end)
            selected: Node = Call("_?._", None, [operand, field], position=position, start=operand.start, end=end)
        else:
            selected = Select(operand, text, position=position, start=operand.start, end=end)
        self.add(selected, operand, deeper=1)
        return True

    def bracket(self) -> bool:
        """`[` of an index."""
        position = self.starts[self.at]
        self.at += 1
        return self.open(Index(position, self.nodes[-1].start))


_LITERALS: dict[str, Callable[..., Value]] = {
    INT: integer,
    UINT: unsigned,
    DOUBLE: double,
    STRING: string,
    BYTES: octets,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}
_BINARY = {
    "<": (RELATION, "_<_"),
    "<=": (RELATION, "_<=_"),
    ">=": (RELATION, "_>=_"),
    ">": (RELATION, "_>_"),
    "==": (RELATION, "_==_"),
    "!=": (RELATION, "_!=_"),
    "in": (RELATION, "@in"),
    "+": (SUM, "_+_"),
    "-": (SUM, "_-_"),
    "*": (PRODUCT, "_*_"),
    "/": (PRODUCT, "_/_"),
    "%": (PRODUCT, "_%_"),
}
_BRACKETS: dict[str, type[Frame]] = {"(": Parentheses, "[": Elements, "{": Entries}
_LOGICAL = {"&&": (AND, "_&&_"), "||": (OR, "_||_")}

_Handler = Callable[[Parser], bool]
"""Reads the current token and returns whether an operand is complete after it."""

_OPERAND: dict[str, _Handler] = {
    **dict.fromkeys(_LITERALS, Parser.literal),
    IDENTIFIER: Parser.name,
    ".": Parser.dotted_name,
    **dict.fromkeys(_BRACKETS, Parser.bracketed),
    "-": Parser.minus,
    "!": Parser.unary,
}
_AFTER_OPERAND: dict[str, _Handler] = {
    **dict.fromkeys(_BINARY, Parser.binary),
    **dict.fromkeys(_LOGICAL, Parser.logical),
    ".": Parser.point,
    "[": Parser.bracket,
    "?": Parser.question,
    ":": Parser.colon,
    ",": Parser.comma,
    ")": Parser.closer,
    "]": Parser.closer,
    "}": Parser.closer,
    END: Parser.end,
}
