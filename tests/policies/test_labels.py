"""Reserved labels: what is reserved, which changes are refused, and what people read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from support.builders import (
    EVERYBODY,
    FACTS,
    TODAY,
    WORKLOADS,
    Json,
    NamespacesLost,
    NamespacesToAsk,
    at,
    deployment,
    merged,
    owner,
    pod,
    request,
    resource,
)

from policies.engine.engine import Answer, validate
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import ResourceRule
from policies.engine.request import Operation
from policies.engine.rule import Hook, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation, describe
from policies.labels import EXCEPTIONS, INTERRUPTABLE, LabelException, LabelGuard, is_reserved, organization
from policies.objects.fieldpath import Pattern, parse, render
from policies.objects.workload import Workload

_FREE = {"qos.coreweave.cloud/interruptable": "true"}
_RESERVED = {"foo.coreweave.cloud/bar": "true"}
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_PREFIX = "Use a label prefix of your own, such as example.org/bar; exceptions are made in labels.exceptions."


_OWN = "metadata.labels"
_SHIPPED = (*EXCEPTIONS, organization("a1b2c3"))
_GUARD = LabelGuard(WORKLOADS, _SHIPPED, Exemptions())


def _judge(
    obj: Json | None,
    old: Json | None = None,
    exceptions: Iterable[LabelException] = _SHIPPED,
    operation: Operation | None = None,
    sub_resource: str = "",
) -> tuple[Violation | More, ...]:
    guard = _GUARD if exceptions is _SHIPPED else LabelGuard(WORKLOADS, exceptions, Exemptions())
    asked = request(obj, old=old, operation=operation, sub_resource=sub_resource, name="trainer")
    return tuple(guard.validate(asked, FACTS))


def _answer(obj: Json, old: Json | None = None) -> Answer:
    hook = Hook("validate", "labels", (ResourceRule(("*",), ("*",), ("*/*",)),), "Fail")
    rule = Rule("labels", (hook,), "deny", _GUARD.reads, validate=_GUARD.validate)
    return validate(request(obj, old=old), RuleSet([rule]), FACTS)


def _refused(path: str, found: str, problem: str = "", remedy: str = _OWN_PREFIX) -> Violation:
    return Violation("labels", path, found, problem, _SUMMARY, remedy)


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        pytest.param("coreweave.cloud/bar", True, id="domain"),
        pytest.param("coreweave.com/bar", True, id="other-domain"),
        pytest.param("foo.coreweave.cloud/bar", True, id="subdomain"),
        pytest.param("a.b.coreweave.com/bar", True, id="deep-subdomain"),
        pytest.param("coreweave.cloud/", True, id="empty-name"),
        pytest.param("foo.coreweave.cloud/a/b", True, id="two-slashes"),
        pytest.param("notcoreweave.cloud/bar", False, id="part-of-a-dns-label"),
        pytest.param("not-coreweave.com/bar", False, id="part-of-a-dns-label-by-hyphen"),
        pytest.param("coreweave.cloud.example.org/bar", False, id="not-at-the-end"),
        pytest.param("coreweave.community/bar", False, id="longer-top-level"),
        pytest.param("coreweave.org/bar", False, id="another-top-level"),
        pytest.param("coreweavexcloud/bar", False, id="dot-is-a-dot"),
        pytest.param("example.org/foo.coreweave.cloud/bar", False, id="in-the-name"),
        pytest.param("coreweave.cloud", False, id="no-prefix"),
        pytest.param("/coreweave.cloud", False, id="empty-prefix"),
        pytest.param("app", False, id="plain"),
        pytest.param("", False, id="empty"),
    ],
)
def test_what_is_reserved(key: str, reserved: bool) -> None:  # noqa: FBT001
    """A key is reserved when its prefix is one of the domains or below it, by whole DNS labels."""
    assert is_reserved(key) is reserved


@pytest.mark.parametrize(
    ("kind", "before", "after", "violations"),
    [
        pytest.param("ConfigMap", {}, {"app": "a"}, [], id="plain-label"),
        pytest.param("ConfigMap", {"app": "a"}, {"notcoreweave.cloud/x": "1"}, [], id="lookalike"),
        pytest.param(
            "ConfigMap",
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "1", "a.coreweave.com/gone": "1"},
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "2", "a.coreweave.com/new": "1"},
            [
                _refused("metadata.labels", 'a.coreweave.com/changed="2"'),
                _refused("metadata.labels", 'a.coreweave.com/new="1"'),
            ],
            id="keep-change-remove-add",
        ),
        pytest.param(
            "Node",
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "1", "a.coreweave.com/gone": "1", "app": "a"},
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "", "a.coreweave.com/new": "1"},
            [
                _refused("metadata.labels", 'a.coreweave.com/changed=""'),
                _refused(
                    "metadata.labels",
                    'a.coreweave.com/gone="1"',
                    "must not be removed",
                    "Leave these labels in place: the cluster's own controllers work by them.",
                ),
                _refused("metadata.labels", 'a.coreweave.com/new="1"'),
            ],
            id="keep-change-add-remove-on-a-node",
        ),
    ],
)
def test_changes(kind: str, before: Json, after: Json, violations: list[Violation]) -> None:
    """Every label that is added or changed is told at once, what stays passes, and removals count where they must."""
    old, new = resource("v1", kind, labels=before), resource("v1", kind, labels=after)

    assert list(_judge(new, old)) == violations
    assert list(_judge(new, old, sub_resource="status")) == violations


@pytest.mark.parametrize(
    ("obj", "old", "operation"),
    [
        pytest.param(None, resource("v1", "Node", labels=_RESERVED), "DELETE", id="delete"),
        pytest.param(resource("v1", "PodExecOptions", labels=_RESERVED), None, "CONNECT", id="connect"),
        pytest.param(None, None, "CREATE", id="no-object"),
    ],
)
def test_operations_that_write_no_labels(obj: Json | None, old: Json | None, operation: Operation) -> None:
    """Deleting and connecting are not judged, whatever labels there are."""
    assert _judge(obj, old, operation=operation) == ()


@pytest.mark.parametrize(
    ("obj", "old", "message"),
    [
        pytest.param(
            deployment(labels={"foo.coreweave.cloud/bar": "true"}, template_labels={"foo.coreweave.com/bar": "true"}),
            None,
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
            '  spec.template.metadata.labels: foo.coreweave.com/bar="true"\n'
            f"{_OWN_PREFIX}",
            id="two-places",
        ),
        pytest.param(
            deployment(labels=_FREE | _RESERVED),
            None,
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
            '  metadata.labels: qos.coreweave.cloud/interruptable="true" has no effect on any Pod here\n'
            f"{_OWN_PREFIX}\n"
            "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
            id="two-remedies",
        ),
        pytest.param(
            resource("v1", "Node", labels={}),
            resource("v1", "Node", labels=_RESERVED),
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true" must not be removed\n'
            "Leave these labels in place: the cluster's own controllers work by them.",
            id="removal",
        ),
    ],
)
def test_the_whole_message(obj: Json, old: Json | None, message: str) -> None:
    """A person reads the documented sentence first, then every key with its path, then what to do."""
    answer = _answer(obj, old)

    assert (answer.allowed, answer.message) == (False, message)


_ORG = "ns.coreweave.cloud/org"


@pytest.mark.parametrize("key", ["qos.coreweave.cloud/interruptable", "qos.coreweave.com/graceful-interruptible"])
@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(lambda free: pod(labels=free), id="pod"),
        pytest.param(lambda free: resource("v1", "Binding", labels=free), id="binding"),
        pytest.param(lambda free: deployment(template_labels=free), id="template"),
        pytest.param(lambda free: deployment(template_labels=free, labels=free), id="copied-to-the-workload"),
        pytest.param(
            lambda free: merged(
                resource("batch/v1", "CronJob", labels=free),
                at("spec.jobTemplate.metadata.labels", free),
                at("spec.jobTemplate.spec.template.metadata.labels", free),
            ),
            id="copied-to-the-job-template",
        ),
        pytest.param(
            lambda free: (
                resource("ray.io/v1", "RayCluster", at("spec.workerGroupSpecs[1].template.metadata.labels", free))
                | {"metadata": {"labels": free}}
            ),
            id="copied-from-one-of-several-templates",
        ),
        pytest.param(
            lambda free: deployment(labels=free, metadata=owner("Deployment"), kind="ReplicaSet"),
            id="owned-without-template",
        ),
    ],
)
def test_a_pods_exception_holds_for_what_reaches_pods(obj: Any, key: str) -> None:
    """The shipped Pod labels pass with any value on Pods, in templates, and beside a template that carries the same."""
    assert _judge(obj({key: "anything"})) == ()


_TEMPLATE_LABELS = "spec.template.metadata.labels"
_RAY_LABELS = "spec.headGroupSpec.template.metadata.labels or spec.workerGroupSpecs[*].template.metadata.labels"
_CLAIM = {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": _FREE}}}}


@pytest.mark.parametrize(
    ("obj", "path", "right"),
    [
        pytest.param(deployment(labels=_FREE), _OWN, _TEMPLATE_LABELS, id="own-metadata-alone"),
        pytest.param(
            deployment(labels=_FREE, template_labels={"qos.coreweave.cloud/interruptable": "false"}),
            *(_OWN, _TEMPLATE_LABELS),
            id="template-with-another-value",
        ),
        pytest.param(
            deployment(labels=_FREE, metadata=owner(controller=False)),
            *(_OWN, _TEMPLATE_LABELS),
            id="owner-that-is-no-controller",
        ),
        pytest.param(
            resource("batch/v1", "CronJob", at("spec.jobTemplate.metadata.labels", _FREE)),
            *("spec.jobTemplate.metadata.labels", "spec.jobTemplate.spec.template.metadata.labels"),
            id="job-template-alone",
        ),
        pytest.param(
            resource("kubeflow.org/v2beta1", "MPIJob", labels=_FREE),
            *(_OWN, "spec.mpiReplicaSpecs.*.template.metadata.labels"),
            id="templates-by-name",
        ),
        pytest.param(resource("ray.io/v1", "RayCluster", labels=_FREE), _OWN, _RAY_LABELS, id="several-templates"),
        pytest.param(
            resource("apps/v1", "StatefulSet", at("spec.volumeClaimTemplates[0].metadata.labels", _FREE)),
            *("spec.volumeClaimTemplates[0].metadata.labels", ""),
            id="claim-template",
        ),
        pytest.param(
            pod(volumes=[_CLAIM]),
            *("spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels", ""),
            id="ephemeral-claim",
        ),
        pytest.param(
            resource("resource.k8s.io/v1", "ResourceClaimTemplate", labels=_FREE), _OWN, "", id="kind-without-templates"
        ),
        pytest.param(
            resource("compute.coreweave.com/v1alpha1", "NodePool", at("spec.nodeLabels", _FREE)),
            *("spec.nodeLabels", ""),
            id="labels-of-nodes",
        ),
        pytest.param(resource("v1", "Node", labels=_FREE), _OWN, "", id="node"),
        pytest.param(resource("v1", "ConfigMap", labels=_FREE, **owner()), _OWN, "", id="owned-config-map"),
    ],
)
def test_a_pods_exception_ends_where_no_pod_gets_the_label(obj: Json, path: str, right: str) -> None:
    """A Pod's label that no Pod gets is refused; on a workload and its job templates with the path to put it at."""
    problem = "has no effect on any Pod here" if right else ""
    remedy = f"Put qos.coreweave.cloud/interruptable at {right}." if right else _OWN_PREFIX

    assert _judge(obj) == (_refused(path, 'qos.coreweave.cloud/interruptable="true"', problem, remedy),)


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param(None, "a1b2c3", None, id="create-as-own"),
        pytest.param(None, "other", "other", id="create-as-other"),
        pytest.param(None, "control-plane", "control-plane", id="create-as-control-plane"),
        pytest.param({}, "a1b2c3", None, id="add-own"),
        pytest.param({}, "control-plane", "control-plane", id="promote"),
        pytest.param({_ORG: "a1b2c3"}, "control-plane", "control-plane", id="promote-own"),
        pytest.param({_ORG: "control-plane"}, "a1b2c3", "a1b2c3", id="take-from-the-control-plane"),
        pytest.param({_ORG: "other"}, "a1b2c3", "a1b2c3", id="take-from-another"),
        pytest.param({_ORG: "control-plane"}, "control-plane", None, id="keep"),
    ],
)
@pytest.mark.parametrize("sub_resource", ["", "status", "finalize"])
def test_the_organization_of_a_namespace(
    before: Json | None, after: str, refused: str | None, sub_resource: str
) -> None:
    """People may mark a Namespace as their organization's; they neither promote one nor take one from others."""
    old = None if before is None else resource("v1", "Namespace", labels=before)
    found = _judge(resource("v1", "Namespace", labels={_ORG: after}), old, sub_resource=sub_resource)

    told = "Only {} may stand at ns.coreweave.cloud/org: the id of the organization whose cluster this is."
    remedy = (told.format('"a1b2c3"'),) if refused != "a1b2c3" else ()
    assert found == (() if refused is None else (_refused("metadata.labels", f'{_ORG}="{refused}"', "", *remedy),))


