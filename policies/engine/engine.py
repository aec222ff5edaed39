"""The core of the service: run the selected rules and turn their findings into an answer.

An *outcome* is the finding of a rule: violations (perhaps none) or a failure. A *decision* is its consequence by the
rule's action and failure policy. Every rule runs; the engine does not stop at the first violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from policies.engine import patch
from policies.engine.facts import Facts
from policies.engine.interruption import Missing, OvertimeError, PostponedError, TimeLimitError, look
from policies.engine.request import AdmissionRequest
from policies.engine.rule import (
    NO_MUTATION,
    FailurePolicy,
    Mutation,
    MutationRefusedError,
    Names,
    Note,
    PatchOperation,
    Phase,
    PolicyException,
    Rule,
    RuleSet,
    Skip,
    SkippedError,
    Turn,
    longest,
)
from policies.engine.violation import (
    BLANKS,
    CHANGE_LENGTH,
    MESSAGE_LENGTH,
    TEXT_LENGTH,
    WARNINGS_LENGTH,
    More,
    Violation,
    bounded,
    describe,
    limited,
    one_line,
    printable,
    shortened,
    squeezed,
    warnings,
)

Finding = Violation | Note | More | Skip
Verdict = Literal["admit", "deny", "warn", "audit", "excepted", "patch", "error"]


class RuleFailure(Struct, frozen=True):
    """A rule that could not be evaluated."""

    error: Exception
    policy: FailurePolicy


class Decision(Struct, frozen=True):
    """The consequence of one rule's outcome. `error`: the rule failed; its failure policy decides whether it denies.

    violations: the first ones; `more`: how many there are besides. exception: the one that lets the request pass
    (`excepted`), or that would have if it had not ended. notes: for the audit log. ways: see `Mutation`.
    """

    rule: str
    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    failure: RuleFailure | None = None
    exception: PolicyException | None = None
    notes: tuple[Note, ...] = ()
    more: int = 0
    ways: tuple[str, ...] = ()

    @property
    def denies(self) -> bool:
        """Whether the decision refuses the request."""
        return self.verdict == "deny" or (self.failure is not None and self.failure.policy == "Fail")

    @property
    def skips(self) -> bool:
        """Whether the rule failed, and lets the request pass."""
        return self.failure is not None and not self.denies


class Unanimity(tuple[Decision, ...]):
    """Decisions of rules that all admit: one object for all requests of a kind, and the key of what follows."""

    __slots__ = ()
    __hash__ = object.__hash__


class Answer(Struct, frozen=True):
    """The decisions of the rules that ran, the patch, warnings for the requester, and lines on where to read on."""

    decisions: tuple[Decision, ...] = ()
    operations: tuple[PatchOperation, ...] = ()
    warnings: tuple[str, ...] = ()
    help: tuple[str, ...] = ()

    @property
    def unanimity(self) -> Unanimity | None:
        """The decisions, if every rule admits the request and has nothing to say."""
        return self.decisions if isinstance(self.decisions, Unanimity) else None

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        if self.unanimity is not None:
            return True
        for decision in self.decisions:  # noqa: SIM110 - a generator takes three times as long, in every answer
            if decision.verdict != "admit" and decision.denies:
                return False
        return True

    @property
    def ended(self) -> tuple[str, ...]:
        """A line for each ended exception that would have kept a rule from refusing."""
        return tuple(d.exception.ending(d.rule) for d in self.decisions if d.verdict == "deny" and d.exception)

    @property
    def message(self) -> str:
        """The refusal as people read it; empty if the request is allowed."""
        denials = [decision for decision in self.decisions if decision.verdict == "deny"]
        more = {denial.rule: denial.more for denial in denials}
        parts = [describe((violation for denial in denials for violation in denial.violations), more), *self.ended]
        failures = [(d.rule, d.failure) for d in self.decisions if d.failure is not None and d.denies]
        parts += [failure_text(rule, failure.error, failure.policy) for rule, failure in failures]
        end = "".join(f"\n{line}" for line in self.help)
        return shortened("\n".join(part for part in parts if part), MESSAGE_LENGTH - len(end)) + end


ADMITTED = Answer()


def validate(
    request: AdmissionRequest,
    ruleset: RuleSet,
    facts: Facts,
    group: str | None = None,
    *,
    together: bool = True,
    room: int = CHANGE_LENGTH,
    is_broken: bool = False,
) -> Answer:
    """The answer of every validating rule for the request. Raises only Missing.

    together: whether rules that have a screen are judged together first. Only the time that it takes depends on it.
    room: the characters of a warning: as many as the API server passes on, unless nobody cuts them.
    is_broken: whether the object is refused whatever the rules say. Those that cannot judge it say nothing then.
    """
    turn = ruleset.turn("validate", request, group)
    decided: dict[str, list[Decision]] = {}
    for rule in _screened(turn, request, facts) if together and turn.screens else turn.rules:
        try:
            look(facts.expired)
            outcome: Sequence[Finding] = ()
            if rule.validate is not None and _in_scope(rule, request, facts):
                outcome = rule.validate(request, facts)
        except (TimeLimitError, Exception) as error:  # noqa: BLE001 - a failure becomes a decision, never a 500
            failure = _failure(error, rule, "validate", request, ruleset, facts)
            decided[rule.name] = [Decision(rule.name, "error", failure=failure)]
        else:
            if outcome:
                decided[rule.name] = _decide(rule, outcome, request, ruleset, facts)
        if facts.after_rule is not None:
            facts.after_rule(rule.name)
    admitted = _unanimous(turn.names)
    if not decided:
        return admitted
    decisions = [
        decision
        for rule, admission in zip(turn.rules, admitted.decisions, strict=True)
        for decision in decided.get(rule.name) or (admission,)
        if not (is_broken and decision.skips)
    ]
    if is_broken or any(decision.denies for decision in decisions):
        # Of what is refused, nobody need hear what would become of it.
        for at, decision in enumerate(decisions):
            kept = tuple(violation for violation in decision.violations if not violation.is_outcome)
            if decision.verdict == "warn" and len(kept) < len(decision.violations):
                admission = Decision(decision.rule, "admit", notes=decision.notes)
                decisions[at] = replace(decision, violations=kept) if kept else admission
    lines = [line for decision in decisions if decision.verdict != "admit" for line in _warnings(decision, room)]
    more = sum(decision.more for decision in decisions if decision.verdict == "warn")
    return _explained(Answer(tuple(decisions), (), limited(lines, more, room=room)), ruleset)


def mutate(
    request: AdmissionRequest,
    ruleset: RuleSet,
    facts: Facts,
    group: str | None = None,
    *,
    room: int = CHANGE_LENGTH,
    is_broken: bool = False,
) -> Answer:
    """The answer of every mutating rule for the request. Each rule gets the object as the rule before it left it.

    All operations in order are the patch for the object as sent. A rule whose operations do not apply has failed,
    because the API server would fail the request. room, is_broken: as for `validate`. Raises only Missing.
    """
    if request.object is None:  # the API server fails a DELETE with a patch
        return ADMITTED
    decisions = []
    operations: list[PatchOperation] = []
    lines: list[str] = []
    current = request
    rules = ruleset.turn("mutate", request, group).rules
    for position, rule in enumerate(rules, 1):
        try:
            decision, mutation = _mutation(rule, current, ruleset, facts)
            if mutation.operations:
                obj = current.object or {}
                # After the last rule it is enough that the patch applies.
                if position < len(rules) or not patch.adds_in_place(obj, mutation.operations):
                    current = replace(current, object=patch.apply(obj, mutation.operations))
        except MutationRefusedError as refusal:
            (violation,), _ = bounded((refusal.violation,))
            mutation = NO_MUTATION
            decision = Decision(violation.rule, "deny", (violation,), exception=refusal.exception)
        except (TimeLimitError, Exception) as error:  # noqa: BLE001 - as in validate
            mutation = NO_MUTATION
            decision = Decision(rule.name, "error", failure=_failure(error, rule, "mutate", request, ruleset, facts))
        made = [decision]
        if mutation.excepted or mutation.skipped:
            made += [Decision(policy, "excepted", exception=why) for policy, why in mutation.excepted]
            made += _skips(mutation.skipped)
        made = [one for one in made if not (is_broken and one.skips)]
        decisions += made
        lines += [line for one in made for line in _warnings(one, room)]
        if facts.after_rule is not None:
            facts.after_rule(rule.name)
        operations += mutation.operations
        lines += (one_line(line, room) for line in mutation.warnings if not is_broken)
    return (
        _explained(Answer(tuple(decisions), tuple(operations), limited(lines, room=room)), ruleset)
        if decisions
        else ADMITTED
    )


def overtime(
    request: AdmissionRequest, ruleset: RuleSet, phase: Phase, group: str | None, error: OvertimeError
) -> Answer:
    """The answer for a request that nobody could judge in time: every rule for it has failed."""
    decisions = tuple(
        Decision(rule.name, "error", failure=RuleFailure(error, _failure_policy(rule, phase, request, ruleset)))
        for rule in ruleset.turn(phase, request, group).rules
    )
    lines = [line for decision in decisions for line in _warnings(decision, CHANGE_LENGTH)]
    return _explained(Answer(decisions, (), limited(lines)), ruleset)


def _explained(answer: Answer, ruleset: RuleSet) -> Answer:
    """The answer, with where to read on: at the end of a refusal, else as the last warnings, if there are any."""
    if not ruleset.help.url or answer.unanimity is not None:
        return answer
    allowed, shown = answer.allowed, answer.warnings
    about = [d for d in answer.decisions if (d.verdict == "warn" or d.failure if allowed else d.denies)]
    failure = "skipped" if allowed else "not-evaluated"
    violations = [violation for decision in about for violation in decision.violations]
    lines = ruleset.help.lines(violations, failure if any(decision.failure for decision in about) else "")
    if not allowed:
        return replace(answer, help=lines)
    for line in lines:
        if sum(map(len, shown)) + len(line) <= WARNINGS_LENGTH:
            shown = (*shown, line)
    return replace(answer, warnings=shown)


@lru_cache(maxsize=256)  # one for each kind of request
def _unanimous(names: Names) -> Answer:
    """The answer if no rule has anything to say."""
    return Answer(Unanimity(Decision(name, "admit") for name in names)) if names else ADMITTED


def _screened(turn: Turn, request: AdmissionRequest, facts: Facts) -> Sequence[Rule]:
    """The rules that have to be asked one by one. Raises PostponedError."""
    asked: set[str] = set()
    for screener, names in turn.screens:
        try:
            asked.update(screener.asked(names, request, facts))
        except PostponedError as error:
            error.rule = error.policy
            raise
        except (TimeLimitError, Exception):  # noqa: BLE001 - each rule finds out for itself, and follows its failure policy
            return turn.rules
        if facts.after_rule is not None:
            facts.after_rule(names)
    if not asked:
        return turn.alone
    return [rule for rule in turn.rules if rule.screener is None or rule.name in asked]


def _mutation(rule: Rule, request: AdmissionRequest, ruleset: RuleSet, facts: Facts) -> tuple[Decision, Mutation]:
    """A rule's decision and mutation; no mutation if an exception covers the request."""
    look(facts.expired)
    if rule.mutate is None or not _in_scope(rule, request, facts):
        return Decision(rule.name, "admit"), NO_MUTATION
    mutation = rule.mutate(request, facts)
    if not mutation.operations:
        return Decision(rule.name, "admit"), mutation
    exception = longest(ruleset.exceptions, rule.name, request)
    if exception is not None and exception.holds(facts.today()):
        return Decision(rule.name, "excepted", exception=exception), NO_MUTATION
    return Decision(rule.name, "patch", notes=mutation.notes, ways=mutation.ways), mutation


