"""The requests that policies, and rules that refuse, leave alone, so that a cluster can always start and be repaired.

They are left out twice. The API server does not ask about them, so that no outage of the service affects them; where it
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

# Group and resource, with all subresources: what leaders, heartbeats and kubelets that join are made of, and what
# kubelets and API servers ask about their callers. No policy sees the latter, but API servers ask webhooks about it.
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
# What an API server makes by itself when it starts, and without which it is not ready: its roles, its priorities, its
# own Service, and the Namespaces and APIs that there always are.
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
    """What is spared. namespaces: these, and the objects in them.

    bootstrap: whether BOOTSTRAP and all that API servers write by themselves is spared, too. Of Nodes, only what the
    cluster itself writes is spared, and their status, whoever writes it.
    """

    namespaces: frozenset[str] = frozenset()
    bootstrap: bool = False

    def spares(self, request: AdmissionRequest) -> bool:
        """Whether a request is left alone."""
        if request.namespace in self.namespaces or (self.bootstrap and request.user_info.username == API_SERVER):
            return True
        target = request.resource.group, request.resource.resource
        if target in BOOTSTRAP:
            return self.bootstrap and (target != NODES or _is_of_the_cluster(request))
        return target == NAMESPACES and request.name in self.namespaces


def concerns_bootstrap(rules: Iterable[ResourceRule]) -> bool:
    """Whether any of the rules may match what a cluster needs to come up."""
    return any(
        ("*" in rule.groups or group in rule.groups)
        and any(pattern.partition("/")[0] in ("*", resource) for pattern in rule.resources)
        for rule in rules
        for group, resource in (*BOOTSTRAP, *WRITTEN_BY_API_SERVER)
    )


def _is_of_the_cluster(request: AdmissionRequest) -> bool:
    """Whether a status is written, or a kubelet, the control plane or a controller of kube-system writes."""
    name = request.user_info.username
    if request.sub_resource == "status":
        return True
    if name.startswith(NODE_PREFIX):
        return NODE_GROUP in request.user_info.groups
    return name in COMPONENTS or name.startswith(SYSTEM_ACCOUNTS)
