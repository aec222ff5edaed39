"""What people read: refusals of several lines, warnings of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support.builders import pod, request
from support.service.reviews import TODAY

from policies.engine.engine import Answer, validate
from policies.engine.facts import StaticFacts
from policies.engine.match import ResourceRule
from policies.engine.rule import Action, FailurePolicy, Hook, Rule, RuleSet
from policies.engine.violation import (
    MESSAGE_LENGTH,
    WARNINGS_LENGTH,
    Help,
    Section,
    Violation,
    describe,
    limited,
    one_line,
    quote,
    squeezed,
)


def _violation(path: str, value: str = "7", **fields: str) -> Violation:
    parts: dict[str, Any] = {"rule": "r", "problem": "is odd", "summary": "Odd numbers.", "remedy": "Make it even."}
    return Violation(path=path, value=value, **{**parts, **fields})


def test_violations_are_ordered_and_grouped() -> None:
    """Lines stand below their summary, by rule and path, and each remedy is given once, after them."""
    found = [
        _violation("spec.b", rule="s", summary="Another.", remedy="Do that."),
        _violation("spec.z", "9"),
        _violation("spec.a", "3", remedy="Round it."),
        _violation("spec.a", "1"),
    ]

    assert describe(found) == (
        "Odd numbers.\n"
        "  spec.a: 1 is odd\n"
        "  spec.a: 3 is odd\n"
        "  spec.z: 9 is odd\n"
        "Make it even.\n"
        "Round it.\n"
        "Another.\n"
        "  spec.b: 7 is odd\n"
        "Do that."
    )
    assert (describe(reversed(found)), describe([])) == (describe(found), "")


@pytest.mark.parametrize(("found", "counted"), [(0, ()), (24, ()), (25, ("and 1 more",)), (400, ("and 376 more",))])
def test_long_lists_of_warnings(found: int, counted: tuple[str, ...]) -> None:
    """A list that is too long for the API server, or has too many words, ends in the number that it leaves out."""
    lines = [f"spec.items[{number}]: 7 is odd" for number in range(found)]
    long = [str(number % 10) * 250 for number in range(20)]

    assert limited(lines) == (*lines[:24], *counted)
    assert limited(long, 1) == (*long[:16], "and 5 more")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("two\nlines", "two lines", id="line-break"),
        pytest.param("a\r\n\t b", "a b", id="blanks"),
        pytest.param("\x1b[31mred\x07\x00", r"\u001b[31mred\u0007\u0000", id="control-characters"),
        pytest.param("a\u2028b\u0085c", "a b c", id="line-breaks-of-unicode"),
        pytest.param("a\ud800b", r"a\ud800b", id="lone-surrogate"),
        pytest.param("a\u202eb", r"a\u202eb", id="change-of-direction"),
        pytest.param("größer ≥ 漢字", "größer ≥ 漢字", id="letters-of-any-script"),
        pytest.param("  a  ", "a", id="blanks-around"),
        pytest.param("x" * 120, "x" * 120, id="full"),
        pytest.param("x" * 121, "x" * 119 + "…", id="one-too-long"),
        pytest.param("\n" * 200 + "a", "a", id="short-after-cleaning"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    """A warning is one line of printable characters and of 120 at most, since it travels as an HTTP header."""
    assert one_line(text) == line


def test_a_long_text_keeps_its_end() -> None:
    """A policy's warning of more than 250 characters is cut in its middle, for the remedy is at its end."""
    text = f"{'x' * 200} {'y' * 200} Remove\nthe label."

    assert squeezed(text) == f"{'x' * 125}…{'y' * 106} Remove the label."
    assert (squeezed("a" * 250), len(squeezed("a" * 251))) == ("a" * 250, 250)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("true", '"true"', id="text"),
        pytest.param("", '""', id="empty"),
        pytest.param('say "x"', r'"say \"x\""', id="quotes"),
        pytest.param("a\\b", r'"a\\b"', id="backslash"),
        pytest.param("a\nb", r'"a\nb"', id="line-break"),
        pytest.param("x" * 80, '"' + "x" * 80 + '"', id="full"),
        pytest.param("x" * 81, '"' + "x" * 80 + '…"', id="too-long"),
        pytest.param({"a": 1}, "a map", id="map"),
        pytest.param([1], "a list", id="list"),
        pytest.param(True, "a boolean", id="boolean"),
        pytest.param(None, "null", id="null"),
        pytest.param(7, "the number 7", id="integer"),
        pytest.param(1.5, "the number 1.5", id="float"),
    ],
)
def test_quoting(value: Any, text: str) -> None:
    """Text is shown in double quotes on one line and shortened, anything else by its type."""
    assert quote(value) == text


