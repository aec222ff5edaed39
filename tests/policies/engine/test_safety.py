"""What a cluster needs to come up, told by the rules and by the condition for the API server alike."""

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, NamespacesToAsk, deployment, pod, request
from support.cel import celrun
from support.tables import rows

from policies.admissionpolicy.evaluation.inputs import inputs_of
from policies.engine.facts import StaticFacts
from policies.engine.interruption import Missing
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.safety import Exemptions, Safety, service_account
from policies.matchconditions import is_essential, is_not_essential

_SAFETY = Safety("cks-admission", ("kube-system",), (("compute.example.org", "pools"),), ("cloud-*",))
_NO_NAMESPACES = Safety("", (), _SAFETY.resources, _SAFETY.users)
_ESSENTIAL = celrun.compiled(is_essential(_SAFETY.writes, _SAFETY.users).expression)
_ORDINARY = celrun.compiled(is_not_essential(_SAFETY.writes, _SAFETY.users).expression)
_KUBELETS = ("system:nodes", "system:authenticated")
_CONTROLLER = "system:serviceaccount:kube-system:node-controller"
_TENANT = "system:serviceaccount:team:runner"


def _write(
    group: str,
    resource: str,
    user: str = "alice",
    *,
    operation: Operation = "UPDATE",
    sub: str = "",
    namespace: str = "",
) -> AdmissionRequest:
    obj: Json = {"apiVersion": f"{group}/v1" if group else "v1", "kind": "Thing", "metadata": {"name": "one"}}
    groups = _KUBELETS if user.startswith("system:node:") else ("system:authenticated",)
    return request(
        obj,
        old=obj if operation == "UPDATE" else None,
        operation=operation,
        user=user,
        groups=groups,
        resource=resource,
        sub_resource=sub,
        namespace=namespace,
    )


_ANYBODY = [
    *(("coordination.k8s.io", "leases", ""), ("certificates.k8s.io", "certificatesigningrequests", "approval")),
    *(("storage.k8s.io", "csinodes", ""), ("resource.k8s.io", "resourceslices", ""), ("", "nodes", "status")),
    *(("crd.projectcalico.org", "ipamblocks", ""), ("cilium.io", "ciliumnodes", "status"), ("", "events", "")),
    *(("karpenter.sh", "nodeclaims", ""), ("compute.coreweave.com", "nodepools", "status")),
    ("authentication.k8s.io", "tokenreviews", ""),
    ("compute.example.org", "pools", ""),
]
_CONTROL_PLANE = [
    *(("", "endpoints", ""), ("discovery.k8s.io", "endpointslices", ""), ("", "serviceaccounts", "token")),
    *(("", "pods", "binding"), ("", "pods", "status"), ("apps", "deployments", "status")),
    *(("rbac.authorization.k8s.io", "clusterroles", ""), ("", "namespaces", "finalize"), ("", "configmaps", "")),
]
_NOBODY = [
    *(("", "pods", ""), ("apps", "replicasets", ""), ("apps", "deployments", "scale"), ("example.org", "leases", "")),
    *(("cilium.io", "ciliumnetworkpolicies", ""), ("", "pods", "exec"), ("", "nodes", "proxy")),
]
_CONTROLLERS = (_CONTROLLER, "system:kube-scheduler", "system:apiserver", "system:node:one", "cloud-ccm")
_OTHERS = ("alice", _TENANT, "system:serviceaccount:kube-system2:x", "system:anonymous")
_CASES = [
    *((_write(group, name, user, sub=sub), True) for group, name, sub in _ANYBODY for user in ("alice", _TENANT)),
    *((_write(group, name, user, sub=sub), True) for group, name, sub in _CONTROL_PLANE for user in _CONTROLLERS),
    *((_write(group, name, user, sub=sub), False) for group, name, sub in _CONTROL_PLANE for user in _OTHERS),
    *((_write(group, name, user, sub=sub), False) for group, name, sub in _NOBODY for user in (*_CONTROLLERS, "alice")),
    *((_write("", "nodes", user), True) for user in (*_CONTROLLERS, _TENANT)),
    (_write("", "nodes"), False),
    (_write("", "pods", _CONTROLLER, operation="DELETE", namespace="team"), True),
    (_write("", "pods", _TENANT, operation="DELETE", namespace="team"), False),
    (_write("", "pods", _CONTROLLER, operation="CREATE", namespace="team"), False),
]


@pytest.mark.parametrize(("asked", "essential"), _CASES)
def test_essential_writes(asked: AdmissionRequest, essential: bool) -> None:  # noqa: FBT001
    """Function and conditions agree on who may write what, whatever the entry of the API server."""
    names = inputs_of(asked, StaticFacts(TODAY)).names(None)
    told, ordinary = _ESSENTIAL.evaluate(names), _ORDINARY.evaluate(names)

    assert (_NO_NAMESPACES.is_essential(asked), told.value, ordinary.value) == (essential, essential, not essential)
    assert (told.error, ordinary.error) == (None, None)


