"""The engine: outcomes become decisions, and operations one patch of the object as sent; what the end of time does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import date
from typing import Any

import jsonpatch
import pytest
from msgspec.structs import replace
from support.builders import FACTS, TODAY, Json, NamespacesLost, NamespacesToAsk, pod, request, resource

from policies.engine.engine import ADMITTED, Answer, Decision, RuleFailure, mutate, overtime, validate
from policies.engine.facts import Facts, NamespaceKey, StaticFacts
from policies.engine.interruption import Missing, OvertimeError, PostponedError, TimeLimitError, look
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.patch import append
from policies.engine.request import AdmissionRequest
from policies.engine.rule import (
    NO_MUTATION,
    Action,
    FailurePolicy,
    Hook,
    Mutation,
    Mutator,
    PatchOperation,
    PolicyException,
    Rule,
    RuleSet,
)
from policies.engine.violation import MESSAGE_LENGTH, NO_HELP, WARNINGS_LENGTH, Help, Section, Violation

_ASKED = request(pod(), namespace="team-a", user="carol")
_PODS = (ResourceRule(("*",), ("",), ("pods",)),)
_TEAM = LabelSelector((SelectorRequirement("team", "Exists"),))


def _violation(rule: str, path: str = "spec.a", value: str = "7") -> Violation:
    return Violation(rule, path, value, "is odd", f"{rule}: odd numbers.", "Make it even.")


def _rule(
    name: str,
    found: Sequence[Violation] | Exception = (),
    action: Action = "deny",
    policy: FailurePolicy = "Fail",
    namespaces: LabelSelector = EVERYTHING,
) -> Rule:
    def judge(_request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
        if isinstance(found, Exception):
            raise found
        return found

    return Rule(name, (Hook("validate", "all", _PODS, policy),), action, frozenset(), namespaces, validate=judge)


_REFUSAL = "a: odd numbers.\n  spec.a: 7 is odd\nMake it even."
_UNJUDGED = "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."


def _answer(
    *rules: Rule,
    exceptions: Sequence[PolicyException] = (),
    facts: Facts = FACTS,
    asked: AdmissionRequest = _ASKED,
    help_: Help = NO_HELP,
) -> Answer:
    return validate(asked, RuleSet(rules, exceptions, help=help_), facts)


@pytest.mark.parametrize(
    ("action", "allowed", "message", "warnings"),
    [
        pytest.param("deny", False, _REFUSAL, (), id="deny"),
        pytest.param("warn", True, "", ("spec.a: 7 is odd. Make it even.",), id="warn"),
        pytest.param("audit", True, "", (), id="audit"),
    ],
)
def test_actions(action: Action, allowed: bool, message: str, warnings: tuple[str, ...]) -> None:  # noqa: FBT001
    """A violation refuses, warns or is only recorded, as the rule's action says."""
    violation = _violation("a")
    answer = _answer(_rule("a", [violation], action))

    assert answer == Answer((Decision("a", action, (violation,)),), (), warnings)  # type: ignore[arg-type]
    assert (answer.allowed, answer.message) == (allowed, message)


def test_rules_with_nothing_to_say() -> None:
    """A rule that is off is not even run, one that finds nothing is on record, and one for others decides nothing."""
    silent = _answer(_rule("a"))

    assert (silent, silent.allowed, silent.message) == (Answer((Decision("a", "admit"),)), True, "")
    assert _answer(_rule("a", RuntimeError("ran"), "off")) == ADMITTED
    assert _answer(_rule("a", [_violation("a")]), asked=request(resource("v1", "Node"))) is ADMITTED


