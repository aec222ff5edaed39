# ruff: noqa: E501 # one case is one line
import sys

import pytest
from support.cel.celtree import tree

from policies.cel.syntax.ast import Call, Entry, MapLiteral, Node
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source


@pytest.mark.parametrize(
    ("text", "place"),
    [("a.`b`", "1:3"), ("a.?`b`", "1:4"), ("A{b: 1, `c`: 2}", "1:3"), ("has(a.`b-c`)", "1:7")],
)
def test_fields_in_backticks(text: str, place: str) -> None:
    """Fields may have backticks where the release has them, and are refused at their place elsewhere."""
    source = Source(text)
    parse(source)
    with pytest.raises(CompileError) as caught:
        parse(source, quoted=False)
    assert caught.value.reference() == f"ERROR: <input>:{place}: unsupported syntax: '`'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("a - b - c", "_-_(_-_(a, b), c)"),
        ("a + 1 < b == c", "_==_(_<_(_+_(a, int:1), b), c)"),
        ("a in [1, 2]", "@in(a, [int:1, int:2])"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a || b ? c && d : e", "_?_:_(_||_(a, b), _&&_(c, d), e)"),
        ("a && b && c", "_&&_(_&&_(a, b), c)"),
        ("a || b || c || d", "_||_(_||_(a, b), _||_(c, d))"),
        ("a && b && c && d && e", "_&&_(_&&_(_&&_(a, b), c), _&&_(d, e))"),
        ("a && b || c && d", "_||_(_&&_(a, b), _&&_(c, d))"),
        ("(a + b) * c", "_*_(_+_(a, b), c)"),
        ("!a.b", "!_(a.b)"),
        ("!!a", "a"),
        ("!!!a", "!_(a)"),
        ("-a", "-_(a)"),
        ("- -a", "a"),
        ("-1", "int:-1"),
        ("--1", "int:1"),
        ("-1.f()", "int:-1.f()"),
        ("1 -1", "_-_(int:1, int:1)"),
        ("a.b.c", "a.b.c"),
        ("a.?b.c", "_?._(a, str:'b').c"),
        ("a[0][?b]", "_[?_](_[_](a, int:0), b)"),
        ("f(a, b)", "f(a, b)"),
        ("f()", "f()"),
        ("a.f(b).g()", "a.f(b).g()"),
        ("a.if.for(b)", "a.if.for(b)"),
        (".a + .f(b)", "_+_(.a, .f(b))"),
        ("[a, ?b, 1,]", "[a, ?b, int:1]"),
        ("[,]", "[]"),
        ("{'a': 1, ?b: c,}", "{str:'a': int:1, ?b: c}"),
        ("{}", "{}"),
        ("A.b{c: 1, ?d: e}", "A.b{c: int:1, ?d: e}"),
        (".A{,}", ".A{}"),
        ("0x1F", "int:31"),
        ("-9223372036854775808", "int:-9223372036854775808"),
        ("0xffu", "Uint:255"),
        ("-1.5e3", "float:-1500.0"),
        ("[true, false, null]", "[bool:True, bool:False, NoneType:None]"),
        ("'\\n\\x41\\u00e9\\101\\\\\\''", 'str:"\\nAéA\\\\\'"'),
        ("r'\\n'", "str:'\\\\n'"),
        ('"""a\r\nb"""', "str:'a\\nb'"),
        ("b'\\xff\\101é'", "bytes:b'\\xffA\\xc3\\xa9'"),
        ("a.existsOne(x, y) && cel.bind(x, 1, x)", "_&&_(a.existsOne(x, y), cel.bind(x, int:1, x))"),
    ],
)
def test_tree(text: str, shown: str) -> None:
    """The tree is the reference's."""
    assert tree(text) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:0: Syntax error: unexpected end of the expression: an expression is missing before it"),
        ("1 +", "1:4: Syntax error: unexpected end of the expression: an expression is missing before it"),
        ("a + + * b", "1:5: Syntax error: unexpected `+`: an expression is missing before it"),
        ("(a", "1:3: Syntax error: unexpected end of the expression: `)` is missing before it"),
        ("[a", "1:3: Syntax error: unexpected end of the expression: `]` is missing before it"),
        ("{a: b", "1:6: Syntax error: unexpected end of the expression: `}` is missing before it"),
        ("f(a,)", "1:5: Syntax error: unexpected `)`: an expression is missing before it"),
        ("f(a b)", "1:5: Syntax error: unexpected `b`: an operator, `,` or `)` is missing before it"),
        ("a b", "1:3: Syntax error: unexpected `b`: an operator is missing before it"),
        ("a)", "1:2: Syntax error: unexpected `)`: it closes nothing"),
        ("a = b", "1:3: Syntax error: unexpected `=`: CEL has no such token"),
        ("a & b", "1:3: Syntax error: unexpected `&`: CEL has no such token"),
        ("a and b", "1:3: Syntax error: unexpected `and`: an operator is missing before it"),
        ("a; b", "1:2: Syntax error: unexpected `;`: CEL has no such token"),
        ("$a", "1:1: Syntax error: unexpected `$`: CEL has no such token"),
        ("a # b", "1:3: Syntax error: unexpected `#`: CEL has no such token"),
        (
            "a == 'b",
            "1:6: Syntax error: the string is not closed, or has an escape that CEL does not know; a backslash is written \\\\",
        ),
        ("if", "1:1: reserved identifier: if"),
        ("if(1 + '\\ud800')", "1:1: reserved identifier: if"),
        ("a.true", "1:3: Syntax error: unexpected `true`: a name is missing before it"),
        ("a[]", "1:3: Syntax error: unexpected `]`: an expression is missing before it"),
        ("a ? b", "1:6: Syntax error: unexpected end of the expression: the `:` of `?` is missing before it"),
        ("a ? b ? c : d : e", "1:7: Syntax error: unexpected `?`: the `:` of `?` is missing before it"),
        ("!-a", "1:3: Syntax error: unexpected `a`: only a number may follow `!-`; write !(-a)"),
        ("9223372036854775808", "1:1: invalid int literal"),
        ("18446744073709551616u", "1:1: invalid uint literal"),
        ("1e999", "1:1: invalid double literal"),
        ("'\\ud800'", "1:1: invalid unicode code point"),
        ("b'\\u0041'", "1:1: unable to unescape string"),
        ("has(a && has(b.c)", "1:18: Syntax error: unexpected end of the expression: `)` is missing before it"),
        ("a &&\n  b c", "2:5: Syntax error: unexpected `c`: an operator is missing before it"),
    ],
)
def test_first_error(text: str, message: str) -> None:
    """The first error has the reference's place; what is no syntax error has its words too."""
    with pytest.raises(CompileError) as caught:
        parse(Source(text))
    assert caught.value.reference() == f"ERROR: <input>:{message}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a = b", "write == to compare; CEL has no assignment"),
        ("a === b", "CEL compares with == and !=; there is no === or !=="),
        ("a <> b", "write != for 'is not equal'"),
        ("a & b", "write && for 'and'"),
        ("a or b", "write || for 'or'"),
        ("not a", "write ! for 'not'"),
        ("a not in b", "write !(a in b) for 'not in'"),
        ("“a”", "use plain quotes, ' or \""),
        ("a?.b", "write condition ? a : b; an optional field is a.?b"),
        ("if (a) {b}", "write condition ? a : b for 'if'"),
        (" ", "the expression is empty"),
    ],
)
def test_hint(text: str, hint: str) -> None:
    """Habits from other languages get a hint what to write instead."""
    with pytest.raises(CompileError) as caught:
        parse(Source(text))
    assert caught.value.issues[0].hint == hint


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a + b", (2, 0, 5)),
        ("a . b", (2, 0, 5)),
        ("a.?b", (1, 0, 4)),
        ("f (a)", (2, 0, 5)),
        ("a.f(b)", (3, 0, 6)),
        ("a.all(x, x)", (5, 0, 11)),
        ("a[b]", (1, 0, 4)),
        ("a ? b : c", (2, 0, 9)),
        ("- 1", (0, 0, 3)),
        (".a", (1, 0, 2)),
        ("A.b{}", (3, 0, 5)),
        ("(a + b)", (3, 0, 7)),
        ("a && b && c", (7, 0, 11)),
    ],
)
def test_place(text: str, place: tuple[int, int, int]) -> None:
    """A node has the reference's position and the span of its text."""
    node = parse(Source(text))
    assert (node.position, node.start, node.end) == place


