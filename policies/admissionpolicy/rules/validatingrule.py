"""ValidatingAdmissionPolicies with their bindings as rules of the service, for requests and for pod templates.

Unlike the API server, the service reports all violations at once, each with its path and the parts of the expression
that decided. Policies on Pods also judge the templates of workloads, so that people see the refusal on the Deployment
and not in a ReplicaSet's events.

Policies are judged together: one look at a request finds those that may have something to say. At first each is judged
on its own. What requests have turned out to need is then fused into generated functions, on request, as that takes
tenths of a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from policies.admissionpolicy.derivation import DerivedPod, is_derived, template_paths, templated
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy, part_of
from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.evaluation.result import NOTHING_FOUND, Finding, Result, joined_annotation
from policies.admissionpolicy.evaluation.validator import evaluate_policy, parameters_of
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, Key, Subject, SubjectCache, Workloads, in_force
from policies.cel.explain import shown
from policies.cel.generation.fusion import Fused, fuse
from policies.cel.reads import OBJECTS
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.interruption import SkippedPolicyError
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
_WRITES = ("CREATE", "UPDATE")


class PolicyRule:
    """One policy with its bindings. `parameters` are objects for its bindings, in addition to those of the cluster.

    is_direct: whether requests themselves are judged, and not only the Pods that would be created, because
    kube-apiserver enforces the policy. is_derived: whether the Pods are.
    """

    def __init__(
        self, bound: BoundPolicy, parameters: StaticParameters, subjects: SubjectCache, *, is_direct: bool = True
    ) -> None:
        self.bound = bound
        self.is_direct = is_direct
        self.is_derived = is_derived(bound.policy) and covers_pods(bound.policy.match_constraints)
        self._parameters = parameters
        self._subjects = subjects
        self._reads = bound.compiled.reads

    def rule(self, screener: Screener) -> Rule:
        """The rule of the service. Its hooks cover all requests that may match; `validate` decides."""
        policy = self.bound.policy
        resources = self.bound.resource_rules() if self.is_direct else []
        workloads = self._subjects.workloads if self.is_derived else {}
        resources += [ResourceRule(_WRITES, (row.group,), (row.resource,)) for row in templated(workloads).values()]
        failing = policy.failure_policy
        hook = Hook(
            "validate",
            POLICY_GROUPS[failing],
            tuple(dict.fromkeys(resources)),
            failing,
            scope="*",
            exact=True,
            namespaces=self.bound.namespaces,
        )
        read = frozenset().union(*(self._reads[root].paths for root in OBJECTS))
        paths = read.union(_names(read), template_paths(workloads))
        return Rule(policy.name, (hook,), "deny", paths, validate=self.validate, screener=screener)

    def parameters(self, subject: Subject) -> tuple[Json | None, ...]:
        """Those with which the policy is evaluated. Raises MatchError, ConfigurationError, Missing, FactUnavailable."""
        bindings = self._matching(subject)
        if not bindings:
            return ()
        given = subject.parameters(self._parameters)
        return parameters_of(self.bound.compiled, bindings, given, subject.request.namespace)

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation | Note | Skip]:
        """The violations in a request and in the Pods that it would create, audit annotations, and ignored errors."""
        subject = self._subjects.of(request, facts)
        outcome: list[Violation | Note | Skip] = []
        if self.is_direct:
            result = self._result(subject) or NOTHING_FOUND
            for finding in result.findings:
                outcome += self._violations(finding, lambda location: location, position=len(outcome))
            outcome += [Note(key, joined_annotation(values)) for key, values in result.published.items()]
            outcome += [Skip(finding.policy, finding.message) for finding in result.ignored]
        if self.is_derived:
            own = len(outcome)
            for pod, subjects in subject.pods:
                outcome += self._derived(pod, subjects, own)
        return outcome

    def _derived(self, pod: DerivedPod, subjects: Sequence[Subject], position: int) -> Iterator[Violation]:
        """The violations in a template; only warnings if they depend on a field that the Pod's admission fills in.

        position: where those of templates begin. The places of a validation in several templates stay together.
        """
        results = (result for subject in subjects if (result := self._result(subject)) is not None)
        findings = next(results, NOTHING_FOUND).findings
        unless = ", ".join(sorted(pod.unknown_to(self._reads))) if findings else ""  # takes longer than the evaluation
        for finding in findings:
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
        places = []
        for reason in finding.reasons:
            if reason.place is not None and reason.place[0] != "object":
                path = shown(reason.place)
            else:
                path = fieldpath.render(place(reason.place[1:] if reason.place else ()))
            places.append((path, reason.detail))
        if finding.kind == "violation" and self.bound.policy.validations[finding.index].message_expression is not None:
            places = [(path, "") for path, _ in places[:1] if path]
        return places or [(fieldpath.render(place(())), "")]

    def _result(self, subject: Subject) -> Result | None:
        bindings = self._matching(subject)
        if not bindings:
            return None
        if self.bound.policy.name in subject.facts.skipped:
            raise SkippedPolicyError
        return evaluate_policy(self.bound.compiled, bindings, subject.parameters(self._parameters), subject.inputs)

    def _matching(self, subject: Subject) -> Sequence[Binding]:
        return self.bound.matching(subject.request, subject.selects, subject.key)


class _Batch:
    """A few policies, all of which are asked until they are fused into one function."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self._rules = rules
        self._function: Fused | None = None

    def fuse(self) -> None:
        self._function = fuse(
            [part_of(rule.bound.compiled, is_selective=not rule.bound.is_plain) for rule in self._rules]
        )

    def asked(self, subject: Subject, names: Mapping[str, Value]) -> list[str]:
        function, rules = self._function, self._rules
        if function is None:
            return [rule.bound.policy.name for rule in rules]
        asked: list[int] = []
        function(
            names,
            lambda position: rules[position].parameters(subject),
            asked,
            subject.facts.expired,
            lambda error, position: error.blame(rules[position].bound.policy.name),
        )
        return [rules[position].bound.policy.name for position in asked]


