"""Reserved labels: what is reserved, which changes are refused, and what people read."""

from collections.abc import Iterable, Iterator
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
from support.tables import rows

from policies.engine.engine import validate
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.rule import Hook, Rule, RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation
from policies.labels import EXCEPTIONS, INTERRUPTABLE, LabelException, LabelGuard, organization
from policies.objects.fieldpath import Pattern, parse, render
from policies.objects.workload import Workload

_KEY = "foo.coreweave.cloud/bar"
_FREE = {"qos.coreweave.cloud/interruptable": "true"}
_ORG = "ns.coreweave.cloud/org"
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_PREFIX = "Use a label prefix of your own, such as example.org/bar; exceptions are made in labels.exceptions."
_LEAVE = "Leave these labels in place: the cluster's own controllers work by them."
_OWN_ORG = f'Only "a1b2c3" may stand at {_ORG}: the id of the organization whose cluster this is.'
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


def _refused(found: str, path: str = _OWN, problem: str = "", remedy: str = _OWN_PREFIX) -> Violation:
    return Violation("labels", path, found, problem, _SUMMARY, remedy)


def _must_stay(found: str) -> Violation:
    return _refused(found, problem="must not be removed", remedy=_LEAVE)


@pytest.mark.parametrize("sub_resource", ["", "status"])
def test_changes(sub_resource: str) -> None:
    """Every label that is added or changed is told at once, what stays passes, and removals count where they must."""
    before = {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "1", "a.coreweave.com/gone": "1", "app": "a"}
    after = {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "", "a.coreweave.com/new": "1"}
    changed, new = _refused('a.coreweave.com/changed=""'), _refused('a.coreweave.com/new="1"')
    found = [
        _judge(resource("v1", kind, labels=after), resource("v1", kind, labels=before), sub_resource=sub_resource)
        for kind in ("ConfigMap", "Node")
    ]

    assert found == [(changed, new), (changed, _must_stay('a.coreweave.com/gone="1"'), new)]


def test_operations_that_write_no_labels() -> None:
    """Deleting and connecting are not judged, whatever labels there are."""
    node, options = (resource("v1", kind, labels={_KEY: "1"}) for kind in ("Node", "PodExecOptions"))

    assert _judge(None, node, operation="DELETE") == ()
    assert _judge(options, operation="CONNECT") == ()
    assert _judge(None, operation="CREATE") == ()


def test_the_whole_message() -> None:
    """A person reads the documented sentence first, then every key with its path, then what to do."""
    hook = Hook("validate", "labels", (ResourceRule(("*",), ("*",), ("*/*",)),), "Fail")
    rule = Rule("labels", (hook,), "deny", _GUARD.reads, validate=_GUARD.validate)
    obj = deployment(labels=_FREE | {_KEY: "1"}, template_labels={"foo.coreweave.com/bar": "1"})
    answer = validate(request(obj), RuleSet([rule]), FACTS)
    lines = [
        _SUMMARY,
        f'  {_OWN}: {_KEY}="1"',
        f'  {_OWN}: qos.coreweave.cloud/interruptable="true" has no effect on any Pod here',
        f'  spec.template.{_OWN}: foo.coreweave.com/bar="1"',
        _OWN_PREFIX,
        f"Put qos.coreweave.cloud/interruptable at spec.template.{_OWN}.",
    ]

    assert (answer.allowed, answer.message.split("\n")) == (False, lines)


@pytest.mark.parametrize("key", ["qos.coreweave.cloud/interruptable", "qos.coreweave.com/graceful-interruptible"])
def test_a_pods_exception_holds_for_what_reaches_pods(key: str) -> None:
    """The shipped Pod labels pass with any value on Pods, in templates, and beside a template that carries the same."""
    free = {key: "anything"}
    job = at("spec.jobTemplate", {"metadata": {"labels": free}, "spec": at("template.metadata.labels", free)})
    group = at("spec.workerGroupSpecs[1].template.metadata.labels", free)
    objects = [
        *(pod(labels=free), resource("v1", "Binding", labels=free)),
        *(deployment(template_labels=free), deployment(template_labels=free, labels=free)),
        deployment(labels=free, metadata=owner("Deployment"), kind="ReplicaSet"),
        resource("batch/v1", "CronJob", job, labels=free),
        resource("ray.io/v1", "RayCluster", group, labels=free),
    ]

    assert [(obj["kind"], found) for obj in objects if (found := _judge(obj))] == []


