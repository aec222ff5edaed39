"""Requesters with special rights: the cluster's own components, and those in the configuration."""

from __future__ import annotations

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, is_mirror_pod, mapping
from policies.glob import matches

CONTROL_PLANE_LABEL = "ns.coreweave.cloud/org"
CONTROL_PLANE = "control-plane"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
NODE_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"

# The components of the control plane itself. The API server's own clients authenticate as system:apiserver.
COMPONENTS = ("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver")
ADMINISTRATORS = ("system:masters",)


class Exemptions(Struct, frozen=True):
    """Names or globs of exempt requesters; service accounts as `namespace/name`."""

    users: tuple[str, ...] = COMPONENTS
    groups: tuple[str, ...] = ADMINISTRATORS
    service_accounts: tuple[str, ...] = ("kube-system/*",)

    def cover(self, request: AdmissionRequest, facts: Facts) -> bool:
        """Whether the requester is exempt: named here, a kubelet at its own Node, or in a control-plane Namespace.

        Raises Missing or FactUnavailable if the answer depends on a Namespace.
        """
        user = request.user_info
        if matches(user.username, self.users) or any(matches(group, self.groups) for group in user.groups):
            return True
        if is_kubelet_at_home(request):
            return True
        namespace, name = service_account(user.username)
        if not namespace:
            return False
        return matches(f"{namespace}/{name}", self.service_accounts) or is_control_plane(namespace, facts)


def service_account(username: str) -> tuple[str, str]:
    """Namespace and name of a service account from its user name; two empty strings for other users."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return "", ""
    namespace, _, name = username.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return namespace, name


def is_kubelet_at_home(request: AdmissionRequest) -> bool:
    """Whether a kubelet writes its own Node, or mirrors a static Pod that runs there.

    The mirror annotation alone proves nothing, because anyone may create a Pod with it.
    """
    user = request.user_info
    if not user.username.startswith(NODE_PREFIX) or NODE_GROUP not in user.groups:
        return False
    node = user.username.removeprefix(NODE_PREFIX)
    if request.resource.group == "" and request.resource.resource == "nodes":
        return request.name == node
    is_pod = request.kind.group_kind == ("", "Pod")
    return is_pod and is_mirror_pod(request.object) and mapping(request.object, "spec").get("nodeName") == node


def is_control_plane(namespace: str, facts: Facts) -> bool:
    """Whether a Namespace belongs to the control plane, by its labels in the cluster."""
    return facts.namespace_labels(namespace).get(CONTROL_PLANE_LABEL) == CONTROL_PLANE
