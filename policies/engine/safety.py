"""Who writes: requesters with special rights, and the writes that a cluster needs to come up.

Nodes join, addresses are given and the service's own Pods start by these writes. Policies judge them like all others
while the service lives, but no outage may stop them: the API server asks about them in entries of their own, which fail
open (webhook/registration/configurations.py).

No Namespace that a tenant could create makes a write essential. A write is essential by a resource that tenants have no
right to write, by a writer that no tenant can be, or by a Namespace that an operator names.

Sources: the roles of Kubernetes in plugin/pkg/auth/authorizer/rbac/bootstrappolicy and its Node authorizer; the roles
in the manifests of Calico, Cilium, Karpenter and the sidecars of CSI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest, UserInfo, is_mirror_pod, mapping
from policies.kubernetes.name import matches_glob

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
        if matches_glob(user.username, self.users) or any(matches_glob(group, self.groups) for group in user.groups):
            return True
        # A kubelet writes its own Node, and mirrors static Pods that run there. The mirror annotation alone proves
        # nothing, because anyone may create a Pod with it.
        if is_kubelet(user):
            node, spec = user.username.removeprefix(NODE_PREFIX), mapping(request.object, "spec")
            if (request.resource.group, request.resource.resource) == ("", "nodes"):
                return request.name == node
            is_pod = request.kind.group_kind == ("", "Pod")
            return is_pod and is_mirror_pod(request.object) and spec.get("nodeName") == node
        namespace, name = service_account(user.username)
        if not namespace:
            return False
        return matches_glob(f"{namespace}/{name}", self.service_accounts) or is_control_plane(namespace, facts)


def is_kubelet(user: UserInfo) -> bool:
    """Whether the user is a kubelet."""
    return user.username.startswith(NODE_PREFIX) and NODE_GROUP in user.groups


def service_account(username: str) -> tuple[str, str]:
    """Namespace and name of a service account from its user name; two empty strings for other users."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return "", ""
    namespace, _, name = username.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return namespace, name


def is_control_plane(namespace: str, facts: Facts) -> bool:
    """Whether a Namespace belongs to the control plane, by its labels in the cluster."""
    return facts.namespace_labels(namespace).get(CONTROL_PLANE_LABEL) == CONTROL_PLANE


NAMESPACES = ("", "namespaces")
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
SYSTEM_ACCOUNTS = f"{SERVICE_ACCOUNT_PREFIX}kube-system:"
SYSTEM_PREFIX = "system:"
CONTROL_PLANE_USERS = (*COMPONENTS, "system:cloud-controller-manager")

Writers = Literal["anybody", "system", "control-plane"]
"""Who writes: anybody with the right to; users whose name begins with `system:`, so no person; the control plane.

The control plane is CONTROL_PLANE_USERS, kubelets, and the service accounts of kube-system.
"""