_SECTIONS = (
    Section("labels", "reserved", ("Not … allowed.",), ""),
    Section("labels", "removed", ("Not … allowed. … must not go",), ""),
    Section("packs", "lock", ("Locked",), ""),
)
_HELP = Help("https://docs.example.org/{page}/#{code}", _SECTIONS)
_HOOK = Hook("validate", "labels", (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),), "Fail")


def _problem(rule: str, summary: str, problem: str = "") -> Violation:
    return Violation(rule, "metadata", "a", problem, summary, "Mend it.")


def _message(help_: Help, *violations: Violation, error: Exception | None = None) -> str:
    """The refusal by one rule for each name of a rule among the violations."""
    return _answer(help_, *violations, error=error).message


def _answer(
    help_: Help,
    *violations: Violation,
    action: Action = "deny",
    error: Exception | None = None,
    policy: FailurePolicy = "Fail",
) -> Answer:
    hook = msgspec.structs.replace(_HOOK, failure_policy=policy)

    def rule(name: str) -> Rule:
        def judged(*_: object) -> Sequence[Violation]:
            if error is not None:
                raise error
            return [violation for violation in violations if violation.rule == name]

        return Rule(name, (hook,), action, frozenset(), validate=judged)

    rules = map(rule, dict.fromkeys(violation.rule for violation in violations))
    return validate(request(pod()), RuleSet(rules, help=help_), StaticFacts(TODAY))


def test_a_refusal_ends_with_the_addresses_of_its_sections() -> None:
    """The section is that of whose message the refusal has most, and each line stands once.

    A policy that is not shipped is explained as the cluster's own, words without a section on the page of their rule,
    and what could not be judged on that about the service. By default there is no address.
    """
    removed = _problem("labels", "Not a allowed.", "must not go")
    several = [*(_problem("labels", f"Not {name} allowed.") for name in "ab"), _problem("lock", "Locked")]
    found = [
        _message(_HELP, removed),
        _message(_HELP, *several, _problem("mine", "No")),
        _message(_HELP, _problem("labels", "New words")),
        _message(_HELP, _problem("labels", ""), error=ValueError("x")),
        _message(Help(), removed),
    ]

    assert found[0].startswith("Not a allowed.\n  metadata: a must not go\nMend it.\nRead on: ")
    assert [[line for line in text.splitlines() if line.startswith("Read on: ")] for text in found] == [
        [f"Read on: https://docs.example.org/{place}" for place in places]
        for places in (
            ("labels/#removed",),
            ("labels/#reserved", "packs/#lock", "policies/#denied"),
            ("labels/",),
            ("service/#not-evaluated",),
            (),
        )
    ]


def test_warnings_end_with_the_addresses_of_their_sections() -> None:
    """What passes with warnings has them as before, and then a line for each section, once."""
    violations = (*(_problem("labels", f"Not {name} allowed.") for name in "ab"), _problem("lock", "Locked"))
    plain = _answer(Help(), *violations, action="warn")

    answer = _answer(_HELP, *violations, action="warn")

    assert answer.warnings == (
        *plain.warnings,
        "Read on: https://docs.example.org/labels/#reserved",
        "Read on: https://docs.example.org/packs/#lock",
    )
    assert (len(plain.warnings), answer.message) == (3, "")


def test_a_rule_that_was_skipped_is_explained() -> None:
    """The warning that a rule could not judge what it lets pass leads to the page about the service."""
    answer = _answer(_HELP, _problem("labels", ""), error=ValueError("x"), policy="Ignore")

    assert answer.warnings[1:] == ("Read on: https://docs.example.org/service/#skipped",)


def test_addresses_never_drive_out_warnings() -> None:
    """Where the API server would cut what is said in all, the warnings stay, and no address is cut."""
    many = [_problem("labels", f"Not {number:0200} allowed.") for number in range(20)]
    address = Help(f"https://docs.example.org/{'x' * 400}/{{page}}/", _SECTIONS)
    plain, answer = (_answer(help_, *many, action="warn").warnings for help_ in (Help(), address))

    assert answer == plain
    assert WARNINGS_LENGTH - 400 < sum(map(len, answer)) <= WARNINGS_LENGTH


def test_a_long_refusal_keeps_its_address() -> None:
    """What is cut is the refusal, not where to read on."""
    message = _message(_HELP, *(_problem("labels", f"Not {n}{'x' * 4000} allowed.") for n in range(5)))

    assert (len(message), message.splitlines()[-1]) == (
        MESSAGE_LENGTH,
        "Read on: https://docs.example.org/labels/#reserved",
    )