def test_every_rule_is_heard() -> None:
    """No finding stops the rules after it: refusals make one message, warnings are lines, one for a finding."""
    answer = _answer(
        _rule("b", [_violation("b", "spec.z"), _violation("b", "spec.y")]),
        _rule("w", [_violation("w", f"spec.{number}") for number in (2, 1, 5)], "warn"),
        _rule("f", ValueError("no such thing")),
        _rule("a", [_violation("a")]),
        _rule("v", [_violation("v", "spec.3")], "warn"),
        _rule("n"),
    )

    assert answer.message == (
        "a: odd numbers.\n"
        "  spec.a: 7 is odd\n"
        "Make it even.\n"
        "b: odd numbers.\n"
        "  spec.y: 7 is odd\n"
        "  spec.z: 7 is odd\n"
        "Make it even.\n"
        "Rule 'f' could not be evaluated (ValueError: no such thing).\n"
        f"{_UNJUDGED}"
    )
    assert answer.warnings == tuple(f"spec.{where}: 7 is odd. Make it even." for where in ("1 and 2 more", "3"))
    assert [(decision.rule, decision.verdict) for decision in answer.decisions] == [
        ("b", "deny"),
        ("w", "warn"),
        ("f", "error"),
        ("a", "deny"),
        ("v", "warn"),
        ("n", "admit"),
    ]


@pytest.mark.parametrize(
    ("policy", "message", "warnings"),
    [
        ("Fail", f"Rule 'a' could not be evaluated (KeyError: 'x').\n{_UNJUDGED}", ()),
        ("Ignore", "", ("rule 'a' was skipped, it could not be evaluated: KeyError: 'x'",)),
    ],
)
@pytest.mark.parametrize("action", ["deny", "warn", "audit"])
def test_a_rule_that_fails(policy: FailurePolicy, message: str, warnings: tuple[str, ...], action: Action) -> None:
    """A rule that raises follows its failure policy whatever its action is, and says so either way."""
    error = KeyError("x")
    answer = _answer(_rule("a", error, action, policy))

    assert answer == Answer((Decision("a", "error", failure=RuleFailure(error, policy)),), (), warnings)
    assert (answer.allowed, answer.message) == (policy == "Ignore", message)


def test_a_failure_is_one_line_of_a_warning() -> None:
    """What a failed rule raises reaches people without control characters, shortened."""
    answer = _answer(_rule("a", ValueError("bad\n\x1b[2Jthing " + "x" * 200), policy="Ignore"))
    text = "rule 'a' was skipped, it could not be evaluated: ValueError: bad \\u001b[2Jthing " + "x" * 200

    assert answer.warnings == (f"{text[:125]}…{text[-124:]}",)


def test_the_strictest_failure_policy_of_a_phase_counts() -> None:
    """A rule whose hooks differ fails closed where one of the phase does; hooks of the other phase do not count."""
    hooks = (Hook("validate", "a", _PODS, "Ignore"), Hook("validate", "b", (), "Fail"))
    closed = Rule("a", hooks, "deny", frozenset(), validate=_rule("x", KeyError("x")).validate)
    mutating = (Hook("validate", "a", _PODS, "Ignore"), Hook("mutate", "b", _PODS, "Fail"))
    open_ = Rule("a", mutating, "deny", frozenset(), validate=_rule("x", KeyError("x")).validate)

    assert (_answer(closed).allowed, _answer(open_).allowed) == (False, True)


def test_a_fact_that_is_not_known() -> None:
    """A fact that has to be fetched is no failure: whoever runs the engine learns which one it is."""
    with pytest.raises(Missing, match=r"^namespace 'team-b' is not known yet$"):
        _answer(_rule("a", Missing(NamespaceKey("team-b"))), _rule("b", [_violation("b")]))
    with pytest.raises(Missing, match=r"^namespace 'team-a' is not known yet$"):
        _answer(_rule("a", namespaces=_TEAM), facts=NamespacesToAsk(TODAY))


def test_a_namespace_that_is_lost() -> None:
    """A rule whose Namespace cannot be read has failed, and follows its failure policy."""
    answer = _answer(_rule("a", namespaces=_TEAM), facts=NamespacesLost(TODAY))

    assert (answer.allowed, answer.message.splitlines()[0]) == (
        False,
        "Rule 'a' could not be evaluated (FactUnavailable: namespace team-a could not be read).",
    )


