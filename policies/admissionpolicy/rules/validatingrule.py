"""ValidatingAdmissionPolicies with their bindings as rules of the service, for requests and for pod templates.

Unlike the API server, the service reports all violations at once, each with its path and the parts of the expression
that decided. Policies on Pods also judge the templates of workloads, so that people see the refusal on the Deployment
and not in a ReplicaSet's events.

Policies are judged together: one look at a request finds those that may have something to say. At first each is asked
on its own whether it holds. What requests have turned out to need is then fused into generated functions, on request,
as that takes tenths of a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from policies.admissionpolicy.derivation import DerivedPod, is_derived, template_paths, templated
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy, part_of
from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.evaluation.result import NOTHING_FOUND, Finding, Result, joined_annotation
from policies.admissionpolicy.evaluation.validator import evaluate_policy, holds, parameters_of
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, Key, Subject, SubjectCache, Workloads, in_force
from policies.cel.explanation.explain import Reason
from policies.cel.explanation.places import shown
from policies.cel.generation.fusion import Fused, fuse
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.interruption import SkippedPolicyError, TimeLimitError
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, Hook, Names, Note, Rule, Screener, Skip
from policies.engine.violation import Verdict, Violation
from policies.objects import fieldpath
from policies.objects.fieldpath import Location, Wildcard

# A cluster writes some dozen kinds of objects all the time, in a few ways each.
_FUNCTIONS = 200
_KEYS = 4_000
# Python compiles a function while everything else waits, this many policies in some 5 to 10 ms.
_TOGETHER = 10


class Member(Struct, frozen=True):
    """A policy that is judged together with others.

    is_direct: whether it judges requests themselves. is_derived: whether it judges the Pods that would be created.
    """

    bound: BoundPolicy
    parameters: StaticParameters
    is_direct: bool
    is_derived: bool

    def evaluated(self, subject: Subject) -> tuple[Json | None, ...]:
        """The parameters with which the policy is evaluated. Raises MatchError, ConfigurationError, Missing, ...."""
        request = subject.request
        bindings = self.bound.matching(request, subject.selects, subject.key)
        if not bindings:
            return ()
        return parameters_of(self.bound.compiled, bindings, subject.parameters(self.parameters), request.namespace)

    def holds(self, subject: Subject) -> bool:
        """Whether the policy certainly has nothing to say. Raises what `evaluated` raises."""
        compiled = self.bound.compiled
        return all(holds(compiled, params, subject.inputs) for params in self.evaluated(subject))


class PolicyScreener:
    """Makes the screens of a rule set. members: its policies, by name."""

    def __init__(self, members: Mapping[str, Member], subjects: SubjectCache) -> None:
        self._members = members
        self._subjects = subjects
        self._panels: dict[tuple[str, ...], Panel] = {}
        self._waiting: deque[Panel] = deque()

    def screen(self, names: Sequence[str]) -> PolicyScreen:
        """The screen of some of the policies."""
        return PolicyScreen({name: self._members[name] for name in names}, self._subjects, self.panel)

    @property
    def is_waiting(self) -> bool:
        """Whether policies have been judged together that are not fused yet."""
        return bool(self._waiting)

    def prepare(self) -> None:
        """Fuse policies that have been judged together, which may take tenths of a second."""
        while self._waiting:
            self._waiting.popleft().fuse()

    def panel(self, members: Mapping[str, Member]) -> Panel:
        """The panel of some members: the same for the same names."""
        names = tuple(members)
        panel = self._panels.get(names)
        if panel is None:
            panel = Panel(members)
            if len(self._panels) < _FUNCTIONS:
                self._panels[names] = panel
                self._waiting.append(panel)
        return panel


class PolicyScreen:
    """Some policies that are judged together. names: theirs."""

    def __init__(
        self, members: Mapping[str, Member], subjects: SubjectCache, panel: Callable[[Mapping[str, Member]], Panel]
    ) -> None:
        self.names = Names(members)
        self._members = members
        self._subjects = subjects
        self._panel = panel
        self._is_derived = any(member.is_derived for member in members.values())
        self._panels: dict[tuple[Key, bool], Panel] = {}

    def asked(self, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        subject = self._subjects.of(request, facts)
        asked = self._of(subject, derived=False).asked(subject)
        if self._is_derived:
            for pod in (pod for _, pods in subject.pods for pod in pods):
                asked += self._of(pod, derived=True).asked(pod)
        return asked + [name for name in self.names if name in facts.skipped] if facts.skipped else asked

    def _of(self, subject: Subject, *, derived: bool) -> Panel:
        """The panel for a request, or for a Pod that would be created."""
        panel = self._panels.get((subject.key, derived))
        if panel is None:
            panel = self._panel(
                {
                    name: member
                    for name, member in self._members.items()
                    if (member.is_derived if derived else member.is_direct)
                    and member.bound.may_match(subject.request, subject.key)
                }
            )
            if len(self._panels) < _KEYS:
                self._panels[subject.key, derived] = panel
        return panel


class Panel:
    """The policies that may apply to requests of a key: a function for every few of them, once they are fused."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._groups = tuple(map(_Group, _batches(members.items())))

    def fuse(self) -> None:
        """Make the functions."""
        for group in self._groups:
            group.fuse()

    def asked(self, subject: Subject) -> list[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        names = subject.inputs.lazily() if self._groups else {}
        return [name for group in self._groups for name in group.asked(subject, names)]


class _Group:
    """Some of the policies."""

    def __init__(self, members: Iterable[tuple[str, Member]]) -> None:
        self._members = tuple(members)
        self._function: Fused | None = None

    def fuse(self) -> None:
        self._function = fuse(
            [part_of(member.bound.compiled, is_selective=not member.bound.is_plain) for _, member in self._members]
        )

    def asked(self, subject: Subject, names: Mapping[str, Value]) -> Iterable[str]:
        function, members = self._function, self._members
        if function is None:
            return (name for name, member in members if not _sure(name, member, subject))
        asked: list[int] = []
        function(
            names,
            lambda position: members[position][1].evaluated(subject),
            lambda position: members[position][1].holds(subject),
            asked,
            subject.facts.expired,
            lambda error, position: error.blame(members[position][0]),
        )
        return [members[position][0] for position in asked]


def _sure(name: str, member: Member, subject: Subject) -> bool:
    """Whether a policy certainly has nothing to say."""
    try:
        return member.holds(subject)
    except TimeLimitError as error:
        error.blame(name)
        raise
    except Exception:  # noqa: BLE001 - the rule itself raises it again, where it counts
        return False


def _batches(members: Iterable[tuple[str, Member]]) -> Iterator[tuple[tuple[str, Member], ...]]:
    """The members, a few at a time."""
    remaining = iter(members)
    while batch := tuple(islice(remaining, _TOGETHER)):
        yield batch


_WRITES = ("CREATE", "UPDATE")


class PolicyRule:
    """One policy with its bindings. `parameters` are objects for its bindings, in addition to those of the cluster.

    native: whether kube-apiserver enforces the policy, so that only pod templates are judged here.
    """

    def __init__(
        self, bound: BoundPolicy, parameters: StaticParameters, subjects: SubjectCache, *, native: bool = False
    ) -> None:
        self._native = native
        self._bound = bound
        self._parameters = parameters
        self._subjects = subjects
        self._is_derived = is_derived(bound.policy) and covers_pods(bound.policy.match_constraints)
        self._reads = bound.compiled.reads

    def rule(self, screener: Screener) -> Rule:
        """The rule of the service. Its hooks cover all requests that may match; `validate` decides."""
        policy = self._bound.policy
        resources = [] if self._native else self._bound.resource_rules()
        workloads = self._subjects.workloads if self._is_derived else {}
        resources += [ResourceRule(_WRITES, (row.group,), (row.resource,)) for row in templated(workloads).values()]
        failing = policy.failure_policy
        hook = Hook(
            "validate",
            POLICY_GROUPS[failing],
            tuple(dict.fromkeys(resources)),
            failing,
            scope="*",
            exact=True,
            namespaces=self._bound.namespaces,
        )
        read = frozenset().union(*(read.paths for read in self._reads.values()))
        paths = read.union(_names(read), template_paths(workloads))
        return Rule(policy.name, (hook,), "deny", paths, validate=self.validate, screener=screener)

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation | Note | Skip]:
        """The violations in a request and in the Pods that it would create, audit annotations, and ignored errors.

        Raises Missing and FactUnavailable.
        """
        subject = self._subjects.of(request, facts)
        outcome: list[Violation | Note | Skip] = []
        if not self._native:
            result = self._result(subject)
            for finding in result.findings:
                outcome += self._violations(finding, lambda location: location, position=len(outcome))
            outcome += [Note(key, joined_annotation(values)) for key, values in result.published.items()]
            outcome += [Skip(finding.policy, finding.message) for finding in result.ignored]
        if self._is_derived:
            own = len(outcome)
            for pod, subjects in subject.pods:
                outcome += self._derived(pod, subjects, own)
        return outcome

    @property
    def member(self) -> Member:
        """The policy as it is judged together with others."""
        return Member(self._bound, self._parameters, is_direct=not self._native, is_derived=self._is_derived)

    def _derived(self, pod: DerivedPod, subjects: Sequence[Subject], position: int) -> Iterator[Violation]:
        """The violations in a template; only warnings if they depend on a field that the Pod's admission fills in.

        position: where those of templates begin. The places of a validation in several templates stay together.
        """
        unless = ", ".join(sorted(pod.unknown_to(self._reads["object"])))
        results = (self._evaluated(subject, bound) for subject in subjects if (bound := self._matching(subject)))
        for finding in next(results, NOTHING_FOUND).findings:
            yield from self._violations(finding, pod.place, unless, position=position + finding.index)

    def _violations(
        self, finding: Finding, place: Callable[[Location], Location], unless: str = "", *, position: int
    ) -> Iterator[Violation]:
        """A finding as violations, one for each part of the expression that decided.

        unless: fields that may still be filled in so that there is no violation; if there are any, nothing is refused.
        position: of the finding among those of the policy.
        """
        verdict: Verdict = "deny" if finding.denies else "warn" if "Warn" in finding.actions else "audit"
        if unless and verdict == "deny":
            verdict = "warn"
        # A warning has few characters, and the API server's names of policy and binding are long.
        summary = finding.native if verdict == "deny" else f"{finding.policy}: {finding.message}"
        for path, detail in self._places(finding, place):
            yield Violation(
                rule=finding.policy,
                path=path,
                value=detail,
                problem=f"(unless {unless} will be set otherwise)" if unless else "",
                summary=summary,
                remedy="",
                verdict=verdict,
                status=finding.status,
                position=position,
            )

    def _places(self, finding: Finding, place: Callable[[Location], Location]) -> list[tuple[str, str]]:
        """Paths with what is wrong there. If the policy has a messageExpression, its message replaces the latter."""
        places = [(_path(reason, place), reason.detail) for reason in finding.reasons]
        if finding.kind == "violation" and self._bound.policy.validations[finding.index].message_expression is not None:
            places = [(path, "") for path, _ in places[:1] if path]
        return places or [(fieldpath.render(place(())), "")]

    def _result(self, subject: Subject) -> Result:
        bindings = self._matching(subject)
        return self._evaluated(subject, bindings) if bindings else NOTHING_FOUND

    def _matching(self, subject: Subject) -> Sequence[Binding]:
        return self._bound.matching(subject.request, subject.selects, subject.key)

    def _evaluated(self, subject: Subject, bindings: Sequence[Binding]) -> Result:
        if self._bound.policy.name in subject.facts.skipped:
            raise SkippedPolicyError
        return evaluate_policy(self._bound.compiled, bindings, subject.parameters(self._parameters), subject.inputs)


def rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: StaticParameters,
    workloads: Workloads,
    compile_: Compile = compile_policy,
    *,
    native: bool = False,
) -> list[Rule]:
    """The rules of all validating policies that are in force. For `native` see PolicyRule."""
    subjects = SubjectCache(workloads)
    made = {
        bound.policy.name: PolicyRule(bound, parameters, subjects, native=native)
        for bound in in_force("ValidatingAdmissionPolicy", policies, bindings, compile_)
        if not native or covers_pods(bound.policy.match_constraints)
    }
    screener = PolicyScreener({name: rule.member for name, rule in made.items()}, subjects)
    return [rule.rule(screener) for rule in made.values()]


def covers_pods(constraints: MatchResources) -> bool:
    """Whether a policy may match the creation of Pods."""
    return any(
        {"", "*"} & set(rule.api_groups)
        and {"pods", "*", "*/*", "pods/*"} & set(rule.resources)
        and {"CREATE", "*"} & set(rule.operations)
        for rule in constraints.resource_rules
    )


def _names(paths: Iterable[str]) -> Iterator[str]:
    """The paths of the names of lists' items, which explanations show: `container "sidecar"`."""
    for pattern in map(fieldpath.parse, paths):
        for index, step in enumerate(pattern):
            if step is Wildcard.ITEMS:
                yield fieldpath.render((*pattern[: index + 1], "name"))


def _path(reason: Reason, place: Callable[[Location], Location]) -> str:
    if reason.place is None:
        return fieldpath.render(place(()))
    if reason.place[0] != "object":
        return shown(reason.place)
    return fieldpath.render(place(reason.place[1:]))
