"""Reserved labels: who may write them, and in whose Namespaces."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.builders import (
    EVERYBODY,
    TODAY,
    WORKLOADS,
    Json,
    NamespacesLost,
    NamespacesToAsk,
    at,
    pod,
    request,
    resource,
)

from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation
from policies.labels import INTERRUPTABLE, LabelGuard

_KEY = "foo.coreweave.cloud/bar"
_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE,), Exemptions())
_FACTS = StaticFacts(
    TODAY,
    namespaces={
        "cp": {"ns.coreweave.cloud/org": "control-plane"},
        "ours": {"ns.coreweave.cloud/org": "a1b2c3"},
        "lookalike": {"org": "control-plane"},
    },
)
_KUBELET = ("system:nodes", *EVERYBODY)
_NODE = resource("v1", "Node", name="n1", labels={_KEY: "1"})
_LONGHORN_NODE = {**_NODE, "apiVersion": "longhorn.io/v1beta2"}
_MIRROR = pod(labels={_KEY: "1"}, nodeName="n1", metadata={"annotations": {"kubernetes.io/config.mirror": "9f2c"}})
_CONFIG_MAP = resource("v1", "ConfigMap", labels={_KEY: "1"})
_WIDGET = resource(
    "example.org/v1",
    "Widget",
    at("spec.nodeName", "n1"),
    labels={_KEY: "1"},
    annotations={"kubernetes.io/config.mirror": "9f2c"},
)
_REFUSED = (
    Violation(
        "labels",
        "metadata.labels",
        f'{_KEY}="1"',
        "",
        "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.",
        "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar.",
    ),
)


@pytest.mark.parametrize(
    ("user", "groups", "obj", "expected"),
    [
        pytest.param("alice", EVERYBODY, _NODE, _REFUSED, id="anybody"),
        pytest.param("alice", ("system:masters", *EVERYBODY), _NODE, (), id="masters"),
        pytest.param("system:kube-controller-manager", EVERYBODY, _NODE, (), id="controller-manager"),
        pytest.param("system:kube-scheduler", EVERYBODY, _NODE, (), id="scheduler"),
        pytest.param("system:apiserver", EVERYBODY, _NODE, (), id="api-server"),
        pytest.param("system:kube-proxy", EVERYBODY, _NODE, _REFUSED, id="another-component"),
        pytest.param("system:masters", EVERYBODY, _NODE, _REFUSED, id="user-called-like-the-group"),
        pytest.param("system:node:n1", _KUBELET, _NODE, (), id="kubelet-at-its-node"),
        pytest.param("system:node:n2", _KUBELET, _NODE, _REFUSED, id="kubelet-at-another-node"),
        pytest.param("system:node:n1", _KUBELET, _LONGHORN_NODE, _REFUSED, id="kubelet-at-a-node-of-another-group"),
        pytest.param("system:node:n1", EVERYBODY, _NODE, _REFUSED, id="kubelet-without-its-group"),
        pytest.param("n1", _KUBELET, _NODE, _REFUSED, id="group-without-a-kubelet"),
        pytest.param(
            "system:node:trainer", _KUBELET, _CONFIG_MAP, _REFUSED, id="kubelet-at-a-namesake-of-another-kind"
        ),
        pytest.param("system:node:n1", _KUBELET, _MIRROR, (), id="mirror-pod-of-the-node"),
        pytest.param("system:node:n2", _KUBELET, _MIRROR, _REFUSED, id="mirror-pod-of-another-node"),
        pytest.param("alice", EVERYBODY, _MIRROR, _REFUSED, id="mirror-pod-of-anybody"),
        pytest.param(
            "system:node:n1",
            _KUBELET,
            pod(labels={_KEY: "1"}, nodeName="n1"),
            _REFUSED,
            id="kubelet-at-an-ordinary-pod",
        ),
        pytest.param("system:node:n1", _KUBELET, _WIDGET, _REFUSED, id="mirror-annotation-on-what-is-no-pod"),
        pytest.param("system:serviceaccount:kube-system:any", EVERYBODY, _NODE, (), id="account-of-kube-system"),
        pytest.param("system:serviceaccount:cp:operator", EVERYBODY, _NODE, (), id="account-of-the-control-plane"),
        pytest.param(
            "system:serviceaccount:ours:operator", EVERYBODY, _NODE, _REFUSED, id="account-of-the-organization"
        ),
        pytest.param(
            "system:serviceaccount:lookalike:operator", EVERYBODY, _NODE, _REFUSED, id="account-of-a-lookalike"
        ),
        pytest.param("system:serviceaccount:kube-system2:any", EVERYBODY, _NODE, _REFUSED, id="account-of-a-namesake"),
        pytest.param("cp:operator", EVERYBODY, _NODE, _REFUSED, id="user-called-like-an-account"),
    ],
)
def test_requesters(user: str, groups: Sequence[str], obj: Json, expected: tuple[Violation, ...]) -> None:
    """The cluster's own components, kubelets at home and control-plane accounts write reserved labels, no others."""
    assert tuple(_GUARD.validate(request(obj, user=user, groups=groups), _FACTS)) == expected