def test_the_organization_elsewhere() -> None:
    """The organization's label is for Namespaces only."""
    assert _judge(pod(labels={_ORG: "a1b2c3"})) == (_refused("metadata.labels", f'{_ORG}="a1b2c3"'),)


def test_exceptions_are_data() -> None:
    """An exception holds for its key, its kinds and its values only, and without any nothing is excepted."""
    team = LabelException(
        "team.coreweave.com/name", frozenset({("", "ConfigMap"), ("apps", "Deployment")}), frozenset({"a"})
    )
    wrong = (_refused("metadata.labels", 'team.coreweave.com/name="b"'),)

    def label(version: str, kind: str, value: str) -> tuple[Violation | More, ...]:
        return _judge(resource(version, kind, labels={"team.coreweave.com/name": value}), exceptions=[team])

    assert (label("v1", "ConfigMap", "a"), label("apps/v1", "Deployment", "a")) == ((), ())
    assert (label("v1", "ConfigMap", "b"), label("apps/v1", "Deployment", "b")) == (wrong, wrong)
    assert label("v1", "Secret", "a") == (_refused("metadata.labels", 'team.coreweave.com/name="a"'),)
    assert _judge(pod(labels=_FREE), exceptions=()) == (
        _refused("metadata.labels", 'qos.coreweave.cloud/interruptable="true"'),
    )