_ALL = ("*",)
# All resources stand for themselves and their subresources.
_BY_ANYBODY: Mapping[str, tuple[str, ...]] = {
    "": ("events", "persistentvolumes"),
    "certificates.k8s.io": ("certificatesigningrequests", "podcertificaterequests"),
    "cilium.io": (*("ciliumendpoints", "ciliumendpointslices", "ciliumidentities", "ciliumnodes", "ciliumpodippools"),),
    "compute.coreweave.com": ("nodepools",),
    "coordination.k8s.io": ("leases",),
    "events.k8s.io": ("events",),
    "karpenter.sh": ("nodeclaims", "nodepools"),
    "operator.tigera.io": ("installations", "tigerastatuses"),
    "resource.k8s.io": ("resourceslices",),
    "storage.k8s.io": ("csinodes", "csistoragecapacities", "volumeattachments"),
    **dict.fromkeys(
        ("crd.projectcalico.org", "projectcalico.org"),
        (
            *("blockaffinities", "caliconodestatuses", "clusterinformations", "felixconfigurations", "hostendpoints"),
            *("ipamblocks", "ipamconfigs", "ipamconfigurations", "ipamhandles", "ippools"),
            "kubecontrollersconfigurations",
        ),
    ),
}
# No policy sees these reviews, so the service need not be asked about them.
REVIEWS: Mapping[str, tuple[str, ...]] = {
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
    "authorization.k8s.io": (
        *("localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"),
    ),
}
# What controllers, schedulers, kubelets and API servers write, but the Pods of tenants and what makes these.
_BY_CONTROL_PLANE: Mapping[str, tuple[str, ...]] = {
    "": (
        *("configmaps", "endpoints", "namespaces", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"),
    ),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "apiregistration.k8s.io": ("apiservices",),
    "certificates.k8s.io": ("clustertrustbundles",),
    "discovery.k8s.io": ("endpointslices",),
    "flowcontrol.apiserver.k8s.io": ("flowschemas", "prioritylevelconfigurations"),
    "internal.apiserver.k8s.io": ("storageversions",),
    "networking.k8s.io": ("ipaddresses", "servicecidrs"),
    "rbac.authorization.k8s.io": ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
    "resource.k8s.io": ("resourceclaims",),
    "scheduling.k8s.io": ("priorityclasses",),
}


class EssentialWrite(Struct, frozen=True):
    """Writes that are essential if one of the writers makes them. seen: whether policies see such requests at all."""

    writers: Writers
    rule: ResourceRule
    seen: bool = True


def _whole(writers: Writers, table: Mapping[str, Sequence[str]], *, seen: bool = True) -> tuple[EssentialWrite, ...]:
    """The writes of resources with all their subresources."""
    return tuple(
        EssentialWrite(writers, ResourceRule(_ALL, (group,), tuple(f"{name}/*" for name in names)), seen)
        for group, names in table.items()
    )


ESSENTIAL: tuple[EssentialWrite, ...] = (
    *_whole("anybody", _BY_ANYBODY),
    *_whole("anybody", REVIEWS, seen=False),
    EssentialWrite("anybody", ResourceRule(_ALL, ("",), ("nodes/status",))),
    EssentialWrite("system", ResourceRule(("CREATE", "UPDATE", "DELETE"), ("",), ("nodes",))),
    *_whole("control-plane", _BY_CONTROL_PLANE),
    EssentialWrite("control-plane", ResourceRule(_ALL, ("",), ("bindings", "pods/binding"))),
    EssentialWrite("control-plane", ResourceRule(("DELETE",), ("",), ("pods",))),
    EssentialWrite("control-plane", ResourceRule(_ALL, _ALL, ("*/status",))),
)


class Safety(Struct, frozen=True):
    """What an outage must not stop.

    own: the service's own Namespace, whose objects no policy judges, so that people can repair the service.
    namespaces: everything in them is essential, and these Namespaces are. resources: further resources by which anybody
    may write, as group and name. users: globs of users with the rights of the control plane.
    """

    own: str = ""
    namespaces: tuple[str, ...] = ()
    resources: tuple[tuple[str, str], ...] = ()
    users: tuple[str, ...] = ()

    def spares(self, request: AdmissionRequest) -> bool:
        """Whether a request is about the service's own Namespace or an object in it."""
        return bool(self.own) and _is_in(request, (self.own,))

    def is_essential(self, request: AdmissionRequest) -> bool:
        """Whether a cluster may need the write to come up."""
        user, writers = request.user_info, {"anybody"}
        name = user.username
        if matches_glob(name, self.users):
            writers |= {"system", "control-plane"}
        if name.startswith(SYSTEM_PREFIX):
            writers.add("system")
        if is_kubelet(user) or name in CONTROL_PLANE_USERS or name.startswith(SYSTEM_ACCOUNTS):
            writers.add("control-plane")
        return _is_in(request, self.namespaces) or any(
            write.writers in writers and write.rule.matches(request) for write in self.writes
        )

    @property
    def writes(self) -> tuple[EssentialWrite, ...]:
        """The essential writes outside of the essential Namespaces."""
        added: dict[str, list[str]] = {}
        for group, name in self.resources:
            added.setdefault(group, []).append(name)
        return (*ESSENTIAL, *_whole("anybody", added))

    def essential(self, rules: Sequence[ResourceRule]) -> list[tuple[EssentialWrite, ResourceRule]]:
        """The essential writes that any of the rules matches, each with the part of the rule that matches them."""
        return [
            (write, common)
            for write in self.writes
            for rule in rules
            if (common := rule.intersection(write.rule)) is not None
        ]


def _is_in(request: AdmissionRequest, namespaces: Sequence[str]) -> bool:
    """Whether a request is about an object in one of the Namespaces, or about one of these."""
    target = request.resource.group, request.resource.resource
    return request.namespace in namespaces or (target == NAMESPACES and request.name in namespaces)
