"""Exceptions from the reserved labels: which labels people may set, where, and what happens where they end."""

from collections.abc import Iterable
from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, at, deployment, merged, owner, pod, request, resource

from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelException, LabelGuard, organization

_ORG = "ns.coreweave.cloud/org"
_SHIPPED = (INTERRUPTABLE, GRACEFUL, organization("a1b2c3"))
_FREE = {"qos.coreweave.cloud/interruptable": "true"}
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_PREFIX = "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar."


def _judge(
    obj: Json, old: Json | None = None, exceptions: Iterable[LabelException] = _SHIPPED, sub_resource: str = ""
) -> tuple[Violation | More, ...]:
    guard = LabelGuard(WORKLOADS, exceptions, Exemptions())
    return tuple(guard.validate(request(obj, old=old, sub_resource=sub_resource), FACTS))


def _refused(path: str, found: str, problem: str = "", remedy: str = _OWN_PREFIX) -> Violation:
    return Violation("labels", path, found, problem, _SUMMARY, remedy)


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


@pytest.mark.parametrize(
    ("obj", "violation"),
    [
        pytest.param(
            deployment(labels=_FREE),
            (
                "metadata.labels",
                "has no effect on any Pod here",
                "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
            ),
            id="own-metadata-alone",
        ),
        pytest.param(
            deployment(labels=_FREE, template_labels={"qos.coreweave.cloud/interruptable": "false"}),
            (
                "metadata.labels",
                "has no effect on any Pod here",
                "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
            ),
            id="template-with-another-value",
        ),
        pytest.param(
            deployment(labels=_FREE, metadata=owner(controller=False)),
            (
                "metadata.labels",
                "has no effect on any Pod here",
                "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
            ),
            id="owner-that-is-no-controller",
        ),
        pytest.param(
            resource("batch/v1", "CronJob", at("spec.jobTemplate.metadata.labels", _FREE)),
            (
                "spec.jobTemplate.metadata.labels",
                "has no effect on any Pod here",
                "Put qos.coreweave.cloud/interruptable at spec.jobTemplate.spec.template.metadata.labels.",
            ),
            id="job-template-alone",
        ),
        pytest.param(
            resource("kubeflow.org/v2beta1", "MPIJob", labels=_FREE),
            (
                "metadata.labels",
                "has no effect on any Pod here",
                "Put qos.coreweave.cloud/interruptable at spec.mpiReplicaSpecs.*.template.metadata.labels.",
            ),
            id="templates-by-name",
        ),
        pytest.param(
            resource("ray.io/v1", "RayCluster", labels=_FREE),
            (
                "metadata.labels",
                "has no effect on any Pod here",
                (
                    "Put qos.coreweave.cloud/interruptable at spec.headGroupSpec.template.metadata.labels"
                    " or spec.workerGroupSpecs[*].template.metadata.labels."
                ),
            ),
            id="several-templates",
        ),
        pytest.param(
            resource("apps/v1", "StatefulSet", at("spec.volumeClaimTemplates[0].metadata.labels", _FREE)),
            ("spec.volumeClaimTemplates[0].metadata.labels", "", _OWN_PREFIX),
            id="claim-template",
        ),
        pytest.param(
            pod(volumes=[{"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": _FREE}}}}]),
            ("spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels", "", _OWN_PREFIX),
            id="ephemeral-claim",
        ),
        pytest.param(
            resource("resource.k8s.io/v1", "ResourceClaimTemplate", labels=_FREE),
            ("metadata.labels", "", _OWN_PREFIX),
            id="kind-without-templates",
        ),
        pytest.param(
            resource("compute.coreweave.com/v1alpha1", "NodePool", at("spec.nodeLabels", _FREE)),
            ("spec.nodeLabels", "", _OWN_PREFIX),
            id="labels-of-nodes",
        ),
        pytest.param(resource("v1", "Node", labels=_FREE), ("metadata.labels", "", _OWN_PREFIX), id="node"),
        pytest.param(
            resource("v1", "ConfigMap", labels=_FREE, **owner()),
            ("metadata.labels", "", _OWN_PREFIX),
            id="owned-config-map",
        ),
    ],
)
def test_a_pods_exception_ends_where_no_pod_gets_the_label(obj: Json, violation: tuple[str, str, str]) -> None:
    """A Pod's label that no Pod gets is refused; on a workload and its job templates with the path to put it at."""
    path, problem, remedy = violation

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
