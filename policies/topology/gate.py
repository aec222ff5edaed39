"""The gate behind which the Pods of a gang wait until one domain is chosen for all of them.

Source: "Pod Scheduling Readiness" in the Kubernetes documentation.
"""

from __future__ import annotations

from typing import Final

GATE: Final = "cks-admission.dev/topology"
"""The scheduling gate that admission adds to a Pod with a placement, and that the placer removes."""

PLACEMENT: Final = "cks-admission.dev/placement"
"""The annotation of an opened Pod that says in a sentence, for people, where it belongs and with whom."""

WAY: Final = "cks-admission.dev/placement-way"
"""The annotation of a template, and so of its Pods, that asks for another way than the gate."""

AFFINITY: Final = "affinity"
"""The value of WAY: Pod affinity of the gang to itself, without a gate."""

GANG: Final = "cks-admission.dev/gang"
"""The label of a Pod that Pod affinity keeps with the others that have the same value."""