def test_who_is_a_kubelet() -> None:
    """Only the group of kubelets makes one; the condition is no error where the API server sends no groups."""
    asked = request(pod(), old=pod(), user="system:node:one", sub_resource="status")
    info = {"username": "system:node:one"}
    write = {
        "resource": {"group": "", "version": "v1", "resource": "endpoints"},
        "operation": "UPDATE",
        "userInfo": info,
    }

    assert not _NO_NAMESPACES.is_essential(asked)
    assert celrun.usually(is_essential(_SAFETY.writes, ()).expression, request=write)[0] is False


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("asked", "essential", "spared"),
    [
        pytest.param(request(pod(), namespace="kube-system"), True, False, id="in-an-essential-namespace"),
        pytest.param(request(None, old=deployment(), namespace="cks-admission"), False, True, id="in-the-services-own"),
        pytest.param(request(pod(), namespace="kube-system2"), False, False, id="in-another-one"),
        pytest.param(request(_namespace("kube-system")), True, False, id="the-namespace-itself"),
        pytest.param(request(_namespace("cks-admission")), False, True, id="the-services-own-itself"),
        pytest.param(request(_namespace("kube-public")), False, False, id="another-namespace"),
        pytest.param(
            request({**_namespace("kube-system"), "kind": "Role"}, namespace=""), False, False, id="only-called-so"
        ),
    ],
)
def test_namespaces(asked: AdmissionRequest, essential: bool, spared: bool) -> None:  # noqa: FBT001
    """All in a named Namespace is essential, and it is; the service's own is spared; nothing without being named."""
    assert (_SAFETY.is_essential(asked), _SAFETY.spares(asked)) == (essential, spared)
    assert (Safety().is_essential(asked), Safety().spares(asked)) == (False, False)


@pytest.mark.parametrize(
    ("rule", "essential"),
    [
        ((("CREATE", "UPDATE"), ("",), ("pods",)), []),
        ((("*",), ("apps", "batch"), ("*",)), []),
        ((("*",), ("",), ("pods",)), [(("DELETE",), ("",), ("pods",))]),
        (
            (("UPDATE",), ("",), ("nodes/*",)),
            [(("UPDATE",), ("",), (f"nodes{sub}",)) for sub in ("/status", "", "/status")],
        ),
        (
            (("*",), ("coordination.k8s.io",), ("leases", "leases/status")),
            [(("*",), ("coordination.k8s.io",), names) for names in (("leases", "leases/status"), ("leases/status",))],
        ),
    ],
)
def test_what_rules_match_of_it(rule: tuple[tuple[str, ...], ...], essential: list[Any]) -> None:
    """An entry is told of nothing that its rules do not match."""
    found = Safety().essential([ResourceRule(rule[0], rule[1], rule[2])])

    assert [(common.operations, common.groups, common.resources) for _, common in found] == essential


@rows(__file__, "exemptions")
def test_names_and_globs(exempt: dict[str, Any], user: str, groups: tuple[str, ...], covered: bool) -> None:  # noqa: FBT001
    """Each list holds exact names and globs, for its own kind of requester and with its case."""
    lists: dict[str, Any] = {"users": (), "groups": (), "service_accounts": (), **exempt}

    assert Exemptions(**lists).cover(request(pod(), user=user, groups=groups), FACTS) is covered


def test_the_shipped_exemptions() -> None:
    """Without configuration exactly the control plane's own users, its administrators and kube-system are exempt."""
    assert Exemptions() == Exemptions(
        users=("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"),
        groups=("system:masters",),
        service_accounts=("kube-system/*",),
    )


@rows(__file__, "accounts")
def test_service_accounts_by_user_name(username: str, parts: list[str]) -> None:
    """A service account's user name gives its namespace and name; other names give nothing."""
    assert service_account(username) == tuple(parts)


def test_a_namespace_is_asked_for_last() -> None:
    """Only an account that no list names makes its Namespace matter, and then that Namespace is named."""
    named = request(pod(), user="system:serviceaccount:kube-system:a")
    other = request(pod(), user="system:serviceaccount:team:a")

    assert Exemptions().cover(named, NamespacesToAsk(TODAY)) is True
    assert Exemptions().cover(request(pod()), NamespacesToAsk(TODAY)) is False
    with pytest.raises(Missing, match=r"^namespace 'team' is not known yet$"):
        Exemptions().cover(other, NamespacesToAsk(TODAY))
