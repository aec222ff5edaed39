"""The rule against deleting a Topology object that workloads still name: they would no longer be scheduled.

Source: Run:ai's documentation, "Known limitations". Running workloads go on, suspended and unbound ones stay pending.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, mapping
from policies.engine.violation import Violation, quote
from policies.topology.document import GROUPS, KIND

RULE = "topology-deletion"
READS: frozenset[str] = frozenset()
SUMMARY = "Workloads still name this topology; those that are not running yet would not be scheduled."
_SHOWN = 5


def validate(request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
    """A violation with the workloads that name the topology; none if all were read and none names it."""
    if request.operation != "DELETE" or request.kind.group not in GROUPS or request.kind.kind != KIND:
        return ()
    # When all objects are deleted at once, the request for each has no name.
    name = request.name or str(mapping(request.old_object, "metadata").get("name") or "")
    references = facts.references(name)
    if not references.workloads and not references.incomplete:
        return ()
    names = ", ".join(references.workloads[:_SHOWN])
    more = f" and {len(references.workloads) - _SHOWN} more" if len(references.workloads) > _SHOWN else ""
    doubt = f"not all could be looked at: {references.incomplete}" if references.incomplete else ""
    told = "; ".join(part for part in (f"is named by {names}{more}" if names else "", doubt) if part)
    remedy = "Change or delete these workloads first. Running Pods go on."
    return (Violation(RULE, "", f"topology {quote(name)}", told, SUMMARY, remedy),)
