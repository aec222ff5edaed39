"""The two APIs of reports, which differ in their names, and in where a report says who wrote it."""

from __future__ import annotations

from typing import Final, NamedTuple


class NoReportsError(Exception):
    """The cluster has no kinds for reports; the text says which are meant."""


class Form(NamedTuple):
    """An API. Of its two kinds the one is for what is in a Namespace, the other for what is in none."""

    group: str
    version: str
    kind: str
    plural: str
    cluster_kind: str
    cluster_plural: str

    @property
    def api_version(self) -> str:
        """Group and version, as objects name them."""
        return f"{self.group}/{self.version}"


OPEN_REPORTS: Final = Form("openreports.io", "v1alpha1", "Report", "reports", "ClusterReport", "clusterreports")
POLICY_REPORTS: Final = Form(
    "wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports", "ClusterPolicyReport", "clusterpolicyreports"
)  # fmt: skip
FORMS: Final = (OPEN_REPORTS, POLICY_REPORTS)
"""The first that a cluster has is written."""
