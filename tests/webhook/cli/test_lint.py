"""`cks-admission lint`: the page of its findings, and the shipped policies; the rest is in commands/lint.yaml."""

import re
from pathlib import Path

from support.service.commands import run

from policies.lint.finding import CODES, Meaning

_ROOT = Path(__file__).parents[3]


def test_clean_policies_are_exit_code_0() -> None:
    """Where nothing is found only the summary is printed."""
    result = run("lint", str(_ROOT / "policies" / "packs" / "sunk"))

    assert (result.stdout, result.stderr, result.exit_code) == ("nothing found in 2 policies\n", "", 0)


def test_reference_lists_every_finding() -> None:
    """The page of the findings has a section for each code, with its name and its meaning first."""
    page = (_ROOT / "docs" / "reference" / "lint.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+): (.*)\n\n(.*)\.$", page, re.MULTILINE)

    assert [(code, Meaning(name, text)) for code, name, text in sections] == list(CODES.items())