_KEY = "foo.coreweave.cloud/bar"


def _indexed(pattern: Pattern) -> str:
    """The path of a place, in the second item of each list."""
    return render(pattern).replace("[*]", "[1]").replace(".*", ".any")


def _places_of(row: Workload) -> Iterator[Pattern]:
    """Every map of labels that ends up in the cluster, by what the table of workloads says of a kind."""
    yield parse(_OWN)
    for template in row.templates:
        yield (*template, *row.shape.labels)
        yield (*template, *row.shape.spec, *parse(f"volumes[*].ephemeral.volumeClaimTemplate.{_OWN}"))
    yield from ((*holder, *parse(_OWN)) for holder in (*row.jobs, *row.claims))
    yield from (*row.node_labels, *row.claim_labels, *row.pod_labels)


# Kinds without a row in the table, and kinds that only travel through subresources.
_OTHER_KINDS = ("v1 Binding", "v1 ConfigMap", "v1 Namespace", "v1 Node", "example.org/v1 Widget", "longhorn.io/v1 Node")
_PLACES = [
    *(
        pytest.param(f"{row.group}/v1".lstrip("/"), row.kind, path, id=f"{row.kind}.{row.group}-{path}")
        for row in WORKLOADS.values()
        for path in dict.fromkeys(map(_indexed, _places_of(row)))
    ),
    *(pytest.param(*kind.split(), _OWN, id=kind) for kind in _OTHER_KINDS),
]
_KEPT = [("v1", "Node"), ("v1", "Namespace")]