def _in_scope(rule: Rule, request: AdmissionRequest, facts: Facts) -> bool:
    """Whether the rule applies to the object's Namespace. Looks up the Namespace's labels only if they matter."""
    if not rule.namespaces.requirements or not request.scope_namespace:
        return True
    return rule.namespaces.matches(facts.namespace_labels(request.scope_namespace))


def _failure(
    error: BaseException, rule: Rule, phase: Phase, request: AdmissionRequest, ruleset: RuleSet, facts: Facts
) -> RuleFailure:
    """The failure of a rule by an error. Raises Missing for what is not looked up yet, and PostponedError."""
    cause = error if isinstance(error, Exception) else OvertimeError(str(error))
    if isinstance(error, Missing):
        if error.key not in facts.entries:
            raise error
        cause = RuntimeError("it looks something up without regard to what was found")
    elif isinstance(error, TimeLimitError):
        error.blame(rule.name)
        error.rule = rule.name
        if isinstance(error, PostponedError):
            raise error
    return RuleFailure(cause, _failure_policy(rule, phase, request, ruleset))


def _failure_policy(rule: Rule, phase: Phase, request: AdmissionRequest, ruleset: RuleSet) -> FailurePolicy:
    """Fail if any hook in the phase says so. Essential writes fail open, but not where a rule applies everywhere."""
    hooks = [hook for hook in rule.hooks if hook.phase == phase and hook.failure_policy == "Fail"]
    if not hooks or (ruleset.safety.is_essential(request) and not any(hook.everywhere for hook in hooks)):
        return "Ignore"
    return "Fail"


