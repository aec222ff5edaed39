"""SARIF 2.1.0, which code hosts show beside the lines of a change.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from webhook.cli.findings.finding import Finding, Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(results: Iterable[Result]) -> str:
    """All findings as one log with one run."""
    findings = [finding for result in results for finding in result.findings]
    rules = {finding.code: finding.rule or finding.code for finding in findings}
    indexes = {code: index for index, code in enumerate(rules)}
    driver = {
        "name": "cks-admission",
        "version": version("cks-admission"),
        "rules": [{"id": code, "shortDescription": {"text": name}} for code, name in rules.items()],
    }
    run = {"tool": {"driver": driver}, "results": [_result(finding, indexes[finding.code]) for finding in findings]}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _result(finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": finding.text},
    }
    location: dict[str, Any] = {}
    if finding.file:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(finding.file)}}
        if finding.line:
            region = {"startLine": finding.line, **({"startColumn": finding.column} if finding.column else {})}
            location["physicalLocation"]["region"] = region
    if finding.object:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.object}]
    return {**result, "locations": [location]} if location else result