def _key_refused(path: str, value: str, problem: str = "", remedy: str = "") -> tuple[Violation, ...]:
    summary = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
    own = _OWN_PREFIX
    return (Violation("labels", path, f'{_KEY}="{value}"', problem, summary, remedy or own),)


@pytest.mark.parametrize(("version", "kind", "path"), _PLACES)
def test_a_place_is_guarded(version: str, kind: str, path: str) -> None:
    """A reserved label is refused with its path wherever it is new or changed, and passes where it was there."""
    bare = resource(version, kind, at(path, {"app": "trainer"}))
    labelled = resource(version, kind, at(path, {"app": "trainer", _KEY: "1"}))
    changed = resource(version, kind, at(path, {_KEY: "2"}))

    assert _judge(bare) == ()
    assert _judge(labelled) == _key_refused(path, "1")
    assert _judge(labelled, bare) == _key_refused(path, "1")
    assert _judge(labelled, resource(version, kind)) == _key_refused(path, "1")
    assert _judge(changed, labelled) == _key_refused(path, "2")
    assert _judge(merged(labelled, at(path, {"app": "other"})), labelled) == ()


@pytest.mark.parametrize(("version", "kind", "path"), _PLACES)
def test_a_removal_is_refused_on_nodes_and_namespaces_only(version: str, kind: str, path: str) -> None:
    """A reserved label may go from anywhere but the own labels of a Node or a Namespace."""
    labelled = resource(version, kind, at(path, {"app": "trainer", _KEY: "1"}))
    remedy = "Leave these labels in place: the cluster's own controllers work by them."
    expected = _key_refused(path, "1", "must not be removed", remedy) if (version, kind) in _KEPT else ()

    assert _judge(resource(version, kind, at(path, {"app": "trainer"})), labelled) == expected
    assert _judge(resource(version, kind), labelled) == expected


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        pytest.param("example.org/v1", "Deployment", "spec.template.metadata.labels", id="kind-of-another-group"),
        pytest.param("v1", "Service", "spec.template.metadata.labels", id="core-service"),
        pytest.param("apps/v1", "Deployment", "spec.selector.matchLabels", id="selector"),
        pytest.param("v1", "Pod", "spec.nodeSelector", id="node-selector"),
        pytest.param("v1", "Pod", "metadata.annotations", id="annotations"),
        pytest.param("batch/v1", "Job", "spec.jobTemplate.metadata.labels", id="no-place-of-this-kind"),
        pytest.param("v1", "ConfigMap", "data", id="config-map"),
    ],
)
def test_other_places_are_free(version: str, kind: str, path: str) -> None:
    """A reserved key passes where it is no label that anybody copies."""
    assert _judge(resource(version, kind, at(path, {_KEY: "1"}))) == ()


