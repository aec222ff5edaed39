# ruff: noqa: E501 # one case is one line
import pytest

from policies.cel.syntax.ast import MapLiteral
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import NOWHERE, CompileError, Issue, Source


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
    ("text", "message"),
    [
        ("", "1:0: Syntax error: unexpected end of the expression: an expression is missing before it"),
        ("a + + * b", "1:5: Syntax error: unexpected `+`: an expression is missing before it"),
        ("a b", "1:3: Syntax error: unexpected `b`: an operator is missing before it"),
        ("a)", "1:2: Syntax error: unexpected `)`: it closes nothing"),
        ("a = b", "1:3: Syntax error: unexpected `=`: CEL has no such token"),
        ("a and b", "1:3: Syntax error: unexpected `and`: an operator is missing before it"),
        ("$a", "1:1: Syntax error: unexpected `$`: CEL has no such token"),
        (
            "a == 'b",
            "1:6: Syntax error: the string is not closed, or has an escape that CEL does not know; a backslash is written \\\\",
        ),
        ("if(1 + '\\ud800')", "1:1: reserved identifier: if"),
        ("a.true", "1:3: Syntax error: unexpected `true`: a name is missing before it"),
        ("a[]", "1:3: Syntax error: unexpected `]`: an expression is missing before it"),
        ("a ? b", "1:6: Syntax error: unexpected end of the expression: the `:` of `?` is missing before it"),
        ("a ? b ? c : d : e", "1:7: Syntax error: unexpected `?`: the `:` of `?` is missing before it"),
        ("!-a", "1:3: Syntax error: unexpected `a`: only a number may follow `!-`; write !(-a)"),
        ("1e999", "1:1: invalid double literal"),
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
        ("a . b", (2, 0, 5)),
        ("a.?b", (1, 0, 4)),
        ("a.f(b)", (3, 0, 6)),
        ("a.all(x, x)", (5, 0, 11)),
        ("a ? b : c", (2, 0, 9)),
        (".a", (1, 0, 2)),
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
    (entry,) = node.entries
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


@pytest.mark.parametrize(
    ("source", "offset", "place"),
    [
        pytest.param(Source("a + b"), 2, (1, 3), id="first line"),
        pytest.param(Source("a\n + b"), 3, (2, 2), id="second line"),
        pytest.param(Source("a\n + b", "policy.yaml", 10, 7), 3, (11, 8), id="within a file"),
        pytest.param(Source("'日本' + b"), 5, (1, 6), id="wide characters count once"),
        pytest.param(Source("a"), NOWHERE, (-1, 0), id="no place"),
    ],
)
def test_location(source: Source, offset: int, place: tuple[int, int]) -> None:
    """An offset has a line and a column, counted from where the expression begins in its file."""
    assert source.location(offset) == place


@pytest.mark.parametrize(
    ("text", "offset", "excerpt"),
    [
        pytest.param("a = b", 2, ("a = b", "  ^"), id="plain"),
        pytest.param("x &&\na = b\n|| c", 7, ("a = b", "  ^"), id="one of several lines"),
        pytest.param("\ta = b", 3, ("\ta = b", "\t  ^"), id="a tab stays a tab"),
        pytest.param("日本 = b", 3, ("日本 = b", "     ^"), id="wide characters take two columns"),
        pytest.param("e\u0301 = b", 3, ("e\u0301 = b", "  ^"), id="a combining mark takes none"),
        pytest.param("a \x1b[0m b", 8, ("a  [0m b", "        ^"), id="control characters are not shown"),
        pytest.param("", 0, ("", "^"), id="empty"),
        pytest.param(f"{'a' * 200}={'b' * 200}", 200, (f"…{'a' * 80}={'b' * 79}…", f"{' ' * 81}^"), id="long"),
    ],
)
def test_excerpt(text: str, offset: int, excerpt: tuple[str, str]) -> None:
    """The caret stands below the place, as a terminal shows the line."""
    assert Source(text).excerpt(offset) == excerpt


def test_compile_error_shows_all_issues_in_order_of_their_places() -> None:
    """Every issue is shown with its place, its line and its hint, and the first line as Kubernetes has it, without the file."""
    source = Source("a = b", "policy.yaml", 3, 5)
    error = CompileError(source, [Issue(4, "second"), Issue(2, "first", "do this"), Issue(NOWHERE, "as a whole")])
    assert str(error) == (
        "policy.yaml: as a whole\n"
        "policy.yaml:3:7: first\na = b\n  ^\nhint: do this\n"
        "policy.yaml:3:9: second\na = b\n    ^"
    )
    assert CompileError(source, [Issue(2, "two\nlines")]).reference() == "ERROR: <input>:1:3: two"


def test_as_many_issues_as_the_reference_reports() -> None:
    """No more than 100 issues are kept."""
    error = CompileError(Source("a"), [Issue(number, "message") for number in range(200)])
    assert [issue.position for issue in error.issues] == list(range(100))
