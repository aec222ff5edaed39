"""Globs: only `*` and `?` are special, in the service and in the API server's expressions alike."""

import re

import pytest

from policies.glob import expression, matches


@pytest.mark.parametrize(
    ("value", "globs", "matched"),
    [
        pytest.param("a", ("b", "a"), True, id="exact"),
        pytest.param("a", ("b",), False, id="another"),
        pytest.param("a", (), False, id="no-globs"),
        pytest.param("", ("",), True, id="empty"),
        pytest.param("", ("*",), True, id="star-is-nothing"),
        pytest.param("team-a", ("team-*",), True, id="star"),
        pytest.param("my-team-a", ("team-*",), False, id="whole-value-from-the-start"),
        pytest.param("team-a", ("*am",), False, id="whole-value-to-the-end"),
        pytest.param("a/b:c", ("a*c",), True, id="star-over-separators"),
        pytest.param("ab", ("a?",), True, id="one-character"),
        pytest.param("a", ("a?",), False, id="one-character-missing"),
        pytest.param("Team", ("team",), False, id="case"),
        pytest.param("a.b", ("a.b",), True, id="dot"),
        pytest.param("axb", ("a.b",), False, id="dot-is-a-dot"),
        pytest.param("a[1]", ("a[1]",), True, id="brackets"),
        pytest.param("a1", ("a[1]",), False, id="brackets-are-no-class"),
        pytest.param("a|b", ("a|b",), True, id="bar"),
        pytest.param("a", ("a|b",), False, id="bar-is-no-alternative"),
        pytest.param("a\\b", ("a\\b",), True, id="backslash"),
        pytest.param("a\n", ("a",), False, id="line-break-at-the-end"),
    ],
)
def test_globs(value: str, globs: tuple[str, ...], matched: bool) -> None:  # noqa: FBT001
    """One glob that matches the whole value is enough, and its regular expression matches the same."""
    alternatives = "|".join(f"(?:{expression(glob)})" for glob in globs) or "(?!)"

    assert matches(value, globs) is matched
    assert (re.fullmatch(alternatives, value) is not None) is matched
