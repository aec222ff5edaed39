"""A ValidatingAdmissionPolicy with its bindings as a rule of the service, for requests and for pod templates.

What the service adds to the API server's own evaluation: all violations at once, each with its path and the parts of
the expression that decided; and a policy on Pods judges the templates of workloads, so that the refusal is on the
Deployment and not in a ReplicaSet's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from policies import fieldpath
from policies.admissionpolicy.bound import BoundPolicy, bound, inputs
from policies.admissionpolicy.compilation import Compile, compile_policy
from policies.admissionpolicy.derived import Derived, derive, is_derived, template_paths
from policies.admissionpolicy.finding import Finding
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.admissionpolicy.params import Parameters, UnknownParameters
from policies.admissionpolicy.validating import evaluate_policy
from policies.cel.explanation.explain import Reason
from policies.cel.explanation.places import shown
from policies.facts import Facts
from policies.fieldpath import Location, Wildcard
from policies.match import ResourceRule
from policies.request import AdmissionRequest
from policies.rule import POLICY_GROUPS, Hook, Rule
from policies.violation import Verdict, Violation
from policies.workload import Workload


class PolicyRule:
    """One policy with its bindings. `parameters` are the objects that its bindings may name.

    native: whether kube-apiserver enforces it already, so that only pod templates are left to be judged here.
    """

    def __init__(
        self,
        bound: BoundPolicy,
        parameters: Parameters,
        workloads: Mapping[tuple[str, str], Workload],
        *,
        native: bool = False,
    ) -> None:
        self._native = native
        self._bound = bound
        self._parameters = parameters
        derived = is_derived(bound.policy) and covers_pods(bound.policy.match_constraints)
        self._workloads = workloads if derived else {}
        self._reads = bound.compiled.reads

    @property
    def rule(self) -> Rule:
        """The rule of the service. Its hooks take in all that may match; `validate` looks closely."""
        policy = self._bound.policy
        resources = [] if self._native else self._bound.resource_rules()
        resources += [_template_rule(group, kind) for group, kind in self._workloads if (group, kind) != ("", "Pod")]
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
        paths = read.union(_names(read), template_paths(self._workloads))
        return Rule(policy.name, (hook,), "deny", paths, validate=self.validate)

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What the policy finds in a request, and in the Pods that would come of it.

        Raises UnknownFact, and UnansweredCheck for an authorization check without an answer.
        """
        found = [] if self._native else list(self._judged(request, facts))
        for pod in derive(request, self._workloads):
            found += self._derived(pod, facts)
        return found

    def _judged(self, request: AdmissionRequest, facts: Facts) -> Iterator[Violation]:
        for finding in self._findings(request, facts):
            yield from self._violations(finding, lambda location: location)

    def _derived(self, pod: Derived, facts: Facts) -> Iterator[Violation]:
        """What is found in a template. A field that only the Pod's own admission fills makes it a warning."""
        unless = ", ".join(sorted(pod.unknown_to(self._reads["object"])))
        for finding in self._findings(pod.request, facts):
            yield from self._violations(finding, pod.place, unless)

    def _violations(
        self, finding: Finding, place: Callable[[Location], Location], unless: str = ""
    ) -> Iterator[Violation]:
        """A finding as violations: one for each part of the expression that decided.

        unless: the fields that may still become such that nothing is wrong; then nothing is refused.
        """
        verdict: Verdict = "deny" if finding.denies else "warn" if "Warn" in finding.actions else "audit"
        if unless and verdict == "deny":
            verdict = "warn"
        # A warning has 120 characters: too few for the API server's way of naming policy and binding.
        summary = finding.native if verdict == "deny" else f"{finding.policy}: {finding.message}"
        for path, found in self._places(finding, place):
            yield Violation(
                rule=finding.policy,
                path=path,
                found=found,
                problem=f"(unless {unless} will be set otherwise)" if unless else "",
                summary=summary,
                remedy="",
                verdict=verdict,
                status=finding.reason,
            )

    def _places(self, finding: Finding, place: Callable[[Location], Location]) -> list[tuple[str, str]]:
        """Paths, and what is wrong at each. A messageExpression is the author's own way to say the latter."""
        found = [(_path(reason, place), reason.detail) for reason in finding.reasons]
        if finding.kind == "violation" and self._bound.policy.validations[finding.index].message_expression is not None:
            found = [(path, "") for path, _ in found[:1] if path]
        return found or [("", "")]

    def _findings(self, request: AdmissionRequest, facts: Facts) -> tuple[Finding, ...]:
        bindings = self._bound.matching(request, facts.namespace_labels)
        if not bindings:
            return ()
        try:
            return evaluate_policy(self._bound.compiled, bindings, self._parameters, inputs(request, facts)).findings
        except UnknownParameters as needed:
            facts.give_up(needed)
            raise


def rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: Parameters,
    workloads: Mapping[tuple[str, str], Workload],
    compile_: Compile = compile_policy,
    *,
    native: bool = False,
) -> list[Rule]:
    """The rules of all validating policies that are in force; for native ones see PolicyRule."""
    found = bound("ValidatingAdmissionPolicy", policies, bindings, compile_)
    if native:
        found = [each for each in found if covers_pods(each.policy.match_constraints)]
    return [PolicyRule(each, parameters, workloads, native=native).rule for each in found]


def covers_pods(constraints: MatchResources) -> bool:
    """Whether a policy may be for the creation of Pods."""
    return any(
        {"", "*"} & set(rule.api_groups)
        and {"pods", "*", "*/*", "pods/*"} & set(rule.resources)
        and {"CREATE", "*"} & set(rule.operations)
        for rule in constraints.resource_rules
    )


def _template_rule(group: str, kind: str) -> ResourceRule:
    """The resource of a workload's kind: all kinds of the table have the plain plural."""
    return ResourceRule(("CREATE", "UPDATE"), (group,), (f"{kind.lower()}s",))


def _names(paths: Iterable[str]) -> Iterator[str]:
    """The names of the items of lists, by which explanations call them: `container "sidecar"`."""
    for pattern in map(fieldpath.parse, paths):
        for index, step in enumerate(pattern):
            if step is Wildcard.ITEMS:
                yield fieldpath.render((*pattern[: index + 1], "name"))


def _path(reason: Reason, place: Callable[[Location], Location]) -> str:
    if reason.place is None:
        return ""
    if reason.place[0] != "object":
        return shown(reason.place)
    return fieldpath.render(place(reason.place[1:]))