def test_namespace_selectors() -> None:
    """A rule is for the Namespaces that it selects, and for cluster-scoped objects always."""
    rule = _rule("a", [_violation("a")], namespaces=_TEAM)
    facts = [StaticFacts(TODAY, {"team-a": labels}) for labels in ({"team": "a"}, {"other": "a"})]

    assert [_answer(rule, facts=each).allowed for each in (*facts, FACTS)] == [False, True, True]
    assert not _answer(rule, asked=request(pod(), namespace="")).allowed


def test_a_namespace_is_judged_whatever_the_selector() -> None:
    """A Namespace is in no Namespace, so a selector neither lets it go nor reads its labels."""
    everything = (ResourceRule(("*",), ("*",), ("*",)),)
    judge = _rule("a", [_violation("a")]).validate
    rule = Rule("a", (Hook("validate", "all", everything, "Fail"),), "deny", frozenset(), _TEAM, validate=judge)

    answer = _answer(rule, facts=NamespacesToAsk(TODAY), asked=request(resource("v1", "Namespace", name="team-a")))

    assert answer.decisions == (Decision("a", "deny", (_violation("a"),)),)


@pytest.mark.parametrize(("rules", "covered"), [(("a",), True), (("b",), False)])
@pytest.mark.parametrize("action", ["deny", "warn", "audit"])
def test_exceptions(rules: tuple[str, ...], covered: bool, action: Action) -> None:  # noqa: FBT001
    """What an exception covers passes without a warning, and the record keeps what was found and why it passed."""
    exception = PolicyException("moving", rules, "why", TODAY, namespaces=("team-*",), users=("carol",), kinds=("Pod",))
    answer = _answer(_rule("a", [_violation("a")], action), exceptions=[exception])
    excepted = Answer((Decision("a", "excepted", (_violation("a"),), exception=exception),))

    assert answer == (excepted if covered else _answer(_rule("a", [_violation("a")], action)))


_LAST = date(2026, 2, 28)


@pytest.mark.parametrize(
    ("untils", "ended"),
    [
        pytest.param([TODAY], "", id="last-day"),
        pytest.param([_LAST], "e0", id="after"),
        pytest.param([_LAST, TODAY], "", id="another-still-holds"),
        pytest.param([date(2026, 2, 27), _LAST, _LAST], "e1", id="last-of-several"),
    ],
)
def test_an_exception_that_has_ended(untils: Sequence[date], ended: str) -> None:
    """What has ended lets nothing pass, and a refusal, not a warning, says which it was, since when and what for."""
    exceptions = [PolicyException(f"e{number}", ("a",), "why,\n  so", until) for number, until in enumerate(untils)]
    answer = _answer(_rule("a", [_violation("a")]), exceptions=exceptions)
    line = f'The exception "{ended}" from a ended on 2026-02-28 (why, so).'

    assert (answer.allowed, answer.message) == (not ended, ended and f"{_REFUSAL}\n{line}")
    for action in ("warn", "audit") if ended else ():
        rule = _rule("a", [_violation("a")], action)
        lenient = _answer(rule, exceptions=exceptions)
        assert (lenient.message, lenient.ended, lenient.warnings) == ("", (), _answer(rule).warnings)


def test_exceptions_that_do_not_count() -> None:
    """One for others is not spoken of, none excuses a failure, and the other rules go on to refuse."""
    holds, ended = (PolicyException("moving", ("a",), "why", until) for until in (TODAY, _LAST))
    failed = _answer(_rule("a", KeyError("x")), exceptions=[holds])

    assert _answer(_rule("a", [_violation("a")]), exceptions=[replace(ended, users=("dave",))]).message == _REFUSAL
    assert (failed.allowed, failed.decisions[0].verdict) == (False, "error")
    both = _answer(*(_rule(name, [_violation(name)]) for name in "ab"), exceptions=[holds])
    assert both.message == _REFUSAL.replace("a: odd", "b: odd")


