"""Policies with their bindings as rules of the service: what they match, what they find, and how they change objects.

Unlike the API server, the service reports all violations at once, each with its path and the parts of the expression
that decided. Policies on Pods also judge the templates of workloads, so that people see the refusal on the Deployment
and not in a ReplicaSet's events.

Validating policies are judged together: one look at a request finds those that may have something to say. At first each
is judged on its own. What requests have turned out to need is then fused into generated functions, on request, as that
takes tenths of a second. All mutating policies are one rule.

Sources of what matches, all of k8s.io/apiserver's pkg/admission/plugin: policy/matching/matching.go,
policy/generic/plugin.go, webhook/predicates/{rules,namespace,object}; for the excluded resources k8s.io/kubernetes'
pkg/kubeapiserver/admission/exclusion/resources.go. With `matchPolicy: Equivalent`, all versions of a resource are
equivalent, served or not, and nothing is converted: the policy sees the kind, the resource and the object of the
request as they were sent. The two kinds of `events` are two resources, because their objects have different fields.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from weakref import ReferenceType

import jsonpatch
from msgspec.structs import replace

from policies.admissionpolicy.derivation import DerivedPod, derive, is_derived, template_paths, templated
from policies.admissionpolicy.evaluation.compilation import Compile, CompiledPolicy, compile_policy, part_of
from policies.admissionpolicy.evaluation.inputs import (
    Inputs,
    Json,
    LazyNames,
    ReviewParameters,
    StaticParameters,
    inputs_of,
)
from policies.admissionpolicy.evaluation.validator import NOTHING_FOUND, Finding, Result, evaluate_policy, parameters_of
from policies.admissionpolicy.model import Binding, MatchResources, NamedRule, Policy
from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.schema import Schema
from policies.cached import cached_property
from policies.cel.explain import shown
from policies.cel.generation.fusion import Fused, fuse
from policies.cel.reads import OBJECTS
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.interruption import SkippedPolicyError
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, common, object_labels, selects
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject
from policies.engine.rule import (
    POLICY_GROUPS,
    Hook,
    Mutation,
    MutationRefusedError,
    Names,
    Note,
    PolicyException,
    Rule,
    Screener,
    Skip,
    longest,
)
from policies.engine.safety import REVIEWS
from policies.engine.violation import Verdict, Violation
from policies.objects import fieldpath
from policies.objects.fieldpath import Location, Wildcard
from policies.objects.workload import Workload

NamespaceLabels = Callable[[str], Mapping[str, str] | None]
"""The labels of a Namespace by its name, None if it does not exist. May raise Missing and FactUnavailable."""

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

UNSEEN: Mapping[str, Collection[str]] = {
    "admissionregistration.k8s.io": [
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"),
    ],
    **REVIEWS,
}
"""Resources by group to which no policy applies, because it could lock everybody out.

