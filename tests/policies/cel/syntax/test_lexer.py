import pytest

from policies.cel.syntax.lexer import BYTES, DOUBLE, END, IDENTIFIER, INT, QUOTED_IDENTIFIER, STRING, UINT, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("a.b==", [(IDENTIFIER, "a"), (".", "."), (IDENTIFIER, "b"), ("==", "==")], id="operators"),
        pytest.param("1 0x1F 2u 0xAu", [(INT, "1"), (INT, "0x1F"), (UINT, "2u"), (UINT, "0xAu")], id="whole numbers"),
        pytest.param("1.5 .5 1e3 1.5E-3", [(DOUBLE, t) for t in ("1.5", ".5", "1e3", "1.5E-3")], id="doubles"),
        pytest.param("1.e", [(INT, "1"), (".", "."), (IDENTIFIER, "e")], id="a point needs digits"),
        pytest.param("0X1", [(INT, "0"), (IDENTIFIER, "X1")], id="no capital X"),
        pytest.param("in true inn", [("in", "in"), ("true", "true"), (IDENTIFIER, "inn")], id="words"),
        pytest.param("a // b\n c", [(IDENTIFIER, "a"), (IDENTIFIER, "c")], id="comment"),
        pytest.param("'a''b'", [(STRING, "'a'"), (STRING, "'b'")], id="strings side by side"),
        pytest.param("'''a'b''c'''", [(STRING, "'''a'b''c'''")], id="triple quotes"),
        pytest.param('"""a"""b', [(STRING, '"""a"""'), (IDENTIFIER, "b")], id="shortest triple"),
        pytest.param(r"r'\' R'''a\'''", [(STRING, r"r'\'"), (STRING, r"R'''a\'''")], id="raw"),
        pytest.param(r"b'\xff' br'\x'", [(BYTES, r"b'\xff'"), (BYTES, r"br'\x'")], id="bytes"),
        pytest.param("`a-b`", [(QUOTED_IDENTIFIER, "`a-b`")], id="backticks"),
        pytest.param(" \t\r\n\f", [], id="white space"),
    ],
)
def test_tokens(text: str, tokens: list[tuple[str, str]]) -> None:
    """The longest token wins; white space and comments are left out."""
    found = tokenize(text)
    end = (tokens[-1:] and found.starts[-1]) or len(text)
    assert (list(zip(found.kinds, found.texts, strict=True)), end) == ([*tokens, (END, END)], len(text))


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param("a = b", [(2, "'= '")], id="single ="),
        pytest.param("a =", [(2, "'='")], id="at the end"),
        pytest.param("a &b", [(2, "'&b'")], id="single & takes the next character"),
        pytest.param("a # b", [(2, "'#'")], id="unknown character"),
        pytest.param("a == 'b", [(5, "''b'")], id="string that is not closed"),
        pytest.param("'a\nb'", [(0, "''a\n'"), (4, "'''")], id="line end in a string"),
        pytest.param(r"'\q'", [(0, r"''\q'"), (3, "'''")], id="unknown escape"),
        pytest.param(r"'\x4'", [(0, r"''\x4''")], id="short escape"),
        pytest.param("`a!`", [(0, "'`a!'"), (3, "'`'")], id="backticks"),
    ],
)
def test_what_is_no_token(text: str, errors: list[tuple[int, str]]) -> None:
    """What is no token is an issue with the reference's words, and the rest goes on after it."""
    prefix = "Syntax error: token recognition error at: "
    assert [(issue.position, issue.message) for issue in tokenize(text).issues] == [
        (at, prefix + m) for at, m in errors
    ]


def test_text_between_tokens_leaves_out_what_is_none() -> None:
    """Messages quote the text between tokens without what is no token."""
    text = "a #+ $b "
    tokens = tokenize(text)
    assert (tokens.between(text, 0, 2), tokens.between(text, 1, 3)) == ("a + b", "+ b ")
