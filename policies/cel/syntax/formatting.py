"""Trees as text: `formatted` writes an expression in the one format, and `unparse` any tree.

`parse(Source(unparse(tree)), expand=False)` is the same tree, with the fewest parentheses for that. Operators of a
balanced chain (`a && b && c`, see parser.py) are written as the chain that gives this balance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from policies.cel.recursion import deeply
from policies.cel.syntax import ast
from policies.cel.syntax.lexer import BYTES, DOUBLE, INT, STRING, UINT, tokenize
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source
from policies.cel.values import Uint

ONE_LINE = 10**9
"""A width that breaks nothing."""
TERNARY, OR, AND, RELATION, SUM, PRODUCT, UNARY, _PRIMARY = range(8)
_OPERATORS: Mapping[str, tuple[int, str]] = {
    **{f"_{sign}_": (RELATION, sign) for sign in ("<", "<=", ">=", ">", "==", "!=")},
    "@in": (RELATION, "in"),
    **{f"_{sign}_": (SUM, sign) for sign in "+-"},
    **{f"_{sign}_": (PRODUCT, sign) for sign in "*/%"},
}
_PLACES = frozenset({"position", "start", "end"})
_LOGIC: Mapping[str, tuple[int, str]] = {"_&&_": (AND, "&&"), "_||_": (OR, "||")}
_SUMS = ("_+_", "_-_")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ASCII = range(0x20, 0x7F)
_PLAIN = re.compile(r"(?!(?:in|true|false|null)\Z)[A-Za-z_]\w*", re.ASCII)

Spelling = Mapping[int, str]
"""How literals are written, by their positions, where it matters to the author: `0x1f`, `r'\\d'`."""


WIDTH: Final = 120
_WRITTEN_LITERALS = {INT, UINT, DOUBLE, STRING, BYTES}


class KeptError(Exception):
    """The expression is left as it is. The text says why."""


def formatted(source: Source, width: int = WIDTH) -> str:
    """The expression in its format. Literals stay as they were written. Raises CompileError, and KeptError.

    An expression with comments, or with a string of several lines, is left alone: nothing says where they belong.
    """
    parse(source)  # the rules of macros, which are not expanded below
    tokens = tokenize(source.text)
    if "".join(source.text.split()) != "".join("".join(tokens.texts[:-1]).split()):
        raise KeptError("it has comments")
    spelling: dict[int, str] = {}
    for index, (kind, text, start) in enumerate(zip(tokens.kinds, tokens.texts, tokens.starts, strict=True)):
        if kind in _WRITTEN_LITERALS:
            spelling[start] = text
            if index and tokens.kinds[index - 1] == "-":  # a number has the place of its sign
                spelling[tokens.starts[index - 1]] = f"-{text}"
    if any("\n" in text for text in spelling.values()):
        raise KeptError("it has a string of several lines")
    tree = parse(source, expand=False)
    text = unparse(tree, width, spelling)
    if not same(parse(Source(text), expand=False), tree):
        raise KeptError("it cannot be written otherwise")
    return text


def unparse(tree: ast.Node, width: int = ONE_LINE, spelling: Spelling | None = None) -> str:
    """The text of a tree, if possible with lines of at most `width` columns. Raises TypeError for an expanded macro."""
    return deeply(lambda: laid_out(_Unparser(spelling or {}).group(tree), width))


def literal(value: Any) -> str:
    """The text of a constant. Strings are in single quotes, unless only double quotes avoid an escape."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Uint():
            return f"{int(value)}u"
        case str():
            quote = '"' if "'" in value and '"' not in value else "'"
            return quote + "".join(_escaped(character, quote) for character in value) + quote
        case bytes():
            octets = (_escaped(chr(octet), "'") if octet in _ASCII else f"\\x{octet:02x}" for octet in value)
            return f"b'{''.join(octets)}'"
        case _:
            return repr(value)


