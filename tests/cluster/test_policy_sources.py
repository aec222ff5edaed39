"""Policies that live in the cluster: in ConfigMaps of the service's Namespace, and kube-apiserver's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import manifests, workloads
from cluster.polling import NotYet
from cluster.service import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

LABEL = {"cks-admission.dev/policies": "true"}
REFUSED = "cks-admission.dev/policies-refused"


def policy(name: str, expression: str, resource: str = "secrets", **spec: Any) -> list[Manifest]:
    """Return a policy on one resource of the core group, and its binding; spec: more of both."""
    return manifests.validating(name, manifests.rule(resource), expression, **spec)


def config_map(name: str, data: dict[str, str], namespace: str = NAMESPACE, **metadata: object) -> Manifest:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": data,
    }


def documents(*objects: Manifest) -> dict[str, str]:
    """Return the data of a ConfigMap that holds objects as one file."""
    return {"policies.yaml": yaml.safe_dump_all(objects, sort_keys=False)}


@pytest.fixture
def maps(control_plane: ControlPlane, service: Service) -> Iterator[str]:
    """Clean up the ConfigMaps with policies, and wait until they have gone from the service."""
    yield service.health
    control_plane.kubectl(
        "delete", "configmaps", "--namespace", NAMESPACE, "--selector", "cks-admission.dev/policies=true",
        user="admin", check=True,
    )  # fmt: skip
    said(control_plane, secret("default"), "")  # which each of their policies refuses


def secret(namespace: str, name: str = "token", **data: str) -> Manifest:
    """Return a Secret."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def said(control_plane: ControlPlane, obj: Manifest, expected: str) -> None:
    """Wait until kubectl's answer to a dry run begins so; empty for an object that is admitted."""
    control_plane.wait_until(
        f"kubectl to say {expected!r}",
        lambda: control_plane.apply(obj, "--dry-run=server").stderr,
        lambda stderr: stderr.endswith(expected + "\n") if expected else not stderr,
    )


def annotation(control_plane: ControlPlane, name: str) -> str | None:
    """Return why a ConfigMap was refused, as its annotation says it."""
    found = control_plane.get("configmap", name, "--namespace", NAMESPACE)
    text: str | None = found["metadata"].get("annotations", {}).get(REFUSED)
    return text


def events(
    control_plane: ControlPlane, name: str, count: int, namespace: str = NAMESPACE
) -> list[tuple[str, str, str]]:
    """Wait for so many Events about an object, which follow its annotation; return type, reason and message of all.

    They are in the order in which they came.
    """

    def come() -> list[Manifest]:
        found = control_plane.get("events", "--namespace", namespace)["items"]
        about = [event for event in found if event["involvedObject"]["name"] == name]
        if len(about) < count:
            raise NotYet(f"{[event['reason'] for event in about]}")
        return about

    about = control_plane.wait_for(f"{count} Events", come)
    about.sort(key=lambda event: (event["firstTimestamp"], int(event["metadata"]["resourceVersion"])))
    return [(event["type"], event["reason"], event["message"]) for event in about]


@pytest.mark.usefixtures("maps")
def test_a_config_map_of_policies(control_plane: ControlPlane, namespace: str) -> None:
    """Its policies apply soon after it was written, and change and go with it; the webhook learns of new resources."""
    long = policy("named", "object.metadata.name.size() > 20")
    denied = (
        "The request is invalid: metadata.name: ValidatingAdmissionPolicy 'named' with binding 'named' denied request: "
        "failed expression: object.metadata.name.size() > 20\n"
        "metadata.name: object.metadata.name.size() > 20 is false (object.metadata.name.size() is 5)"
    )
    control_plane.objects.apply(config_map("team", documents(*long), labels=LABEL))
    said(control_plane, secret(namespace), denied)

    longer = policy("named", "object.metadata.name.size() > 30")
    control_plane.objects.apply(config_map("team", documents(*longer), labels=LABEL))
    said(control_plane, secret(namespace), denied.replace("20", "30"))

    control_plane.kubectl(
        "label", "configmap", "team", "--namespace", NAMESPACE, "cks-admission.dev/policies-", user="admin"
    )
    said(control_plane, secret(namespace), "")


