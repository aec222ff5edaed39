"""Selectors: what labels.ParseToRequirements and fields.ParseSelector of k8s.io/apimachinery 0.36.6 answered."""

import pytest

from policies.cel.library.selector import (
    NO_SELECTOR,
    Requirement,
    Selector,
    SelectorError,
    field_selector,
    label_selector,
    parse_fields,
    parse_labels,
)

_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PREFIX = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("spec.nodeName=a", (Requirement("spec.nodeName", "=", ("a",)),), id="equal"),
        pytest.param("a==b", (Requirement("a", "=", ("b",)),), id="double-equal"),
        pytest.param("b!=1,a=2", (Requirement("a", "=", ("2",)), Requirement("b", "!=", ("1",))), id="sorted"),
        pytest.param("a=", (Requirement("a", "=", ("",)),), id="no-value"),
        pytest.param("=x", (Requirement("", "=", ("x",)),), id="no-key"),
        pytest.param("=,a=b,,", (Requirement("a", "=", ("b",)),), id="nothing-around-the-operator"),
        pytest.param(r"a=b\,c\=d\\", (Requirement("a", "=", ("b,c=d\\",)),), id="escaped"),
        pytest.param(r"a\,b=c", (Requirement(r"a\,b", "=", ("c",)),), id="escaped-in-key"),
    ],
)
def test_field_selector(text: str, expected: tuple[Requirement, ...]) -> None:
    """A field selector becomes the reference's requirements in its order."""
    assert parse_fields(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a", "invalid selector: 'a'; can't understand 'a'", id="no-operator"),
        pytest.param("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'", id="one-of-two"),
        pytest.param("a=b=c", "invalid field selector: unescaped character in value: 61", id="unescaped"),
        pytest.param(r"a=b\x", r"invalid field selector: invalid escape sequence: \x", id="escape"),
        pytest.param("a=b\\", "invalid field selector: invalid escape sequence: \\", id="backslash-at-the-end"),
    ],
)
def test_field_selector_error(text: str, message: str) -> None:
    """A field selector that the reference cannot parse is refused in its words."""
    with pytest.raises(SelectorError) as raised:
        parse_fields(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a", (Requirement("a", "exists"),), id="exists"),
        pytest.param("! a", (Requirement("a", "!"),), id="does-not-exist"),
        pytest.param("a=b,a==c", (Requirement("a", "=", ("b",)), Requirement("a", "==", ("c",))), id="equal"),
        pytest.param("b!=c,a=", (Requirement("a", "=", ("",)), Requirement("b", "!=", ("c",))), id="sorted"),
        pytest.param("a in (c,b,c)", (Requirement("a", "in", ("b", "c")),), id="in"),
        pytest.param("a notin(x,)", (Requirement("a", "notin", ("", "x")),), id="notin-with-empty"),
        pytest.param("a in (,,x)", (Requirement("a", "in", ("", "x")),), id="commas"),
        pytest.param("a in ()", (Requirement("a", "in", ("",)),), id="empty-set"),
        pytest.param("in in (in,notin)", (Requirement("in", "in", ("in", "notin")),), id="keywords"),
        pytest.param(" a > 5 ,\tb<6", (Requirement("a", "gt", ("5",)), Requirement("b", "lt", ("6",))), id="order"),
        pytest.param("a.b/C_d.e-f=x", (Requirement("a.b/C_d.e-f", "=", ("x",)),), id="prefix"),
        pytest.param("a=\0b", (Requirement("a", "=", ("b",)),), id="nul-after-a-token"),
        pytest.param("a \0 b", (Requirement("a", "exists"),), id="nul-ends-the-text"),
    ],
)
def test_label_selector(text: str, expected: tuple[Requirement, ...]) -> None:
    """A label selector becomes the reference's requirements, by key, each value once."""
    assert parse_labels(text) == expected


_UNABLE = "unable to parse requirement: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a,", "found '', expected: identifier after ','", id="comma-at-the-end"),
        pytest.param(",a", "found ',', expected: !, identifier, or 'end of string'", id="comma-at-the-start"),
        pytest.param("a=b c", "found 'c', expected: ',' or 'end of string'", id="two-values"),
        pytest.param("!a=b", "found '=', expected: ',' or 'end of string'", id="negated-with-value"),
        pytest.param("!!a", _UNABLE + "found '!', expected: identifier", id="negated-twice"),
        pytest.param("a b", _UNABLE + "found 'b', expected: in, notin, =, ==, !=, gt, lt", id="no-operator"),
        pytest.param("a=(", _UNABLE + "found '(', expected: identifier", id="no-value"),
        pytest.param("a in b", _UNABLE + "found 'b' expected: '('", id="no-parenthesis"),
        pytest.param("a in (=)", _UNABLE + "found '=', expected: ',', ')' or identifier", id="operator-in-set"),
        pytest.param("a in (b c)", _UNABLE + "found 'c', expected: ',' or ')'", id="no-comma-in-set"),
        pytest.param("a in (b,(", _UNABLE + "found '(', expected: ',', or identifier", id="parenthesis-in-set"),
        pytest.param("-a", _UNABLE + f'<nil>: Invalid value: "-a": {_NAME}', id="key"),
        pytest.param(
            "X/", _UNABLE + f'<nil>: Invalid value: "X/": {_PREFIX}; name part must be non-empty; {_NAME}', id="prefix"
        ),
        pytest.param("a>x", _UNABLE + f'values[0]: Invalid value: "x": {_INTEGER}', id="not-a-number"),
        pytest.param(
            "a>-5",
            _UNABLE + f'values[0][a]: Invalid value: "-5": {_VALUE}',
            id="negative-number",
        ),
        pytest.param(
            'a in ("\x01é,b-)',
            _UNABLE
            + rf'[values[0][a]: Invalid value: "\"\x01é": {_VALUE}, values[1][a]: Invalid value: "b-": {_VALUE}]',
            id="two-values-at-once",
        ),
        pytest.param(
            f"a={64 * 'y'}",
            _UNABLE + f'values[0][a]: Invalid value: "{64 * "y"}": must be no more than 63 bytes',
            id="long-value",
        ),
    ],
)
def test_label_selector_error(text: str, message: str) -> None:
    """A label selector that the reference cannot parse is refused in its words."""
    with pytest.raises(SelectorError) as raised:
        parse_labels(text)
    assert str(raised.value) == message


def test_number_of_any_length() -> None:
    """A number beyond 64 bits is refused, however long it is; zeros before a number do not count."""
    assert parse_labels(f"a>{60 * '0'}7") == (Requirement("a", "gt", (60 * "0" + "7",)),)
    with pytest.raises(SelectorError, match="the value must be an integer"):
        parse_labels(f"a>{10_000 * '9'}")


def test_selector_of_a_check() -> None:
    """A check carries the text with either the requirements or the error, and nothing for an empty text."""
    assert field_selector("") is NO_SELECTOR
    assert label_selector("a") == Selector("a", (Requirement("a", "exists"),))
    assert field_selector("a") == Selector("a", (), "invalid selector: 'a'; can't understand 'a'")
