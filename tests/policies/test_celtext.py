"""Writing CEL: literals that hold what they were given, and steps that no odd object makes fail."""

import re

import pytest

from policies.celtext import pairs, steps, text
from policies.objects.fieldpath import parse


@pytest.mark.parametrize(
    ("literal", "written"),
    [
        pytest.param("a", "'a'", id="plain"),
        pytest.param("", "''", id="empty"),
        pytest.param("it's", r"'it\'s'", id="quote"),
        pytest.param('say "x"', "'say \"x\"'", id="double-quotes"),
        pytest.param("a\\b", r"'a\\b'", id="backslash"),
        pytest.param("\\", r"'\\'", id="backslash-at-the-end"),
        pytest.param("\\'", r"'\\\''", id="backslash-and-quote"),
        pytest.param("größe", "'größe'", id="letters"),
        pytest.param("a\nb", r"'a\nb'", id="line-break"),
        pytest.param("a\rb", r"'a\rb'", id="carriage-return"),
    ],
)
def test_literals(literal: str, written: str) -> None:
    """A literal ends where it should, whatever it holds: CEL takes no line break between single quotes."""
    assert text(literal) == written


@pytest.mark.parametrize(
    ("key", "written"),
    [
        pytest.param("spec", "object.?spec", id="identifier"),
        pytest.param("_x1", "object.?_x1", id="underscore"),
        pytest.param("my-key", "object[?'my-key']", id="hyphen"),
        pytest.param("1st", "object[?'1st']", id="digit-first"),
        pytest.param("namespace", "object[?'namespace']", id="keyword"),
        pytest.param("in", "object[?'in']", id="operator"),
        pytest.param("a'b", r"object[?'a\'b']", id="quote"),
        pytest.param("größe", "object[?'größe']", id="letters-beyond-ascii"),
    ],
)
def test_steps(key: str, written: str) -> None:
    """A key that is no identifier of CEL is written as an index, and every step is optional."""
    assert steps("object", (key,)) == written


def test_several_wildcards() -> None:
    """Each comprehension in another has an index of its own, since an old value is looked up by all of them."""
    written = pairs(parse("spec.groups[*].workers.*.tasks[*].template"))
    indexes = re.findall(r"transformList\((\w+),", written)

    assert (len(indexes), len(set(indexes)), "Wildcard" in written) == (3, 3, False)
