"""`python -m compatibility.page` writes the tables of docs/reference/compatibility.md from the recorded results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from conformance import casefile

from compatibility.recording import RESULTS
from policies.cel.environment import Feature
from policies.cel.kubernetes import FORMER
from policies.kubernetes.release import RELEASES, Release

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
SUBJECTS: Mapping[str, str] = {
    "expressions": "expressions: value, type and error",
    "costs": "expressions: cost",
    "documents": "documents: what a new policy is refused for, in which words",
    "policies": "policies: verdict, code, reason, message, warnings, audit annotations",
    "merges": "mutations: the object that comes of them, or the error",
    "schemas": "schemas: verdict on broken and right manifests and their fields, demands of single fields",
    "matching": "webhooks and policies: which requests they are asked about",
}
"""The rows of the table."""


def tables() -> Mapping[str, str]:
    """The parts of the page that are written here, by name."""
    recorded = {**yaml.safe_load(RESULTS.read_text(encoding="utf-8"))}
    for release in RELEASES:
        recorded[release.proven] = {**expressions(release), **recorded.get(release.proven, {})}
    return {"results": "\n".join(_results(recorded)), "changes": "\n".join(_changes())}


def expressions(release: Release) -> Mapping[str, Any]:
    """The recorded expressions of a release. That ours gives the same is what tests/conformance asserts."""
    expected = [case.expected(release) for file in casefile.files() for case in casefile.read(file)]
    known = [answer for answer in expected if answer is not None]
    counted = {"expressions": len(known), "costs": sum("cost" in answer for answer in known)}
    return {name: {"cases": count, "differences": []} for name, count in counted.items()}


def written(page: str) -> str:
    """The page with the current tables. Raises ValueError if it has no place for one."""
    for name, table in tables().items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not end:
            raise ValueError(f"{PAGE.name} has no place for {name}")
        page = f"{before}{start}{table}\n{end}{after}"
    return page


def _results(recorded: Mapping[str, Any]) -> Iterator[str]:
    versions = [release.proven for release in RELEASES]
    yield f"| | {' | '.join(f'Kubernetes {version}' for version in versions)} |"
    yield "|---|" + "---|" * len(versions)
    for subject, what in SUBJECTS.items():
        yield f"| {what} | {' | '.join(_cell(recorded[version].get(subject)) for version in versions)} |"


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "not asked: no API server of it can be built yet"
    cases = f"{result['cases']:,} cases, "
    different = result["differences"]
    if not different:
        return cases + "none differs"
    told = "; ".join(f"{text} ({times})" if times > 1 else text for text, times in Counter(different).items())
    return f"{cases}{len(different)} differ{'s' * (len(different) == 1)}: {told}"


def _changes() -> Iterator[str]:
    """What the releases have and had, a line each."""
    yield "| since | what |\n|---|---|"
    for feature in Feature:
        yield f"| {feature.since.name} | {feature.what} |"
    for former in FORMER:
        yield f"| before {former.until.name} | {former.what} |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
