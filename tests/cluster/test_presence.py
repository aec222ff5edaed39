"""Lint never reports a field as absent that a real API server fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster.apicalls import Caller
from policies.cel import types
from policies.cel.types import Kind, Type
from policies.engine.request import GroupVersionKind
from policies.lint.absence import FieldPresence
from policies.lint.typecheck import DeclaredType, catalog, declare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane

Json = dict[str, Any]
_POD: Json = {
    "automountServiceAccountToken": False,  # else containers have volumeMounts, as they mostly but not always do
    "containers": [
        {
            "name": "c",
            "image": "example.org/c",
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "n", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }
    ],
    "volumes": [
        {"name": "a", "secret": {"secretName": "s"}},
        {"name": "b", "configMap": {"name": "c"}},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "e", "emptyDir": {}},
    ],
}
_LABELS = {"app": "a"}
_SELECTOR = {"matchLabels": _LABELS}
_TEMPLATE: Json = {"metadata": {"labels": _LABELS}, "spec": _POD}
_JOB: Json = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_TEMPLATED: Json = {"template": {"metadata": {"labels": _LABELS}, "spec": {**_POD, "restartPolicy": "Never"}}}
_CLAIM: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_RBAC = "rbac.authorization.k8s.io"

# apiVersion, kind, resource and what is written: as little as the API server takes.
_MINIMAL: list[tuple[str, str, str, Json]] = [
    ("v1", "Pod", "pods", {"spec": _POD}),
    ("v1", "PodTemplate", "podtemplates", {"template": _TEMPLATE}),
    ("v1", "ReplicationController", "replicationcontrollers", {"spec": {"template": _TEMPLATE}}),
    ("v1", "Service", "services", {"spec": {"ports": [{"port": 80}]}}),
    ("v1", "Secret", "secrets", {}),
    ("v1", "ConfigMap", "configmaps", {}),
    ("v1", "ServiceAccount", "serviceaccounts", {}),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", {"spec": _CLAIM}),
    ("apps/v1", "Deployment", "deployments", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}),
    ("apps/v1", "DaemonSet", "daemonsets", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}),
    ("apps/v1", "ReplicaSet", "replicasets", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}),
    (
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"serviceName": "s", "selector": _SELECTOR, "template": _TEMPLATE}},
    ),
    # Without its own selector and labels a Job gets some, but only on its way to the store.
    (
        "batch/v1",
        "Job",
        "jobs",
        {
            "metadata": {"name": "presence", "labels": _LABELS},
            "spec": {**_TEMPLATED, "manualSelector": True, "selector": _SELECTOR},
        },
    ),
    ("batch/v1", "CronJob", "cronjobs", {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": _JOB}}}),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    ),
    (f"{_RBAC}/v1", "Role", "roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    (
        f"{_RBAC}/v1",
        "RoleBinding",
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
    ),
]


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[Caller]:
    """One connection for all kinds."""
    with Caller(control_plane) as opened:
        yield opened


@pytest.mark.parametrize(("api_version", "kind", "resource", "written"), _MINIMAL, ids=[each[1] for each in _MINIMAL])
def test_what_is_filled_in_is_there(caller: Caller, api_version: str, kind: str, resource: str, written: Json) -> None:
    """Of an object with as little as possible, no field that the API server added may be absent for lint."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "presence"}, **written}

    found = caller.make(f"{root}/namespaces/default/{resource}?dryRun=All", body)

    group, _, version = api_version.rpartition("/")
    schema = catalog(()).open_api(GroupVersionKind(group, version, kind))
    assert schema is not None
    declared = declare(kind, schema, types.DYN)
    assert declared is not None
    assert sorted(_added(found, body, declared.type, declared, "object")) == []


def _added(found: Any, written: Any, type_: Type, declared: DeclaredType, place: str) -> Iterator[str]:
    """The fields that were not written, are there, and may be absent as far as lint knows."""
    if type_.kind is Kind.LIST and isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(written, list) and index < len(written):
                yield from _added(item, written[index], type_.parameters[0], declared, f"{place}[{index}]")
    if type_.kind is not Kind.STRUCT or not isinstance(found, dict):
        return
    presence, given = FieldPresence(declared), written if isinstance(written, dict) else {}
    for name, value in found.items():
        if name not in given and presence.may_lack(type_.name, name, place):
            yield f"{place}.{name}"
        elif (below := declared.structs[type_.name].get(name)) is not None:
            yield from _added(value, given.get(name), below, declared, f"{place}.{name}")