_REMEDY = "Put this and that right, and then do this, that, and all the others as well, one after the other, please."


@pytest.mark.parametrize(
    ("violation", "warning"),
    [
        pytest.param(_violation("a", value="7" * 300), f"spec.a: {'7' * 88}… is odd. Make it even.", id="long-value"),
        pytest.param(
            replace(_violation("a", "s" * 300, "7" * 300), remedy=_REMEDY),
            f"{'s' * 72}…{'s' * 37}: {'7' * 23}… is odd. {_REMEDY}",
            id="long-path",
        ),
        pytest.param(
            replace(_violation("a"), problem="", summary="No odd ones."),
            "spec.a: 7: No odd ones. Make it even.",
            id="the-summary-says-why",
        ),
        pytest.param(
            replace(_violation("a"), remedy=f"  There are: {'2, ' * 99}\n{_REMEDY}"),
            f"spec.a: 7 is odd. {_REMEDY}",
            id="what-to-do-is-last",
        ),
    ],
)
def test_the_remedy_is_never_cut_off(violation: Violation, warning: str) -> None:
    """Of a warning that is too long, what was found is shortened first, then where; it always says what to do."""
    assert _answer(_rule("a", [violation], "warn")).warnings == (warning,)


def test_warnings_of_all_rules_together_are_limited() -> None:
    """The API server cuts warnings past 4096 characters in all: a rule shows 20, and all share one limit."""
    rules = [
        _rule(name, [_violation(name, f"spec.{number:02}", f"{number:02}" + "7" * 200) for number in range(40)], "warn")
        for name in "abc"
    ]
    answer = _answer(*rules)

    shown = [*range(20), *range(4)]
    assert answer.warnings == (
        *(f"spec.{number:02}: {number:02}{'7' * 85}… is odd. Make it even." for number in shown),
        "and 96 more",
    )
    assert sum(map(len, answer.warnings)) < 4096


_SECTIONS = (
    Section("labels", "reserved", ("Not … allowed.",), ""),
    Section("labels", "removed", ("Not … allowed. … must not go",), ""),
    Section("packs", "lock", ("Locked",), ""),
)
_HELP = Help("https://docs.example.org/{page}/#{code}", _SECTIONS)


def _problem(rule: str, summary: str, problem: str = "") -> Violation:
    return Violation(rule, "metadata", "a", problem, summary, "Mend it.")


def _explained(help_: Help, *found: Violation, action: Action = "deny") -> Answer:
    """The answer of one rule for each name of a rule among the violations."""
    names = dict.fromkeys(violation.rule for violation in found)
    rules = [_rule(name, [each for each in found if each.rule == name], action) for name in names]
    return _answer(*rules, help_=help_)


