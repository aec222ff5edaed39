"""Policies here match the same requests as on the real API server, for every pair of constraints and request."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.admissionpolicy.rules.policyrule import Matcher, is_seen
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from policies.engine.request import Operation

PROD, TEST = "match-prod", "match-test"
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


class Asked(NamedTuple):
    """What kubectl is told to do, and the request that policies are asked about then: a row of matching.yaml."""

    kubectl: tuple[str, ...]
    manifest: Manifest | None
    request: AdmissionRequest


def _asked(
    resource: str,
    operation: Operation,
    kubectl: str = "create --dry-run=server -f -",
    name: str = "web",
    namespace: str = PROD,
    *,
    subresource: str = "",
    new: Any = MappingProxyType({}),
    old: Any = None,
    options: str = "",
    manifest: Manifest | None = None,
) -> Asked:
    plural, version, group = resource.split(".", 2)
    objects = [None if labels is None else {"metadata": {"labels": dict(labels)}} for labels in (new, old)]
    request = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(group, version, "Any"),
        resource=GroupVersionResource(group, version, plural),
        sub_resource=subresource,
        name=name,
        namespace=namespace,
        operation=operation,
        object={"kind": options} if options else objects[0],
        old_object=objects[1],
    )
    return Asked(tuple(kubectl.split(" ")), manifest, request)


_ROWS = yaml.safe_load(Path(__file__).with_name("matching.yaml").read_text(encoding="utf-8"))
ASKED: dict[str, Asked] = {name: _asked(**row) for name, row in _ROWS.items()}
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
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


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
    names = ("a Pod", "a labelled Pod elsewhere", "a Deployment")
    there = [manifest for name in names if (manifest := copy.deepcopy(ASKED[name].manifest))]
    for manifest in there:
        manifest["metadata"]["name"] = "web"
    control_plane.objects.apply(there)
    yield control_plane
    control_plane.objects.delete("namespace", PROD, TEST)


@pytest.fixture(params=["policy", "binding"])
def met(request: pytest.FixtureRequest, cluster: ControlPlane) -> Iterator[dict[str, set[str]]]:
    """What each request meets at the API server, whose policies or bindings carry the constraints."""
    how: str = request.param
    manifests = list(_policies(how))
    metadata = {"name": "canary", "namespace": PROD, "labels": {"tier": "front"}}
    canary = _asked(
        "configmaps.v1.", "CREATE", manifest={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )

    cluster.objects.apply(manifests)
    try:
        cluster.wait_until(
            "the policies to be in force",
            lambda: _met(_ask(cluster, canary), how),
            lambda found: {"all", "tier", "both", "two"} <= found,
        )
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