def test_place_of_an_entry() -> None:
    """An entry of a map is placed at its colon."""
    node = parse(Source("{'a' : 1}"))
    assert isinstance(node, MapLiteral)
    entry: Entry = node.entries[0]
    assert (entry.position, entry.start, entry.end) == (5, 1, 8)


PARSING = "-1:0: expression recursion limit exceeded: 250"
VISITING = "-1:0: max recursion depth exceeded"


@pytest.mark.parametrize(
    ("opening", "inner", "closing", "most", "message"),
    [
        pytest.param("(", "1", ")", 249, PARSING, id="parentheses"),
        pytest.param("[", "", "]", 250, PARSING, id="lists"),
        pytest.param("f(", "", ")", 250, PARSING, id="calls"),
        pytest.param("{1: ", "2", "}", 249, PARSING, id="maps"),
        pytest.param("A{a: ", "2", "}", 249, PARSING, id="messages"),
        pytest.param("a ? b : ", "c", "", 249, PARSING, id="ternaries"),
        pytest.param("", "a", ".b", 250, VISITING, id="members"),
        pytest.param("", "a", "[1]", 250, VISITING, id="indices"),
        pytest.param("1 + ", "1", "", 250, VISITING, id="sums"),
    ],
)
def test_depth(opening: str, inner: str, closing: str, most: int, message: str) -> None:
    """Exactly as much depth as the reference's is accepted."""
    parse(Source(opening * most + inner + closing * most))
    with pytest.raises(CompileError) as caught:
        parse(Source(opening * (most + 1) + inner + closing * (most + 1)))
    assert caught.value.reference() == f"ERROR: <input>:{message}"


@pytest.mark.parametrize(
    "piece", ["(", "-1[", "a.", " = ", '"""', "'\n", "#", "a?", "- ", "!", "a.b{", "`a", ".optMap(x,x)", "a ", "1,"]
)
def test_hostile_text_ends_in_a_compile_error(piece: str) -> None:
    """Text that repeats what opens or fails is refused, whatever its length."""
    with pytest.raises(CompileError):
        parse(Source(f"a{piece * 2000}"))


def test_length() -> None:
    """An expression has at most 100,000 code points."""
    parse(Source(f"'{'é' * 99_998}'"))
    with pytest.raises(CompileError) as caught:
        parse(Source("a" * 100_001))
    message = "expression code point size exceeds limit: size: 100001, limit 100000"
    assert caught.value.reference() == f"ERROR: <input>:-1:0: {message}"


def test_python_recursion_does_not_limit_depth() -> None:
    """Depth that the reference accepts needs no depth of Python's stack."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 40)
    try:
        node: Node = parse(Source(f"{'(' * 248}1 + 1{')' * 248}"))
    finally:
        sys.setrecursionlimit(limit)
    assert isinstance(node, Call)
