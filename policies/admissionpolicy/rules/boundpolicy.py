"""A policy with its bindings and the requests that they match, and what all policies share that judge one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from weakref import ReferenceType

from policies.admissionpolicy.derivation import DerivedPod, derive
from policies.admissionpolicy.evaluation.compilation import Compile, CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import Inputs, inputs_of
from policies.admissionpolicy.evaluation.matching import Matcher, is_seen
from policies.admissionpolicy.evaluation.parameters import ReviewParameters, StaticParameters
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.cached import cached_property
from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, common
from policies.engine.request import AdmissionRequest
from policies.objects.workload import Workload

Key = tuple[str, str, str, str, str, bool]
"""Operation, group, version, resource and subresource of a request, and whether it has a namespace."""

Selects = Callable[[Matcher], bool]
"""Whether the selectors of a matcher match the request at hand. Raises what Matcher.selects raises."""

_Bindings = tuple[tuple[Binding, Matcher | None], ...]

# Most policies match few resources; with `*` there may be some hundred, custom resources included.
_CACHED = 1000


def key_of(request: AdmissionRequest) -> Key:
    """The key of a request."""
    target = request.resource
    in_namespace = bool(request.namespace)
    return request.operation, target.group, target.version, target.resource, request.sub_resource, in_namespace


class BoundPolicy:
    """A compiled policy with its bindings, and the requests that they match.

    is_plain: whether all requests of the same key are matched alike. matcher: makes a matcher, or finds an equal one.
    """

    def __init__(
        self,
        compiled: CompiledPolicy,
        bindings: Iterable[Binding],
        matcher: Callable[[MatchResources], Matcher] = Matcher,
    ) -> None:
        self.compiled = compiled
        self._matcher = matcher(self.policy.match_constraints)
        self._bindings: _Bindings = tuple(
            (binding, None if binding.match_resources is None else matcher(binding.match_resources))
            for binding in bindings
        )
        matchers = (self._matcher, *(matcher for _, matcher in self._bindings if matcher is not None))
        self._cache: dict[Key, _Bindings | None] | None = None if any(matcher.is_named for matcher in matchers) else {}
        self.is_plain = self._cache is not None and not any(matcher.is_selective for matcher in matchers)

    @property
    def policy(self) -> Policy:
        """The policy as it was read."""
        return self.compiled.policy

    def matching(self, request: AdmissionRequest, selects: Selects, key: Key | None = None) -> tuple[Binding, ...]:
        """The bindings that match a request, if the policy does. Raises MatchError, Missing and FactUnavailable.

        key: the request's key, if the caller has it. Only selectors and names need more, so the rest is cached.
        """
        bindings = self._covering(request, key)
        if bindings is None or (self._matcher.is_selective and not selects(self._matcher)):
            return ()
        return tuple([binding for binding, matcher in bindings if matcher is None or selects(matcher)])

    def may_match(self, request: AdmissionRequest, key: Key) -> bool:
        """Whether the policy and a binding may match requests of a key: this one, or one with other names or labels."""
        if self._cache is None:
            return True
        bindings = self._covering(request, key)
        # Without bindings a selector of the policy can still fail, and the policy with it.
        return bindings is not None and (bool(bindings) or self._matcher.is_selective)

    def _covering(self, request: AdmissionRequest, key: Key | None) -> _Bindings | None:
        """The bindings that match but for selectors; None if the policy does not."""
        cache = self._cache
        if cache is not None and key in cache:
            return cache[key]
        covering = None
        if is_seen(request) and self._matcher.covers(request):
            covering = tuple(pair for pair in self._bindings if pair[1] is None or pair[1].covers(request))
        if cache is not None and key is not None and len(cache) < _CACHED:
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
        rules = []
        for rule in constraints.resource_rules:
            operations = ("CREATE", "UPDATE", "DELETE", "CONNECT") if "*" in rule.operations else rule.operations
            versions = ("*",) if constraints.match_policy == "Equivalent" else rule.api_versions
            rules.append(ResourceRule(operations, rule.api_groups, rule.resources, versions))
        return rules


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
        self.key = key_of(request)
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
