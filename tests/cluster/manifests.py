"""The objects that a control plane starts with, and the fake Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from policies.engine.request import GroupVersionKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Manifest = dict[str, Any]

# A big CPU machine; a test that wants a GPU Node adds {"nvidia.com/gpu": 8}.
_CAPACITY: Mapping[str, str | int] = {"cpu": 128, "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": 110}
_ALL_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def users() -> list[Manifest]:
    """Return what alice and kwok may do: she is a cluster-admin by RBAC alone, it acts for all Nodes."""
    rules = [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "get", "list", "patch", "update", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _ALL_VERBS},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "kwok"}}
    return [
        {**role, "rules": rules},
        cluster_role_binding("kwok", "kwok", user_subject("kwok")),
        cluster_role_binding("alice", "cluster-admin", user_subject("alice")),
    ]


def cluster_role_binding(name: str, role: str, subject: Mapping[str, str]) -> Manifest:
    """Return a binding that gives one subject a ClusterRole everywhere."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [dict(subject)],
    }


def user_subject(name: str) -> dict[str, str]:
    """Return a user as the subject of a binding."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def service_account(namespace: str, name: str) -> Manifest:
    """Return a service account."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def service_account_subject(namespace: str, name: str) -> dict[str, str]:
    """Return a service account as the subject of a binding."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    capacity: Mapping[str, str | int] | None = None,
) -> Manifest:
    """Return a Node that kwok plays."""
    resources = {key: str(value) for key, value in {**_CAPACITY, **(capacity or {})}.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"allocatable": resources, "capacity": resources},
    }


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Manifest:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}


def custom_resource(
    kind: str, group: str, *versions: str, scope: str = "Namespaced", plural: str = "", schema: Manifest | None = None
) -> Manifest:
    """Return the CustomResourceDefinition of a kind, by default of any form; its status is written apart.

    The first version is the one that is stored.
    """
    form = {"openAPIV3Schema": schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    singular = kind.lower()
    plural = plural or f"{singular}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},  # asked for in *.k8s.io
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": form,
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }


def kind_of(manifest: Manifest) -> GroupVersionKind:
    """Return the kind of an object."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, manifest["kind"])


def rule(*resources: str, group: str = "", operations: Sequence[str] = ("CREATE", "UPDATE")) -> Manifest:
    """Return a rule of a policy or a webhook about resources in version v1."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


EVERYTHING: Manifest = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
"""The rule that all requests meet."""


def validating(
    name: str,
    rule: Manifest,
    *validations: str | Manifest,
    action: str = "Deny",
    binding: Mapping[str, Any] | None = None,
    selectors: Mapping[str, Any] | None = None,
    **spec: Any,
) -> list[Manifest]:
    """Return a ValidatingAdmissionPolicy and its binding.

    A validation is an expression, or all its fields. binding: more of its spec. selectors: beside the rule.
    """
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    checks = [{"expression": each} if isinstance(each, str) else each for each in validations]
    match = {"resourceRules": [rule], **(selectors or {})}
    bound = {"policyName": name, "validationActions": [action], **(binding or {})}
    return [
        {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {"matchConstraints": match, "validations": checks, **spec},
        },
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    ]


def mutating(name: str, rule: Manifest, expression: str, selectors: Mapping[str, Any], **spec: Any) -> list[Manifest]:
    """Return a MutatingAdmissionPolicy that applies the value of an expression, and its binding."""
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    whole = {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule], **selectors},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        **spec,
    }
    return [
        {**head, "kind": "MutatingAdmissionPolicy", "spec": whole},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    ]


# When the last bound policy with a paramKind of Kubernetes' own goes, kube-apiserver 1.36 ends the informer of that
# kind for good, and what policies see of parameters from then on is old. 1.37 reads them anew for each write.
# With this one there is no last one.
LASTING = tuple(
    yaml.safe_load_all("""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keeps-the-informer}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [none.test], apiVersions: [v1], operations: [CREATE], resources: [none]}]
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keeps-the-informer}
spec:
  policyName: keeps-the-informer
  validationActions: [Deny]
  paramRef: {name: none, namespace: default, parameterNotFoundAction: Allow}
""")
)