@pytest.mark.usefixtures("maps")
def test_a_config_map_with_a_mistake(control_plane: ControlPlane, namespace: str) -> None:
    """What was in force stays; an annotation and an Event say what is wrong and where, until it is mended."""
    good = documents(*policy("mended", "object.metadata.name == 'x'"))
    bad = documents(*policy("mended", "object.metadata.nam.startsWith(1)"))
    denied = (
        "The request is invalid: metadata.name: ValidatingAdmissionPolicy 'mended' with binding 'mended' denied "
        "request: failed expression: object.metadata.name == 'x'\n"
        "metadata.name: object.metadata.name == 'x' is false (object.metadata.name is \"token\")"
    )
    control_plane.objects.apply(config_map("broken", good, labels=LABEL))
    said(control_plane, secret(namespace), denied)

    control_plane.objects.apply(config_map("broken", bad, labels=LABEL))

    def told() -> str:
        if (text := annotation(control_plane, "broken")) is None:
            raise NotYet("no annotation")
        return text

    reason = control_plane.wait_for("the annotation", told)
    assert reason == (
        "broken/policies.yaml:18:47: spec.validations[0].expression: found no matching overload for 'startsWith' "
        "applied to 'dyn.(int)'\nobject.metadata.nam.startsWith(1)\n                              ^\n"
        "hint: declared: string.startsWith(string) -> bool"
    )
    assert events(control_plane, "broken", 1) == [("Warning", "PoliciesRefused", reason)]
    said(control_plane, secret(namespace), denied)

    control_plane.objects.apply(config_map("broken", good, labels=LABEL))

    def untold() -> bool:
        if annotation(control_plane, "broken") is not None:
            raise NotYet("still there")
        return True

    control_plane.wait_for("the annotation to go", untold)
    assert events(control_plane, "broken", 2) == [
        ("Warning", "PoliciesRefused", reason),
        ("Normal", "PoliciesLoaded", "The policies are in force."),
    ]


@pytest.mark.usefixtures("maps")
def test_parameters_in_the_cluster(control_plane: ControlPlane, namespace: str) -> None:
    """A policy reads its parameters from the cluster, as they are at the time."""
    reading = policy(
        "limited",
        "object.metadata.name.size() < int(params.data.limit)",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
    )
    control_plane.objects.apply(config_map("limited", documents(*reading), labels=LABEL))
    said(
        control_plane,
        secret(namespace),
        "ValidatingAdmissionPolicy 'limited' with binding 'limited' denied request: failed to "
        "configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    )

    control_plane.apply(config_map("limits", {"limit": "100"}, namespace), check=True)
    said(control_plane, secret(namespace), "")
    control_plane.apply(config_map("limits", {"limit": "3"}, namespace), check=True)
    said(
        control_plane,
        secret(namespace),
        "metadata.name: object.metadata.name.size() < int(params.data.limit) is false "
        "(object.metadata.name.size() is 5; int(params.data.limit) is (masked))",
    )


def test_native_policies_that_ask_for_rules_for_templates(
    control_plane: ControlPlane, service: Service, namespace: str
) -> None:
    """A Deployment is refused by what its Pods would be refused by; the Pods are refused once, by kube-apiserver."""
    name = "native-limits"
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    native, bound = policy(
        name,
        "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits))",
        "pods",
        binding={"matchResources": selector},
    )
    deployment = workloads.apps("Deployment", namespace, template=workloads.template())
    try:
        control_plane.objects.apply([native, bound])
        said(control_plane, deployment, "")  # kube-apiserver has no rule for it

        native["metadata"]["annotations"] = {"cks-admission.dev/derive": "true"}
        control_plane.objects.apply(native)

        path = "spec.template.spec.containers[0].resources"
        said(
            control_plane,
            deployment,
            f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: failed expression: "
            "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits))\n"
            f'{path}: has(c.resources.limits) is false (container "main")',
        )

        # kube-apiserver takes its own policies over in its own time
        refusal = control_plane.wait_until(
            "kube-apiserver to refuse the Pod",
            lambda: control_plane.apply(workloads.pod(namespace, "web"), "--dry-run=server").stderr,
            lambda refusal: name in refusal,
        )
        assert refusal.count(name) == 2, refusal  # the policy and the binding of the one refusal
        assert "admission webhook" not in refusal

        large, _ = policy(f"{name}-large", f"size([1]{'.map(x, {x: x})' * 9}) == 1", "pods")
        large["metadata"]["annotations"] = {"cks-admission.dev/derive": "true"}
        control_plane.objects.apply(large)
        [(*kind, message)] = events(control_plane, f"{name}-large", 1, "default")
        assert kind == ["Warning", "PoliciesRefused"]
        assert message.startswith("It is enforced for what it matches, but there are no rules for pod templates: spec.")
        assert "the types of its parts are too large" in message
    finally:
        control_plane.kubectl("delete", "validatingadmissionpolicybinding", name, user="admin", check=True)
        control_plane.kubectl(
            "delete", "validatingadmissionpolicy", name, f"{name}-large", "--ignore-not-found", user="admin", check=True
        )
    said(control_plane, deployment, "")

    def gone() -> bool:
        return any(event.get("removed") == [name] for event in service.events("policies loaded"))

    control_plane.wait_for("the log to say so", gone)
