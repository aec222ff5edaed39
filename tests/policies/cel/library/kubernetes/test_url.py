"""URLs. Expected values are those of the Go reference."""

# ruff: noqa: E501 - the messages of the reference stay in one piece

from __future__ import annotations

import pytest
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.url import LIBRARY, parse

READ = [
    ("url", "", 'error: URL parse error during conversion from string: parse "": empty url'),
    ("isURL", "", False),
    ("url", "*", "*"),
    ("isURL", "*", True),
    ("url", "/a", "/a"),
    ("isURL", "/a", True),
    ("url", "a", 'error: URL parse error during conversion from string: parse "a": invalid URI for request'),
    ("isURL", "a", False),
    ("url", "http://", "http:"),
    ("isURL", "http://", True),
    (
        "url",
        "http://a:b",
        'error: URL parse error during conversion from string: parse "http://a:b": invalid port ":b" after host',
    ),
    ("isURL", "http://a:b", False),
    (
        "url",
        "http://a:1:2",
        'error: URL parse error during conversion from string: parse "http://a:1:2": invalid port ":1:2" after host',
    ),
    ("isURL", "http://a:1:2", False),
    ("url", "x://a:1:2", "x://a:1:2"),
    ("isURL", "x://a:1:2", True),
    ("url", "http://[::1]:80/p?q", "http://[::1]:80/p?q"),
    ("isURL", "http://[::1]:80/p?q", True),
    (
        "url",
        "http://[::1",
        "error: URL parse error during conversion from string: parse \"http://[::1\": missing ']' in host",
    ),
    ("isURL", "http://[::1", False),
    (
        "url",
        "http://[1.2.3.4]",
        'error: URL parse error during conversion from string: parse "http://[1.2.3.4]": invalid IP-literal',
    ),
    ("isURL", "http://[1.2.3.4]", False),
    ("url", "http://[fe80::1%25en0]", "http://[fe80::1%25en0]"),
    ("isURL", "http://[fe80::1%25en0]", True),
    (
        "url",
        "http://[x]",
        'error: URL parse error during conversion from string: parse "http://[x]": invalid host: ParseAddr("x"): unable to parse IP',
    ),
    ("isURL", "http://[x]", False),
    ("url", "http://u:p%41@h/", "http://u:pA@h/"),
    ("isURL", "http://u:p%41@h/", True),
    (
        "url",
        "http://u%zz@h",
        'error: URL parse error during conversion from string: parse "http://u%zz@h": invalid URL escape "%zz"',
    ),
    ("isURL", "http://u%zz@h", False),
    (
        "url",
        "http://a b",
        'error: URL parse error during conversion from string: parse "http://a b": invalid character " " in host name',
    ),
    ("isURL", "http://a b", False),
    (
        "url",
        "http://a/%zz",
        'error: URL parse error during conversion from string: parse "http://a/%zz": invalid URL escape "%zz"',
    ),
    ("isURL", "http://a/%zz", False),
    ("url", "http://a/%41%2f", "http://a/%41%2f"),
    ("isURL", "http://a/%41%2f", True),
    ("url", "http://a/é ü", "http://a/%C3%A9%20%C3%BC"),
    ("isURL", "http://a/é ü", True),
    (
        "url",
        "http://%41/",
        'error: URL parse error during conversion from string: parse "http://%41/": invalid URL escape "%41"',
    ),
    ("isURL", "http://%41/", False),
    ("url", "http://a?x=1&y=2&x=3", "http://a?x=1&y=2&x=3"),
    ("isURL", "http://a?x=1&y=2&x=3", True),
    (
        "url",
        "http://a/#%zz",
        'error: URL parse error during conversion from string: parse "http://a/#%zz": invalid URL escape "%zz"',
    ),
    ("isURL", "http://a/#%zz", False),
    (
        "url",
        "\x01",
        'error: URL parse error during conversion from string: parse "\\x01": net/url: invalid control character in URL',
    ),
    ("isURL", "\x01", False),
    ("url", ":", 'error: URL parse error during conversion from string: parse ":": missing protocol scheme'),
    ("isURL", ":", False),
    ("url", "HTTP://A/B#f", "http://A/B#f"),
    ("isURL", "HTTP://A/B#f", True),
    ("url", "mailto:a@b", "mailto:a@b"),
    ("isURL", "mailto:a@b", True),
    (
        "url",
        "http://ü@h",
        'error: URL parse error during conversion from string: parse "http://ü@h": net/url: invalid userinfo',
    ),
    ("isURL", "http://ü@h", False),
    ("url", "http://%ff/", "http://%FF/"),
    ("isURL", "http://%ff/", True),
]
MEMBERS = [
    ("getScheme", "http://[::1]:80/p?q", "http"),
    ("getHost", "http://[::1]:80/p?q", "[::1]:80"),
    ("getHostname", "http://[::1]:80/p?q", "::1"),
    ("getPort", "http://[::1]:80/p?q", "80"),
    ("getEscapedPath", "http://[::1]:80/p?q", "/p"),
    ("getQuery", "http://[::1]:80/p?q", {"q": [""]}),
    ("getScheme", "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f", "http"),
    ("getHost", "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f", "Example.com:8080"),
    ("getHostname", "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f", "Example.com"),
    ("getPort", "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f", "8080"),
    ("getEscapedPath", "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f", "/a%2fb/%41"),
    (
        "getQuery",
        "HTTP://u:p@Example.com:8080/a%2fb/%41?x=1&y=2&x=3&z&%zz&a;b#f",
        {"x": ["1", "3"], "y": ["2"], "z": [""]},
    ),
    ("getScheme", "mailto:a@b", "mailto"),
    ("getHost", "mailto:a@b", ""),
    ("getHostname", "mailto:a@b", ""),
    ("getPort", "mailto:a@b", ""),
    ("getEscapedPath", "mailto:a@b", ""),
    ("getQuery", "mailto:a@b", {}),
    ("getScheme", "/a b/é?q=%ff+1", ""),
    ("getHost", "/a b/é?q=%ff+1", ""),
    ("getHostname", "/a b/é?q=%ff+1", ""),
    ("getPort", "/a b/é?q=%ff+1", ""),
    ("getEscapedPath", "/a b/é?q=%ff+1", "/a%20b/%C3%A9"),
    ("getQuery", "/a b/é?q=%ff+1", {"q": ["� 1"]}),
    ("getScheme", "http://[fe80::1%25en0]", "http"),
    ("getHost", "http://[fe80::1%25en0]", "[fe80::1%en0]"),
    ("getHostname", "http://[fe80::1%25en0]", "fe80::1%en0"),
    ("getPort", "http://[fe80::1%25en0]", ""),
    ("getEscapedPath", "http://[fe80::1%25en0]", ""),
    ("getQuery", "http://[fe80::1%25en0]", {}),
]