def test_a_refusal_ends_with_the_addresses_of_its_sections() -> None:
    """Each section once, the cluster's own policies and what could not be judged on their pages; by default none."""
    removed = _problem("labels", "Not a allowed.", "must not go")
    several = [*(_problem("labels", f"Not {name} allowed.") for name in "ab"), _problem("lock", "Locked")]
    found = [
        _explained(_HELP, removed),
        _explained(_HELP, *several, _problem("mine", "No")),
        _explained(_HELP, _problem("labels", "New words")),
        _answer(_rule("labels", ValueError("x")), help_=_HELP),
        _explained(NO_HELP, removed),
    ]

    assert found[0].message.startswith("Not a allowed.\n  metadata: a must not go\nMend it.\nRead on: ")
    assert [[line for line in each.message.splitlines() if line.startswith("Read on: ")] for each in found] == [
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
    plain, answer = (_explained(help_, *violations, action="warn") for help_ in (NO_HELP, _HELP))

    assert answer.warnings == (
        *plain.warnings,
        "Read on: https://docs.example.org/labels/#reserved",
        "Read on: https://docs.example.org/packs/#lock",
    )
    assert (len(plain.warnings), answer.message) == (3, "")


def test_a_rule_that_was_skipped_is_explained() -> None:
    """The warning that a rule could not judge what it lets pass leads to the page about the service."""
    answer = _answer(_rule("labels", ValueError("x"), policy="Ignore"), help_=_HELP)

    assert answer.warnings[1:] == ("Read on: https://docs.example.org/service/#skipped",)


def test_addresses_never_drive_out_warnings() -> None:
    """Where the API server would cut what is said in all, the warnings stay, and no address is cut."""
    many = [_problem("labels", f"Not {number:0200} allowed.") for number in range(20)]
    address = Help(f"https://docs.example.org/{'x' * 400}/{{page}}/", _SECTIONS)
    plain, answer = (_explained(help_, *many, action="warn").warnings for help_ in (NO_HELP, address))

    assert answer == plain
    assert WARNINGS_LENGTH - 400 < sum(map(len, answer)) <= WARNINGS_LENGTH


def test_a_long_refusal_keeps_its_address() -> None:
    """What is cut is the refusal, not where to read on."""
    message = _explained(_HELP, *(_problem("labels", f"Not {n}{'x' * 4000} allowed.") for n in range(5))).message

    assert (len(message), message.splitlines()[-1]) == (
        MESSAGE_LENGTH,
        "Read on: https://docs.example.org/labels/#reserved",
    )


_MISSING: PatchOperation = {"op": "add", "path": "/spec/not/there", "value": 1}


def _mutating(
    name: str, mutator: Mutator | None, policy: FailurePolicy = "Ignore", namespaces: LabelSelector = EVERYTHING
) -> Rule:
    return Rule(name, (Hook("mutate", "all", _PODS, policy),), "warn", frozenset(), namespaces, mutate=mutator)


def _appends(*items: Any, warnings: Sequence[str] = ()) -> Mutator:
    """Append what the list does not hold yet."""

    def change(asked: AdmissionRequest, _facts: Facts) -> Mutation:
        present = ((asked.object or {}).get("spec") or {}).get("list") or []
        missing = [item for item in items if item not in present]
        return Mutation(append(asked.object or {}, ("spec", "list"), missing), tuple(warnings))

    return change


def _raises(error: Exception) -> Mutator:
    def change(_asked: AdmissionRequest, _facts: Facts) -> Mutation:
        raise error

    return change


def _patches(*operations: PatchOperation) -> Mutator:
    return lambda _asked, _facts: Mutation(operations)


def _mutated(
    obj: Json | None, *rules: Rule, facts: Facts = FACTS, exceptions: Sequence[PolicyException] = ()
) -> Answer:
    asked = request(obj, old=pod() if obj is None else None, namespace="team-a")
    return mutate(asked, RuleSet(rules, exceptions), facts)


def _applied(obj: Json, answer: Answer) -> Any:
    return jsonpatch.apply_patch(obj, deepcopy(list(answer.operations)))


def test_rules_build_on_one_another() -> None:
    """A rule sees the object as the one before it left it, and a second review of it gets the same patch."""
    obj = {"kind": "Pod", "metadata": {}}
    sent = deepcopy(obj)

    changes = (_appends("x"), _appends("x"), _appends("y", "z"), None)
    rules = [_mutating(name, change) for name, change in zip("abcd", changes, strict=True)]

    answer = _mutated(obj, *rules)

    assert answer == Answer(
        (Decision("a", "patch"), Decision("b", "admit"), Decision("c", "patch"), Decision("d", "admit")),
        (
            {"op": "add", "path": "/spec", "value": {"list": ["x"]}},
            {"op": "add", "path": "/spec/list/-", "value": "y"},
            {"op": "add", "path": "/spec/list/-", "value": "z"},
        ),
    )
    assert (_applied(obj, answer), obj) == ({**sent, "spec": {"list": ["x", "y", "z"]}}, sent)
    assert _mutated(obj, *rules) == answer


def test_nothing_to_change() -> None:
    """Rules that change nothing are on record, with no operation at all."""
    assert _mutated(pod(), _mutating("a", lambda _asked, _facts: NO_MUTATION)) == Answer((Decision("a", "admit"),))
    assert mutate(request(pod(), resource="nodes"), RuleSet([_mutating("a", _appends(1))]), FACTS) is ADMITTED


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_rule_that_fails_to_mutate(policy: FailurePolicy) -> None:
    """A rule that raises follows its failure policy, and the other rules' changes are made all the same."""
    error = ValueError("no")
    changes = (_appends("x"), _raises(error), _appends("y"))
    answer = _mutated(
        {"kind": "Pod"}, *(_mutating(name, each, policy) for name, each in zip("abc", changes, strict=True))
    )

    failure = Decision("b", "error", failure=RuleFailure(error, policy))
    assert answer.decisions == (Decision("a", "patch"), failure, Decision("c", "patch"))
    assert (answer.allowed, answer.message.partition("\n")[0], answer.warnings) == (
        (False, "Rule 'b' could not be evaluated (ValueError: no).", ())
        if policy == "Fail"
        else (True, "", ("rule 'b' was skipped, it could not be evaluated: ValueError: no",))
    )
    assert _applied({"kind": "Pod"}, answer) == {"kind": "Pod", "spec": {"list": ["x", "y"]}}


@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "between", "last"])
def test_a_patch_that_does_not_apply(position: int) -> None:
    """Operations that do not fit are a failure of their rule and never sent: the API server would fail the request."""
    rules = [_mutating("a", _appends("x")), _mutating("c", _appends("y"))]
    rules.insert(position, _mutating("bad", _patches(_MISSING)))

    answer = _mutated({"kind": "Pod"}, *rules)

    assert [(decision.rule, decision.verdict) for decision in answer.decisions if decision.verdict != "patch"] == [
        ("bad", "error")
    ]
    assert _applied({"kind": "Pod"}, answer) == {"kind": "Pod", "spec": {"list": ["x", "y"]}}


