"""Adds the constraint of a Job to the PodGroup that Kubernetes 1.36 makes for it.

The Job's record holds the key, because the Job was decided about when it was created, by the Nodes of that time. The
PodGroup is immutable, so it gets the constraint when it is created.
"""

from __future__ import annotations

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.lookup import FactUnavailable, Key
from policies.engine.request import AdmissionRequest, JsonObject, controller_reference, mapping
from policies.engine.rule import NO_MUTATION, Mutation
from policies.objects import patch
from policies.topology.affinity import NOTHING, read_record
from policies.topology.scheduling.workload import constraints

GROUP = "scheduling.k8s.io"
KIND = (GROUP, "PodGroup")
_FIELD = ("spec", "schedulingConstraints")
_TEMPLATE = "spec.template"
READS = frozenset({".".join(_FIELD)})


class RecordKey(Key[str], Struct, frozen=True):
    """The key of a Job's record, as text; empty without one."""

    namespace: str
    job: str
    uid: str

    @property
    def missing(self) -> str:
        """The message that it is not known."""
        return f"the record of Job {self.namespace}/{self.job} is not known yet"

    def failure(self, reason: str) -> str | FactUnavailable:
        """No record could be read: the PodGroup must not come to life without the constraint that the Job was told."""
        return FactUnavailable(f"{self.missing}, and {reason}")


def mutate(request: AdmissionRequest, facts: Facts) -> Mutation:
    """Set the constraint that the record of the owner holds. Raises Missing or FactUnavailable."""
    obj = request.object
    if request.operation != "CREATE" or obj is None or mapping(obj, _FIELD[0]).get(_FIELD[1]) is not None:
        return NO_MUTATION
    owner = _job(obj)
    if owner is None:
        return NO_MUTATION
    text = facts.look_up(RecordKey(request.namespace, str(owner.get("name")), str(owner.get("uid"))))
    key = ((read_record(text or None) or {}).get(_TEMPLATE) or NOTHING).scheduling
    return Mutation(patch.put(obj, _FIELD, constraints(key))) if key else NO_MUTATION


def _job(obj: JsonObject) -> JsonObject | None:
    """The owner reference of the Job that controls an object; None without one."""
    reference = controller_reference(obj)
    if reference is None or reference.get("kind") != "Job":
        return None
    return reference if str(reference.get("apiVersion")).startswith("batch/") else None
