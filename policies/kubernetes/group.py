"""The API groups of Kubernetes itself."""

from __future__ import annotations

from collections.abc import Mapping

_BOTH = frozenset(
    (
        *("", "admissionregistration.k8s.io", "apps", "autoscaling", "batch", "certificates.k8s.io"),
        *("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io"),
        *("networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io"),
        *("scheduling.k8s.io", "storage.k8s.io"),
    )
)
CLIENT_GROUPS = _BOTH | {"extensions", "internal.apiserver.k8s.io", "storagemigration.k8s.io"}
"""Groups for which client-go has types, whether an API server serves them or not."""

SERVED_VERSIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_BOTH, ("v1",)),
    **dict.fromkeys(("apiextensions.k8s.io", "apiregistration.k8s.io"), ("v1",)),
    **dict.fromkeys(("authentication.k8s.io", "authorization.k8s.io"), ("v1",)),
    "autoscaling": ("v1", "v2"),
}
"""The versions that an API server serves by default, by group."""
