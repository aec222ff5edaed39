import pytest

from policies.cel.syntax.source import NOWHERE, CompileError, Issue, Source


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
    """Every issue is shown with its place, its line and its hint."""
    source = Source("a = b", "policy.yaml", 3, 5)
    error = CompileError(source, [Issue(4, "second"), Issue(2, "first", "do this"), Issue(NOWHERE, "as a whole")])
    assert str(error) == (
        "policy.yaml: as a whole\n"
        "policy.yaml:3:7: first\na = b\n  ^\nhint: do this\n"
        "policy.yaml:3:9: second\na = b\n    ^"
    )


@pytest.mark.parametrize(
    ("text", "issue", "line"),
    [
        pytest.param("a = b", Issue(2, "message"), "ERROR: <input>:1:3: message", id="a place"),
        pytest.param("a\n= b", Issue(2, "message"), "ERROR: <input>:2:1: message", id="second line"),
        pytest.param("a", Issue(NOWHERE, "message"), "ERROR: <input>:-1:0: message", id="no place"),
        pytest.param("", Issue(0, "message"), "ERROR: <input>:1:0: message", id="empty expression"),
        pytest.param("a", Issue(0, "two\nlines"), "ERROR: <input>:1:1: two", id="first line only"),
    ],
)
def test_reference_is_the_line_of_kubernetes(text: str, issue: Issue, line: str) -> None:
    """`reference()` is what Kubernetes prints first, which does not know the file."""
    assert CompileError(Source(text, "policy.yaml", 3, 5), [issue]).reference() == line


def test_as_many_issues_as_the_reference_reports() -> None:
    """No more than 100 issues are kept."""
    error = CompileError(Source("a"), [Issue(number, "message") for number in range(200)])
    assert [issue.position for issue in error.issues] == list(range(100))