def _escaped(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{quote}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def _level(node: ast.Node, text: str) -> int:
    """How tightly a node binds."""
    if isinstance(node, ast.Literal):
        return UNARY if text.startswith("-") else _PRIMARY
    if not isinstance(node, ast.Call) or node.target is not None:
        return _PRIMARY
    if node.function == "_?_:_":
        return TERNARY
    if node.function in ("!_", "-_"):
        return UNARY
    operator = _LOGIC.get(node.function) or _OPERATORS.get(node.function)
    return operator[0] if operator else _PRIMARY


class _Unparser:
    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling

    def group(self, node: ast.Node) -> Group:  # noqa: PLR0911 - a return for each kind of node
        match node:
            case ast.Literal():
                return Group(self._spelling.get(node.position) or literal(node.value))
            case ast.Ident():
                return Group(node.name)
            case ast.Select():
                if node.test_only:
                    raise TypeError("the text of has() is gone")
                return Group(self._at_least(_PRIMARY, node.operand), f".{_field(node.field)}")
            case ast.Call() if node.target is not None:
                return Group(self._at_least(_PRIMARY, node.target), f".{node.function}", self._arguments(node))
            case ast.Call():
                return self._call(node)
            case ast.ListLiteral():
                marks = ("?" if index in node.optional else "" for index in range(len(node.elements)))
                constants = all(isinstance(element, ast.Literal) for element in node.elements)
                return _enclosed("[", zip(marks, map(self.group, node.elements), strict=True), "]", fills=constants)
            case ast.MapLiteral():
                entries = ((_marked(e.optional), self.group(e.key), ": ", self.group(e.value)) for e in node.entries)
                return _enclosed("{", entries, "}")
            case ast.StructLiteral():
                fields = ((f"{_marked(f.optional)}{_field(f.name)}: ", self.group(f.value)) for f in node.fields)
                return _enclosed(f"{node.type_name}{{", fields, "}")
            case ast.Comprehension():
                raise TypeError(f"the text of {node.macro} is gone")
            case _:
                raise TypeError(node)

    def _arguments(self, node: ast.Call) -> Group:
        """The arguments; names that a macro declares stay with the parenthesis."""
        names = 0
        while node.target is not None and names < len(node.args) - 1 and isinstance(node.args[names], ast.Ident):
            names += 1
        declared = "".join(f"{self.group(argument).flat}, " for argument in node.args[:names])
        rest: list[tuple[Part, ...]] = [(self.group(argument),) for argument in node.args[names:]]
        if len(rest) == 1 and isinstance(
            node.args[-1], (ast.Literal, ast.ListLiteral, ast.MapLiteral, ast.StructLiteral)
        ):
            return Group(f"({declared}", *rest[0], ")")  # its own brackets or quotes are enough
        if not names:
            return _enclosed("(", rest, ")")
        return Group(f"({declared[:-1]}", Line(" "), *_separated(rest), Line(deeper=False), ")")

    def _at_least(self, level: int, node: ast.Node) -> Group:
        """The text of an operand, in parentheses if it binds less tightly."""
        group = self.group(node)
        if _level(node, group.flat) >= level:
            return group
        return Group("(", Line(), group, Line(deeper=False), ")")

    def _call(self, node: ast.Call) -> Group:  # noqa: PLR0911 - a return for each kind of call
        match node.function, node.args:
            case "_?_:_", [condition, then, otherwise]:
                parts = self._at_least(OR, condition), Line(" "), "? ", self._at_least(OR, then)
                return Group(*parts, Line(" "), ": ", self.group(otherwise), hangs=True)
            case "_[_]" | "_[?_]", [operand, index]:
                mark = "[?" if node.function == "_[?_]" else "["
                return Group(self._at_least(_PRIMARY, operand), mark, self.group(index), "]")
            case "_?._", [operand, ast.Literal(value=field)]:
                return Group(self._at_least(_PRIMARY, operand), f".?{_field(field)}")
            case "!_" | "-_", [operand]:
                signed = self._at_least(_PRIMARY, operand)
                if node.function == "-_" and signed.flat[:1].isdigit():  # else it would be the sign of the number
                    signed = Group("(", signed, ")")
                return Group(node.function[0], signed)
            case "_&&_" | "_||_", _:
                level, sign = _LOGIC[node.function]
                # The terms of the chain that becomes this tree; only two if no longer chain does.
                terms = _leaves(node, node.function) if _is_balanced(node, node.function) else node.args
                more: list[Part] = []
                for term in terms:
                    more += [Line(" ", deeper=False), f"{sign} "] if more else []
                    more.append(self._at_least(level + 1, term))
                return Group(*more, hangs=True)
            case function, _ if function in _OPERATORS:
                level, sign = _OPERATORS[function]
                left, right = node.args
                if level != SUM:
                    return Group(self._at_least(level, left), Line(" "), f"{sign} ", self._at_least(level + 1, right))
                sums: list[Part] = [Line(" ", deeper=False), f"{sign} ", self._at_least(SUM + 1, right)]
                while isinstance(left, ast.Call) and left.function in _SUMS:
                    sign, (left, right) = _OPERATORS[left.function][1], left.args
                    sums = [Line(" ", deeper=False), f"{sign} ", self._at_least(SUM + 1, right), *sums]
                return Group(self._at_least(SUM, left), *sums, hangs=True)
            case function, _:
                return Group(function, self._arguments(node))


def _field(name: str) -> str:
    """A field, in backticks if its name is not a plain one."""
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


def _marked(optional: bool) -> str:  # noqa: FBT001 # the one thing it is about
    return "?" if optional else ""


def _separated(items: Iterable[tuple[Part, ...]]) -> list[Part]:
    parts: list[Part] = []
    for item in items:
        parts += [",", Line(" "), *item] if parts else item
    return parts


def _enclosed(opening: str, items: Iterable[tuple[Part, ...]], closing: str, *, fills: bool = False) -> Group:
    parts = _separated(items)
    if not parts:
        return Group(opening, closing)
    return Group(opening, Line(), *parts, Line(deeper=False), closing, fills=fills)


def _leaves(node: ast.Node, function: str) -> list[ast.Node]:
    """The terms of a chain of one operator."""
    if not isinstance(node, ast.Call) or node.function != function or node.target is not None:
        return [node]
    return [leaf for part in node.args for leaf in _leaves(part, function)]


def _is_balanced(node: ast.Node, function: str) -> bool:
    """Whether the tree has the form that the parser gives to a chain of as many terms (`chain` in parser.py)."""
    if not isinstance(node, ast.Call) or node.function != function or node.target is not None:
        return True
    left, right = (len(_leaves(part, function)) - 1 for part in node.args)
    return left == (left + right + 1) // 2 and all(_is_balanced(part, function) for part in node.args)


# Layout: text that goes on one line if it fits, and is broken at known places if not

STEP = 2
"""The columns by which a part is indented."""


class Line:
    """A place where text may be broken. `flat`: what stands there otherwise. `deeper`: indentation of what follows."""

    __slots__ = ("deeper", "flat", "rest")

    def __init__(self, flat: str = "", *, deeper: bool = True) -> None:
        self.flat, self.rest = flat, 0
        self.deeper = STEP if deeper else 0


class Group:
    """Parts that are broken at all their lines or at none.

    hangs: it is indented if it is inside of another group. fills: it is broken at its first and last line, and else
    only where the next part does not fit. rest: the width of what follows up to the next place to break.
    """

    __slots__ = ("fills", "flat", "hangs", "parts", "rest")

    def __init__(self, *parts: Part, hangs: bool = False, fills: bool = False) -> None:
        self.parts, self.fills, self.rest = parts, fills, 0
        self.hangs = STEP if hangs else 0
        self.flat: str = "".join(part if isinstance(part, str) else part.flat for part in parts)


Part = str | Line | Group


def laid_out(group: Group, width: int) -> str:
    """The text with lines of at most `width` columns, as far as there are places to break it."""
    texts, column = list[str](), 0

    def add(text: str) -> None:
        nonlocal column
        texts.append(text)
        column += len(text)

    def write(group: Group, indent: int) -> None:
        nonlocal column
        if column + len(group.flat) + group.rest <= width:
            add(group.flat)
            return
        here = indent
        for part in group.parts:
            if isinstance(part, str):
                add(part)
            elif isinstance(part, Group):
                write(part, here + part.hangs)
            else:
                here = indent + part.deeper
                if group.fills and part.flat and column + len(part.flat) + part.rest <= width:
                    add(part.flat)
                else:
                    texts.append("\n" + " " * here)
                    column = here

    _measure(group, 0)
    write(group, 0)
    return "".join(texts)


def _measure(group: Group, rest: int) -> int:
    """Set what follows each part on its line. Returns the width up to the first place to break, from the group on."""
    group.rest = rest
    for part in reversed(group.parts):
        if isinstance(part, str):
            rest += len(part)
        elif isinstance(part, Group):
            rest = _measure(part, rest)
        else:
            part.rest, rest = rest, 0
    return rest


def same(left: ast.Node, right: ast.Node) -> bool:
    """Whether two trees are the same. Numbers of different types are different, and so are 0.0 and -0.0."""
    return deeply(lambda: bool(_content(left) == _content(right)))


def _content(value: Any) -> Any:
    """What a node says, without places and types."""
    if isinstance(value, ast.Node):
        given = (field.name for field in fields(value) if field.init and field.name not in _PLACES)
        return type(value), [_content(getattr(value, name)) for name in given]
    return list(map(_content, value)) if isinstance(value, list | tuple) else (type(value), repr(value))
