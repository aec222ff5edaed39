"""Policies here match the same requests as on the real API server, for every pair of constraints and request."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cluster.polling import NotYet
from policies.admissionpolicy.evaluation.matching import Matcher, is_seen
from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

PROD, TEST, NEW = "match-prod", "match-test", "match-new"
ENV = {"env": "prod"}
IS_PROD = LabelSelector((SelectorRequirement("env", "In", ("prod",)),))
NOT_PROD = LabelSelector((SelectorRequirement("env", "NotIn", ("prod",)),))
HAS_TIER = LabelSelector((SelectorRequirement("tier", "Exists"),))
NO_TIER = LabelSelector((SelectorRequirement("tier", "DoesNotExist"),))
_VERSIONED = {"api_groups": ("autoscaling",), "resources": ("horizontalpodautoscalers",)}


def _rule(*resources: str, **fields: Any) -> NamedRule:
    usual = {"api_groups": ("*",), "api_versions": ("*",), "operations": ("*",), "resources": resources}
    return NamedRule(**{**usual, **fields})


def _match(*rules: NamedRule, **fields: Any) -> MatchResources:
    return MatchResources(resource_rules=rules or (_rule("*/*"),), **fields)


pytestmark = pytest.mark.differs("matching")
CONSTRAINTS: dict[str, MatchResources] = {
    "all": _match(),
    "resources": _match(_rule("*")),
    "pods": _match(_rule("pods")),
    "below": _match(_rule("pods/*")),
    "eviction": _match(_rule("pods/eviction")),
    "status": _match(_rule("*/status")),
    "scale": _match(_rule("*/scale")),
    "namespaces": _match(_rule("namespaces")),
    "core": _match(_rule("*", api_groups=("",))),
    "apps": _match(_rule("*/*", api_groups=("apps",))),
    "v1": _match(_rule("*", api_versions=("v1",)), match_policy="Exact"),
    "creates": _match(_rule("*/*", operations=("CREATE",))),
    "changes": _match(_rule("*/*", operations=("UPDATE", "DELETE"))),
    "connects": _match(_rule("*/*", operations=("CONNECT",))),
    "cluster": _match(_rule("*/*", scope="Cluster")),
    "namespaced": _match(_rule("*/*", scope="Namespaced")),
    "named": _match(_rule("*/*", resource_names=("web", PROD))),
    "exact": _match(_rule(**_VERSIONED, api_versions=("v2",)), match_policy="Exact"),
    "equivalent": _match(_rule(**_VERSIONED, api_versions=("v2",))),
    "equal-name": _match(_rule(**_VERSIONED, api_versions=("v2",), resource_names=("other",))),
    "no-pods": _match(exclude_resource_rules=(_rule("pods"),)),
    "no-below": _match(exclude_resource_rules=(_rule("pods/*"),)),
    "no-hpa": _match(exclude_resource_rules=(_rule(**_VERSIONED, api_versions=("v2",)),)),
    "no-hpa-exact": _match(exclude_resource_rules=(_rule(**_VERSIONED, api_versions=("v2",)),), match_policy="Exact"),
    "in-prod": _match(namespace_selector=IS_PROD),
    "not-prod": _match(namespace_selector=NOT_PROD),
    "tier": _match(object_selector=HAS_TIER),
    "no-tier": _match(object_selector=NO_TIER),
    "both": _match(namespace_selector=IS_PROD, object_selector=HAS_TIER),
    "two": _match(_rule("configmaps"), _rule("pods", operations=("CREATE",))),
}


@dataclass(frozen=True)
class Asked:
    """What kubectl is told to do, and the request that policies are asked about then.

    new, old: the labels of both objects, None where there is no such object. A Scale has no labels.
    """

    kubectl: tuple[str, ...]
    group: str
    version: str
    resource: str
    operation: str
    name: str = "web"
    namespace: str = PROD
    sub_resource: str = ""
    new: Any = field(default_factory=dict)
    old: Any = None
    manifest: Manifest | None = None

    @property
    def request(self) -> AdmissionRequest:
        """The request."""
        return AdmissionRequest(
            uid="1",
            kind=GroupVersionKind(self.group, self.version, "Any"),
            resource=GroupVersionResource(self.group, self.version, self.resource),
            sub_resource=self.sub_resource,
            name=self.name,
            namespace=self.namespace,
            operation=self.operation,  # type: ignore[arg-type]
            object=self.new if self.new is None or self.new == OPTIONS else {"metadata": {"labels": self.new}},
            old_object=None if self.old is None else {"metadata": {"labels": self.old}},
        )


OPTIONS = {"kind": "PodExecOptions"}
_CREATE = ("create", "--dry-run=server", "-f", "-")
_POD: Manifest = {"containers": [{"name": "main", "image": "example.test/main:1"}]}
_HPA: Manifest = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "maxReplicas": 2,
}
TIER = {"tier": "front"}


def _object(
    api_version: str, kind: str, name: str = "fresh", namespace: str = PROD, *, labels: Any = None, **fields: Any
) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels or {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _raw(namespace: str, path: str) -> tuple[str, ...]:
    return ("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/web/{path}", "-f", "-")


def _label(what: str, name: str, change: str, namespace: str = "") -> tuple[str, ...]:
    return ("label", what, name, change, "--dry-run=server", "--overwrite", *(("-n", namespace) if namespace else ()))


_EVICTION = _object("policy/v1", "Eviction", "web")
ASKED: dict[str, Asked] = {
    "a Pod": Asked(_CREATE, "", "v1", "pods", "CREATE", "fresh", manifest=_object("v1", "Pod", spec=_POD)),
    "a labelled Pod elsewhere": Asked(
        _CREATE,
        "",
        "v1",
        "pods",
        "CREATE",
        "fresh",
        TEST,
        new=TIER,
        manifest=_object("v1", "Pod", namespace=TEST, labels=TIER, spec=_POD),
    ),
    "a Pod that gets a name": Asked(
        _CREATE,
        "",
        "v1",
        "pods",
        "CREATE",
        "",
        new=TIER,
        manifest={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "web", "namespace": PROD, "labels": TIER},
            "spec": _POD,
        },
    ),
    "a Pod is labelled": Asked(_label("pod", "web", "tier=front", PROD), "", "v1", "pods", "UPDATE", new=TIER, old={}),
    "a Pod loses its label": Asked(
        _label("pod", "web", "tier-", TEST), "", "v1", "pods", "UPDATE", namespace=TEST, new={}, old=TIER
    ),
    "a Pod goes": Asked(
        ("delete", "pod", "web", "-n", TEST, "--dry-run=server"),
        "",
        "v1",
        "pods",
        "DELETE",
        namespace=TEST,
        new=None,
        old=TIER,
    ),
    "a Pod's status": Asked(
        (
            "patch",
            "pod",
            "web",
            "-n",
            PROD,
            "--subresource=status",
            "--dry-run=server",
            "-p",
            '{"status":{"reason":"x"}}',
        ),
        "",
        "v1",
        "pods",
        "UPDATE",
        sub_resource="status",
        new={},
        old={},
    ),
    "an eviction": Asked(
        _raw(PROD, "eviction?dryRun=All"), "", "v1", "pods", "CREATE", sub_resource="eviction", manifest=_EVICTION
    ),
    "a shell": Asked(
        _raw(PROD, "exec?command=ls&stdout=true"),
        "",
        "v1",
        "pods",
        "CONNECT",
        sub_resource="exec",
        new=OPTIONS,
        manifest={},
    ),
    "a ConfigMap": Asked(
        _CREATE,
        "",
        "v1",
        "configmaps",
        "CREATE",
        "web",
        TEST,
        manifest=_object("v1", "ConfigMap", "web", TEST),
    ),
    "a Deployment": Asked(
        _CREATE,
        "apps",
        "v1",
        "deployments",
        "CREATE",
        "fresh",
        new=TIER,
        manifest=_object(
            "apps/v1",
            "Deployment",
            labels=TIER,
            spec={
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": _POD},
            },
        ),
    ),
    "a scale": Asked(
        ("scale", "deployment", "web", "-n", PROD, "--replicas=2", "--dry-run=server"),
        "apps",
        "v1",
        "deployments",
        "UPDATE",
        sub_resource="scale",
        new={},
        old={},
    ),
    "an old version": Asked(
        _CREATE,
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "CREATE",
        "other",
        manifest=_object("autoscaling/v1", "HorizontalPodAutoscaler", "other", spec=_HPA),
    ),
    "a new version": Asked(
        _CREATE,
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "CREATE",
        "other",
        manifest=_object("autoscaling/v2", "HorizontalPodAutoscaler", "other", spec=_HPA),
    ),
    "a Node": Asked(_CREATE, "", "v1", "nodes", "CREATE", "web", "", manifest=_object("v1", "Node", "web", "")),
    "a ClusterRole": Asked(
        _CREATE,
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "CREATE",
        "web",
        "",
        new=TIER,
        manifest=_object("rbac.authorization.k8s.io/v1", "ClusterRole", "web", "", labels=TIER),
    ),
    "a Namespace": Asked(
        _CREATE, "", "v1", "namespaces", "CREATE", NEW, NEW, manifest=_object("v1", "Namespace", NEW, "")
    ),
    "a Namespace of prod": Asked(
        _CREATE,
        "",
        "v1",
        "namespaces",
        "CREATE",
        NEW,
        NEW,
        new=ENV,
        manifest=_object("v1", "Namespace", NEW, "", labels=ENV),
    ),
    "a Namespace leaves prod": Asked(
        _label("namespace", PROD, "env-"), "", "v1", "namespaces", "UPDATE", PROD, new={}, old=ENV
    ),
    "a Namespace joins prod": Asked(
        _label("namespace", TEST, "env=prod"), "", "v1", "namespaces", "UPDATE", TEST, TEST, new=ENV, old={}
    ),
    "a Namespace's status": Asked(
        (
            "patch",
            "namespace",
            PROD,
            "--subresource=status",
            "--dry-run=server",
            "-p",
            '{"metadata":{"labels":{"env":null}}}',
        ),
        "",
        "v1",
        "namespaces",
        "UPDATE",
        PROD,
        sub_resource="status",
        new={},
        old=ENV,
    ),
    "a Namespace goes": Asked(
        ("delete", "namespace", PROD, "--dry-run=server"), "", "v1", "namespaces", "DELETE", PROD, new=None, old=ENV
    ),
}
_WARNING = re.compile(r"ValidatingAdmissionPolicy '(policy|binding)-([a-z0-9-]+)'")


def _json(rules: Sequence[NamedRule]) -> list[Manifest]:
    return [
        {
            "apiGroups": list(rule.api_groups),
            "apiVersions": list(rule.api_versions),
            "operations": list(rule.operations),
            "resources": list(rule.resources),
            "scope": rule.scope,
            **({"resourceNames": list(rule.resource_names)} if rule.resource_names else {}),
        }
        for rule in rules
    ]


def _constraints(match: MatchResources) -> Manifest:
    return {
        "resourceRules": _json(match.resource_rules),
        "excludeResourceRules": _json(match.exclude_resource_rules),
        "namespaceSelector": match.namespace_selector.to_json(),
        "objectSelector": match.object_selector.to_json(),
        "matchPolicy": match.match_policy,
    }


def _policies(how: str) -> Iterator[Manifest]:
    """A policy and a binding for each of the constraints, which stand in the one or in the other."""
    for case, match in CONSTRAINTS.items():
        name = f"{how}-{case}"
        own = {"matchConstraints": _constraints(match if how == "policy" else CONSTRAINTS["all"])}
        bound = {"matchResources": _constraints(match)} if how == "binding" else {}
        yield _admission("ValidatingAdmissionPolicy", name, {**own, "validations": [{"expression": "false"}]})
        yield _admission(
            "ValidatingAdmissionPolicyBinding", name, {"policyName": name, "validationActions": ["Warn"], **bound}
        )


def _admission(kind: str, name: str, spec: Manifest) -> Manifest:
    return _object("admissionregistration.k8s.io/v1", kind, name, "", spec=spec)


def _ask(control_plane: ControlPlane, asked: Asked) -> str:
    text = "" if asked.manifest is None else json.dumps(asked.manifest)
    return control_plane.kubectl(*asked.kubectl, user="admin", input=text).stderr


def _met(stderr: str, how: str) -> set[str]:
    return {case for found, case in _WARNING.findall(stderr) if found == how}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with two Namespaces and what is changed in them."""
    control_plane.namespace(PROD, ENV)
    control_plane.namespace(TEST)
    deployment = ASKED["a Deployment"].manifest or {}
    there = [
        _object("v1", "Pod", "web", spec=_POD),
        _object("v1", "Pod", "web", TEST, labels=TIER, spec=_POD),
        {**deployment, "metadata": {**deployment["metadata"], "name": "web"}},
    ]
    control_plane.objects.apply(there)
    yield control_plane
    control_plane.objects.delete("namespace", PROD, TEST)


