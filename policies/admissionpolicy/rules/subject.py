"""What all policies share when they judge the same request; it is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import ReferenceType

from policies.admissionpolicy.evaluation.inputs import Inputs, inputs_of
from policies.admissionpolicy.evaluation.matching import Matcher
from policies.admissionpolicy.evaluation.parameters import ReviewParameters, StaticParameters
from policies.admissionpolicy.pods.derivation import DerivedPod, derive
from policies.admissionpolicy.rules.boundpolicy import key_of
from policies.cached import cached_property
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest
from policies.objects.workload import Workload

Workloads = Mapping[tuple[str, str], Workload]


class Subject:
    """A request with the facts of its review. It does not keep the request alive.

    ended: called when the request is garbage-collected.
    """

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