def _decide(
    rule: Rule, outcome: Sequence[Finding], request: AdmissionRequest, ruleset: RuleSet, facts: Facts
) -> list[Decision]:
    notes = tuple(item for item in outcome if isinstance(item, Note))
    violations = [item for item in outcome if isinstance(item, Violation)]
    skips = _skips(item for item in outcome if isinstance(item, Skip))
    if not violations:
        return [Decision(rule.name, "admit", notes=notes), *skips] if notes or not skips else skips
    more = sum(item.count for item in outcome if isinstance(item, More))
    exception = longest(ruleset.exceptions, rule.name, request)
    if exception is not None and exception.holds(facts.today()):
        shown, rest = bounded(violations)
        return [Decision(rule.name, "excepted", shown, exception=exception, more=rest + more), *skips]
    verdicts: dict[Verdict, list[Violation]] = {}
    action: Verdict = "admit" if rule.action == "off" else rule.action
    for violation in violations:
        verdicts.setdefault(violation.verdict or action, []).append(violation)
    decisions = []
    for verdict, those in verdicts.items():
        shown, rest = bounded(those)
        rest += more if verdict == action else 0
        decisions.append(Decision(rule.name, verdict, shown, exception=exception, more=rest))
    return [replace(decisions[0], notes=notes), *decisions[1:], *skips]


def _skips(skips: Iterable[Skip]) -> list[Decision]:
    return [
        Decision(skip.rule, "error", failure=RuleFailure(SkippedError(skip.reason), "Ignore"))
        for skip in dict.fromkeys(skips)
    ]


def _warnings(decision: Decision, room: int) -> Iterator[str]:
    """The warnings for a decision that lets the request pass. Each keeps its end: what to do."""
    if decision.verdict == "warn":
        yield from warnings(decision.violations, room)
    elif decision.skips and decision.failure is not None:
        yield squeezed(failure_text(decision.rule, decision.failure.error, "Ignore"), room)


def failure_text(rule: str, error: Exception, policy: FailurePolicy) -> str:
    """The message about a failed rule. It shows only the error's class and text, which never contain an object."""
    if isinstance(error, SkippedError):
        return f"policy {rule!r} was skipped: {shortened(printable(str(error), BLANKS), TEXT_LENGTH)}"
    cause = shortened(printable(f"{type(error).__name__}: {error}", BLANKS), TEXT_LENGTH)
    if policy == "Ignore":
        return f"rule {rule!r} was skipped, it could not be evaluated: {cause}"
    advice = "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."
    return f"Rule {rule!r} could not be evaluated ({cause}).\n{advice}"
