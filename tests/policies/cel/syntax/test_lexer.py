import pytest

from policies.cel.syntax.lexer import (
    BYTES,
    DOUBLE,
    END,
    ERROR,
    IDENTIFIER,
    INT,
    QUOTED_IDENTIFIER,
    STRING,
    UINT,
    tokenize,
)


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
    ("text", "start", "sign"),
    [
        pytest.param("a = b", 2, "=", id="single ="),
        pytest.param("a &b", 2, "&", id="single &"),
        pytest.param("a # b", 2, "#", id="unknown character"),
        pytest.param("a == 'b", 5, "'", id="string that is not closed"),
        pytest.param("'a\nb'", 0, "'", id="line end in a string"),
        pytest.param(r"'\q'", 0, "'", id="unknown escape"),
        pytest.param(r"'\x4'", 0, "'", id="short escape"),
        pytest.param("`a!`", 0, "`", id="backticks"),
    ],
)
def test_tokens_end_with_what_is_none(text: str, start: int, sign: str) -> None:
    """The first character that begins no token is the last token before the end."""
    tokens = tokenize(text)
    assert (tokens.kinds[-2:], tokens.texts[-2], tokens.starts[-2]) == ([ERROR, END], sign, start)
