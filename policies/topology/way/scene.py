"""What a decision about the placement of a workload knows beside its constraints."""

from __future__ import annotations

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, JsonObject
from policies.objects.workload import Workload
from policies.topology.constraint import Options, Submission


class Scene(Struct, frozen=True):
    """The request and its submission, with options and facts."""

    request: AdmissionRequest
    submission: Submission
    options: Options
    facts: Facts

    @property
    def object(self) -> JsonObject:
        """The new object."""
        return self.request.object or {}

    @property
    def row(self) -> Workload:
        """The object's kind in the table of workloads."""
        return self.options.workloads[self.request.kind.group_kind]
