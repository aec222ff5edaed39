"""The open items of a parser: operators that wait for their right operand, and frames that wait for their closer.

Within a frame, each operator binds tighter (by `level`) than the one below it on the stack. A frame has level 0.
"""

from __future__ import annotations

from policies.cel.syntax.ast import Call, Entry, FieldValue, ListLiteral, MapLiteral, Node, StructLiteral
from policies.cel.syntax.lexer import IDENTIFIER, QUOTED_IDENTIFIER
from policies.cel.syntax.macros import Expansion, MacroError, expand
from policies.cel.syntax.parsestate import RELATION, TERNARY, UNARY, Frame, OpenOperator, ParseState, missing
from policies.cel.syntax.source import NOWHERE

COLON = "the `:` of `?`"


class Binary(OpenOperator):
    """A relation, a sum or a product."""

    __slots__ = ("function", "level", "position")

    def __init__(self, level: int, function: str, position: int) -> None:
        self.level, self.function, self.position = level, function, position

    def reduce(self, parser: ParseState) -> None:
        """Build `left operator right`."""
        right = parser.nodes.pop()
        left = parser.nodes.pop()
        node = Call(self.function, None, [left, right], position=self.position, start=left.start, end=right.end)
        parser.relations -= self.level == RELATION
        parser.sums -= self.level != RELATION
        parser.add(node, left, right, deeper=1)


class Chain(OpenOperator):
    """`a && b && c`, which becomes a balanced tree."""

    __slots__ = ("function", "level", "positions", "terms")

    def __init__(self, level: int, function: str) -> None:
        self.level, self.function = level, function
        self.terms: list[Node] = []
        self.positions: list[int] = []

    def reduce(self, parser: ParseState) -> None:
        """Build the tree once the last term is read."""
        self.terms.append(parser.nodes.pop())
        parser.add(self._balanced(0, len(self.positions) - 1), *self.terms)

    def _balanced(self, first: int, last: int) -> Node:
        """The tree of the operators from first to last, halved at each level as in the reference."""
        middle = (first + last + 1) // 2
        left = self.terms[middle] if middle == first else self._balanced(first, middle - 1)
        right = self.terms[middle + 1] if middle == last else self._balanced(middle + 1, last)
        position = self.positions[middle]
        return Call(self.function, None, [left, right], position=position, start=left.start, end=right.end)


class Unary(OpenOperator):
    """`!` or `-`, repeated an odd number of times."""

    __slots__ = ("function", "position")
    level = UNARY

    def __init__(self, function: str, position: int) -> None:
        self.function, self.position = function, position

    def reduce(self, parser: ParseState) -> None:
        """Build the call once the operand is read."""
        operand = parser.nodes.pop()
        node = Call(self.function, None, [operand], position=self.position, start=self.position, end=operand.end)
        parser.add(node, operand)


class Ternary(OpenOperator):
    """`condition ? then : else`. `waiting`: the colon was not read yet."""

    __slots__ = ("position", "waiting")
    level = TERNARY

    def __init__(self, position: int) -> None:
        self.position = position
        self.waiting = True

    @property
    def follow(self) -> tuple[str, ...]:
        """A colon, until it is read."""
        return (":",) if self.waiting else ()

    def reduce(self, parser: ParseState) -> None:
        """Build the call once the last of three operands is read."""
        if self.waiting:
            raise missing(COLON)
        parts = parser.nodes[-3:]
        del parser.nodes[-3:]
        parser.expressions -= 1
        node = Call("_?_:_", None, parts, position=self.position, start=parts[0].start, end=parts[2].end)
        parser.add(node, *parts, deeper=1)


class Whole(Frame):
    """The expression as a whole."""

    __slots__ = ()

    def build(self, parser: ParseState, end: int) -> None:
        """Nothing to build: the node stays."""


class Parentheses(Frame):
    """`(expression)`, which only widens the span of the expression."""

    __slots__ = ()
    closer = ")"

    def build(self, parser: ParseState, end: int) -> None:
        """Widen the span of the node."""
        node = parser.nodes[-1]
        node.start, node.end = self.start, end


class Index(Frame):
    """`operand[index]` and `operand[?index]`."""

    __slots__ = ("function",)
    closer = "]"

    def prefix(self, parser: ParseState) -> None:
        """Read the question mark of an optional index."""
        self.function = "_[?_]" if parser.skip("?") else "_[_]"

    def build(self, parser: ParseState, end: int) -> None:
        """Build a call of the operator."""
        index = parser.nodes.pop()
        operand = parser.nodes.pop()
        node = Call(self.function, None, [operand, index], position=self.position, start=self.start, end=end)
        parser.add(node, operand, index, deeper=1)


class Items(Frame):
    """A frame whose expressions are separated by commas."""

    __slots__ = ("items", "optional")
    may_be_empty = separated = True

    def __init__(self, position: int, start: int) -> None:
        super().__init__(position, start)
        self.items: list[Node] = []
        self.optional = False

    def take(self, parser: ParseState) -> None:
        """Add an expression."""
        self.items.append(parser.nodes.pop())


