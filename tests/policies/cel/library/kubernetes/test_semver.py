"""Versions. Expected values are those of the Go reference."""

from __future__ import annotations

import pytest
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.semver import LIBRARY, parse

READ: list[tuple[object, ...]] = [
    ("semver", "1.2.3", "1.2.3"),
    ("semver", "1.2.3", True, "1.2.3"),
    ("isSemver", "1.2.3", True),
    ("isSemver", "1.2.3", True, True),
    ("semver", "", "error: Version string empty"),
    ("semver", "", True, 'error: strconv.ParseUint: parsing "": invalid syntax'),
    ("isSemver", "", False),
    ("isSemver", "", True, False),
    ("semver", "1", "error: No Major.Minor.Patch elements found"),
    ("semver", "1", True, "1.0.0"),
    ("isSemver", "1", False),
    ("isSemver", "1", True, True),
    ("semver", "1.2", "error: No Major.Minor.Patch elements found"),
    ("semver", "1.2", True, "1.2.0"),
    ("isSemver", "1.2", False),
    ("isSemver", "1.2", True, True),
    ("semver", "v1.2.3", 'error: Invalid character(s) found in major number "v1"'),
    ("semver", "v1.2.3", True, "1.2.3"),
    ("isSemver", "v1.2.3", False),
    ("isSemver", "v1.2.3", True, True),
    ("semver", "v01.02", "error: No Major.Minor.Patch elements found"),
    ("semver", "v01.02", True, "1.2.0"),
    ("isSemver", "v01.02", False),
    ("isSemver", "v01.02", True, True),
    ("semver", "1.2.3-a.1+b.2", "1.2.3-a.1+b.2"),
    ("semver", "1.2.3-a.1+b.2", True, "1.2.3-a.1+b.2"),
    ("isSemver", "1.2.3-a.1+b.2", True),
    ("isSemver", "1.2.3-a.1+b.2", True, True),
    ("semver", "1.2.3-01", 'error: Numeric PreRelease version must not contain leading zeroes "01"'),
    ("semver", "1.2.3-01", True, 'error: Numeric PreRelease version must not contain leading zeroes "01"'),
    ("isSemver", "1.2.3-01", False),
    ("isSemver", "1.2.3-01", True, False),
    ("semver", "1.2.3-", "error: Prerelease is empty"),
    ("semver", "1.2.3-", True, "error: Prerelease is empty"),
    ("isSemver", "1.2.3-", False),
    ("isSemver", "1.2.3-", True, False),
    ("semver", "1.2.3+", "error: Build meta data is empty"),
    ("semver", "1.2.3+", True, "error: Build meta data is empty"),
    ("isSemver", "1.2.3+", False),
    ("isSemver", "1.2.3+", True, False),
    ("semver", "01.2.3", 'error: Major number must not contain leading zeroes "01"'),
    ("semver", "01.2.3", True, "1.2.3"),
    ("isSemver", "01.2.3", False),
    ("isSemver", "01.2.3", True, True),
    ("semver", "a.2.3", 'error: Invalid character(s) found in major number "a"'),
    ("semver", "a.2.3", True, 'error: Invalid character(s) found in major number "a"'),
    ("isSemver", "a.2.3", False),
    ("isSemver", "a.2.3", True, False),
    ("semver", "1.2.3-a_b", 'error: Invalid character(s) found in prerelease "a_b"'),
    ("semver", "1.2.3-a_b", True, 'error: Invalid character(s) found in prerelease "a_b"'),
    ("isSemver", "1.2.3-a_b", False),
    ("isSemver", "1.2.3-a_b", True, False),
    (
        "semver",
        "18446744073709551616.0.0",
        'error: strconv.ParseUint: parsing "18446744073709551616": value out of range',
    ),
    (
        "semver",
        "18446744073709551616.0.0",
        True,
        'error: strconv.ParseUint: parsing "18446744073709551616": value out of range',
    ),
    ("isSemver", "18446744073709551616.0.0", False),
    ("isSemver", "18446744073709551616.0.0", True, False),
    ("semver", "1..3", 'error: strconv.ParseUint: parsing "": invalid syntax'),
    ("semver", "1..3", True, 'error: strconv.ParseUint: parsing "": invalid syntax'),
    ("isSemver", "1..3", False),
    ("isSemver", "1..3", True, False),
    ("semver", "1-a", "error: No Major.Minor.Patch elements found"),
    ("semver", "1-a", True, "error: short version cannot contain PreRelease/Build meta data"),
    ("isSemver", "1-a", False),
    ("isSemver", "1-a", True, False),
    ("semver", "1.2.3-é", 'error: Invalid character(s) found in prerelease "é"'),
    ("semver", "1.2.3-é", True, 'error: Invalid character(s) found in prerelease "é"'),
    ("isSemver", "1.2.3-é", False),
    ("isSemver", "1.2.3-é", True, False),
]
PAIRS = [
    ("compareTo", "1.2.3", "1.2.3+x", 0),
    ("isLessThan", "1.2.3", "1.2.3+x", False),
    ("isGreaterThan", "1.2.3", "1.2.3+x", False),
    ("compareTo", "1.2.3-rc.1", "1.2.3", -1),
    ("isLessThan", "1.2.3-rc.1", "1.2.3", True),
    ("isGreaterThan", "1.2.3-rc.1", "1.2.3", False),
    ("compareTo", "1.2.3-rc.2", "1.2.3-rc.10", -1),
    ("isLessThan", "1.2.3-rc.2", "1.2.3-rc.10", True),
    ("isGreaterThan", "1.2.3-rc.2", "1.2.3-rc.10", False),
    ("compareTo", "1.2.3-1", "1.2.3-a", -1),
    ("isLessThan", "1.2.3-1", "1.2.3-a", True),
    ("isGreaterThan", "1.2.3-1", "1.2.3-a", False),
    ("compareTo", "1.10.0", "1.9.0", 1),
    ("isLessThan", "1.10.0", "1.9.0", False),
    ("isGreaterThan", "1.10.0", "1.9.0", True),
    ("compareTo", "1.2.3-a", "1.2.3-a.0", -1),
    ("isLessThan", "1.2.3-a", "1.2.3-a.0", True),
    ("isGreaterThan", "1.2.3-a", "1.2.3-a.0", False),
]
MEMBERS = [
    ("major", "1.2.3-a", 1),
    ("minor", "1.2.3-a", 2),
    ("patch", "1.2.3-a", 3),
    ("major", "9223372036854775808.1.0", -9223372036854775808),
    ("minor", "9223372036854775808.1.0", 1),
    ("patch", "9223372036854775808.1.0", 0),
]


