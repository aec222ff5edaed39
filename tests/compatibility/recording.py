"""Counts, while pytest runs, the cases of the proofs that are marked `differs`, and writes them down by release.

A proof names its subject in the mark. `record_property("cases", n)` says that a test tries n cases and not one, and
`record_property("difference", text)` that ours answers otherwise, and that this is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import pytest

    from policies.kubernetes.release import Release

RESULTS = Path(__file__).with_name("results.yaml")
_SUBJECT = "subject"


def mark(item: pytest.Item) -> None:
    """Note the subject of a test in what it reports."""
    if marker := item.get_closest_marker("differs"):
        item.user_properties.append((_SUBJECT, marker.args[0]))


class Recording:
    """A plugin of pytest: the cases of one release by subject, as far as they were tried."""

    def __init__(self, release: Release) -> None:
        self._version = release.proven
        self._subjects: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test. One that failed is a difference that is not known."""
        properties = dict(report.user_properties)
        if _SUBJECT not in properties or (report.when != "call" and report.passed):
            return
        found = self._subjects.setdefault(str(properties[_SUBJECT]), {"cases": 0, "differences": []})
        found["cases"] += int(str(properties.get("cases", 1)))
        if report.failed:
            found["differences"].append(f"{report.nodeid.rpartition('::')[2]}: it fails")
        elif "difference" in properties:
            found["differences"].append(str(properties["difference"]))

    def pytest_sessionfinish(self) -> None:
        """Put the counts in the place of those that the file has for the same version and subject."""
        known: dict[str, Any] = yaml.safe_load(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        known.setdefault(self._version, {}).update(self._subjects)
        RESULTS.write_text(yaml.safe_dump(known, width=120), encoding="utf-8")