_TEMPLATE_LABELS = "spec.template.metadata.labels"
_RAY_LABELS = "spec.headGroupSpec.template.metadata.labels or spec.workerGroupSpecs[*].template.metadata.labels"
_JOB_LABELS = "spec.jobTemplate.metadata.labels"
_CLAIM_LABELS = "spec.volumeClaimTemplates[0].metadata.labels"
_CLAIM = {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": _FREE}}}}
_POOL = resource("compute.coreweave.com/v1alpha1", "NodePool", at("spec.nodeLabels", _FREE))


@pytest.mark.parametrize(
    ("obj", "path", "right"),
    [
        (deployment(labels=_FREE), _OWN, _TEMPLATE_LABELS),
        (deployment(labels=_FREE, template_labels=dict.fromkeys(_FREE, "false")), _OWN, _TEMPLATE_LABELS),
        (deployment(labels=_FREE, metadata=owner(controller=False)), _OWN, _TEMPLATE_LABELS),
        (
            resource("batch/v1", "CronJob", at(_JOB_LABELS, _FREE)),
            _JOB_LABELS,
            "spec.jobTemplate.spec.template.metadata.labels",
        ),
        (
            resource("kubeflow.org/v2beta1", "MPIJob", labels=_FREE),
            _OWN,
            "spec.mpiReplicaSpecs.*.template.metadata.labels",
        ),
        (resource("ray.io/v1", "RayCluster", labels=_FREE), _OWN, _RAY_LABELS),
        (resource("apps/v1", "StatefulSet", at(_CLAIM_LABELS, _FREE)), _CLAIM_LABELS, ""),
        (pod(volumes=[_CLAIM]), "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels", ""),
        (resource("resource.k8s.io/v1", "ResourceClaimTemplate", labels=_FREE), _OWN, ""),
        (_POOL, "spec.nodeLabels", ""),
        (resource("v1", "Node", labels=_FREE), _OWN, ""),
        (resource("v1", "ConfigMap", labels=_FREE, **owner()), _OWN, ""),
    ],
)
def test_a_pods_exception_ends_where_no_pod_gets_the_label(obj: Json, path: str, right: str) -> None:
    """A Pod's label that no Pod gets is refused; on a workload and its job templates with the path to put it at."""
    problem = "has no effect on any Pod here" if right else ""
    remedy = f"Put qos.coreweave.cloud/interruptable at {right}." if right else _OWN_PREFIX

    assert _judge(obj) == (_refused('qos.coreweave.cloud/interruptable="true"', path, problem, remedy),)


@rows(__file__, "organization")
@pytest.mark.parametrize("sub_resource", ["", "status", "finalize"])
def test_the_organization_of_a_namespace(before: Json | None, after: str, sub_resource: str, *, refused: bool) -> None:
    """People may mark a Namespace as their organization's; they neither promote one nor take one from others."""
    old = None if before is None else resource("v1", "Namespace", labels=before)
    found = _judge(resource("v1", "Namespace", labels={_ORG: after}), old, sub_resource=sub_resource)

    remedy = _OWN_PREFIX if after == "a1b2c3" else _OWN_ORG
    assert found == ((_refused(f'{_ORG}="{after}"', remedy=remedy),) if refused else ())


def test_exceptions_are_data() -> None:
    """An exception holds for its key, its kinds and its values only, and without any nothing is excepted."""
    kinds = frozenset({("", "ConfigMap"), ("apps", "Deployment")})
    team = LabelException("team.coreweave.com/name", kinds, frozenset({"a"}))
    found = {
        (kind, value): _judge(resource(version, kind, labels={"team.coreweave.com/name": value}), exceptions=[team])
        for version, kind in (("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Secret"))
        for value in "ab"
    }

    passed = [("ConfigMap", "a"), ("Deployment", "a")]
    assert found == {key: () if key in passed else (_refused(f'team.coreweave.com/name="{key[1]}"'),) for key in found}
    assert _judge(pod(labels=_FREE), exceptions=()) == (_refused('qos.coreweave.cloud/interruptable="true"'),)
    assert _judge(pod(labels={_ORG: "a1b2c3"})) == (_refused(f'{_ORG}="a1b2c3"'),)


def _places_of(row: Workload) -> Iterator[Pattern]:
    """Every map of labels that ends up in the cluster, by what the table of workloads says of a kind."""
    yield parse(_OWN)
    for template in row.templates:
        yield (*template, *row.shape.labels)
        yield (*template, *row.shape.spec, *parse(f"volumes[*].ephemeral.volumeClaimTemplate.{_OWN}"))
    yield from ((*holder, *parse(_OWN)) for holder in (*row.jobs, *row.claims))
    yield from (*row.node_labels, *row.claim_labels, *row.pod_labels)


def _indexed(pattern: Pattern) -> str:
    """The path of a place, in the second item of each list."""
    return render(pattern).replace("[*]", "[1]").replace(".*", ".any")


# Kinds without a row in the table, and kinds that only travel through subresources.
_OTHER_KINDS = ("v1 Binding", "v1 ConfigMap", "v1 Namespace", "v1 Node", "example.org/v1 Widget", "longhorn.io/v1 Node")


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        *(
            pytest.param(f"{row.group}/v1".lstrip("/"), row.kind, path, id=f"{row.kind}.{row.group}-{path}")
            for row in WORKLOADS.values()
            for path in dict.fromkeys(map(_indexed, _places_of(row)))
        ),
        *(pytest.param(*kind.split(), _OWN, id=kind) for kind in _OTHER_KINDS),
    ],
)
def test_a_place_is_guarded(version: str, kind: str, path: str) -> None:
    """A reserved label is refused where it is new or changed, and may go but from Nodes' and Namespaces' own labels."""
    none = resource(version, kind)
    bare = resource(version, kind, at(path, {"app": "trainer"}))
    labelled = resource(version, kind, at(path, {"app": "trainer", _KEY: "1"}))
    changed = resource(version, kind, at(path, {_KEY: "2"}))
    one, two = (_refused(f'{_KEY}="{value}"', path) for value in "12")
    gone = (_must_stay(f'{_KEY}="1"'),) if (version, kind) in (("v1", "Node"), ("v1", "Namespace")) else ()

    assert _judge(bare) == _judge(merged(labelled, at(path, {"app": "other"})), labelled) == ()
    assert _judge(labelled) == _judge(labelled, bare) == _judge(labelled, none) == (one,)
    assert _judge(changed, labelled) == (two,)
    assert _judge(bare, labelled) == _judge(none, labelled) == gone


