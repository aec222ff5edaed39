"""Functions on texts and lists of any size, and against the standard library. tests/conformance has their answers."""

from __future__ import annotations

import re
from fractions import Fraction
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.celrun import Failed, usually

from policies.cel import types
from policies.cel.library.regex import _public, compile_pattern
from policies.cel.values import NONE, CelError, Duration, Optional, Timestamp, Uint, shown

MANTISSAS = st.integers(-(10**14), 10**14)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "e3"])
SCALES = {"": 0, "m": -3, "k": 3, "M": 6, "e3": 3}
TOO_EXPENSIVE = Failed("operation cancelled: actual cost limit exceeded")
THOUSAND = [1] * 1000
DEEP = [[["a" * 1000] * 1000] * 1000] * 1000


def value(text: str, **fields: Any) -> Any:
    """Return the value of an expression about an object with these fields, or its failure."""
    return usually(text, fields)[0]


@pytest.mark.parametrize("sign", ["a", "a.", "-", "é"])
def test_formats_of_long_texts(sign: str) -> None:
    """Checks of long texts end in messages."""
    text = "format.named(object.f).value().validate(object.t).hasValue()"
    names = ("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uuid", "date")
    assert [value(text, f=name, t=sign * 20_000 + "!") for name in names] == [True] * len(names)


@pytest.mark.parametrize(
    "text", ["http://" + "a" * 1_000_000, "http://a/" + "é" * 100_000, "/\ud800", "http://[" + "%25" * 100_000], ids=len
)
def test_long_urls(text: str) -> None:
    """A long text, and one with a lone surrogate, is read without trouble."""
    assert value("isURL(object.t)", t=text) is not text.startswith("http://[")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("9" * 1_000_000, True, id="digits"),
        pytest.param("0" * 1_000_000 + "x", False, id="zeros and a letter"),
        pytest.param("1" * 1_000_000 + "x", False, id="digits and a letter"),
        pytest.param("1e2147483647", True, id="exponent"),
    ],
)
def test_long_quantities(text: str, expected: bool) -> None:  # noqa: FBT001 - the result of the call
    """A long text, or a huge exponent, takes no time worth mentioning."""
    assert value("isQuantity(object.t) && quantity('1').isLessThan(quantity(object.t))", t=text) is expected


def test_quantities_too_far_apart() -> None:
    """A sum that would take gigabytes is refused, which the reference would try to compute."""
    failed = value("quantity(object.t).add(quantity('1'))", t="1e2147483647")
    assert failed == Failed("quantities are too far apart to add")


@given(MANTISSAS, SUFFIXES, MANTISSAS, SUFFIXES)
def test_arithmetic_of_quantities_is_exact(left: int, left_suffix: str, right: int, right_suffix: str) -> None:
    """Sums and comparisons are those of the rational numbers."""
    sides = {"a": f"{left}{left_suffix}", "b": f"{right}{right_suffix}"}
    one, other = left * Fraction(10) ** SCALES[left_suffix], right * Fraction(10) ** SCALES[right_suffix]
    assert value("quantity(object.a).compareTo(quantity(object.b))", **sides) == (one > other) - (one < other)
    total = value("quantity(object.a).add(quantity(object.b))", **sides)
    assert Fraction(total.amount.decimal) == one + other


@given(st.ip_addresses())
def test_addresses(address: object) -> None:
    """Every address is read from its usual text and written so again, unless it is IPv4 inside IPv6."""
    text = str(address)
    if getattr(ip_address(text), "ipv4_mapped", None) is None:
        assert value("string(ip(object.t))", t=text) == text
        assert value("ip.isCanonical(object.t)", t=text) is True


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_networks(address: object, length: int) -> None:
    """A masked network is the usual one, and contains the address that it was made of."""
    text = f"{address}/{length}"
    assert value("string(cidr(object.t).masked())", t=text) == str(ip_network(text, strict=False))
    assert value("cidr(object.t).containsIP(object.a)", t=text, a=str(address)) is True


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("object.l.flatten(2)", {"l": [[THOUSAND] * 1000] * 1000}, id="flatten"),
        pytest.param("object.t.replace('', object.t)", {"t": "a" * 10_000}, id="replace"),
        pytest.param("'%s%s'.format([object.l, object.l])", {"l": DEEP}, id="format of lists that share their parts"),
    ],
)
def test_results_are_bounded(text: str, fields: dict[str, Any]) -> None:
    """A result that would cost more to read than an evaluation may is not made."""
    assert value(text, **fields) == TOO_EXPENSIVE


