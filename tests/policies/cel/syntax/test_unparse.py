"""Trees as text: the same tree comes back, with no more parentheses than it needs."""

from __future__ import annotations

import pytest
from conformance.casefile import files, read

from policies.cel.recursion import deeply
from policies.cel.syntax.ast import Node
from policies.cel.syntax.formatting import ONE_LINE, KeptError, formatted, same, unparse
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source


def _tree(text: str) -> Node:
    return parse(Source(text), expand=False)


def _returns(tree: Node, width: int) -> bool:
    return same(_tree(deeply(lambda: unparse(tree, width))), tree)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("((a)) && (b == (c))", "a && b == c", id="needless parentheses"),
        pytest.param("a && (b || c)", "a && (b || c)", id="looser operand"),
        pytest.param("(a && b) && c", "a && b && c", id="chain as it is parsed"),
        pytest.param("a && (b && c)", "a && (b && c)", id="chain of another balance"),
        pytest.param("(a - b) - (c - d)", "a - b - (c - d)", id="left to right"),
        pytest.param("(a < b) < (c < d)", "a < b < (c < d)", id="relations"),
        pytest.param("(a ? b : c) ? (d ? e : f) : (g ? h : i)", "(a ? b : c) ? (d ? e : f) : g ? h : i", id="ternary"),
        pytest.param("!(!a) && !(a == b)", "!(!a) && !(a == b)", id="not"),
        pytest.param("(-1) - (-a) + -(2)", "-1 - -a + -(2)", id="signs"),
        pytest.param("(-1).f() + (-a).g", "(-1).f() + (-a).g", id="signed receivers"),
        pytest.param("(a + b).c[(d)][?e].?f", "(a + b).c[d][?e].?f", id="steps"),
        pytest.param("[a, ?b,]", "[a, ?b]", id="list"),
        pytest.param("{a: b, ?'c': d,}", "{a: b, ?'c': d}", id="map"),
        pytest.param("Object.spec{a: b, ?c: d}", "Object.spec{a: b, ?c: d}", id="message"),
        pytest.param(".a.f(b)", ".a.f(b)", id="absolute name"),
        pytest.param("x.all(i, has(i.a))", "x.all(i, has(i.a))", id="macros"),
        pytest.param("""'it\\'s' + "a \\"b\\"" """, """"it's" + 'a "b"'""", id="quotes"),
        pytest.param('"""a\'"b\\x07\\\\\n"""', "'a\\'\"b\\u0007\\\\\\n'", id="escapes"),
        pytest.param(r"b'a\xff\n' + b'é'", r"b'a\xff\x0a' + b'\xc3\xa9'", id="bytes"),
        pytest.param("0x1f + 2u + 1e3 + .5 + 1e-9 + null", "31 + 2u + 1000.0 + 0.5 + 1e-09 + null", id="numbers"),
    ],
)
def test_the_text_of_a_tree(text: str, written: str) -> None:
    """A tree is written with the fewest parentheses, and its constants in one form."""
    assert unparse(_tree(text)) == written


def test_an_expanded_tree_has_no_text() -> None:
    """The text of a macro is gone once it is expanded."""
    for text in ("has(a.b)", "a.all(x, x)"):
        with pytest.raises(TypeError, match="is gone"):
            unparse(parse(Source(text)))


def test_all_recorded_expressions_come_back() -> None:
    """Every expression of the conformance cases is the same tree after it was written, however narrow the lines."""
    different = []
    for text in sorted({case.expression for path in files() for case in read(path)}):
        try:
            tree = _tree(text)
        except CompileError:
            continue
        different += [(text, width) for width in (ONE_LINE, 40) if not _returns(tree, width)]
    assert different == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("a  ==  r'\\d' && x > 0x1f", ["a == r'\\d' && x > 0x1f"], id="literals as written"),
        pytest.param(
            "object.first.value && (object.second.value || object.third.value)",
            ["object.first.value", "&& (object.second.value || object.third.value)"],
            id="logic",
        ),
        pytest.param(
            "object.some.condition.holds ? 'this is one text' : 'this is another'",
            ["object.some.condition.holds", "  ? 'this is one text'", "  : 'this is another'"],
            id="ternary",
        ),
        pytest.param(
            "object.spec.containers.all(c, has(c.image) && c.image.startsWith('registry'))",
            [
                "object.spec.containers.all(c,",
                "  has(c.image)",
                "    && c.image.startsWith('registry')",
                ")",
            ],
            id="macro",
        ),
        pytest.param(
            "object.spec.containers.map(c, {'name': c.name, 'image': c.image})",
            ["object.spec.containers.map(c, {", "  'name': c.name,", "  'image': c.image", "})"],
            id="one bracketed argument",
        ),
        pytest.param(
            "object.metadata.name in ['one', 'two', 'three', 'four']",
            ["object.metadata.name", "  in ['one', 'two', 'three', 'four']"],
            id="relation",
        ),
        pytest.param(
            "'some text about ' + object.metadata.name + ' and more text'",
            ["'some text about '", "+ object.metadata.name", "+ ' and more text'"],
            id="sum",
        ),
    ],
)
def test_the_format_of_an_expression(text: str, lines: list[str]) -> None:
    """A long expression is broken at its outermost operators, arguments or items, and that is stable."""
    assert formatted(Source(text), 46).split("\n") == lines
    assert formatted(Source("\n".join(lines)), 46).split("\n") == lines


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("a // the first\n&& b", "it has comments", id="comment"),
        pytest.param("a && b // end", "it has comments", id="comment at the end"),
        pytest.param("'''a\nb''' == c", "it has a string of several lines", id="string"),
    ],
)
def test_what_is_not_formatted(text: str, reason: str) -> None:
    """An expression whose comments or lines have no place elsewhere is left as it is."""
    with pytest.raises(KeptError, match=reason):
        formatted(Source(text))


def test_an_expression_that_does_not_parse() -> None:
    """Mistakes are reported as by the compiler, those of macros too."""
    for text in ("a &&", "a.all(1, b)"):
        with pytest.raises(CompileError):
            formatted(Source(text))


def test_deep_expressions() -> None:
    """What the parser takes is written, however deep it is."""
    for text in ("(" * 100 + "a" + ")" * 100, "[" * 120 + "]" * 120, "!(" * 100 + "a" + ")" * 100, "a" + ".b" * 240):
        assert [_returns(_tree(text), width) for width in (ONE_LINE, 10)] == [True, True]