@rows(__file__, "free")
def test_other_places_are_free(version: str, kind: str, path: str) -> None:
    """A reserved key passes where it is no label that anybody copies."""
    assert _judge(resource(version, kind, at(path, {_KEY: "1"}))) == ()


def test_a_label_in_one_place_does_not_excuse_another() -> None:
    """A label is compared with what stood at the same place, not with the rest of the old object."""
    old = resource("batch.volcano.sh/v1alpha1", "Job", at("spec.tasks[0].template.metadata.labels", {_KEY: "1"}))
    task = {"template": {"metadata": {"labels": {_KEY: "1"}}}}
    new = merged(old, {"spec": {"tasks": [task, task]}}, at(_OWN, {_KEY: "1"}))

    places = (_OWN, "spec.tasks[1].template.metadata.labels")
    assert _judge(new, old) == tuple(_refused(f'{_KEY}="1"', path) for path in places)


_WITHOUT_ORGANIZATION = LabelGuard(WORKLOADS, (INTERRUPTABLE,), Exemptions())
_FACTS = StaticFacts(
    TODAY, {"cp": {_ORG: "control-plane"}, "ours": {_ORG: "a1b2c3"}, "lookalike": {"org": "control-plane"}}
)
_KUBELET = ("system:nodes", *EVERYBODY)
_MIRRORED: Json = {"annotations": {"kubernetes.io/config.mirror": "9f2c"}}
_NODE = resource("v1", "Node", name="n1", labels={_KEY: "1"})
_CONFIG_MAP = resource("v1", "ConfigMap", labels={_KEY: "1"})
_OBJECTS = {
    "node": _NODE,
    "longhorn node": {**_NODE, "apiVersion": "longhorn.io/v1beta2"},
    "pod": pod(labels={_KEY: "1"}, nodeName="n1"),
    "mirror": pod(labels={_KEY: "1"}, nodeName="n1", metadata=_MIRRORED),
    "config map": _CONFIG_MAP,
    "widget": resource("example.org/v1", "Widget", at("spec.nodeName", "n1"), labels={_KEY: "1"}, **_MIRRORED),
}
_REFUSED = (_refused(f'{_KEY}="1"'),)


def _found(asked: AdmissionRequest, facts: StaticFacts = _FACTS) -> tuple[Violation | More, ...]:
    return tuple(_WITHOUT_ORGANIZATION.validate(asked, facts))


@rows(__file__, "requesters")
def test_requesters(user: str, group: str | None, obj: str, *, passes: bool) -> None:
    """The cluster's own components, kubelets at home and control-plane accounts write reserved labels, no others."""
    asked = request(_OBJECTS[obj], user=user, groups=(*([group] if group else []), *EVERYBODY))

    assert _found(asked) == (() if passes else _REFUSED)