@pytest.mark.parametrize("case", READ, ids=str)
def test_reading(case: tuple[object, ...]) -> None:
    """A text is read as the reference reads it, after normalisation if that is asked for, or refused in its words."""
    name, *arguments, expected = case
    assert answer(LIBRARY, str(name), *arguments) == expected


@pytest.mark.parametrize(("name", "left", "right", "expected"), PAIRS)
def test_pairs(name: str, left: str, right: str, expected: object) -> None:
    """Versions are ordered by their numbers and what comes before the release, not by the build."""
    assert answer(LIBRARY, name, parse(left), parse(right)) == expected


@pytest.mark.parametrize(("name", "text", "expected"), MEMBERS)
def test_members(name: str, text: str, expected: int) -> None:
    """Numbers are shown as 64 bits with a sign."""
    assert answer(LIBRARY, name, parse(text)) == expected


def test_equality() -> None:
    """The build does not count; another type is an error."""
    assert parse("1.2.3+a").cel_equal(parse("1.2.3+b")) is True
    assert hash(parse("1.2.3+a")) == hash(parse("1.2.3+b"))
    with pytest.raises(CelError, match=r"^no such overload$"):
        parse("1.2.3").cel_equal("1.2.3")


def test_cost() -> None:
    """Reading costs a tenth of the length, everything else 1."""
    assert (charged(LIBRARY, "semver", "1.2.3-rc.10"), charged(LIBRARY, "major", parse("1.2.3"))) == (2, 1)
