"""Small texts against plain specifications: reserved prefixes, field paths, quantities, globs, warnings."""

import re
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import FACTS, pod

from policies.engine.violation import one_line, printable, quote, squeezed
from policies.kubernetes.name import glob_expression, matches_glob
from policies.labels import is_reserved
from policies.matchconditions import RESERVED
from policies.objects.fieldpath import Location, Pattern, Wildcard, locate, lookup, parse, render
from policies.podspec import Accelerators
from properties.shapes import bounded, everywhere, json_values

_DNS_LABELS = st.sampled_from(["coreweave", "cloud", "com", "foo", "notcoreweave", "example", "", "coreweave.cloud"])
_PREFIXES = st.lists(_DNS_LABELS, max_size=4).map(".".join)
_LABEL_KEYS = st.one_of(
    st.tuples(_PREFIXES, st.sampled_from(["/", "", "//"]), st.one_of(_PREFIXES, st.text(max_size=5))).map("".join),
    st.text(max_size=20),
)
_PLAIN_KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True)
_STEPS = st.one_of(st.sampled_from("abc"), st.sampled_from(list(Wildcard)))


@bounded
@given(_LABEL_KEYS)
def test_reserved_prefixes(key: str) -> None:
    """A key is reserved when its prefix, cut at dots, ends in one of the two domains; the condition agrees."""
    prefix, *name = key.split("/", 1)
    domains = (["coreweave", "cloud"], ["coreweave", "com"])
    specified = bool(name) and prefix.split(".")[-2:] in domains

    assert is_reserved(key) is specified
    assert (re.search(RESERVED.split("'")[1], key) is not None) is specified


@bounded
@given(st.lists(st.one_of(_PLAIN_KEYS, st.sampled_from(list(Wildcard))), max_size=6))
def test_patterns_are_read_as_they_were_written(steps: list[str | Wildcard]) -> None:
    """Any pattern that begins with a key comes back from its text."""
    pattern: Pattern = ("spec", *steps)

    assert parse(render(pattern)) == pattern


@bounded
@given(st.text(alphabet="ab.*[]0 /", max_size=12))
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    """Reading ends in a pattern or in an error that names a position within the text, and never in anything else."""
    try:
        parse(text)
    except ValueError as error:
        position = re.search(r"from position (\d+) on", str(error))
        assert position is not None
        assert 0 <= int(position[1]) < len(text)


def _names(pattern: Pattern, location: Location) -> bool:
    return len(pattern) == len(location) and all(
        isinstance(found, int)
        if step is Wildcard.ITEMS
        else isinstance(found, str) and step in (Wildcard.VALUES, found)
        for step, found in zip(pattern, location, strict=True)
    )


_TREES = st.recursive(
    st.one_of(st.none(), st.integers(0, 1)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=12,
)


@bounded
@given(_TREES, st.lists(_STEPS, max_size=4).map(tuple))
def test_places_are_found(value: Any, pattern: Pattern) -> None:
    """A pattern finds, of all places there are, those that it names, and looking one up gives what was found."""
    found = list(locate(value, pattern))

    assert found == [(location, child) for location, child in everywhere(value) if _names(pattern, location)]
    assert [lookup(value, location) for location, _ in found] == [child for _, child in found]


@bounded
@given(json_values, st.lists(st.one_of(st.integers(0, 3), st.text(max_size=2)), max_size=4).map(tuple))
def test_looking_up_never_fails(value: Any, location: Location) -> None:
    """Whatever is asked of whatever object, there is something at the location or nothing."""
    there = [child for at, child in everywhere(value) if at == location and [*map(type, at)] == [*map(type, location)]]

    assert lookup(value, location) == (there[0] if there else None)


_NUMBERS = st.from_regex(r"[+-]?([0-9]{1,4}(\.[0-9]{0,4})?|\.[0-9]{1,4})", fullmatch=True, alphabet="0123456789+-.")
_SUFFIXES = st.one_of(
    st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    st.from_regex(r"[eE][+-]?[0-9]{1,2}", fullmatch=True),
)


@bounded
@given(_NUMBERS, _SUFFIXES)
def test_quantities(number: str, suffix: str) -> None:
    """A quantity asks for an accelerator when its number is above zero: no suffix makes nothing of something."""
    requested = Accelerators().requested(pod({"nvidia.com/gpu": number + suffix}), "default", FACTS)

    assert requested is (Decimal(number) > 0)


@bounded
@given(json_values)
def test_any_quantity(quantity: Any) -> None:
    """A quantity of any type or text is an answer, not a failure, and only numbers and texts ask for anything."""
    requested = Accelerators().requested(pod({"nvidia.com/gpu": quantity}), "default", FACTS)

    assert requested is False or isinstance(quantity, int | float | str)


def _glob_matches(glob: str, value: str) -> bool:
    if not glob:
        return not value
    if glob[0] == "*":
        return _glob_matches(glob[1:], value) or (bool(value) and _glob_matches(glob, value[1:]))
    return bool(value) and glob[0] in ("?", value[0]) and _glob_matches(glob[1:], value[1:])


@bounded
@given(st.text(alphabet="ab*?[.]\\|", max_size=5), st.text(alphabet="ab[.]\\|", max_size=5))
def test_globs(glob: str, value: str) -> None:
    """Only `*` and `?` are special; the service and the regular expression for the API server agree."""
    assert matches_glob(value, [glob]) is _glob_matches(glob, value)
    assert (re.search(f"^({glob_expression(glob)})$", value) is not None) is _glob_matches(glob, value)


@bounded
@given(st.text(st.characters(), max_size=200))
def test_warnings_are_fit_to_travel(text: str) -> None:
    """Of any text there is one printable line of 120 characters at most, and of that line the same again."""
    line = one_line(text)

    longer = squeezed(text)
    assert (line.isprintable(), len(line) <= 120, one_line(line)) == (True, True, line)
    assert (longer.isprintable(), len(longer) <= 250, squeezed(longer)) == (True, True, longer)
    assert (printable(text).isprintable(), printable(text) == text) == (True, text.isprintable())


@bounded
@given(st.text(st.characters(), max_size=100))
def test_quoted_values(text: str) -> None:
    """A quoted value is printable, and its quotes are the only ones that are not escaped."""
    quoted = quote(text)

    assert quoted.isprintable()
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', quoted) is not None