@pytest.mark.parametrize("sub_resource", ["", "status"])
def test_a_kubelet_labels_its_own_node(sub_resource: str) -> None:
    """A kubelet may add, change and remove reserved labels on its Node, also through the status."""
    bare = resource("v1", "Node", name="n1")

    for new, old in ((_NODE, bare), (bare, _NODE)):
        asked = request(new, old=old, user="system:node:n1", groups=_KUBELET, sub_resource=sub_resource)
        assert _found(asked) == ()


@pytest.mark.parametrize(("namespace", "passes"), [("cp", True), ("ours", False), ("lookalike", False), ("x", False)])
def test_objects_in_control_plane_namespaces(namespace: str, *, passes: bool) -> None:
    """Objects in control-plane Namespaces are left alone, whoever writes them."""
    assert _found(request(_CONFIG_MAP, namespace=namespace)) == (() if passes else _REFUSED)


@pytest.mark.parametrize("sub_resource", ["", "status", "finalize"])
@pytest.mark.parametrize("old", [None, {}, {_ORG: "control-plane"}], ids=["create", "update", "promoted"])
def test_a_namespace_does_not_exempt_itself(old: Any, sub_resource: str) -> None:
    """A Namespace is no object in itself: being of the control plane, or becoming so, opens it to nobody."""
    new = resource("v1", "Namespace", name="cp", labels={_ORG: "control-plane", _KEY: "1"})
    before = None if old is None else resource("v1", "Namespace", name="cp", labels=old)

    found = _found(request(new, old=before, sub_resource=sub_resource))

    assert found == (_REFUSED if old else (*_REFUSED, _refused(f'{_ORG}="control-plane"')))


def test_namespaces_are_asked_for_only_where_they_matter() -> None:
    """Where the answer depends on a Namespace, the one to look up is named; one that is lost fails the rule."""
    plain = request(resource("v1", "ConfigMap", labels={"app": "a"}))
    assert [_found(asked, NamespacesToAsk(TODAY)) for asked in (plain, request(_NODE))] == [(), _REFUSED]
    for asked, namespace in (
        (request(_CONFIG_MAP), "default"),
        (request(_NODE, user="system:serviceaccount:cp:operator"), "cp"),
    ):
        with pytest.raises(Missing) as needed:
            _found(asked, NamespacesToAsk(TODAY))
        assert needed.value.key == NamespaceKey(namespace)
        with pytest.raises(FactUnavailable, match=f"^namespace {namespace} could not be read$"):
            _found(asked, NamespacesLost(TODAY))


@pytest.mark.parametrize(
    ("labels", "found"), [([_KEY], "a list"), (f"{_KEY}=1", f'"{_KEY}=1"'), (7, "the number 7"), (True, "a boolean")]
)
def test_labels_that_are_no_map(labels: Any, found: str) -> None:
    """Labels of another type are refused as such, at their path, wherever they stand, unless they stood there."""
    template = deployment(template_labels=labels)

    for obj, path in ((pod(labels=labels), _OWN), (template, _TEMPLATE_LABELS)):
        words = "Labels must be a map of strings to strings.", "Write labels as key: value pairs."
        assert _judge(obj) == (Violation("labels", path, found, "", *words),)
    assert _judge(merged(template, at("metadata.annotations.note", "1")), template) == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *((None, "null"), (1, "the number 1"), (False, "a boolean"), ([], "a list"), ({}, "a map")),
        *(('a"b\\c\nd', r'"a\"b\\c\nd"'), ("x" * 81, f'"{"x" * 80}…"')),
    ],
)
@pytest.mark.parametrize(("key", "remedy"), [(_KEY, _OWN_PREFIX), (_ORG, _OWN_ORG)])
def test_values_of_any_type(key: str, remedy: str, value: Any, found: str) -> None:
    """A reserved key is refused whatever its value is, and the value is shown on one line, shortened."""
    assert _judge(pod(labels={key: value})) == (_refused(f"{key}={found}"),)
    namespace = resource("v1", "Namespace", labels={key: value})
    assert _judge(namespace) == (_refused(f"{key}={found}", remedy=remedy),)


@pytest.mark.parametrize("labels", [None, {}, {_KEY + "2": "1"}], ids=["null", "empty", "another-key"])
def test_a_node_loses_a_label_in_any_way(labels: Any) -> None:
    """A label is removed whether its key goes, all labels go, or they become null."""
    old = resource("v1", "Node", labels={_KEY: "1", _KEY + "2": "1"})
    gone = [f'{_KEY}="1"', f'{_KEY}2="1"'][: 1 if labels else 2]

    assert _judge({**old, "metadata": {"labels": labels}}, old) == tuple(map(_must_stay, gone))
