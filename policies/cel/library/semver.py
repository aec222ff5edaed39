"""Versions: `semver('1.2.3').isLessThan(semver('2.0.0'))`.

Sources: k8s.io/apiserver's pkg/cel/library/semverlib.go, and github.com/blang/semver/v4, which parses versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.environment import library, succeeds
from policies.cel.types import Type
from policies.cel.values import CelError, Incomparable
from policies.golang.strconv import clean, quote

TYPE = types.struct("kubernetes.Semver")
_DIGITS = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*")
_UINT64 = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class Semver(Incomparable):
    """A version. Comparisons ignore the build metadata."""

    cel_type: ClassVar[Type] = TYPE
    identity = attrgetter("major", "minor", "patch", "pre")
    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    def __str__(self) -> str:
        pre = f"-{'.'.join(map(str, self.pre))}" if self.pre else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


def _compare(left: Semver, right: Semver) -> int:
    """The order of two versions: -1, 0 or 1. Prereleases come before the release, numbers before words."""
    numbers = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
    if numbers[0] != numbers[1]:
        return 1 if numbers[0] > numbers[1] else -1
    if not left.pre or not right.pre:
        return bool(right.pre) - bool(left.pre)
    ours, theirs = (
        [(False, part, "") if isinstance(part, int) else (True, 0, part) for part in pre]
        for pre in (left.pre, right.pre)
    )
    return int(ours > theirs) - int(ours < theirs)


def _parse(text: str) -> Semver:
    text = clean(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    return Semver(
        major,
        minor,
        _number("patch", patch),
        tuple(map(_pre, pre.split("."))) if dash else (),
        tuple(map(_build, build.split("."))) if plus else (),
    )


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) >= _UINT64:
        raise CelError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _pre(text: str) -> int | str:
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _uint(text)
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise CelError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _semver(text: str, normalized: bool = False) -> Semver:  # noqa: FBT001, FBT002 - CEL passes it by position
    """The version in a text; normalized: also in one such as v01.2, if a short one has only numbers."""
    if not normalized:
        return _parse(text)
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        stripped = part.lstrip("0")
        if len(part) > 1:
            parts[index] = stripped if stripped[:1] in set("0123456789") else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return _parse(".".join([*parts, "0", "0"][: max(3, len(parts))]))


def _int64(number: int) -> int:
    return number - _UINT64 if number >= 2**63 else number  # Go's conversion from uint64 to int64


LIBRARY = library(
    "kubernetes.Semver",
    ("string_to_semver: semver(string) -> Semver", _semver, of_first),
    ("string_bool_to_semver: semver(string, bool) -> Semver", _semver, of_first),
    ("is_semver_string: isSemver(string) -> bool", succeeds(_semver), of_first),
    ("is_semver_string_bool: isSemver(string, bool) -> bool", succeeds(_semver), of_first),
    ("semver_is_greater_than: Semver.isGreaterThan(Semver) -> bool", lambda left, right: _compare(left, right) == 1),
    ("semver_is_less_than: Semver.isLessThan(Semver) -> bool", lambda left, right: _compare(left, right) == -1),
    ("semver_compare_to: Semver.compareTo(Semver) -> int", _compare),
    ("semver_major: Semver.major() -> int", lambda version: _int64(version.major)),
    ("semver_minor: Semver.minor() -> int", lambda version: _int64(version.minor)),
    ("semver_patch: Semver.patch() -> int", lambda version: _int64(version.patch)),
    named={"Semver": TYPE},
    work=0.3,
)
