"""Who is exempt: names and globs from the configuration, service accounts, kubelets."""

import pytest
from support.builders import FACTS, TODAY, NamespacesToAsk, pod, request, resource

from policies.engine.facts import StaticFacts
from policies.engine.interruption import Missing
from policies.engine.safety import Exemptions, is_control_plane, is_kubelet_at_home, service_account

_NOBODY = Exemptions(users=(), groups=(), service_accounts=())


@pytest.mark.parametrize(
    ("exempt", "user", "groups", "covered"),
    [
        pytest.param(Exemptions(users=("bob",)), "bob", (), True, id="user"),
        pytest.param(Exemptions(users=("bob",)), "bobby", (), False, id="user-is-whole"),
        pytest.param(Exemptions(users=("bob",)), "Bob", (), False, id="user-is-case-sensitive"),
        pytest.param(Exemptions(users=("ops-*",)), "ops-carol", (), True, id="user-glob"),
        pytest.param(Exemptions(users=("ops-?",)), "ops-12", (), False, id="user-glob-of-one-character"),
        pytest.param(Exemptions(users=("oidc:a[1]",)), "oidc:a[1]", (), True, id="user-with-brackets-is-an-exact-name"),
        pytest.param(Exemptions(groups=("sre",)), "dave", ("dev", "sre"), True, id="group"),
        pytest.param(Exemptions(groups=("sre-*",)), "dave", ("sre-eu",), True, id="group-glob"),
        pytest.param(Exemptions(groups=("sre",)), "sre", ("dev",), False, id="user-called-like-a-group"),
        pytest.param(
            Exemptions(service_accounts=("ci/deployer",)), "system:serviceaccount:ci:deployer", (), True, id="account"
        ),
        pytest.param(
            Exemptions(service_accounts=("ci/deployer",)),
            "system:serviceaccount:ci:other",
            (),
            False,
            id="another-account",
        ),
        pytest.param(
            Exemptions(service_accounts=("*/deployer",)),
            "system:serviceaccount:x:deployer",
            (),
            True,
            id="account-anywhere",
        ),
        pytest.param(
            Exemptions(service_accounts=("ci/*",)), "ci/deployer", (), False, id="user-called-like-an-account"
        ),
        pytest.param(_NOBODY, "system:apiserver", ("system:masters",), False, id="nobody"),
        pytest.param(_NOBODY, "", (), False, id="nobody-without-a-name"),
    ],
)
def test_names_and_globs(exempt: Exemptions, user: str, groups: tuple[str, ...], covered: bool) -> None:  # noqa: FBT001
    """Each list holds exact names and globs, for its own kind of requester and with its case."""
    assert exempt.cover(request(pod(), user=user, groups=groups), FACTS) is covered


def test_the_shipped_exemptions() -> None:
    """Without configuration exactly the control plane's own users, its administrators and kube-system are exempt."""
    assert Exemptions() == Exemptions(
        users=("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"),
        groups=("system:masters",),
        service_accounts=("kube-system/*",),
    )


@pytest.mark.parametrize(
    ("username", "parts"),
    [
        pytest.param("system:serviceaccount:ns:name", ("ns", "name"), id="account"),
        pytest.param("system:serviceaccount:ns", ("ns", ""), id="without-a-name"),
        pytest.param("system:serviceaccount", ("", ""), id="prefix-cut-off"),
        pytest.param("alice", ("", ""), id="user"),
    ],
)
def test_service_accounts_by_user_name(username: str, parts: tuple[str, str]) -> None:
    """A service account's user name gives its namespace and name; other names give nothing."""
    assert service_account(username) == parts


def test_a_namespace_is_asked_for_last() -> None:
    """Only an account that no list names makes its Namespace matter, and then that Namespace is named."""
    named = request(pod(), user="system:serviceaccount:kube-system:a")
    other = request(pod(), user="system:serviceaccount:team:a")

    assert Exemptions().cover(named, NamespacesToAsk(TODAY)) is True
    assert Exemptions().cover(request(pod()), NamespacesToAsk(TODAY)) is False
    with pytest.raises(Missing, match=r"^namespace 'team' is not known yet$"):
        Exemptions().cover(other, NamespacesToAsk(TODAY))


@pytest.mark.parametrize(
    ("labels", "control_plane"),
    [
        pytest.param({"ns.coreweave.cloud/org": "control-plane"}, True, id="control-plane"),
        pytest.param({"ns.coreweave.cloud/org": "control-plane-2"}, False, id="another-value"),
        pytest.param({"ns.coreweave.com/org": "control-plane"}, False, id="another-key"),
        pytest.param({}, False, id="no-labels"),
    ],
)
def test_control_plane_namespaces(labels: dict[str, str], control_plane: bool) -> None:  # noqa: FBT001
    """One label with one value makes a Namespace the control plane's."""
    assert is_control_plane("ns", StaticFacts(TODAY, namespaces={"ns": labels})) is control_plane


def test_a_kubelet_is_at_home_at_its_node_only() -> None:
    """The Node's name in the request decides, so that an unnamed Node is nobody's."""
    kubelet = ("system:nodes",)

    assert is_kubelet_at_home(request(resource("v1", "Node", name="n1"), user="system:node:n1", groups=kubelet)) is True
    assert is_kubelet_at_home(request(resource("v1", "Node"), user="system:node:n1", groups=kubelet)) is False
    assert is_kubelet_at_home(request(resource("v1", "Node", name=""), user="system:node:n1", groups=kubelet)) is False
