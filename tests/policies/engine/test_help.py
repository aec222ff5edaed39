"""The end of a refusal, and of warnings: where they are explained."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from support.builders import pod, request
from support.service.reviews import TODAY

from policies.engine.engine import Answer, validate
from policies.engine.facts import StaticFacts
from policies.engine.match import ResourceRule
from policies.engine.rule import Action, FailurePolicy, Hook, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.violation import MESSAGE_LENGTH, WARNINGS_LENGTH, Help, Section, Violation

_SECTIONS = (
    Section("labels", "reserved", ("Not … allowed.",), ""),
    Section("labels", "removed", ("Not … allowed. … must not go",), ""),
    Section("packs", "lock", ("Locked",), ""),
)
_HELP = Help("https://docs.example.org/{page}/#{code}", _SECTIONS)
_HOOK = Hook("validate", "labels", (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),), "Fail")


def _violation(rule: str, summary: str, problem: str = "") -> Violation:
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


def test_a_refusal_ends_with_the_address_of_its_section() -> None:
    """The section is that of whose message the refusal has most."""
    assert _message(_HELP, _violation("labels", "Not a allowed.", "must not go")) == (
        "Not a allowed.\n  metadata: a must not go\nMend it.\nRead on: https://docs.example.org/labels/#removed"
    )


def test_each_section_has_a_line_and_each_line_stands_once() -> None:
    """Several rules that refuse have a line each; a policy that is not shipped is explained as the cluster's own."""
    message = _message(
        _HELP,
        *(_violation("labels", f"Not {name} allowed.") for name in "ab"),
        _violation("lock", "Locked"),
        _violation("mine", "No"),
    )

    assert message.splitlines()[-3:] == [
        "Read on: https://docs.example.org/labels/#reserved",
        "Read on: https://docs.example.org/packs/#lock",
        "Read on: https://docs.example.org/policies/#denied",
    ]


def test_words_without_a_section_lead_to_the_page() -> None:
    """A message that no section has leads to the page of its rule."""
    assert (
        _message(_HELP, _violation("labels", "New words")).splitlines()[-1]
        == "Read on: https://docs.example.org/labels/"
    )


def test_a_rule_that_failed_is_explained() -> None:
    """What could not be judged leads to the page about the service."""
    last = _message(_HELP, _violation("labels", ""), error=ValueError("x")).splitlines()[-1]

    assert last == "Read on: https://docs.example.org/service/#not-evaluated"


def test_warnings_end_with_the_addresses_of_their_sections() -> None:
    """What passes with warnings has them as before, and then a line for each section, once."""
    violations = (*(_violation("labels", f"Not {name} allowed.") for name in "ab"), _violation("lock", "Locked"))
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
    answer = _answer(_HELP, _violation("labels", ""), error=ValueError("x"), policy="Ignore")

    assert answer.warnings[1:] == ("Read on: https://docs.example.org/service/#skipped",)


def test_addresses_never_drive_out_warnings() -> None:
    """Where the API server would cut what is said in all, the warnings stay, and no address is cut."""
    many = [_violation("labels", f"Not {number:0200} allowed.") for number in range(20)]
    address = Help(f"https://docs.example.org/{'x' * 400}/{{page}}/", _SECTIONS)
    plain, answer = (_answer(help_, *many, action="warn").warnings for help_ in (Help(), address))

    assert answer == plain
    assert WARNINGS_LENGTH - 400 < sum(map(len, answer)) <= WARNINGS_LENGTH


def test_nothing_is_said_without_an_address() -> None:
    """By default a refusal ends as before, and so do warnings."""
    violation = _violation("labels", "Not a allowed.")

    assert _message(Help(), violation).splitlines()[-1] == "Mend it."
    assert [line for line in _answer(Help(), violation, action="warn").warnings if "Read on" in line] == []


def test_a_long_refusal_keeps_its_address() -> None:
    """What is cut is the refusal, not where to read on."""
    message = _message(_HELP, *(_violation("labels", f"Not {n}{'x' * 4000} allowed.") for n in range(5)))

    assert (len(message), message.splitlines()[-1]) == (
        MESSAGE_LENGTH,
        "Read on: https://docs.example.org/labels/#reserved",
    )
