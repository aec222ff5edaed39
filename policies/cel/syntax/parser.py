"""Turns tokens into a tree, with the precedence, the places and the limits of the reference.

The parser calls itself. MAX_DEPTH bounds how deep, as in the reference, which counts each rule of its grammar apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from policies.cel.recursion import deeply
from policies.cel.syntax import ast, lexer
from policies.cel.syntax.macros import FUNCTIONS, METHODS, Expansion, MacroError, TooLargeError
from policies.cel.syntax.source import NOWHERE, CompileError, Issue, Source
from policies.cel.values import Value

MAX_LENGTH = 100_000
MAX_DEPTH = 250
_RESERVED = "as break const continue else for function if import let loop namespace package return var void while"
RESERVED = frozenset(_RESERVED.split())
_COLON = "the `:` of `?`"
_RELATION, _SUM, _PRODUCT = range(3)


class _UnexpectedTokenError(Exception):
    """The grammar does not allow the current token. The text says why."""


class _LimitError(Exception):
    """The expression is nested deeper than the reference allows."""


def parse(source: Source, *, expand: bool = True, quoted: bool = True) -> ast.Node:
    """The tree of an expression. Raises CompileError with all issues.

    expand: whether macros are expanded. Without, they are calls as they were written, and their rules are not checked.
    quoted: whether fields may be written in backticks (Feature.QUOTED_FIELDS).
    """
    length = len(source.text)
    if length > MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        raise CompileError(source, [Issue(NOWHERE, message)])
    return deeply(lambda: _parsed(source, expand=expand, quoted=quoted))


def _parsed(source: Source, *, expand: bool, quoted: bool) -> ast.Node:
    parser = _Parser(lexer.tokenize(source.text), expands=expand, quoted=quoted)
    try:
        node = parser.whole()
    except TooLargeError as error:
        hint = "each optMap and optFlatMap doubles what it is called on; put a part into a variable"
        issue = Issue(error.args[0], "expression is too large when its macros are expanded", hint)
        raise CompileError(source, [issue]) from None
    except _UnexpectedTokenError as error:
        reason = str(error)
        kind, text = parser.tokens.kinds[parser.at], parser.tokens.texts[parser.at]
        if kind == lexer.ERROR:
            reason = "CEL has no such token"
        if kind == lexer.ERROR and text in "\"'":
            message = "the string is not closed, or has an escape that CEL does not know; a backslash is written \\\\"
        else:
            cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
            shown = f"`{''.join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in cut)}`"
            message = f"unexpected {'end of the expression' if kind == lexer.END else shown}: {reason}"
        parser.issues.append(Issue(parser.tokens.starts[parser.at], f"{_PREFIX}: {message}"))
    except _LimitError:
        raise CompileError(source, [Issue(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")]) from None
    if parser.issues:
        raise CompileError(source, [replace(issue, hint=_hint(issue, source.text)) for issue in parser.issues])
    return node


def _missing(what: str) -> _UnexpectedTokenError:
    return _UnexpectedTokenError(f"{what} is missing before it")


class _Parser:
    """Reads tokens from `at` on, by one method for each rule of the grammar. depth: of brackets and of `? :`."""

    def __init__(self, tokens: lexer.Tokens, *, expands: bool, quoted: bool) -> None:
        self.tokens = tokens
        self.kinds, self.texts, self.starts = tokens.kinds, tokens.texts, tokens.starts
        self.at = 0
        self.expands, self.quoted = expands, quoted
        self.issues: list[Issue] = []
        self.depth = 1
        # So few tokens cannot reach a limit, so depths need not be counted.
        self._depths: dict[ast.Node, int] | None = None if len(self.kinds) <= MAX_DEPTH else {}
        self._too_deep = False
        self._messages = "{" in self.kinds
        self._copies: list[ast.Node] = []

    def whole(self) -> ast.Node:
        """The tree of all tokens. Raises _UnexpectedTokenError at the first one that does not fit, and _LimitError."""
        node = self.expression()
        if self.kinds[self.at] != lexer.END:
            raise self.misplaced(lexer.END)
        return node

    def skip(self, kind: str) -> bool:
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def misplaced(self, *follow: str) -> _UnexpectedTokenError:
        """The error of a token after an expression. follow: what may stand there, the closer last."""
        kind, closer = self.kinds[self.at], follow[-1]
        if kind == ":":
            return _UnexpectedTokenError("it belongs to no `?`")
        if kind in _ENDS:
            if closer != lexer.END:
                return _missing(f"`{closer}`")
            return _UnexpectedTokenError("it separates nothing" if kind == "," else "it closes nothing")
        *others, last = ["an operator", *(f"`{kind}`" for kind in follow if kind != lexer.END)]
        return _missing(f"{', '.join(others)} or {last}" if others else last)

    def failed(self, issue: Issue) -> ast.Node:
        self.issues.append(issue)
        return ast.Literal(None, position=issue.position, start=issue.position, end=issue.position)

    def reserved(self, name: str, position: int) -> ast.Node:
        return self.failed(Issue(position, f"reserved identifier: {name.removeprefix('.')}"))

    def unquoted(self, name: str, position: int) -> str:
        """A field without its backticks. Notes an issue where they are not allowed, which the grammar still has."""
        if not self.quoted:
            hint = "Kubernetes reads this since 1.37; write ['a-b'] for 1.36"
            self.issues.append(Issue(position, "unsupported syntax: '`'", hint))
        return name[1:-1]

    def measured(self, node: ast.Node, *parts: ast.Node, deeper: int = 0) -> ast.Node:
        """The same node, made of these parts. deeper: 1 if the reference counts it as a level of depth."""
        if self._depths is not None:
            depth = deeper + max((self._depths.get(part, 0) for part in parts), default=0)
            self._depths[node] = max(depth, self._depths.get(node, 0))
            if depth > MAX_DEPTH and not self._too_deep:
                self._too_deep = True
                self.issues.append(Issue(NOWHERE, "max recursion depth exceeded"))
        return node

    # Operators, from the weakest to the strongest

    def inner(self) -> ast.Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _LimitError
        node = self.expression()
        self.depth -= 1
        return node

    def expression(self) -> ast.Node:
        """`condition ? then : else`, or what binds tighter."""
        condition = self.disjunction()
        if self.kinds[self.at] != "?":
            return condition
        position = self.starts[self.at]
        self.at += 1
        then = self.disjunction()
        kind = self.kinds[self.at]
        if kind != ":":
            raise _missing(_COLON) if kind in _ENDS or kind == "?" else self.misplaced(":")
        self.at += 1
        other = self.inner()
        node = ast.Call(
            "_?_:_", None, [condition, then, other], position=position, start=condition.start, end=other.end
        )
        return self.measured(node, condition, then, other, deeper=1)

    def disjunction(self) -> ast.Node:
        """`a || b || c`."""
        first = self.conjunction()
        return self.chain(first, "||", "_||_", self.conjunction) if self.kinds[self.at] == "||" else first

    def conjunction(self) -> ast.Node:
        """`a && b && c`."""
        first = self.binary(_RELATION)
        return self.chain(first, "&&", "_&&_", lambda: self.binary(_RELATION)) if self.kinds[self.at] == "&&" else first

    def chain(self, first: ast.Node, operator: str, function: str, term: Callable[[], ast.Node]) -> ast.Node:
        """The tree of equal operators, halved at each level as in the reference."""
        terms, positions = [first], list[int]()
        while self.kinds[self.at] == operator:
            positions.append(self.starts[self.at])
            self.at += 1
            terms.append(term())

        def balanced(low: int, high: int) -> ast.Node:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balanced(low, middle - 1)
            right = terms[middle + 1] if middle == high else balanced(middle + 1, high)
            return ast.Call(function, None, [left, right], position=positions[middle], start=left.start, end=right.end)

        return self.measured(balanced(0, len(positions) - 1), *terms)

    def binary(self, least: int) -> ast.Node:
        """Relations, sums and products that bind at least so tightly."""
        left = self.unary()
        while (operator := _BINARY.get(self.kinds[self.at])) is not None and operator[0] >= least:
            level, function = operator
            position = self.starts[self.at]
            self.at += 1
            right = self.binary(level + 1)
            node = ast.Call(function, None, [left, right], position=position, start=left.start, end=right.end)
            left = self.measured(node, left, right, deeper=1)
        return left

    def unary(self) -> ast.Node:
        """`!` or `-`, which may be repeated; two cancel each other out. The other unary operator must not follow."""
        first, sign = self.at, self.kinds[self.at]
        if sign not in {"!", "-"} or self._is_number(first):
            return self.member()
        while self.skip(sign):
            pass
        kind = self.kinds[self.at]
        if kind == "!":
            raise _missing("a parenthesis")
        if kind == "-" and not self._is_number(self.at):
            self.at += 1
            raise _UnexpectedTokenError("only a number may follow `!-`; write !(-a)")
        is_odd = (self.at - first) % 2
        operand, start = self.member(), self.starts[first]
        if not is_odd:
            return operand
        return self.measured(
            ast.Call(f"{sign}_", None, [operand], position=start, start=start, end=operand.end), operand
        )

    def _is_number(self, at: int) -> bool:
        return self.kinds[at] == "-" and self.kinds[at + 1] in {lexer.INT, lexer.DOUBLE}

    def member(self) -> ast.Node:
        """An operand with the fields, indices and calls behind it."""
        kind = self.kinds[self.at]
        read = _OPERANDS.get(kind)
        if read is None:
            raise _missing("an expression")
        node = read(self)
        while True:
            kind = self.kinds[self.at]
            if kind == ".":
                node = self.point(node)
            elif kind == "[":
                node = self.index(node)
            else:
                return node

    def point(self, operand: ast.Node) -> ast.Node:
        """`.name`, `.?name` or `.name(`."""
        position = self.starts[self.at]
        self.at += 1
        optional = self.skip("?")
        at = self.at
        kind, text, start = self.kinds[at], self.texts[at], self.starts[at]
        end = start + len(text)
        if kind == lexer.QUOTED_IDENTIFIER:
            text = self.unquoted(text, start)
        elif kind != lexer.IDENTIFIER:
            raise _missing("a name")
        self.at += 1
        if not optional and kind == lexer.IDENTIFIER and self.skip("("):
            return self.call(text, operand, operand.start)
        if optional:
            field = ast.Literal(text, position=start, start=start, end=end)
            node: ast.Node = ast.Call("_?._", None, [operand, field], position=position, start=operand.start, end=end)
        else:
            node = ast.Select(operand, text, position=position, start=operand.start, end=end)
        return self.measured(node, operand, deeper=1)

    def index(self, operand: ast.Node) -> ast.Node:
        """`[index]` and `[?index]`."""
        position = self.starts[self.at]
        self.at += 1
        function = "_[?_]" if self.skip("?") else "_[_]"
        index = self.inner()
        end = self.closed("]")
        node = ast.Call(function, None, [operand, index], position=position, start=operand.start, end=end)
        return self.measured(node, operand, index, deeper=1)

    def closed(self, closer: str, *separators: str) -> int:
        """Skip a closer. Returns where it ends."""
        if not self.skip(closer):
            raise self.misplaced(*separators, closer)
        return self.starts[self.at - 1] + len(closer)

    # Operands

    def literal(self) -> ast.Node:
        first, sign = self.at, "-" if self.skip("-") else ""
        at = self.at
        self.at += 1
        text, start, read = self.texts[at], self.starts[first], _LITERALS[self.kinds[at]]
        try:
            value = read(text, sign) if sign else read(text)
        except lexer.LiteralValueError as error:
            return self.failed(Issue(start, str(error)))
        return ast.Literal(value, position=start, start=start, end=self.starts[at] + len(text))

    def name(self) -> ast.Node:
        start, dot = self.starts[self.at], "." if self.skip(".") else ""
        at = self.at
        if self.kinds[at] != lexer.IDENTIFIER:
            raise _missing("a name")
        text = self.texts[at]
        if self._messages and (brace := self._brace(at)):
            self.at = brace + 1
            return self.message(dot + ".".join(self.texts[at:brace:2]), start)
        self.at += 1
        if self.skip("("):
            if text not in RESERVED:
                return self.call(dot + text, None, start)
            issues = len(self.issues)
            self.call(dot + text, None, start)
            del self.issues[issues:]  # the reference ignores the arguments in this case
            return self.reserved(text, start)
        if text in RESERVED:
            return self.reserved(text, start)
        position = self.starts[at]
        return ast.Ident(dot + text, position=position, start=start, end=position + len(text))

    def _brace(self, at: int) -> int:
        """The index of the brace that follows the names from here on, which then name a message; else 0."""
        kinds = self.kinds
        at += 1
        while kinds[at] == "." and kinds[at + 1] == lexer.IDENTIFIER:
            at += 2
        return at if kinds[at] == "{" else 0

    def parentheses(self) -> ast.Node:
        """`(expression)`, which only widens the span of the expression."""
        start = self.starts[self.at]
        self.at += 1
        node = self.inner()
        node.start, node.end = start, self.closed(")")
        return node

    def call(self, function: str, target: ast.Node | None, start: int) -> ast.Node:
        """The arguments of `function(` or `target.function(`, and the call or the expansion of the macro."""
        position, args = self.starts[self.at - 1], list[ast.Node]()
        if not self.skip(")"):
            args.append(self.inner())
            while self.skip(","):
                args.append(self.inner())
            self.closed(")", ",")
        end = self.starts[self.at - 1] + 1
        macro = (FUNCTIONS if target is None else METHODS).get((function, len(args))) if self.expands else None
        if macro is None:
            node: ast.Node = ast.Call(function, target, args, position=position, start=start, end=end)
        else:
            try:
                node = macro(Expansion(self._copies, function, target, args, position, start, end))
            except MacroError as error:
                node = self.failed(error.issue)
        return self.measured(node, *args) if target is None else self.measured(node, target, *args, deeper=1)

    def items(self, closer: str, item: Callable[[], None]) -> int:
        """The items of a literal, of which the last may have a comma behind it. Returns where the closer ends."""
        if self.skip(","):
            if not self.skip(closer):
                raise _missing(f"`{closer}`")
        elif not self.skip(closer):
            item()
            while self.skip(",") and self.kinds[self.at] != closer:
                item()
            self.closed(closer, ",")
        return self.starts[self.at - 1] + 1

    def elements(self) -> ast.Node:
        """`[element, ?element]`."""
        start = self.starts[self.at]
        self.at += 1
        elements, optional = list[ast.Node](), set[int]()

        def element() -> None:
            if self.skip("?"):
                optional.add(len(elements))
            elements.append(self.inner())

        end = self.items("]", element)
        node = ast.ListLiteral(elements, frozenset(optional), position=start, start=start, end=end)
        return self.measured(node, *elements)

    def entries(self) -> ast.Node:
        """`{key: value, ?key: value}`."""
        start = self.starts[self.at]
        self.at += 1
        entries, parts = list[ast.Entry](), list[ast.Node]()

        def entry() -> None:
            optional = self.skip("?")
            key, at = self.inner(), self.starts[self.at]
            if self.kinds[self.at] in {",", "}"}:
                raise _missing("`:` and a value")
            if not self.skip(":"):
                raise self.misplaced(":")
            value = self.inner()
            if self.kinds[self.at] == ":":
                raise _missing("`,` or `}`")
            entries.append(ast.Entry(key, value, optional, position=at, start=key.start, end=value.end))
            parts.extend((key, value))

        end = self.items("}", entry)
        return self.measured(ast.MapLiteral(entries, position=start, start=start, end=end), *parts)

    def message(self, type_name: str, start: int) -> ast.Node:
        """`Name{field: value, ?field: value}`, from behind the brace on."""
        position, fields = self.starts[self.at - 1], list[ast.FieldValue]()
        first = self.starts[self.at]

        def field() -> None:
            begin, optional = self.starts[self.at], self.skip("?")
            name = self.texts[self.at]
            if not self.skip(lexer.IDENTIFIER):
                if not self.skip(lexer.QUOTED_IDENTIFIER):
                    raise _missing("the name of a field")
                name = self.unquoted(name, first)  # the reference does not say which field
            at = self.starts[self.at]
            if not self.skip(":"):
                raise _missing("`:`")
            value = self.inner()
            fields.append(ast.FieldValue(name, value, optional, position=at, start=begin, end=value.end))

        end = self.items("}", field)
        node = ast.StructLiteral(type_name, fields, position=position, start=start, end=end)
        return self.measured(node, *(field.value for field in fields))


_LITERALS: dict[str, Callable[..., Value]] = {
    lexer.INT: lexer.integer,
    lexer.UINT: lexer.unsigned,
    lexer.DOUBLE: lexer.double,
    lexer.STRING: lexer.string,
    lexer.BYTES: lexer.octets,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}
_BINARY = {
    "<": (_RELATION, "_<_"),
    "<=": (_RELATION, "_<=_"),
    ">=": (_RELATION, "_>=_"),
    ">": (_RELATION, "_>_"),
    "==": (_RELATION, "_==_"),
    "!=": (_RELATION, "_!=_"),
    "in": (_RELATION, "@in"),
    "+": (_SUM, "_+_"),
    "-": (_SUM, "_-_"),
    "*": (_PRODUCT, "_*_"),
    "/": (_PRODUCT, "_/_"),
    "%": (_PRODUCT, "_%_"),
}
_OPERANDS: dict[str, Callable[[_Parser], ast.Node]] = {
    **dict.fromkeys((*_LITERALS, "-"), _Parser.literal),
    **dict.fromkeys((lexer.IDENTIFIER, "."), _Parser.name),
    "(": _Parser.parentheses,
    "[": _Parser.elements,
    "{": _Parser.entries,
}
_ENDS = frozenset({",", ")", "]", "}", lexer.END})
"""What ends an expression within brackets, or without."""


# What people read about syntax errors

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


def _hint(issue: Issue, text: str) -> str:
    """The issue's hint, or one for a known habit at its place."""
    at = issue.position
    if issue.hint or at < 0:
        return issue.hint
    if issue.message.startswith("reserved identifier"):
        return _habit(text, at) or "CEL keeps this word for itself; a field of that name is read as object['name']"
    if not issue.message.startswith(_PREFIX):
        return ""
    choice = "write condition ? a : b; an optional field is a.?b" if _COLON in issue.message else ""
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