def test_a_fact_that_is_not_known_to_mutate() -> None:
    """A fact that has to be fetched passes through, whether a rule or its selector asked for it."""
    with pytest.raises(Missing, match=r"^namespace 'team-b' is not known yet$"):
        _mutated(pod(), _mutating("a", _appends("x")), _mutating("b", _raises(Missing(NamespaceKey("team-b")))))
    with pytest.raises(Missing, match=r"^namespace 'team-a' is not known yet$"):
        _mutated(pod(), _mutating("a", _appends("x"), namespaces=_TEAM), facts=NamespacesToAsk(TODAY))


def test_namespace_selectors_to_mutate() -> None:
    """Objects in Namespaces that a rule does not select stay as they are."""
    rule = _mutating("a", _appends("x"), namespaces=_TEAM)
    facts = [StaticFacts(TODAY, {"team-a": {label: "a"}}) for label in ("team", "other")]

    assert [len(_mutated(pod(), rule, facts=each).operations) for each in facts] == [1, 0]


def test_exceptions_to_mutate() -> None:
    """A request that an exception lets pass a rule is not changed by it; other rules change it."""
    rules = [_mutating("a", _appends("x")), _mutating("b", _appends("y"))]
    exception = PolicyException("moving", ("a",), "why", TODAY)
    answer = _mutated(pod(), *rules, exceptions=[exception])

    assert answer == Answer(
        (Decision("a", "excepted", exception=exception), Decision("b", "patch")),
        ({"op": "add", "path": "/spec/list", "value": ["y"]},),
    )


def test_warnings_of_mutations() -> None:
    """Warnings of mutating rules reach the person in order, each a clean line."""
    answer = _mutated(
        pod(),
        _mutating("a", _appends(warnings=["first", "second"])),
        _mutating("b", _appends("x", warnings=["third\r\nline\x00", "x" * 251])),
    )

    assert answer.warnings == ("first", "second", r"third line\u0000", "x" * 249 + "…")


