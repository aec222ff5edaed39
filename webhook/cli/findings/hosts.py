"""Findings for code hosts: workflow commands of GitHub, a code quality report of GitLab.

Sources: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands and the toolkit's
packages/core/src/command.ts for the escaping; https://docs.gitlab.com/ci/testing/code_quality/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from webhook.cli.findings.finding import Finding, Level, Result

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_SEVERITIES: dict[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


def github(finding: Finding) -> str:
    """A finding as a workflow command, which GitHub shows at its line."""
    places = {"file": finding.file, "line": finding.line, "col": finding.column}
    title = " ".join(dict.fromkeys(filter(None, (finding.code, finding.rule))))
    properties = {name: str(value) for name, value in places.items() if value} | {"title": title}
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {shown}::{_data(finding.text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gitlab(results: Iterable[Result]) -> str:
    """All findings as a report. A fingerprint does not depend on lines, so that a finding stays the same one."""
    issues: list[dict[str, Any]] = []
    times: dict[str, int] = {}
    for finding in (finding for result in results for finding in result.findings):
        identity = repr((finding.code, finding.file, finding.object, finding.path, finding.message))
        times[identity] = times.get(identity, 0) + 1
        issues.append(
            {
                "description": finding.text,
                "check_name": finding.code,
                "fingerprint": sha256(f"{identity}{times[identity]}".encode(errors="replace")).hexdigest(),
                "severity": _SEVERITIES[finding.level],
                "location": {"path": finding.file, "lines": {"begin": max(finding.line, 1)}},
            }
        )
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"