@pytest.fixture(params=["policy", "binding"])
def met(request: pytest.FixtureRequest, cluster: ControlPlane) -> Iterator[dict[str, set[str]]]:
    """What each request meets at the API server, whose policies or bindings carry the constraints."""
    how: str = request.param
    manifests = list(_policies(how))
    canary = _object("v1", "ConfigMap", "canary", labels=TIER)

    def in_force() -> bool:
        found = _met(_ask(cluster, Asked(_CREATE, "", "v1", "configmaps", "CREATE", manifest=canary)), how)
        if not {"all", "tier", "both", "two"} <= found:
            raise NotYet(f"only {sorted(found)} are in force")
        return True

    cluster.objects.apply(manifests)
    try:
        cluster.wait_for("the policies to be in force", in_force)
        yield {case: _met(_ask(cluster, asked), how) for case, asked in ASKED.items()}
    finally:
        cluster.objects.delete_manifests(manifests)


def test_the_same_policies_are_met(met: dict[str, set[str]], record_property: Callable[[str, object], None]) -> None:
    """For every request, the API server and we find the same constraints, in policies and in bindings."""
    record_property("cases", len(met) * len(CONSTRAINTS))
    labels = {PROD: ENV, TEST: {}}
    matchers = {case: Matcher(match) for case, match in CONSTRAINTS.items()}

    ours = {
        case: {
            name
            for name, matcher in matchers.items()
            if is_seen(asked.request) and matcher.matches(asked.request, labels.get)
        }
        for case, asked in ASKED.items()
    }

    assert met == ours
