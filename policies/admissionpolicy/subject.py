"""A request as all policies judge it: what they would each make of it is made once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from policies.admissionpolicy.bound import inputs, key_of
from policies.admissionpolicy.derived import Derived, derive
from policies.admissionpolicy.inputs import Inputs
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest
from policies.objects.workload import Workload

Workloads = Mapping[tuple[str, str], Workload]


class Subject:
    """One request with the facts of its review."""

    def __init__(self, request: AdmissionRequest, facts: Facts, workloads: Workloads) -> None:
        self.request = request
        self.key = key_of(request)
        self.facts = facts
        self._workloads = workloads

    @cached_property
    def inputs(self) -> Inputs:
        """What expressions see of it."""
        return inputs(self.request, self.facts)

    @cached_property
    def pods(self) -> tuple[tuple[Derived, Subject], ...]:
        """The Pods that would come of it, each a subject of its own."""
        found = derive(self.request, self._workloads)
        return tuple((pod, Subject(pod.request, self.facts, {})) for pod in found)


class Subjects:
    """The subject of a review. Rules are asked one by one about the same request, so the last one is remembered."""

    def __init__(self, workloads: Workloads) -> None:
        self.workloads = workloads
        self._last: Subject | None = None

    def of(self, request: AdmissionRequest, facts: Facts) -> Subject:
        """The subject of this very request with these very facts."""
        last = self._last
        if last is None or last.request is not request or last.facts is not facts:
            last = self._last = Subject(request, facts, self.workloads)
        return last
