"""The parts of a rule: the requests it applies to, its decision, the action on a violation, and exceptions from it.

The rules in force are a rule set, in order. It is immutable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, selects
from policies.engine.request import AdmissionRequest, Target
from policies.engine.safety import Safety
from policies.engine.violation import NO_HELP, Help, More, Violation, printable
from policies.kubernetes.name import matches_glob


class PolicyException(Struct, frozen=True):
    """Lets matching requests pass the named rules. A policy counts as the rule of its name.

    All lists except `rules` hold globs, and an empty list matches everything. kinds: such as `Pod` or
    `Deployment.apps`. groups: the user must be in one of them. All lists are about the object that is written: an
    exception for Pods does not cover a Deployment, even if the violation is in its template. object_selector: like the
    objectSelector of Kubernetes, met by the labels of the object or of the old object. until: the last day (UTC) on
    which the exception holds. reason: for auditors. name: how messages call it.
    """

    name: str
    rules: tuple[str, ...]
    reason: str
    until: date
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    object_selector: LabelSelector = EVERYTHING

    def concerns(self, rule: str, request: AdmissionRequest) -> bool:
        """Whether the exception covers a rule and a request, regardless of the date."""
        kind = request.kind.kind + (f".{request.kind.group}" if request.kind.group else "")
        user = request.user_info
        return (
            rule in self.rules
            and _fits((request.scope_namespace,), self.namespaces)
            and _fits((kind,), self.kinds)
            and _fits((request.name,), self.names)
            and _fits((user.username,), self.users)
            and _fits(user.groups, self.groups)
            and (not self.object_selector.requirements or selects(self.object_selector, request))
        )

    def holds(self, today: date) -> bool:
        """Whether the exception has not ended."""
        return today <= self.until

    @property
    def grounds(self) -> str:
        """Name, last day and reason on one line."""
        return f"{self.name} until {self.until}: {self._why}"

    def ending(self, rule: str) -> str:
        """The message that the exception has ended, for a requester whom it would have covered."""
        return f'The exception "{self.name}" from {rule} ended on {self.until} ({self._why}).'

    @property
    def _why(self) -> str:
        return printable(" ".join(self.reason.split()))


def longest(exceptions: Sequence[PolicyException], rule: str, request: AdmissionRequest) -> PolicyException | None:
    """The exception for a rule and a request that ends last; the first of several that end on that day."""
    if not exceptions:
        return None
    concerning = [exception for exception in exceptions if exception.concerns(rule, request)]
    return max(concerning, key=lambda exception: exception.until, default=None)


def _fits(values: Iterable[str], globs: tuple[str, ...]) -> bool:
    """Whether a glob matches one of the values, or there are no globs."""
    return not globs or any(matches_glob(value, globs) for value in values)


class Names(tuple[str, ...]):
    """The names of the rules for one kind of request. It is equal only to itself, so that it is a quick key."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class Screener(Protocol):
    """What several rules have in common. Rules with the same one can be judged together."""

    def asked(self, names: Names, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """Those of some rules that have to be asked one by one; all others have no violations and nothing else to say.

        names: of the rules, in their order. Raises TimeLimitError, which names the rule under evaluation as its policy.
        """

    @property
    def is_waiting(self) -> bool:
        """Whether `prepare` would make it faster to ask again what has been asked."""

    def prepare(self) -> None:
        """Make it faster. This may take tenths of a second."""


Action = Literal["deny", "warn", "audit", "off"]
FailurePolicy = Literal["Fail", "Ignore"]
Phase = Literal["mutate", "validate"]
Scope = Literal["Namespaced", "Cluster", "*"]

POLICY_GROUPS: Mapping[FailurePolicy, str] = {"Fail": "policies", "Ignore": "policies-ignore"}
"""The groups of hooks for policies and for rules beside them, at paths such as `/validate/policies`.

What ignores failures has a group of its own, so that the API server refuses nothing because of it while the service is
down. Groups are no smaller than that: the API server makes a call for each that is for a request.
"""

# One operation of RFC 6902, such as {"op": "add", "path": "/spec/tolerations/-", "value": {...}}.
PatchOperation = dict[str, Any]


class Note(Struct, frozen=True):
    """An entry for the audit log that does not affect the decision."""

    key: str
    value: str


class Skip(Struct, frozen=True):
    """A part of a rule that could not be evaluated, and whose failurePolicy ignores that. rule: its name."""

    rule: str
    reason: str


class SkippedError(Exception):
    """A policy could not be evaluated. The text is the API server's."""


class MutationRefusedError(Exception):
    """A mutating rule refuses the request. exception: an ended one that would have let it pass."""

    def __init__(self, violation: Violation, exception: PolicyException | None = None) -> None:
        super().__init__(violation.summary)
        self.violation = violation
        self.exception = exception


Validator = Callable[[AdmissionRequest, Facts], Sequence[Violation | Note | More | Skip]]


class Mutation(Struct, frozen=True):
    """The changes of a mutating rule, and warnings for the requester.

    excepted: for a rule that applies several policies, those it left out, each with its exception. skipped: those that
    could not be evaluated. notes: for the audit log. ways: who keeps the Pods of each placed template together, for the
    metrics.
    """

    operations: tuple[PatchOperation, ...] = ()
    warnings: tuple[str, ...] = ()
    excepted: tuple[tuple[str, PolicyException], ...] = ()
    skipped: tuple[Skip, ...] = ()
    notes: tuple[Note, ...] = ()
    ways: tuple[str, ...] = ()


NO_MUTATION = Mutation()
Mutator = Callable[[AdmissionRequest, Facts], Mutation]


class HookCondition(Struct, frozen=True):
    """A CEL expression for the API server, which calls the service only if all conditions are true."""

    name: str
    expression: str


class Hook(Struct, frozen=True):
    """The requests of one phase that a rule applies to, and the group under which the API server asks about them.

    Hooks of one phase, group and scope become one entry of the webhook configuration, served at `/<phase>/<group>`;
    they share conditions and failure policy. scope: `Cluster` is an entry without namespaceSelector, `*` one for
    namespaced and cluster-scoped objects. exact: resources and versions match exactly, so the API server converts
    nothing. reinvoked: whether the API server calls a mutation again after other webhooks have changed the object.
    namespaces: a requirement of the rule on Namespaces that the API server may check first. everywhere: whether the
    hook also applies to requests that `Safety` spares, and fails closed for what is essential.
    """

    phase: Phase
    group: str
    resources: tuple[ResourceRule, ...]
    failure_policy: FailurePolicy
    conditions: tuple[HookCondition, ...] = ()
    scope: Scope = "Namespaced"
    exact: bool = False
    reinvoked: bool = True
    namespaces: LabelSelector = EVERYTHING
    everywhere: bool = False


class Rule(Struct, frozen=True):
    """One rule, written in Python or made from a policy in YAML.

    action: the consequence of a violation. reads: the paths that the rule reads in an object besides apiVersion, kind
    and metadata, such as `spec.containers[*].resources`; other paths may be missing. namespaces: selects the Namespaces
    to whose objects the rule applies; it always applies to cluster-scoped objects. validate, mutate: the decision in a
    phase, or None. They must not change the request. screener: judges the rule together with others, if it has one.
    """

    name: str
    hooks: tuple[Hook, ...]
    action: Action
    reads: frozenset[str]
    namespaces: LabelSelector = EVERYTHING
    validate: Validator | None = None
    mutate: Mutator | None = None
    screener: Screener | None = None


# A cluster with many custom resources serves some hundred resources, each with a few subresources and four operations.
MEMORY = 10_000
NOTHING_SPARED = Safety()


class Turn(NamedTuple):
    """The rules that run for a request. screens: names of those that are judged together; alone: the others."""

    rules: tuple[Rule, ...]
    screens: tuple[tuple[Screener, Names], ...]
    alone: tuple[Rule, ...]
    names: Names


class RuleSet:
    """Rules in the order in which they run, and their exceptions. Raises ValueError if two have the same name."""

    def __init__(
        self,
        rules: Iterable[Rule],
        exceptions: Iterable[PolicyException] = (),
        safety: Safety = NOTHING_SPARED,
        help: Help = NO_HELP,
    ) -> None:
        self.rules = tuple(rule for rule in rules if rule.action != "off")
        self.exceptions = tuple(exceptions)
        self.safety = safety
        self.help = help
        for name, times in Counter(rule.name for rule in self.rules).items():
            if times > 1:
                raise ValueError(f"two rules are called {name!r}; names must be unique")
        self.screeners = tuple({rule.screener: None for rule in self.rules if rule.screener is not None})
        self._cache: dict[tuple[str, ...], tuple[Turn, Turn]] = {}

    def groups(self, phase: Phase) -> frozenset[str]:
        """The groups of hooks in a phase: the names that may follow `/mutate/` or `/validate/`."""
        return frozenset(hook.group for rule in self.rules for hook in rule.hooks if hook.phase == phase)

    def reads(self, phase: Phase, group: str | None) -> frozenset[str]:
        """The paths that rules read in objects at `/<phase>/<group>`; without a group, at `/<phase>`."""
        asked = (
            rule.reads
            for rule in self.rules
            if any(hook.phase == phase and group in (None, hook.group) for hook in rule.hooks)
        )
        return frozenset().union(*asked)

    def turn(self, phase: Phase, request: AdmissionRequest, group: str | None = None) -> Turn:
        """The rules that run for a request: those of `select`, or fewer if the request is spared."""
        turn, spared = self._match(phase, request, group)
        if len(spared.rules) < len(turn.rules) and self.safety.spares(request):
            return spared
        return turn

    def select(self, phase: Phase, request: Target, group: str | None = None) -> tuple[Rule, ...]:
        """The rules whose hooks match the request, in one group or in all."""
        return self._match(phase, request, group)[0].rules

    def _match(self, phase: Phase, request: Target, group: str | None) -> tuple[Turn, Turn]:
        """The turn for a request, and the one for requests that most rules spare.

        Matching depends only on a few short strings, so its results are cached. The cost of a request grows with the
        rules that match it, not with all rules.
        """
        target, sub = request.resource, request.sub_resource
        key = (phase, group or "", request.operation, target.group, target.version, target.resource, sub)
        match = self._cache.get(key)
        if match is None:
            matching = [
                (rule, hook)
                for rule in self.rules
                for hook in rule.hooks
                if hook.phase == phase and group in (None, hook.group)
                if any(resource.matches(request) for resource in hook.resources)
            ]
            everywhere = (rule for rule, hook in matching if hook.everywhere)
            match = _turn(rule for rule, _ in matching), _turn(everywhere)
            if len(self._cache) < MEMORY:
                self._cache[key] = match
        return match


def _turn(matching: Iterable[Rule]) -> Turn:
    rules, together = tuple(dict.fromkeys(matching)), dict[Screener, list[str]]()
    for rule in rules:
        if rule.screener is not None:
            together.setdefault(rule.screener, []).append(rule.name)
    screens = tuple((screener, Names(names)) for screener, names in together.items())
    alone = tuple(rule for rule in rules if rule.screener is None)
    return Turn(rules, screens, alone, Names(rule.name for rule in rules))
