"""What is spared, told by the rules and by the condition for the API server alike."""

import pytest
from support.builders import TODAY, Json, deployment, pod, request
from support.cel import celrun

from policies.admissionpolicy.evaluation.inputs import inputs_of
from policies.admissionpolicy.evaluation.matching import UNSEEN
from policies.conditions.matchcondition import cluster_is_not_coming_up
from policies.engine.facts import StaticFacts
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.requester import COMPONENTS
from policies.engine.safety import WRITTEN_BY_ANYBODY, Safety, concerns_bootstrap

_SAFETY = Safety(frozenset({"cks-admission", "kube-system"}), bootstrap=True)
_KUBELETS = ("system:nodes", "system:authenticated")
_CONDITION = celrun.compiled(cluster_is_not_coming_up().expression)


def _object(kind: str, version: str = "v1", name: str = "one", **metadata: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


_NODE = _object("Node")
_LEASE = _object("Lease", "coordination.k8s.io/v1", namespace="team")
_CSR = _object("CertificateSigningRequest", "certificates.k8s.io/v1")
_ROLE = _object("ClusterRole", "rbac.authorization.k8s.io/v1")
_OTHER_LEASE = _object("Lease", "example.org/v1", namespace="team")


_BOOTSTRAP = [
    pytest.param(request(_LEASE), True, id="lease"),
    pytest.param(request(None, old=_LEASE), True, id="lease-deleted"),
    pytest.param(request(_OTHER_LEASE), False, id="lease-of-another-group"),
    pytest.param(request(_CSR, namespace=""), True, id="csr"),
    pytest.param(request(_CSR, old=_CSR, namespace="", sub_resource="approval"), True, id="csr-approval"),
    pytest.param(request(_CSR, old=_CSR, namespace="", sub_resource="status"), True, id="csr-status"),
    pytest.param(request(_NODE, user="system:node:one", groups=_KUBELETS), True, id="node-by-a-kubelet"),
    pytest.param(request(_NODE, user="system:node:one"), False, id="node-by-who-is-called-like-a-kubelet"),
    pytest.param(request(_NODE, groups=_KUBELETS), False, id="node-by-who-is-in-the-group-of-kubelets-only"),
    *(pytest.param(request(_NODE, old=_NODE, user=user), True, id=f"node-by-{user}") for user in COMPONENTS),
    pytest.param(
        request(_NODE, old=_NODE, user="system:serviceaccount:kube-system:node-controller"),
        True,
        id="node-by-a-controller",
    ),
    pytest.param(
        request(_NODE, old=_NODE, user="system:serviceaccount:kube-system2:x"), False, id="node-by-another-account"
    ),
    pytest.param(request(_NODE, old=_NODE), False, id="node-by-alice"),
    pytest.param(request(None, old=_NODE), False, id="node-deleted-by-alice"),
    pytest.param(request(_NODE, old=_NODE, sub_resource="status"), True, id="status-of-a-node-by-alice"),
    pytest.param(request(_NODE, sub_resource="proxy", operation="CONNECT"), False, id="node-proxied-by-alice"),
    pytest.param(request(pod(), user="system:node:one", groups=_KUBELETS), False, id="pod-by-a-kubelet"),
    pytest.param(request(_object("TokenReview", "authentication.k8s.io/v1"), namespace=""), True, id="token-review"),
    pytest.param(request(_object("LocalSubjectAccessReview", "authorization.k8s.io/v1")), True, id="access-review"),
    pytest.param(request(pod(), sub_resource="status"), False, id="status-of-a-pod"),
    pytest.param(request(_object("Namespace", name="team")), False, id="namespace"),
    pytest.param(request(_ROLE, namespace=""), False, id="role-by-alice"),
    pytest.param(request(_ROLE, namespace="", user="system:apiserver"), True, id="role-by-the-api-server"),
    pytest.param(request(_object("Service"), user="system:apiserver"), True, id="service-by-the-api-server"),
]


@pytest.mark.parametrize(("asked", "spared"), _BOOTSTRAP)
def test_what_a_cluster_needs_to_come_up(asked: AdmissionRequest, spared: bool) -> None:  # noqa: FBT001
    """Leases, signing requests and what the cluster writes of Nodes is spared, and the API server does not ask then."""
    condition = _CONDITION.evaluate(inputs_of(asked, StaticFacts(TODAY)).names(None))

    assert (_SAFETY.spares(asked), condition.value, condition.error) == (spared, not spared, None)


@pytest.mark.parametrize(("asked", "spared"), _BOOTSTRAP)
def test_bootstrap_can_be_judged(asked: AdmissionRequest, spared: bool) -> None:  # noqa: ARG001, FBT001
    """Whoever opts in has none of it spared."""
    assert not Safety(_SAFETY.namespaces).spares(asked)


def test_requests_that_leave_groups_out() -> None:
    """The condition is no error where the API server sends no groups, as of anonymous requests."""
    asked = {
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "userInfo": {"username": "system:node:one"},
    }

    assert celrun.usually(cluster_is_not_coming_up().expression, request=asked)[0] is True


@pytest.mark.parametrize(
    ("asked", "spared"),
    [
        pytest.param(request(pod(), namespace="kube-system"), True, id="in-a-system-namespace"),
        pytest.param(request(None, old=deployment(), namespace="cks-admission"), True, id="in-the-services-own"),
        pytest.param(request(pod(), namespace="kube-system2"), False, id="in-another-one"),
        pytest.param(request(_object("Namespace", name="kube-system")), True, id="the-namespace-itself"),
        pytest.param(request(_object("Namespace", name="kube-public")), False, id="another-namespace"),
        pytest.param(
            request(_object("ClusterRole", "rbac.authorization.k8s.io/v1", name="kube-system"), namespace=""),
            False,
            id="what-is-only-called-so",
        ),
    ],
)
def test_namespaces_that_are_spared(asked: AdmissionRequest, spared: bool) -> None:  # noqa: FBT001
    """All in them is spared, and they themselves; nothing is without being named."""
    assert (_SAFETY.spares(asked), Safety().spares(asked)) == (spared, False)


def test_questions_that_no_policy_sees() -> None:
    """What policies are never asked about is spared as a whole, but for what no webhook is asked about either."""
    questions = {(group, name) for group, names in UNSEEN.items() for name in names if group.startswith("auth")}

    assert {each for each in WRITTEN_BY_ANYBODY if each[0].startswith("auth")} == questions


@pytest.mark.parametrize(
    ("groups", "resources", "concerns"),
    [
        pytest.param(["*"], ["*/*"], True, id="everything"),
        pytest.param(["*"], ["*"], True, id="without-subresources"),
        pytest.param(["", "apps"], ["pods", "nodes/status"], True, id="subresource-of-nodes"),
        pytest.param(["apps"], ["nodes", "leases"], False, id="other-groups"),
        pytest.param([""], ["pods", "pods/*"], False, id="other-resources"),
        pytest.param(["coordination.k8s.io"], ["leases"], True, id="leases"),
        pytest.param(["certificates.k8s.io"], ["*/approval"], True, id="approvals"),
    ],
)
def test_rules_that_may_concern_bootstrap(groups: list[str], resources: list[str], concerns: bool) -> None:  # noqa: FBT001
    """The API server is told of bootstrap only where an entry may be asked about it."""
    assert concerns_bootstrap([ResourceRule(("CREATE",), tuple(groups), tuple(resources))]) is concerns
