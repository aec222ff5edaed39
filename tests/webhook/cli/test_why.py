"""`cks-admission why`: the page about a message, from the message itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.service.commands import last_line, run

from webhook import refused

_LABELS = """\
labels/malformed
  Labels must be a map of strings to strings.

`labels` is a list or a text.

What to do. Write `key: value` pairs.
"""


def test_a_code_prints_its_section() -> None:
    """The exact message comes first, then what it means, then what to do."""
    result = run("why", "labels/malformed")

    assert (result.stdout, result.stderr, result.exit_code) == (_LABELS, "", 0)


def test_a_heading_alone_and_a_page_are_enough() -> None:
    """A heading leads to its section, and the name of a rule to all of its sections."""
    page = run("why", "labels").stdout

    assert run("why", "malformed").stdout == _LABELS
    assert [line for line in page.splitlines() if line.startswith("labels/")] == [
        section.name for section in refused.sections() if section.page == "labels"
    ]


def test_a_message_is_recognized_wherever_it_comes_from(tmp_path: Path) -> None:
    """What check prints leads to the section, from an argument and from standard input."""
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [a]}\n", encoding="utf-8"
    )
    message = run("check", "-f", str(tmp_path / "pod.yaml")).stdout

    assert (run("why", message).stdout, run("why", "-", stdin=message).stdout) == (_LABELS, _LABELS)


def test_the_policy_that_is_named_counts() -> None:
    """Of a shipped policy the name in the message decides, whatever its words are."""
    words = "ValidatingAdmissionPolicy 'lock-toleration' with binding 'lock-toleration' denied request: anything"

    assert run("why", words).stdout.startswith("packs/lock-toleration\n")


def test_without_words_all_codes_are_listed() -> None:
    """Each code has a line with its first message, and as data its text."""
    lines, data = run("why").stdout.splitlines(), json.loads(run("why", "-o", "json").stdout)

    sections = refused.sections()
    assert [line.split()[0] for line in lines] == [section.name for section in sections]
    assert data == [{"code": one.name, "messages": list(one.messages), "text": one.text} for one in sections]


@pytest.mark.parametrize("word", ["CKS109", "unused-variable"])
def test_findings_of_lint_have_a_page_of_their_own(word: str) -> None:
    """A code or name of lint is an error that says what it means, and where it is explained."""
    result = run("why", word)

    meaning = "see docs/reference/lint.md: A variable that no expression reads"
    assert result.exit_code == 2
    assert last_line(result.stderr) == f"Error: CKS109 unused-variable is a finding of lint, {meaning}"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        pytest.param("labels/malformd", "did you mean labels/malformed?", id="misspelt"),
        pytest.param(
            "my-policy",
            "if it is a policy of your cluster, kubectl get validatingadmissionpolicies,mutatingadmissionpolicies "
            "my-policy -o yaml shows it; cks-admission why lists all codes",
            id="a policy of the cluster",
        ),
        pytest.param(
            "the cat sat on the mat", "cks-admission why lists all codes; paste the whole message", id="other"
        ),
    ],
)
def test_what_nobody_knows_is_an_error(words: str, hint: str) -> None:
    """Unknown words are an error that says what to try."""
    result = run("why", words)

    assert (result.exit_code, last_line(result.stderr)) == (2, f"Error: nothing is known about {words!r}: {hint}")
