"""`cks-admission why`: the page about a message, from the message itself."""

from __future__ import annotations

import json

import pytest
from support.service.commands import last_line, run

from webhook import refused

_LABELS = """\
labels/malformed
  Labels must be a map of strings to strings.

`labels` is a list or a text.

What to do. Write `key: value` pairs.
"""


def test_a_code_a_heading_and_a_page_print_sections() -> None:
    """The message comes first, then what it means, then what to do; the name of a rule leads to all of its own."""
    result = run("why", "labels/malformed")
    page = run("why", "labels").stdout

    assert (result.stdout, result.stderr, result.exit_code) == (_LABELS, "", 0)
    assert run("why", "malformed").stdout == _LABELS
    assert [line for line in page.splitlines() if line.startswith("labels/")] == [
        section.name for section in refused.sections() if section.page == "labels"
    ]


def test_a_message_is_recognized_wherever_it_comes_from() -> None:
    """What check prints leads to the section, from an argument and from standard input."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [a]}\n"
    message = run("check", "-", stdin=pod).stdout

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


_CLUSTER = "kubectl get validatingadmissionpolicies,mutatingadmissionpolicies my-policy -o yaml shows it"
_LINT = "CKS109 unused-variable is a finding of lint, see docs/reference/lint.md: A variable that no expression reads"
_UNKNOWN = "nothing is known about"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("CKS109", _LINT),
        ("unused-variable", _LINT),
        ("labels/malformd", f"{_UNKNOWN} 'labels/malformd': did you mean labels/malformed?"),
        (
            "my-policy",
            f"{_UNKNOWN} 'my-policy': if it is a policy of your cluster, {_CLUSTER}; cks-admission why lists all codes",
        ),
        (
            "the cat sat on the mat",
            f"{_UNKNOWN} 'the cat sat on the mat': cks-admission why lists all codes; paste the whole message",
        ),
    ],
)
def test_what_nobody_knows_is_an_error(words: str, error: str) -> None:
    """Findings of lint, which have a page of their own, and unknown words are an error that says what to try."""
    result = run("why", words)

    assert (result.exit_code, last_line(result.stderr)) == (2, f"Error: {error}")
