"""A ValidatingAdmissionPolicy with its bindings as a rule of the service, for requests and for pod templates.

Unlike the API server, the service reports all violations at once, each with its path and the parts of the expression
that decided. Policies on Pods also judge the templates of workloads, so that people see the refusal on the Deployment
and not in a ReplicaSet's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from policies.admissionpolicy.evaluation import texts
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy
from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.evaluation.result import NOTHING_FOUND, Finding, Result
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.admissionpolicy.pods.derivation import DerivedPod, is_derived, template_paths, templated
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, in_force
from policies.admissionpolicy.rules.policyscreen import Member, PolicyScreener
from policies.admissionpolicy.rules.subject import Subject, SubjectCache, Workloads
from policies.cel.explanation.explain import Reason
from policies.cel.explanation.places import shown
from policies.engine.facts import Facts
from policies.engine.interruption import SkippedPolicyError
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, Hook, Note, Rule, Screener, Skip
from policies.engine.violation import Verdict, Violation
from policies.objects import fieldpath
from policies.objects.fieldpath import Location, Wildcard

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
            outcome += [Note(key, texts.joined(values)) for key, values in result.published.items()]
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