class Arguments(Items):
    """`function(arguments)` and `target.function(arguments)`."""

    __slots__ = ("function", "reserved", "target")
    closer = ")"

    def __init__(
        self, position: int, start: int, function: str, target: Node | None, reserved: int | None = None
    ) -> None:
        super().__init__(position, start)
        self.reserved = reserved  # the number of issues before a call of a reserved name
        self.function, self.target = function, target

    def build(self, parser: ParseState, end: int) -> None:
        """Build a call, or the expansion of a macro."""
        if self.reserved is not None:
            del parser.issues[self.reserved :]  # the reference ignores the arguments in this case
            parser.add(parser.refuse_reserved(self.function, self.start))
            return
        expansion = Expansion(self.function, self.target, self.items, self.position, self.start, end)
        try:
            node = expand(expansion) if parser.expands else None
        except MacroError as error:
            node = parser.failed(error.issue)
        if node is None:
            node = Call(self.function, self.target, self.items, position=self.position, start=self.start, end=end)
        if self.target is None:
            parser.add(node, *self.items)
        else:
            parser.add(node, self.target, *self.items, deeper=1)


class Elements(Items):
    """`[element, ?element]`."""

    __slots__ = ("optionals",)
    closer = "]"
    trailing = True

    def __init__(self, position: int, start: int) -> None:
        super().__init__(position, start)
        self.optionals: list[int] = []

    def prefix(self, parser: ParseState) -> None:
        """Read the question mark of an optional element."""
        if parser.skip("?"):
            self.optionals.append(len(self.items))

    def build(self, parser: ParseState, end: int) -> None:
        """Build a list literal."""
        optional = frozenset(self.optionals)
        node = ListLiteral(self.items, optional, position=self.position, start=self.start, end=end)
        parser.add(node, *self.items)


class Entries(Items):
    """`{key: value, ?key: value}`."""

    __slots__ = ("colon_at", "entries", "key")
    closer = "}"
    trailing = True

    def __init__(self, position: int, start: int) -> None:
        super().__init__(position, start)
        self.key: Node | None = None
        self.colon_at = 0
        self.entries: list[Entry] = []

    @property
    def follow(self) -> tuple[str, ...]:
        """A colon after a key; a comma or the closer after a value."""
        return (":",) if self.key is None else super().follow

    def prefix(self, parser: ParseState) -> None:
        """Read the question mark of an optional entry."""
        self.optional = parser.skip("?")

    def colon(self, parser: ParseState) -> None:
        """Keep the key, which is complete."""
        if self.key is not None:
            raise missing("`,` or `}`")
        self.key = parser.nodes.pop()
        self.colon_at = parser.starts[parser.at]

    def take(self, parser: ParseState) -> None:
        """Add an entry."""
        if self.key is None:
            raise missing("`:` and a value")
        key, value = self.key, parser.nodes.pop()
        entry = Entry(key, value, self.optional, position=self.colon_at, start=key.start, end=value.end)
        self.entries.append(entry)
        self.items += (key, value)
        self.key = None

    def build(self, parser: ParseState, end: int) -> None:
        """Build a map literal."""
        parser.add(MapLiteral(self.entries, position=self.position, start=self.start, end=end), *self.items)


class Fields(Items):
    """`Name{field: value, ?field: value}`."""

    __slots__ = ("colon_at", "field", "field_at", "fields", "fields_at", "type_name")
    closer = "}"
    trailing = True

    def __init__(self, position: int, start: int, type_name: str) -> None:
        super().__init__(position, start)
        self.type_name = type_name
        self.fields: list[FieldValue] = []
        self.fields_at = NOWHERE

    def prefix(self, parser: ParseState) -> None:
        """Read the name of the field and the colon."""
        self.field_at = parser.starts[parser.at]
        if not self.fields:
            self.fields_at = self.field_at
        self.optional = parser.skip("?")
        self.field = parser.texts[parser.at]
        if not parser.skip(IDENTIFIER):
            if not parser.skip(QUOTED_IDENTIFIER):
                raise missing("the name of a field")
            self.field = parser.unquoted(self.field, self.fields_at)  # the reference does not say which field
        self.colon_at = parser.starts[parser.at]
        parser.expect(":")

    def take(self, parser: ParseState) -> None:
        """Add a field."""
        value = parser.nodes.pop()
        place = {"position": self.colon_at, "start": self.field_at, "end": value.end}
        self.fields.append(FieldValue(self.field, value, self.optional, **place))
        self.items.append(value)

    def build(self, parser: ParseState, end: int) -> None:
        """Build a message."""
        node = StructLiteral(self.type_name, self.fields, position=self.position, start=self.start, end=end)
        parser.add(node, *self.items)
