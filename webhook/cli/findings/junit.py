"""JUnit XML, which CI systems show as tests: what was judged is a test case, an error or failing warning a failure.

Source: https://github.com/jenkinsci/xunit-plugin, junit-10.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from webhook.cli.findings.finding import Finding, Result

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Iterable[Result], *, strict: bool = False) -> str:
    """The results as a test suite for each group. strict: whether warnings are failures."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.group, result.file), []).append(result)
    root = ET.Element("testsuites")
    for (group, file), members in groups.items():
        failures = [_failures(result, strict=strict) for result in members]
        errors = sum(result.unreadable for result in members)
        counts = {"tests": len(members), "failures": sum(map(bool, failures)) - errors, "errors": errors}
        suite = ET.SubElement(root, "testsuite", _attributes(name=group, file=file, **counts))
        for result, those in zip(members, failures, strict=True):
            _case(suite, group, result, those)
    ET.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _case(suite: ET.Element, group: str, result: Result, failures: list[Finding]) -> None:
    case = ET.SubElement(suite, "testcase", _attributes(classname=group, name=result.name))
    if failures:
        kind = "error" if result.unreadable else "failure"
        message = "; ".join(dict.fromkeys(finding.message.partition("\n")[0] for finding in failures))
        text = "\n".join(f"{finding.file}:{finding.line}: {finding.text}" for finding in failures)
        ET.SubElement(case, kind, _attributes(message=message, type=failures[0].code)).text = _xml(text)
    others = [finding for finding in result.findings if finding not in failures]
    if others:
        ET.SubElement(case, "system-out").text = _xml("\n".join(f"{f.level}: {f.text}" for f in others))


def _failures(result: Result, *, strict: bool) -> list[Finding]:
    return [f for f in result.findings if f.level == "error" or (strict and f.level == "warning")]


def _attributes(**values: str | int) -> dict[str, str]:
    return {name: _xml(str(value)) for name, value in values.items()}


def _xml(text: str) -> str:
    """A text without the characters that XML does not allow."""
    return _NO_XML.sub("\ufffd", text)