@pytest.mark.parametrize("sub_resource", ["", "status"])
def test_a_kubelet_labels_its_own_node(sub_resource: str) -> None:
    """A kubelet may add, change and remove reserved labels on its Node, also through the status."""
    bare = resource("v1", "Node", name="n1")

    def write(new: Json, old: Json) -> tuple[Violation | More, ...]:
        asked = request(new, old=old, user="system:node:n1", groups=_KUBELET, sub_resource=sub_resource)
        return tuple(_GUARD.validate(asked, _FACTS))

    assert (write(_NODE, bare), write(bare, _NODE)) == ((), ())


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        pytest.param("cp", (), id="control-plane"),
        pytest.param("ours", _REFUSED, id="organization"),
        pytest.param("lookalike", _REFUSED, id="lookalike"),
        pytest.param("elsewhere", _REFUSED, id="without-labels"),
    ],
)
def test_objects_in_control_plane_namespaces(namespace: str, expected: tuple[Violation, ...]) -> None:
    """Objects in control-plane Namespaces are left alone, whoever writes them."""
    assert tuple(_GUARD.validate(request(_CONFIG_MAP, namespace=namespace), _FACTS)) == expected


@pytest.mark.parametrize("sub_resource", ["", "status", "finalize"])
@pytest.mark.parametrize(
    "old", [None, {}, {"ns.coreweave.cloud/org": "control-plane"}], ids=["create", "update", "promoted"]
)
def test_a_namespace_does_not_exempt_itself(old: Any, sub_resource: str) -> None:
    """A Namespace is no object in itself: being of the control plane, or becoming so, opens it to nobody."""
    new = resource("v1", "Namespace", name="cp", labels={"ns.coreweave.cloud/org": "control-plane", _KEY: "1"})
    before = None if old is None else resource("v1", "Namespace", name="cp", labels=old)
    promoted = Violation(
        "labels",
        "metadata.labels",
        'ns.coreweave.cloud/org="control-plane"',
        "",
        _REFUSED[0].summary,
        _REFUSED[0].remedy,
    )

    found = _GUARD.validate(request(new, old=before, sub_resource=sub_resource), _FACTS)

    assert tuple(found) == (_REFUSED if old else (*_REFUSED, promoted))


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(resource("v1", "ConfigMap", labels={"app": "a"}), id="nothing-found"),
        pytest.param(_NODE, id="cluster-scoped"),
    ],
)
def test_namespaces_are_asked_for_only_where_they_matter(obj: Json) -> None:
    """A request whose answer depends on no Namespace gets it although none is known."""
    expected = _REFUSED if obj is _NODE else ()

    assert tuple(_GUARD.validate(request(obj), NamespacesToAsk(TODAY))) == expected


@pytest.mark.parametrize(
    ("user", "obj", "namespace"),
    [
        pytest.param("alice", _CONFIG_MAP, "default", id="of-the-object"),
        pytest.param("system:serviceaccount:cp:operator", _NODE, "cp", id="of-the-requester"),
    ],
)
def test_a_namespace_that_is_not_known(user: str, obj: Json, namespace: str) -> None:
    """Where the answer depends on a Namespace, the one to look up is named; one that is lost fails the rule."""
    asked = request(obj, user=user)

    with pytest.raises(Missing) as needed:
        _GUARD.validate(asked, NamespacesToAsk(TODAY))
    with pytest.raises(FactUnavailable, match=f"^namespace {namespace} could not be read$"):
        _GUARD.validate(asked, NamespacesLost(TODAY))

    assert needed.value.key == NamespaceKey(namespace)
