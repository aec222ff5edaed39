"""Writing CEL: literals that hold what they were given, and steps that no odd object makes fail."""

import re

import pytest

from policies.celtext import by_kind, every, globs, let, pairs, some, steps, text, texts, value
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


def test_lists_of_literals() -> None:
    """A list holds its literals in order, and may be empty."""
    assert (texts(["a", "b'"]), texts([])) == (r"['a', 'b\'']", "[]")


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


def test_paths() -> None:
    """A path is a chain of optional steps whose value is null where it ends early; the object itself is itself."""
    pattern = parse("spec.template")

    assert (steps("o", pattern), value("o", pattern)) == ("o.?spec.?template", "o.?spec.?template.orValue(null)")
    assert (steps("o", ()), value("o", ())) == ("o", "o")


@pytest.mark.parametrize(
    ("path", "written"),
    [
        pytest.param("", "[[object, oldObject]]", id="the-object"),
        pytest.param(
            "spec.template",
            "[[object.?spec.?template.orValue(null), oldObject.?spec.?template.orValue(null)]]",
            id="one-place",
        ),
        pytest.param(
            "spec.tasks[*].template",
            (
                "(type(object.?spec.?tasks.orValue(null)) == list ? object.?spec.?tasks.orValue([]) : [])"
                ".transformList(i, c, [c.?template.orValue(null),"
                " oldObject.?spec.?tasks[?i].?template.orValue(dyn(null))])"
            ),
            id="items",
        ),
        pytest.param(
            "spec.replicas.*",
            (
                "(type(object.?spec.?replicas.orValue(null)) == map ? object.?spec.?replicas.orValue({}) : {})"
                ".transformList(i, c, [c, oldObject.?spec.?replicas[?i].orValue(dyn(null))])"
            ),
            id="values",
        ),
    ],
)
def test_pairs(path: str, written: str) -> None:
    """Each place is a pair of what stands there now and before; what is no list or map there has no places."""
    assert pairs(parse(path)) == written


def test_several_wildcards() -> None:
    """Each comprehension in another has an index of its own, since an old value is looked up by all of them."""
    written = pairs(parse("spec.groups[*].workers.*.tasks[*].template"))
    indexes = re.findall(r"transformList\((\w+),", written)

    assert (len(indexes), len(set(indexes)), "Wildcard" in written) == (3, 3, False)


def test_connectives() -> None:
    """Clauses are joined in order; of no clauses none is true, and all are."""
    assert (every(["a", "b"]), some(["a", "b"]), some([]), some(["a", "b"], " ||\n ")) == (
        "a && b",
        "(a || b)",
        "false",
        "(a ||\n b)",
    )
    assert let("x", "1 + 1", "x > 1") == "[1 + 1].exists(x,\nx > 1)"
    assert by_kind([(["a/B", "a/C"], "[1]"), (["/D"], "[2]")]) == (
        "kind in ['a/B', 'a/C'] ? [1] :\n  kind in ['/D'] ? [2] :\n  []"
    )
    assert by_kind([]) == "[]"


@pytest.mark.parametrize(
    ("patterns", "written"),
    [
        pytest.param(["a"], "'^(a)$'", id="name"),
        pytest.param(["a-*", "b?"], r"'^(a\\-.*|b.)$'", id="globs"),
        pytest.param(["a.b|c"], r"'^(a\\.b\\|c)$'", id="special-characters"),
        pytest.param(["a'b\\c"], r"'^(a\'b\\\\c)$'", id="quote-and-backslash"),
    ],
)
def test_expressions_of_globs(patterns: list[str], written: str) -> None:
    """Globs are one anchored expression, escaped for the expression first and for the literal then."""
    assert globs(patterns) == written