@pytest.mark.parametrize(("name", "text", "expected"), READ)
def test_reading(name: str, text: str, expected: object) -> None:
    """A text is read and written as the reference does, or refused in its words."""
    assert answer(LIBRARY, name, text) == expected


@pytest.mark.parametrize(("name", "text", "expected"), MEMBERS)
def test_members(name: str, text: str, expected: object) -> None:
    """The parts of a URL are the reference's."""
    assert answer(LIBRARY, name, parse(text)) == expected


def test_equality() -> None:
    """URLs are equal if written alike; another type is an error."""
    assert parse("http://a").cel_equal(parse("HTTP://a")) is True
    assert (parse("/a") == parse("/b"), hash(parse("http://a")) == hash(parse("HTTP://a"))) == (False, True)
    with pytest.raises(CelError, match=r"^no such overload$"):
        parse("/a").cel_equal("/a")


def test_cost() -> None:
    """Reading costs a tenth of the length, everything else 1, the check of a text included."""
    long = "http://example.com"
    assert (charged(LIBRARY, "url", long), charged(LIBRARY, "isURL", long)) == (2, 1)
    assert charged(LIBRARY, "getHost", parse(long)) == 1


@pytest.mark.parametrize(
    "text", ["http://" + "a" * 1_000_000, "http://a/" + "é" * 100_000, "/\ud800", "http://[" + "%25" * 100_000]
)
def test_hostile_texts(text: str) -> None:
    """A long text, and one with a lone surrogate, is read without trouble."""
    assert answer(LIBRARY, "isURL", text) is not text.startswith("http://[")