def test_a_deletion_is_never_patched() -> None:
    """A request without an object gets no operations whatever a rule says: the API server would fail it."""
    answer = _mutated(None, _mutating("a", _patches({"op": "add", "path": "/a", "value": 1})))

    assert answer.operations == ()


_RUNS = pytest.mark.parametrize("run", [validate, mutate], ids=["validate", "mutate"])
Run = Callable[[AdmissionRequest, RuleSet, Facts], Answer]


def _timed(name: str, policy: FailurePolicy, asked: list[str]) -> Rule:
    def judge(_request: AdmissionRequest, facts: Facts) -> tuple[()]:
        asked.append(name)
        try:
            look(facts.expired)
        except Exception:  # noqa: BLE001 - as a rule might
            asked.append("absorbed")
        return ()

    def change(request_: AdmissionRequest, facts: Facts) -> Mutation:
        judge(request_, facts)
        return Mutation()

    hooks = (Hook("validate", "all", _PODS, policy), Hook("mutate", "all", _PODS, policy))
    return Rule(name, hooks, "deny", frozenset(), validate=judge, mutate=change)


def _clock(error: TimeLimitError, looks: int) -> Callable[[], bool]:
    """A clock of which a number of looks are in time."""
    left = [looks]

    def expired() -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return False

    return expired


@_RUNS
def test_rules_that_had_no_time_have_failed(run: Run) -> None:
    """The rule under evaluation fails, and those after it, each by its failure policy; the ones before keep theirs."""
    asked: list[str] = []
    rules = RuleSet([_timed("a", "Fail", asked), _timed("b", "Ignore", asked), _timed("c", "Fail", asked)])
    error = TimeLimitError("it took longer than 4.9 s")
    answer = run(_ASKED, rules, replace(FACTS, expired=_clock(error, 3)))

    assert [(decision.rule, decision.verdict, decision.denies) for decision in answer.decisions] == [
        ("a", "admit", False),
        ("b", "error", False),
        ("c", "error", True),
    ]
    assert answer.message.startswith("Rule 'c' could not be evaluated (OvertimeError: it took longer than 4.9 s).\n")
    assert answer.warnings == (
        "rule 'b' was skipped, it could not be evaluated: OvertimeError: it took longer than 4.9 s",
    )
    assert (error.policy, error.rule, asked) == ("b", "c", ["a", "b"])


@_RUNS
def test_a_review_that_is_to_be_judged_elsewhere(run: Run) -> None:
    """The end of a slice is nobody's failure: it leaves the engine, with the rule that was under evaluation."""
    asked: list[str] = []
    error = PostponedError()
    with pytest.raises(PostponedError):
        run(_ASKED, RuleSet([_timed("a", "Ignore", asked)]), replace(FACTS, expired=_clock(error, 1)))

    assert (error.policy, error.rule, asked) == ("a", "a", ["a"])


def test_a_clock_that_only_says_yes() -> None:
    """A clock need not raise anything itself."""
    answer = validate(_ASKED, RuleSet([_timed("a", "Fail", [])]), replace(FACTS, expired=lambda: True))
    assert answer.message.startswith("Rule 'a' could not be evaluated (OvertimeError: the time for the review is over)")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_review_that_nobody_could_judge(policy: FailurePolicy) -> None:
    """All rules for the request have failed, and their failure policies apply."""
    rules = RuleSet([_timed("a", policy, []), _timed("b", "Ignore", [])])
    answer = overtime(_ASKED, rules, "validate", None, OvertimeError("no time was left"))

    assert answer.allowed is (policy == "Ignore")
    assert [decision.rule for decision in answer.decisions] == ["a", "b"]
    assert len(answer.warnings) == (2 if policy == "Ignore" else 1)