kube-apiserver applies policies to the two kinds of webhook configurations, but never calls webhooks for them, and the
service is a webhook.
"""


class MatchError(Exception):
    """It is unknown whether something matches; the policy's failurePolicy decides. The text is Kubernetes'."""


def is_seen(request: AdmissionRequest) -> bool:
    """Whether policies apply to the resource of a request at all."""
    return request.resource.resource not in UNSEEN.get(request.resource.group, ())


class Matcher:
    """Constraints prepared for many requests. is_named: it has names of objects. is_selective: it has selectors."""

    def __init__(self, constraints: MatchResources) -> None:
        any_version = constraints.match_policy == "Equivalent"
        self._rules, self._excluded = (
            [(rule, to_resource_rule(rule, any_version=any_version)) for rule in rules]
            for rules in (constraints.resource_rules, constraints.exclude_resource_rules)
        )
        self._namespaces = constraints.namespace_selector
        self._objects = constraints.object_selector
        self.is_named = any(rule.resource_names for rule, _ in (*self._rules, *self._excluded))
        self.is_selective = bool(self._objects.requirements or self._namespaces.requirements)

    def matches(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the request matches.

        Raises MatchError, and what `namespace_labels` raises, only if everything but the Namespace matches: the API
        server, too, ignores the error of a selector if the rules or the other selector do not match.
        """
        return self.covers(request) and self.selects(request, namespace_labels)

    def covers(self, request: AdmissionRequest) -> bool:
        """Whether the request matches but for selectors."""
        target = request.resource
        # A Namespace is cluster-scoped, although its request has a namespace, its own name.
        is_namespace = (target.group, target.version, target.resource) == ("", "v1", "namespaces")
        scopes = ("*", "Cluster" if is_namespace or not request.namespace else "Namespaced")

        def covered(rules: Iterable[tuple[NamedRule, ResourceRule]]) -> bool:
            return any(
                resources.matches(request)
                and rule.scope in scopes
                and (not rule.resource_names or request.name in rule.resource_names)
                for rule, resources in rules
            )

        return not covered(self._excluded) and (not self._rules or covered(self._rules))

    def selects(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the selectors match. Raises MatchError, and what `namespace_labels` raises."""
        selector, about_namespaces = self._namespaces, request.resource.resource == "namespaces"
        if self._objects.requirements and not selects(self._objects, request):
            return False
        # A namespaceSelector matches every cluster-scoped object other than a Namespace. For a Namespace its new labels
        # count on CREATE and UPDATE, otherwise those in the cluster.
        if not selector.requirements or not (request.namespace or about_namespaces):
            return True
        if about_namespaces and not request.sub_resource and request.operation in ("CREATE", "UPDATE"):
            return selector.matches(object_labels(request.object) or {})
        if not request.namespace:
            raise MatchError("Internal error occurred: resource name may not be empty")
        labels = namespace_labels(request.namespace)
        if labels is None:
            raise MatchError(f'namespaces "{request.namespace}" not found')
        return selector.matches(labels)


def to_resource_rule(rule: NamedRule, *, any_version: bool) -> ResourceRule:
    """The requests that a rule covers, but for names and scope."""
    operations = _OPERATIONS if "*" in rule.operations else rule.operations
    return ResourceRule(operations, rule.api_groups, rule.resources, ("*",) if any_version else rule.api_versions)


Key = tuple[str, str, str, str, str, bool]
"""Operation, group, version, resource and subresource of a request, and whether it has a namespace."""

_Bindings = tuple[tuple[Binding, Matcher | None], ...]

# Most policies match few resources; with `*` there may be some hundred, custom resources included.
_CACHED = 1000


class BoundPolicy:
    """A compiled policy with its bindings, and the requests that they match. is_plain: those of the same key alike."""

    def __init__(
        self,
        compiled: CompiledPolicy,
        bindings: Iterable[Binding],
        matcher: Callable[[MatchResources], Matcher] = Matcher,
    ) -> None:
        self.compiled = compiled
        self.policy = compiled.policy
        self._matcher = matcher(self.policy.match_constraints)
        self._bindings: _Bindings = tuple(
            (binding, None if binding.match_resources is None else matcher(binding.match_resources))
            for binding in bindings
        )
        matchers = (self._matcher, *(matcher for _, matcher in self._bindings if matcher is not None))
        self._cache: dict[Key, _Bindings | None] | None = None if any(matcher.is_named for matcher in matchers) else {}
        self.is_plain = self._cache is not None and not any(matcher.is_selective for matcher in matchers)

    def matching(self, subject: Subject) -> tuple[Binding, ...]:
        """The bindings that match a request, if the policy does. Raises MatchError, Missing and FactUnavailable."""
        bindings = self._covering(subject)
        if bindings is None or (self._matcher.is_selective and not subject.selects(self._matcher)):
            return ()
        return tuple([binding for binding, matcher in bindings if matcher is None or subject.selects(matcher)])

    def may_match(self, subject: Subject) -> bool:
        """Whether the policy and a binding may match a request of this key, or one with other names or labels."""
        if self._cache is None:
            return True
        bindings = self._covering(subject)
        # Without bindings a selector of the policy can still fail, and the policy with it.
        return bindings is not None and (bool(bindings) or self._matcher.is_selective)

    def _covering(self, subject: Subject) -> _Bindings | None:
        """The bindings that match but for selectors; None if the policy does not. Only names need more than the key."""
        cache, key = self._cache, subject.key
        if cache is not None and key in cache:
            return cache[key]
        request, covering = subject.request, None
        if is_seen(request) and self._matcher.covers(request):
            covering = tuple(pair for pair in self._bindings if pair[1] is None or pair[1].covers(request))
        if cache is not None and len(cache) < _CACHED:
            cache[key] = covering
        return covering

    @property
    def namespaces(self) -> LabelSelector:
        """The requirements on Namespaces: those of the policy, and those that all its bindings share."""
        resources = (binding.match_resources for binding, _ in self._bindings)
        of_bindings = common(EVERYTHING if matched is None else matched.namespace_selector for matched in resources)
        own = self.policy.match_constraints.namespace_selector.requirements
        return LabelSelector(tuple(dict.fromkeys((*own, *of_bindings.requirements))))

    def resource_rules(self) -> list[ResourceRule]:
        """The requests that the policy may match, as rules of a webhook configuration."""
        constraints = self.policy.match_constraints
        any_version = constraints.match_policy == "Equivalent"
        return [to_resource_rule(rule, any_version=any_version) for rule in constraints.resource_rules]


def in_force(
    kind: str, policies: Iterable[Policy], bindings: Iterable[Binding], compile_: Compile = compile_policy
) -> Iterator[BoundPolicy]:
    """The policies of a kind that are in force because they have a binding, each compiled when it is asked for."""
    by_policy: dict[str, list[Binding]] = {}
    for binding in bindings:
        if binding.kind == f"{kind}Binding":
            by_policy.setdefault(binding.policy_name, []).append(binding)
    matcher = cache(Matcher)  # policies and bindings that match alike share one, so that a review asks it only once
    for policy in policies:
        if policy.kind == kind and policy.name in by_policy:
            yield BoundPolicy(compile_(policy), by_policy[policy.name], matcher)


Workloads = Mapping[tuple[str, str], Workload]


class Subject:
    """A request with the facts of its review, which it does not keep alive. ended: called when the request is gone."""

    def __init__(
        self,
        request: AdmissionRequest,
        facts: Facts,
        workloads: Workloads,
        ended: Callable[[ReferenceType[AdmissionRequest]], None] | None = None,
    ) -> None:
        self.reference = ReferenceType(request, ended)
        target = request.resource
        kind = target.group, target.version, target.resource
        self.key: Key = (request.operation, *kind, request.sub_resource, bool(request.namespace))
        self.facts = facts
        self._workloads = workloads
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: dict[Matcher, bool] = {}
        self._parameters: ReviewParameters | None = None

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace, looked up once. Raises Missing and FactUnavailable."""
        labels = self._labels.get(name)
        if labels is None:
            labels = self._labels[name] = self.facts.namespace_labels(name)
        return labels

    def selects(self, matcher: Matcher) -> bool:
        """Whether the selectors of a matcher match the request, found out once. Raises what Matcher.selects raises."""
        selected = self._selected.get(matcher)
        if selected is None:
            selected = self._selected[matcher] = matcher.selects(self.request, self.namespace_labels)
        return selected

    def parameters(self, given: StaticParameters) -> ReviewParameters:
        """The parameters for the review, with those given with its policies."""
        parameters = self._parameters
        if parameters is None or parameters.given is not given:
            parameters = self._parameters = ReviewParameters(self.facts, given)
        return parameters

    @property
    def request(self) -> AdmissionRequest:
        """The request. Raises ReferenceError after its review."""
        request = self.reference()
        if request is None:
            raise ReferenceError("the review of this request is over")
        return request

    @cached_property
    def inputs(self) -> Inputs:
        """The inputs of expressions for the request."""
        return inputs_of(self.request, self.facts)

    @cached_property
    def pods(self) -> tuple[tuple[DerivedPod, tuple[Subject, ...]], ...]:
        """The Pods that would be created after the request, with a subject for each of the requests that judge them."""
        pods = derive(self.request, self._workloads)
        return tuple((pod, tuple(Subject(request, self.facts, {}) for request in pod.requests)) for pod in pods)


class SubjectCache:
    """Caches the subject of the current review, because rules judge the same request one after another."""

    def __init__(self, workloads: Workloads) -> None:
        self.workloads = workloads
        self._cached: Subject | None = None

    def of(self, request: AdmissionRequest, facts: Facts) -> Subject:
        """The subject for exactly this request and these facts."""
        subject = self._cached
        if subject is None or subject.reference() is not request or subject.facts is not facts:
            subject = self._cached = Subject(request, facts, self.workloads, self._forget)
        return subject

    def _forget(self, reference: ReferenceType[AdmissionRequest]) -> None:
        if self._cached is not None and self._cached.reference is reference:
            self._cached = None


# A cluster writes some dozen kinds of objects all the time, in a few ways each.
_FUNCTIONS = 200
# A cluster has some hundred resources, and most of them have few kinds of writes.
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
        # The names of lists' items, which explanations show: `container "sidecar"`.
        names = {
            fieldpath.render((*pattern[: index + 1], "name"))
            for pattern in map(fieldpath.parse, read)
            for index, step in enumerate(pattern)
            if step is Wildcard.ITEMS
        }
        paths = read.union(names, template_paths(workloads))
        return Rule(policy.name, (hook,), "deny", paths, validate=self.validate, screener=screener)

    def parameters(self, subject: Subject) -> tuple[Json | None, ...]:
        """Those with which the policy is evaluated. Raises MatchError, ConfigurationError, Missing, FactUnavailable."""
        bindings = self.bound.matching(subject)
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
            outcome += [Note(key, ", ".join(dict.fromkeys(values))) for key, values in result.published.items()]
            outcome += [Skip(finding.policy, finding.message) for finding in result.ignored]
        # In a template there are only warnings if they depend on a field that the Pod's admission fills in. The places
        # of a validation in several templates stay together.
        own = len(outcome)
        for pod, subjects in subject.pods if self.is_derived else ():
            results = (judged for below in subjects if (judged := self._result(below)) is not None)
            if findings := next(results, NOTHING_FOUND).findings:
                unless = ", ".join(sorted(pod.unknown_to(self._reads)))  # takes longer than the evaluation
                for finding in findings:
                    outcome += self._violations(finding, pod.place, unless, position=own + finding.index)
        return outcome

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
        # If the policy has a messageExpression, its message says what is wrong.
        places = []
        for reason in finding.reasons:
            if reason.place is not None and reason.place[0] != "object":
                path = shown(reason.place)
            else:
                path = fieldpath.render(place(reason.place[1:] if reason.place else ()))
            places.append((path, reason.detail))
        if finding.kind == "violation" and self.bound.policy.validations[finding.index].message_expression is not None:
            places = [(path, "") for path, _ in places[:1] if path]
        for path, detail in places or [(fieldpath.render(place(())), "")]:
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

    def _result(self, subject: Subject) -> Result | None:
        bindings = self.bound.matching(subject)
        if not bindings:
            return None
        if self.bound.policy.name in subject.facts.skipped:
            raise SkippedPolicyError
        return evaluate_policy(self.bound.compiled, bindings, subject.parameters(self._parameters), subject.inputs)


class _Batch:
    """A few policies, all of which are asked until they are fused into one function."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = rules
        self.function: Fused | None = None

    def asked(self, subject: Subject, names: Mapping[str, Value]) -> list[str]:
        function, rules = self.function, self.rules
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
    """Judges the policies of a rule set together. rules: by name."""

    def __init__(self, rules: Mapping[str, PolicyRule], subjects: SubjectCache) -> None:
        self._subjects = subjects
        self._rules = rules
        self._functions: dict[tuple[str, ...], Sequence[_Batch]] = {}
        self._batches: dict[tuple[Names, Key, bool], Sequence[_Batch]] = {}
        self._waiting: deque[_Batch] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether policies have been judged together that are not fused yet."""
        return bool(self._waiting)

    def prepare(self) -> None:
        """Fuse policies that have been judged together, which may take tenths of a second."""
        while self._waiting:
            batch = self._waiting.popleft()
            batch.function = fuse(
                [part_of(rule.bound.compiled, is_selective=not rule.bound.is_plain) for rule in batch.rules]
            )

    def asked(self, names: Names, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        subject = self._subjects.of(request, facts)
        asked = self._asked(names, subject, derived=False)
        for _, pods in subject.pods:
            for pod in pods:
                asked += self._asked(names, pod, derived=True)
        return asked + [name for name in names if name in facts.skipped] if facts.skipped else asked

    def _asked(self, names: Names, subject: Subject, *, derived: bool) -> list[str]:
        """The same for a request, or for a Pod that would be created."""
        batches = self._batches.get((names, subject.key, derived))
        if batches is None:
            chosen = tuple(
                name
                for name in names
                if (self._rules[name].is_derived if derived else self._rules[name].is_direct)
                and self._rules[name].bound.may_match(subject)
            )
            batches = self._functions.get(chosen)
            if batches is None:
                rules = [self._rules[name] for name in chosen]
                batches = [_Batch(rules[start : start + _TOGETHER]) for start in range(0, len(rules), _TOGETHER)]
                if len(self._functions) < _FUNCTIONS:
                    self._functions[chosen] = batches
                    self._waiting += batches
            if len(self._batches) < _KEYS:
                self._batches[names, subject.key, derived] = batches
        if not batches:
            return []
        values = LazyNames(subject.inputs)
        return [name for batch in batches for name in batch.asked(subject, values)]


def covers_pods(constraints: MatchResources) -> bool:
    """Whether a policy may match the creation of Pods."""
    return any(
        {"", "*"} & set(rule.api_groups)
        and {"pods", "*", "*/*", "pods/*"} & set(rule.resources)
        and {"CREATE", "*"} & set(rule.operations)
        for rule in constraints.resource_rules
    )


MUTATING_POLICIES = "mutating-policies"
"""The name of their one rule: policies are reinvoked only if any of them changed the object."""

Schemas = Callable[[GroupVersionKind], Schema | None]
"""The schema of a kind; None if it has none, as the options of a connection."""


class MutatingPolicies:
    """The policies in their order of application, with exceptions: for the engine all policies are one rule."""

    def __init__(
        self,
        policies: Iterable[BoundPolicy],
        parameters: StaticParameters,
        schemas: Schemas,
        exceptions: Iterable[PolicyException] = (),
    ) -> None:
        self._policies = tuple(policies)
        self._candidates: dict[Key, tuple[BoundPolicy, ...]] = {}
        self._parameters = parameters
        self._schemas = schemas
        names = {policy.policy.name for policy in self._policies}
        self._exceptions = tuple(exception for exception in exceptions if names.intersection(exception.rules))

    @property
    def rule(self) -> Rule:
        """The rule of the service. It reads whole objects, because merging needs them."""
        resources = dict.fromkeys(rule for policy in self._policies for rule in policy.resource_rules())
        failing = any(policy.policy.failure_policy == "Fail" for policy in self._policies)
        reinvoked = any(policy.policy.reinvocation_policy == "IfNeeded" for policy in self._policies)
        hook = Hook(
            "mutate",
            POLICY_GROUPS["Fail"],
            tuple(resources),
            "Fail" if failing else "Ignore",
            scope="*",
            exact=True,
            reinvoked=reinvoked,
            namespaces=common(policy.namespaces for policy in self._policies),
        )
        return Rule(MUTATING_POLICIES, (hook,), "deny", frozenset({""}), mutate=self.mutate)

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """The patch from the object to the mutated one. Raises MutationRefusedError, Missing and FactUnavailable."""
        mutated, excepted = self.mutated(request, facts)
        if (denial := mutated.denial) is not None:
            violation = Violation(
                rule=denial.policy,
                path="",
                value="",
                problem="",
                summary=denial.native,
                remedy="",
                verdict="deny",
                status=denial.status,
            )
            raise MutationRefusedError(violation, self._covering(request).get(denial.policy))
        operations = jsonpatch.make_patch(request.object, mutated.object).patch
        skipped = tuple(Skip(finding.policy, finding.message) for finding in mutated.result.ignored)
        return Mutation(tuple(operations), excepted=tuple(excepted.items()), skipped=skipped)

    def mutated(
        self, request: AdmissionRequest, facts: Facts
    ) -> tuple[dispatcher.Mutated, Mapping[str, PolicyException]]:
        """The object and result after the policies, and the exceptions from those that were not evaluated."""
        exceptions = self._covering(request)
        holding = {name: exception for name, exception in exceptions.items() if exception.holds(facts.today())}
        excepted: dict[str, PolicyException] = {}

        def select(obj: JsonObject | None) -> dispatcher.Selected:
            current = replace(request, object=obj)
            subject = Subject(current, facts, {})
            candidates = self._candidates.get(subject.key)
            if candidates is None:
                candidates = tuple(policy for policy in self._policies if policy.may_match(subject))
                if len(self._candidates) < _KEYS:
                    self._candidates[subject.key] = candidates
            matching = ((policy.compiled, policy.matching(subject)) for policy in candidates)
            matched = {compiled.policy.name: (compiled, bindings) for compiled, bindings in matching if bindings}
            excepted.update((name, holding[name]) for name in matched if name in holding)
            return [selected for name, selected in matched.items() if name not in holding]

        parameters = ReviewParameters(facts, self._parameters)
        return dispatcher.mutate(select, parameters, inputs_of(request, facts), self._schemas(request.kind)), excepted

    def _covering(self, request: AdmissionRequest) -> Mapping[str, PolicyException]:
        """The exception that covers the request, by policy. The exception may have ended."""
        if not self._exceptions:
            return {}
        names = (policy.policy.name for policy in self._policies)
        covering = ((name, longest(self._exceptions, name, request)) for name in names)
        return {name: exception for name, exception in covering if exception is not None}


def validating_rules(
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


def mutating_rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: StaticParameters,
    schemas: Schemas,
    exceptions: Iterable[PolicyException] = (),
    compile_: Compile = compile_policy,
) -> list[Rule]:
    """The one rule for all mutating policies that are in force; empty if there are none."""
    mutating_policies = list(in_force("MutatingAdmissionPolicy", policies, bindings, compile_))
    return [MutatingPolicies(mutating_policies, parameters, schemas, exceptions).rule] if mutating_policies else []