def test_a_label_in_one_place_does_not_excuse_another() -> None:
    """A label is compared with what stood at the same place, not with the rest of the old object."""
    old = resource("batch.volcano.sh/v1alpha1", "Job", at("spec.tasks[0].template.metadata.labels", {_KEY: "1"}))
    task = {"template": {"metadata": {"labels": {_KEY: "1"}}}}
    new = merged(old, {"spec": {"tasks": [task, task]}}, at(_OWN, {_KEY: "1"}))

    assert _judge(new, old) == (*_key_refused(_OWN, "1"), *_key_refused("spec.tasks[1].template.metadata.labels", "1"))


_WITHOUT_ORGANIZATION = LabelGuard(WORKLOADS, (INTERRUPTABLE,), Exemptions())
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
        _OWN_PREFIX,
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
    assert tuple(_WITHOUT_ORGANIZATION.validate(request(obj, user=user, groups=groups), _FACTS)) == expected


@pytest.mark.parametrize("sub_resource", ["", "status"])
def test_a_kubelet_labels_its_own_node(sub_resource: str) -> None:
    """A kubelet may add, change and remove reserved labels on its Node, also through the status."""
    bare = resource("v1", "Node", name="n1")

    def write(new: Json, old: Json) -> tuple[Violation | More, ...]:
        asked = request(new, old=old, user="system:node:n1", groups=_KUBELET, sub_resource=sub_resource)
        return tuple(_WITHOUT_ORGANIZATION.validate(asked, _FACTS))

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
    assert tuple(_WITHOUT_ORGANIZATION.validate(request(_CONFIG_MAP, namespace=namespace), _FACTS)) == expected


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

    found = _WITHOUT_ORGANIZATION.validate(request(new, old=before, sub_resource=sub_resource), _FACTS)

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

    assert tuple(_WITHOUT_ORGANIZATION.validate(request(obj), NamespacesToAsk(TODAY))) == expected


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
        _WITHOUT_ORGANIZATION.validate(asked, NamespacesToAsk(TODAY))
    with pytest.raises(FactUnavailable, match=f"^namespace {namespace} could not be read$"):
        _WITHOUT_ORGANIZATION.validate(asked, NamespacesLost(TODAY))

    assert needed.value.key == NamespaceKey(namespace)