def test_the_search_from_the_end_is_quick() -> None:
    """A text that nearly matches everywhere is searched in a time by its length, not by its square."""
    assert value("object.t.lastIndexOf(object.s)", t="a" * 400_000, s="b" + "a" * 200_000) == -1
    assert value("object.t.lastIndexOf(object.s)", t="xab" + "a" * 400_000, s="ab" + "a" * 10) == 1


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("app(", "missing ): app("),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("[z-a]", "invalid character class range: z-a"),
        ("(?=a)", "invalid perl operator: (?="),
        ("\\8", "invalid escape sequence: \\8"),
        (r"\pL{20}", "pattern too large - compile failed (repeat less, or compare size() instead)"),
        ("a" * 10_001, "it has 10001 characters, and may have 10000"),
    ],
)
def test_refused_patterns(pattern: str, reason: str) -> None:
    """What RE2 refuses is refused with its reason, which find() and findAll() put something before."""
    failed = f"error parsing regexp: {reason}"
    calls = (f"'a'.{name}(object.p)" for name in ("matches", "find", "findAll"))
    assert [value(call, p=pattern) for call in calls] == [
        Failed(failed),
        *[Failed(f"Illegal regex: {failed}")] * 2,
    ]


@given(st.text(), st.text(), st.sampled_from(["", "^"]), st.sampled_from(["", "$"]))
def test_plain_texts(text: str, plain: str, start: str, end: str) -> None:
    """Expressions without operators match as those of the standard library do."""
    pattern = f"{start}{re.escape(plain)}{end.replace('$', chr(92) + 'Z')}"
    expected = re.search(pattern, text + plain) is not None
    go = f"{start}{''.join(chr(92) + each if each in '.^$*+?()[]{}|' + chr(92) else each for each in plain)}{end}"
    assert compile_pattern(go).matches(text + plain) is expected


def test_without_the_raw_object() -> None:
    """The package's public functions, used where its private object is missing, find the same places."""
    search, matches = _public("b[c-e]+")
    assert (matches("abcd"), matches("ab")) == (True, False)
    assert [search(b"abcd bc", start) for start in (0, 3, 6)] == [(1, 4), (5, 7), None]


def test_lone_surrogates() -> None:
    """A lone surrogate counts as U+FFFD, as it would after Go's decoding of JSON."""
    assert compile_pattern("a.b").matches("a\ud800b") is True
    assert compile_pattern(".").find_all("\ud800\udfff") == ["\ufffd", "\ufffd"]
    assert compile_pattern("\ud800+").find("a\ufffd") == "\ufffd"


def test_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2 writes nothing to stderr."""
    with pytest.raises(CelError):
        compile_pattern("(")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "[[:" * 100_000, "(a|" * 100_000, "a" * 100_000, "(?P<a" * 100_000], ids=len
)
def test_hostile_patterns(pattern: str) -> None:
    """A long or nested expression is accepted or refused in time that grows with its length only."""
    value("object.t.find(object.p)", t="a" * 100_000, p=pattern)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (Uint(5), "5"),
        (1e20, "1e+20"),
        (b"ab", "[97 98]"),
        ([1, None, 1.5, "x", [True], {"b": 2, "a": None}], "[1, null, 1.5, x, [true], {b: 2, a: null}]"),
        (Duration(5_400_000_000_000), "1h30m0s"),
        (Timestamp(250_000_000), "1970-01-01T00:00:00.25Z"),
        (Optional("x"), "optional(x)"),
        (NONE, "optional.none()"),
        ([types.INT, types.LIST, types.MAP, types.NULL], "[int, list(dyn), map(dyn, dyn), null_type]"),
    ],
)
def test_shown(of: Any, expected: str) -> None:
    """Values appear in messages as Go prints them; lists and maps are of dyn while a program runs."""
    assert shown(of) == expected
