"""Names as Kubernetes judges them; the words are compared in tests/conformance/edges.yaml."""

import re

import pytest

from policies.kubernetes.name import dns_label, dns_subdomain, glob_expression, matches_glob
from policies.kubernetes.spelling import closest, closest_first, did_you_mean, with_article


@pytest.mark.parametrize(
    ("name", "label", "subdomain"),
    [
        pytest.param("team-a", True, True, id="label"),
        pytest.param("a.b", False, True, id="dots"),
        pytest.param("", False, False, id="empty"),
        pytest.param("A", False, False, id="upper-case"),
        pytest.param("a\n", False, False, id="line-break"),
        pytest.param("a-", False, False, id="dash-at-the-end"),
        pytest.param(64 * "a", False, True, id="64"),
        pytest.param(254 * "a", False, False, id="254"),
    ],
)
def test_names(name: str, label: bool, subdomain: bool) -> None:  # noqa: FBT001 (a table's columns)
    """Names are those of DNS labels and subdomains, with their lengths."""
    assert (not dns_label(name), not dns_subdomain(name)) == (label, subdomain)


def test_names_by_likeness() -> None:
    """What is most like a misspelled name comes first, the others keep their order; a name like none has no nearest."""
    names = ["region", "zone", "superpod", "superpods"]

    assert closest_first("superpodd", names) == ["superpod", "superpods", "region", "zone"]
    assert closest_first("x", names) == names
    assert (closest("zne", names), closest("x", names)) == ("zone", "")


def test_case_makes_no_difference() -> None:
    """A name in other letters is the nearest there is."""
    assert closest("SUPERPOD", ["superpods", "superPod"]) == "superPod"


def test_hint() -> None:
    """A hint names the nearest name, or says what else there is to say."""
    known = ("Deny", "Warn")
    hints = [did_you_mean(name, known, "write one") for name in ("deny", "x")]
    assert hints == ["did you mean Deny?", "write one"]


def test_articles() -> None:
    """A noun that begins with a vowel has the other article."""
    assert [with_article(noun) for noun in ("rack", "accelerator", "")] == ["a rack", "an accelerator", "a "]


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
    alternatives = "|".join(f"(?:{glob_expression(glob)})" for glob in globs) or "(?!)"

    assert matches_glob(value, globs) is matched
    assert (re.fullmatch(alternatives, value) is not None) is matched