_OWN_ORG = f'Only "a1b2c3" may stand at {_ORG}: the id of the organization whose cluster this is.'


def _malformed(path: str, found: str) -> Violation:
    return Violation(
        "labels", path, found, "", "Labels must be a map of strings to strings.", "Write labels as key: value pairs."
    )


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None, "spec": None}, id="null-parents"),
        pytest.param({"metadata": {"labels": None}}, id="null-labels"),
        pytest.param({"metadata": {"labels": {}}}, id="empty-labels"),
        pytest.param({"metadata": [], "spec": "x"}, id="parents-of-other-types"),
        pytest.param({"metadata": {}, "spec": {"template": "x"}}, id="template-is-text"),
        pytest.param({"metadata": {}, "spec": {"template": None}}, id="template-is-null"),
        pytest.param(
            {"metadata": {}, "spec": {"template": [{"metadata": {"labels": {_KEY: "1"}}}]}}, id="template-is-list"
        ),
        pytest.param({"spec": {"template": {"metadata": None, "spec": None}}}, id="null-in-template"),
        pytest.param({"spec": {"template": {"spec": {"volumes": None}}}}, id="volumes-null"),
        pytest.param({"spec": {"template": {"spec": {"volumes": {"ephemeral": {}}}}}}, id="volumes-are-a-map"),
        pytest.param({"spec": {"template": {"spec": {"volumes": [None, "x", {"ephemeral": None}]}}}}, id="odd-volumes"),
        pytest.param({"spec": {"volumeClaimTemplates": {"metadata": {}}}}, id="claims-are-a-map"),
        pytest.param({"spec": {"volumeClaimTemplates": [None, 1, {"metadata": 1}]}}, id="odd-claims"),
    ],
)
def test_shapes_that_hold_no_labels(obj: Json) -> None:
    """Where parents are missing, null or of another type there is nothing to copy, so it passes."""
    odd = {"apiVersion": "apps/v1", "kind": "StatefulSet", **obj}

    assert (_judge(odd), _judge(odd, odd)) == ((), ())


