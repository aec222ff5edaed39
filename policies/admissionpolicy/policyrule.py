"""A ValidatingAdmissionPolicy with its bindings as a rule of the service, for requests and for pod templates.

What the service adds to the API server's own evaluation: all violations at once, each with its path and the parts of
the expression that decided; and a policy on Pods judges the templates of workloads, so that the refusal is on the
Deployment and not in a ReplicaSet's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from policies import fieldpath
from policies.admissionpolicy.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.derived import Derived, derive, is_derived, template_paths
from policies.admissionpolicy.finding import Finding
from policies.admissionpolicy.inputs import Inputs
from policies.admissionpolicy.matching import Matcher, MatchError
from policies.admissionpolicy.model import Binding, Expression, MatchResources, NamedRule, Policy
from policies.admissionpolicy.params import Parameters
from policies.admissionpolicy.validating import evaluate_policy
from policies.cel.checking.checker import check
from policies.cel.environment import Environment
from policies.cel.explanation.explain import Reason
from policies.cel.explanation.places import shown
from policies.cel.reads import EVERYTHING, NOTHING, ROOTS, Reads, reads
from policies.cel.syntax.ast import Node
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError
from policies.facts import Facts
from policies.fieldpath import Location
from policies.match import ResourceRule
from policies.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject
from policies.rule import Hook, Rule
from policies.violation import Verdict, Violation
from policies.workload import Workload

GROUP = "policies"
"""The group of hooks under which the API server asks about policies: `/validate/policies`."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A binding, and the requests that it is for."""

    binding: Binding
    matcher: Matcher | None


class PolicyRule:
    """One policy with its bindings. `parameters` are the objects that its bindings may name."""

    def __init__(
        self,
        policy: Policy,
        bindings: Iterable[Binding],
        parameters: Parameters,
        workloads: Mapping[tuple[str, str], Workload],
    ) -> None:
        self._compiled: CompiledPolicy = compile_policy(policy)
        self._matcher = Matcher(policy.match_constraints)
        self._bound = tuple(
            _Bound(each, None if each.match_resources is None else Matcher(each.match_resources)) for each in bindings
        )
        self._parameters = parameters
        self._workloads = workloads if is_derived(policy) and covers_pods(policy.match_constraints) else {}
        self._reads = policy_reads(self._compiled)

    @property
    def rule(self) -> Rule:
        """The rule of the service. Its hooks take in all that may match; `validate` looks closely."""
        policy = self._compiled.policy
        resources = [_resource_rule(rule, policy.match_constraints) for rule in policy.match_constraints.resource_rules]
        resources += [_template_rule(group, kind) for group, kind in self._workloads if (group, kind) != ("", "Pod")]
        hook = Hook("validate", GROUP, tuple(dict.fromkeys(resources)), policy.failure_policy)
        paths = frozenset().union(*(read.paths for read in self._reads.values())) | template_paths(self._workloads)
        return Rule(policy.name, (hook,), "deny", paths, validate=self.validate)

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What the policy finds in a request, and in the Pods that would come of it.

        Raises UnknownFact, and UnansweredCheck for an authorization check without an answer.
        """
        found = list(self._judged(request, facts))
        for pod in derive(request, self._workloads):
            found += self._derived(pod, facts)
        return found

    def _judged(self, request: AdmissionRequest, facts: Facts) -> Iterator[Violation]:
        for finding in self._findings(request, facts):
            yield from _violations(finding, lambda location: location)

    def _derived(self, pod: Derived, facts: Facts) -> Iterator[Violation]:
        """What is found in a template. A field that only the Pod's own admission fills makes it a warning."""
        open_fields = pod.unknown_to(self._reads["object"])
        for finding in self._findings(pod.request, facts):
            for violation in _violations(finding, pod.place):
                yield violation.as_warning(", ".join(sorted(open_fields))) if open_fields else violation

    def _findings(self, request: AdmissionRequest, facts: Facts) -> tuple[Finding, ...]:
        try:
            if not self._matcher.matches(request, facts.namespace_labels):
                return ()
            bindings = [
                each.binding
                for each in self._bound
                if each.matcher is None or each.matcher.matches(request, facts.namespace_labels)
            ]
        except MatchError as error:
            return self._unmatched(error)
        if not bindings:
            return ()
        inputs = Inputs(
            request=as_json(request),
            object=request.object,
            old_object=request.old_object,
            namespace=lambda: _namespace(request, facts),
            decisions=facts,
        )
        return evaluate_policy(self._compiled, bindings, self._parameters, inputs).findings

    def _unmatched(self, error: MatchError) -> tuple[Finding, ...]:
        if self._compiled.policy.failure_policy == "Ignore":
            return ()
        policy = self._compiled.policy.name
        return (Finding(policy=policy, kind="misconfigured", message=str(error), actions=frozenset({"Deny"})),)


def rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: Parameters,
    workloads: Mapping[tuple[str, str], Workload],
) -> list[Rule]:
    """The rules of all validating policies that are in force: those with a binding."""
    bound: dict[str, list[Binding]] = {}
    for binding in bindings:
        if binding.kind == "ValidatingAdmissionPolicyBinding":
            bound.setdefault(binding.policy_name, []).append(binding)
    return [
        PolicyRule(policy, bound[policy.name], parameters, workloads).rule
        for policy in policies
        if policy.kind == "ValidatingAdmissionPolicy" and policy.name in bound
    ]


def covers_pods(constraints: MatchResources) -> bool:
    """Whether a policy may be for the creation of Pods."""
    return any(
        {"", "*"} & set(rule.api_groups)
        and {"pods", "*", "*/*", "pods/*"} & set(rule.resources)
        and {"CREATE", "*"} & set(rule.operations)
        for rule in constraints.resource_rules
    )


def _resource_rule(rule: NamedRule, constraints: MatchResources) -> ResourceRule:
    versions = ("*",) if constraints.match_policy == "Equivalent" else rule.api_versions
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT") if "*" in rule.operations else rule.operations
    return ResourceRule(operations, rule.api_groups, rule.resources, versions)


def _template_rule(group: str, kind: str) -> ResourceRule:
    """The resource of a workload's kind: all kinds of the table have the plain plural."""
    return ResourceRule(("CREATE", "UPDATE"), (group,), (f"{kind.lower()}s",))


def as_json(request: AdmissionRequest) -> dict[str, Any]:
    """A request as the AdmissionRequest that came, without its objects."""
    return {
        "uid": request.uid,
        "kind": _fields(request.kind),
        "resource": _fields(request.resource),
        "subResource": request.sub_resource,
        "requestKind": _fields(request.request_kind or request.kind),
        "requestResource": _fields(request.request_resource or request.resource),
        "requestSubResource": request.request_sub_resource or request.sub_resource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": {
            "username": request.user_info.username,
            "uid": request.user_info.uid,
            "groups": list(request.user_info.groups),
            "extra": {key: list(values) for key, values in request.user_info.extra.items()},
        },
        "dryRun": request.dry_run,
        "options": request.options,
    }


def _fields(value: GroupVersionKind | GroupVersionResource) -> dict[str, str]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _namespace(request: AdmissionRequest, facts: Facts) -> JsonObject | None:
    """What is known of the request's Namespace: its name and labels."""
    if not request.namespace:
        return None
    return {"metadata": {"name": request.namespace, "labels": dict(facts.namespace_labels(request.namespace))}}


def policy_reads(compiled: CompiledPolicy) -> Mapping[str, Reads]:
    """What all expressions of a policy together read of `object` and `oldObject`."""
    policy, environment = compiled.policy, compiled.composition.environment
    try:
        variables = {each.name: _tree(each.expression, environment) for each in policy.variables}
        trees = [_tree(expression, environment) for expression in _expressions(policy)]
    except CompileError:
        return dict.fromkeys(ROOTS, EVERYTHING)
    found = [reads(tree, variables) for tree in trees]
    return {root: reduce(or_, (each[root] for each in found), NOTHING) for root in ROOTS}


def _tree(expression: Expression, environment: Environment) -> Node:
    tree = parse(expression.source)
    check(tree, expression.source, environment)
    return tree


def _expressions(policy: Policy) -> Iterator[Expression]:
    yield from (each.expression for each in policy.match_conditions)
    for validation in policy.validations:
        yield validation.expression
        if validation.message_expression is not None:
            yield validation.message_expression
    yield from (each.value_expression for each in policy.audit_annotations)


def _violations(finding: Finding, place: Callable[[Location], Location]) -> Iterator[Violation]:
    """A finding as violations: one for each part of the expression that decided."""
    verdict: Verdict = "deny" if finding.denies else "warn" if "Warn" in finding.actions else "audit"
    for path, found in [(_path(reason, place), reason.detail) for reason in finding.reasons] or [("", "")]:
        yield Violation(
            rule=finding.policy,
            path=path,
            found=found,
            problem="",
            summary=finding.native,
            remedy="",
            verdict=verdict,
            status=finding.reason,
        )


def _path(reason: Reason, place: Callable[[Location], Location]) -> str:
    if reason.place is None:
        return ""
    if reason.place[0] != "object":
        return shown(reason.place)
    return fieldpath.render(place(reason.place[1:]))
