"""Objects of mixed kinds with known violations, and policies that find them: what proofs and benchmarks audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]
Violation = tuple[str, str, str, str]
"""Policy, verdict, kind and name."""

RESERVED = "audit.coreweave.cloud/was-here"
KINDS = ("ConfigMap", "Secret", "Service", "Deployment", "StatefulSet", "Job", "CronJob", "Pod", "ServiceAccount")
SELECTED = "example.org/audited"
_VERSIONS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1"}
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}


def made(number: int, namespace: str) -> Json:
    """Return an object. What it violates follows from its number; none of them lets a controller make others."""
    kind = KINDS[number % len(KINDS)]
    labels = {"app": f"app-{number % 50}"}
    if number % 5:
        labels["team"] = f"team-{number % 11}"
    if number % 7 == 0:
        labels[RESERVED] = "yes"
    if number % 14 == 0:
        labels["example.org/legacy"] = "moving"
    metadata = {"name": f"o-{number:05}", "namespace": namespace, "labels": labels}
    image = "example.test/main:latest" if number % 4 == 0 else "example.test/main:1"
    return {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **_content(kind, image)}


def _content(kind: str, image: str) -> Json:
    template: Json = {
        "metadata": {"labels": {"app": "main"}},
        "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 5},
    }
    of_apps: Json = {"replicas": 0, "selector": {"matchLabels": {"app": "main"}}, "template": template}
    job = {"suspend": True, "template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    contents: Mapping[str, Json] = {
        "ConfigMap": {"data": {"key": "value " * 20}},
        "Secret": {"stringData": {"key": "value " * 20}},
        "Service": {"spec": {"ports": [{"port": 80}], "clusterIP": "None"}},
        "Deployment": {"spec": of_apps},
        "StatefulSet": {"spec": {**of_apps, "serviceName": "main"}},
        "Job": {"spec": job},
        "CronJob": {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}},
        # No Node takes it, so that it stays as it is.
        "Pod": {"spec": {**template["spec"], "nodeSelector": {"example.org/nowhere": "yes"}}},
        "ServiceAccount": {},
    }
    return contents[kind]


def deployment(name: str, namespace: str, pods: int) -> Json:
    """Return a Deployment whose Pods violate one policy, which warns."""
    manifest = made(KINDS.index("Deployment"), namespace)
    labels = {"app": name, "team": "team-1"}
    template = manifest["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "example.test/main:latest"
    template["spec"]["nodeSelector"] = {"example.org/nowhere": "yes"}
    spec = {
        "replicas": pods,
        "selector": {"matchLabels": {"app": name}},
        "template": {**template, "metadata": {"labels": labels}},
    }
    return {**manifest, "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def queued(namespace: str) -> Json:
    """Return a Job of Kueue that names a topology, and does not run."""
    annotations = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": "rack"}
    labels = {"kueue.x-k8s.io/queue-name": "team", "team": "team-1"}
    metadata = {"name": "queued", "namespace": namespace, "labels": labels, "annotations": annotations}
    return {**made(KINDS.index("Job"), namespace), "metadata": metadata}


def violations(number: int, more: int = 0) -> Iterator[Violation]:
    """Yield what the rule of labels and the policies below find. more: as of `policies`."""
    kind, name = KINDS[number % len(KINDS)], f"o-{number:05}"
    if number % 7 == 0:
        yield ("labels", "exempt" if number % 14 == 0 else "deny", kind, name)
    if number % 5 == 0:
        yield ("audit-team", "deny", kind, name)
    if number % 4 == 0 and kind == "Pod":
        yield ("audit-latest", "warn", kind, name)
    if number % 3 == 0 and kind == "ConfigMap":
        yield ("audit-owner", "mutate", kind, name)
    if kind == "ServiceAccount":
        yield ("audit-noted", "audit", kind, name)
    for index in range(more):
        if number % 50 == index:
            yield (f"audit-more-{index}", "deny", kind, name)


def policies(namespaces: Mapping[str, Any], more: int = 0) -> Iterator[Json]:
    """Yield the policies and their bindings. namespaces: the selector. more: further policies."""
    everything: Json = {"apiGroups": ["", "apps", "batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    kinds = [path.rpartition("/")[2] for path in PATHS.values()]
    every = {**everything, "resources": kinds}
    team = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    yield from _validating("audit-team", every, team, "every object has a team", namespaces, "Deny")
    yield from _validating(
        "audit-latest", {**every, "resources": ["pods"]},
        "object.spec.containers.all(c, !c.image.endsWith(':latest'))", "no latest", namespaces, "Warn",
    )  # fmt: skip
    noted = {**every, "resources": ["serviceaccounts"]}
    yield from _validating("audit-noted", noted, "false", "it is noted", namespaces, "Audit")
    mine = "request.userInfo.username != 'nobody'"
    yield from _validating("audit-user", every, mine, "somebody", namespaces, "Deny")
    kept = "oldObject == null || object.metadata.name == oldObject.metadata.name"
    yield from _validating("audit-old", every, kept, "kept", namespaces, "Deny")
    allowed = "authorizer.group('').resource('pods').check('create').allowed() || true"
    yield from _validating("audit-rights", every, allowed, "rights", namespaces, "Deny")
    for index in range(more):
        text = f"object.metadata.?labels.?app.orValue('') != 'app-{index}'"
        yield from _validating(f"audit-more-{index}", every, text, f"no app-{index}", namespaces, "Deny")
    yield from manifests.mutating(
        "audit-owner",
        manifests.rule("configmaps", operations=["CREATE"]),
        "Object{metadata: Object.metadata{annotations: {'example.org/owner': 'platform'}}}",
        {"namespaceSelector": dict(namespaces)},
        matchConditions=[
            {"name": "numbered", "expression": "object.metadata.name.startsWith('o-')"},
            {"name": "third", "expression": "int(object.metadata.name.substring(2)) % 3 == 0"},
        ],
    )


SILENT = ("audit-rights", "audit-user")
"""The policies that cannot be audited. The one that reads oldObject says what it says of a creation: nothing."""


def _validating(
    name: str, rule: Json, expression: str, message: str, namespaces: Mapping[str, Any], action: str
) -> list[Json]:
    return manifests.validating(
        name,
        rule,
        {"expression": expression, "message": message},
        action=action,
        selectors={"namespaceSelector": dict(namespaces)},
        failurePolicy="Fail",
    )