@pytest.mark.parametrize(
    "old",
    [
        pytest.param({"metadata": None}, id="null-metadata"),
        pytest.param({"metadata": {"labels": None}}, id="null-labels"),
        pytest.param({"metadata": {"labels": [_KEY]}}, id="list"),
        pytest.param({"metadata": {"labels": _KEY}}, id="text"),
        pytest.param({"metadata": {"labels": {_KEY: None}}}, id="null-value"),
        pytest.param({"metadata": {"labels": {_KEY: {"1": "1"}}}}, id="map-value"),
        pytest.param({"metadata": [{"labels": {_KEY: "1"}}]}, id="metadata-is-a-list"),
    ],
)
def test_an_odd_old_object_excuses_nothing(old: Json) -> None:
    """A label counts as there before only when the old object has a map of labels with the same value."""
    new = resource("v1", "Node", labels={_KEY: "1"})

    assert _judge(new, {"apiVersion": "v1", "kind": "Node", **old}) == (_refused("metadata.labels", f'{_KEY}="1"'),)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        pytest.param([_KEY], "a list", id="list"),
        pytest.param(f"{_KEY}=1", f'"{_KEY}=1"', id="text"),
        pytest.param(7, "the number 7", id="number"),
        pytest.param(True, "a boolean", id="boolean"),
    ],
)
def test_labels_that_are_no_map(labels: Any, found: str) -> None:
    """Labels of another type are refused as such, at their path, wherever they stand."""
    assert _judge(pod(labels=labels)) == (_malformed("metadata.labels", found),)
    assert _judge(deployment(template_labels=labels)) == (_malformed("spec.template.metadata.labels", found),)


def test_labels_that_are_no_map_and_were_none_before() -> None:
    """An object that came to be with malformed labels somewhere goes on: what is unchanged blocks no other change."""
    old = deployment(template_labels=["x"])

    assert _judge(merged(old, at("metadata.annotations.note", "1")), old) == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param(1, "the number 1", id="number"),
        pytest.param(False, "a boolean", id="boolean"),
        pytest.param([], "a list", id="list"),
        pytest.param({}, "a map", id="map"),
        pytest.param('a"b\\c\nd', r'"a\"b\\c\nd"', id="quotes-and-line-break"),
        pytest.param("x" * 81, f'"{"x" * 80}…"', id="long"),
    ],
)
@pytest.mark.parametrize(
    ("key", "remedy"), [(_KEY, _OWN_PREFIX), (_ORG, _OWN_ORG)], ids=["reserved", "with-an-exception-for-some-values"]
)
def test_values_of_any_type(key: str, remedy: str, value: Any, found: str) -> None:
    """A reserved key is refused whatever its value is, and the value is shown on one line, shortened."""
    assert _judge(pod(labels={key: value})) == (_refused("metadata.labels", f"{key}={found}"),)
    namespace = resource("v1", "Namespace", labels={key: value})
    assert _judge(namespace) == (_refused("metadata.labels", f"{key}={found}", remedy=remedy),)


@pytest.mark.parametrize(
    "labels",
    [pytest.param(None, id="null"), pytest.param({}, id="empty"), pytest.param({_KEY + "2": "1"}, id="another-key")],
)
def test_a_node_loses_a_label_in_any_way(labels: Any) -> None:
    """A label is removed whether its key goes, all labels go, or they become null."""
    old = resource("v1", "Node", labels={_KEY: "1", _KEY + "2": "1"})
    remedy = "Leave these labels in place: the cluster's own controllers work by them."
    gone = [f'{_KEY}="1"', f'{_KEY}2="1"'][: 1 if labels else 2]

    assert _judge({**old, "metadata": {"labels": labels}}, old) == tuple(
        _refused("metadata.labels", found, "must not be removed", remedy) for found in gone
    )


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(deployment(template_labels={f"{_KEY}\nNothing is wrong here.\n": "1"}), id="in-a-label-key"),
        pytest.param(
            resource(
                "kubeflow.org/v1",
                "MPIJob",
                {"spec": {"mpiReplicaSpecs": {"a\nNothing is wrong here.\n": {"template": pod(labels={_KEY: "1"})}}}},
            ),
            id="in-the-path",
        ),
        pytest.param(resource("v1", "ConfigMap", labels={_KEY: "1\r\x1b[2K"}), id="in-a-value"),
    ],
)
def test_nothing_forges_lines_of_the_message(obj: Json) -> None:
    """Line breaks and control characters, which no API server has checked yet, stay on the line of their violation."""
    lines = describe(found for found in _judge(obj) if isinstance(found, Violation)).split("\n")

    assert (lines[0], lines[2:], lines[1].isprintable()) == (_SUMMARY, [_OWN_PREFIX], True)