class PolicyScreener:
    """Makes the screens of a rule set. rules: its policies, by name."""

    def __init__(self, rules: Mapping[str, PolicyRule], subjects: SubjectCache) -> None:
        self.subjects = subjects
        self._rules = rules
        self._batches: dict[tuple[str, ...], Sequence[_Batch]] = {}
        self._waiting: deque[_Batch] = deque()

    def screen(self, names: Sequence[str]) -> PolicyScreen:
        """The screen of some of the policies."""
        return PolicyScreen({name: self._rules[name] for name in names}, self)

    @property
    def is_waiting(self) -> bool:
        """Whether policies have been judged together that are not fused yet."""
        return bool(self._waiting)

    def prepare(self) -> None:
        """Fuse policies that have been judged together, which may take tenths of a second."""
        while self._waiting:
            self._waiting.popleft().fuse()

    def batches(self, rules: Mapping[str, PolicyRule]) -> Sequence[_Batch]:
        """Some of the policies, a few at a time: the same batches for the same names."""
        names = tuple(rules)
        batches = self._batches.get(names)
        if batches is None:
            listed = list(rules.values())
            batches = [_Batch(listed[start : start + _TOGETHER]) for start in range(0, len(listed), _TOGETHER)]
            if len(self._batches) < _FUNCTIONS:
                self._batches[names] = batches
                self._waiting += batches
        return batches


class PolicyScreen:
    """Some policies that are judged together. names: theirs."""

    def __init__(self, rules: Mapping[str, PolicyRule], screener: PolicyScreener) -> None:
        self.names = Names(rules)
        self._rules = rules
        self._screener = screener
        self._is_derived = any(rule.is_derived for rule in rules.values())
        self._batches: dict[tuple[Key, bool], Sequence[_Batch]] = {}

    def asked(self, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        subject = self._screener.subjects.of(request, facts)
        asked = self._asked(subject, derived=False)
        if self._is_derived:
            for pod in (pod for _, pods in subject.pods for pod in pods):
                asked += self._asked(pod, derived=True)
        return asked + [name for name in self.names if name in facts.skipped] if facts.skipped else asked

    def _asked(self, subject: Subject, *, derived: bool) -> list[str]:
        """The same for a request, or for a Pod that would be created."""
        batches = self._batches.get((subject.key, derived))
        if batches is None:
            batches = self._screener.batches(
                {
                    name: rule
                    for name, rule in self._rules.items()
                    if (rule.is_derived if derived else rule.is_direct)
                    and rule.bound.may_match(subject.request, subject.key)
                }
            )
            if len(self._batches) < _KEYS:
                self._batches[subject.key, derived] = batches
        if not batches:
            return []
        names = subject.inputs.lazily()
        return [name for batch in batches for name in batch.asked(subject, names)]


def rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: StaticParameters,
    workloads: Workloads,
    compile_: Compile = compile_policy,
    *,
    native: bool = False,
) -> list[Rule]:
    """The rules of all validating policies in force. native: kube-apiserver enforces them, but not on templates."""
    subjects = SubjectCache(workloads)
    made = {
        bound.policy.name: PolicyRule(bound, parameters, subjects, is_direct=not native)
        for bound in in_force("ValidatingAdmissionPolicy", policies, bindings, compile_)
        if not native or covers_pods(bound.policy.match_constraints)
    }
    screener = PolicyScreener(made, subjects)
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
