"""The annotations, the gate and the labels by which placements are asked for and kept.

Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai; "Pod Scheduling Readiness" in the Kubernetes
documentation.
"""

from __future__ import annotations

from typing import Final

TOPOLOGY: Final = "kai.scheduler/topology"
REQUIRED: Final = "kai.scheduler/topology-required-placement"
PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
ANNOTATIONS: Final = (TOPOLOGY, REQUIRED, PREFERRED)
PREFIX: Final = "kai.scheduler/"
MISSPELT: Final = "kai-scheduler/"
WORDS: Final = ("top", "plac")
"""A key of PREFIX with one of these parts is one of the annotations, or a misspelt one. Of MISSPELT all are."""

GATE: Final = "cks-admission.dev/topology"
"""The scheduling gate that admission adds to a Pod with a placement, and that the placer removes.

Behind it the Pods of a gang wait until one domain is chosen for all of them."""

PLACEMENT: Final = "cks-admission.dev/placement"
"""The annotation of an opened Pod that says in a sentence, for people, where it belongs and with whom."""

WAY: Final = "cks-admission.dev/placement-way"
"""The annotation of a template, and so of its Pods, that asks for another way than the gate."""

AFFINITY: Final = "affinity"
"""The value of WAY: Pod affinity of the gang to itself, without a gate."""

GANG: Final = "cks-admission.dev/gang"
"""The label of a Pod that Pod affinity keeps with the others that have the same value."""
