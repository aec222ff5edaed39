"""The requests that policies and refusing rules spare, so that a cluster can always start and be repaired.

They are spared twice. The API server does not ask about them, so an outage of the service does not affect them. If it
asks all the same, `RuleSet.applicable` leaves out the rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.requester import COMPONENTS, NODE_GROUP, NODE_PREFIX, SERVICE_ACCOUNT_PREFIX

NODES = ("", "nodes")
NAMESPACES = ("", "namespaces")
API_SERVER = "system:apiserver"
SYSTEM_ACCOUNTS = f"{SERVICE_ACCOUNT_PREFIX}kube-system:"

# Group and resource, with all subresources: what leader election, heartbeats and joining kubelets need, and reviews of
# callers by kubelets and API servers. No policy sees those reviews, but API servers ask webhooks about them.
WRITTEN_BY_ANYBODY = (
    ("coordination.k8s.io", "leases"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
)
BOOTSTRAP = frozenset({*WRITTEN_BY_ANYBODY, NODES})
# The objects that an API server creates when it starts, and without which it does not become ready: its roles, its
# priorities, its own Service, and the built-in Namespaces and APIs.
WRITTEN_BY_API_SERVER = (
    ("", "endpoints"),
    ("", "namespaces"),
    ("", "services"),
    ("apiregistration.k8s.io", "apiservices"),
    ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("scheduling.k8s.io", "priorityclasses"),
)


class Safety(Struct, frozen=True):
    """The spared requests. namespaces: these Namespaces and the objects in them.

    bootstrap: whether BOOTSTRAP and all writes of API servers are spared too. For Nodes, only writes by the cluster
    itself and writes of the status are spared.
    """

    namespaces: frozenset[str] = frozenset()
    bootstrap: bool = False

    def spares(self, request: AdmissionRequest) -> bool:
        """Whether a request is spared."""
        if request.namespace in self.namespaces or (self.bootstrap and request.user_info.username == API_SERVER):
            return True
        target = request.resource.group, request.resource.resource
        if target in BOOTSTRAP:
            return self.bootstrap and (target != NODES or _is_of_the_cluster(request))
        return target == NAMESPACES and request.name in self.namespaces


def concerns_bootstrap(rules: Iterable[ResourceRule]) -> bool:
    """Whether any of the rules may match a resource that a cluster needs to start."""
    return any(
        ("*" in rule.groups or group in rule.groups)
        and any(pattern.partition("/")[0] in ("*", resource) for pattern in rule.resources)
        for rule in rules
        for group, resource in (*BOOTSTRAP, *WRITTEN_BY_API_SERVER)
    )


def _is_of_the_cluster(request: AdmissionRequest) -> bool:
    """Whether the request writes a status, or comes from a kubelet, the control plane or a kube-system controller."""
    name = request.user_info.username
    if request.sub_resource == "status":
        return True
    if name.startswith(NODE_PREFIX):
        return NODE_GROUP in request.user_info.groups
    return name in COMPONENTS or name.startswith(SYSTEM_ACCOUNTS)
