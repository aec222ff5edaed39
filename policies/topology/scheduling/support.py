"""What the cluster does about topology constraints of workloads by itself."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from policies.engine.lookup import FactUnavailable, Key

ANNOTATION: Final = "cks-admission.dev/workload-scheduling"
"""The annotation of the webhook configuration with what `manage` found out, as JSON."""

Form = Literal["", "Job", "PodGroup"]
"""The kind whose spec takes a constraint: a Job from Kubernetes 1.37 on, in 1.36 the PodGroup that is made for it."""


class Support(Struct, frozen=True):
    """The form of a constraint that the cluster keeps; empty if it keeps none, and then the reason."""

    form: Form = ""
    reason: str = ""


class SupportKey(Key[Support], Struct, frozen=True):
    """The key of the cluster's support."""

    @property
    def missing(self) -> str:
        """The message that it is not known."""
        return "it is not known yet whether the cluster schedules workloads by topology"

    def failure(self, reason: str) -> Support | FactUnavailable:
        """No support. A placement must not fail because of that: another way is taken."""
        return Support(reason=f"{self.missing}: {reason}")
