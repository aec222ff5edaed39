"""Which requests a policy or binding is for. The expectations are those of kube-apiserver's own code (matching.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import Json

from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.admissionpolicy.rules.policyrule import Matcher, MatchError, is_seen
from policies.engine.facts import NamespaceKey
from policies.engine.interruption import Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource

LABELLED = LabelSelector((SelectorRequirement("env", "In", ("prod",)),))
BARE: Json = {"metadata": {"name": "x"}}


def asked(**fields: Any) -> AdmissionRequest:
    """The creation of a Pod called web-0 in team-a, or what `fields` say instead."""
    pod = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web-0",
        namespace="team-a",
        operation="CREATE",
        object=BARE,
    )
    return replace(pod, **fields)


def namespace(operation: str = "CREATE", obj: Json | None = None, **fields: Any) -> AdmissionRequest:
    """A request about the Namespace team-a itself."""
    resource = GroupVersionResource("", "v1", "namespaces")
    return asked(resource=resource, name="team-a", operation=operation, object=obj, **fields)


def rule(*resources: str, **fields: Any) -> NamedRule:
    """Every operation on resources of the core group, or what `fields` say instead."""
    usual = {"api_groups": ("",), "api_versions": ("v1",), "operations": ("*",), "resources": resources or ("pods",)}
    return NamedRule(**{**usual, **fields})


def constraints(*rules: NamedRule, **fields: Any) -> MatchResources:
    """Constraints with these rules, or one on Pods."""
    return MatchResources(resource_rules=rules or (rule(),), **fields)


def in_cluster(name: str) -> Mapping[str, str] | None:
    """The Namespaces of the cluster: team-a is prod, team-b has no labels, gone is not there, far is not known yet."""
    if name == "far":
        raise Missing(NamespaceKey(name))
    return {"team-a": {"env": "prod"}, "team-b": {}}.get(name)


def matches(match: MatchResources, request: AdmissionRequest) -> bool:
    """Whether the request is matched, in the cluster above."""
    return Matcher(match).matches(request, in_cluster)


EVERYTHING = rule("*/*", api_groups=("*",), api_versions=("*",))


def test_a_missing_namespace_is_an_error() -> None:
    """Where a selector has to be asked about a Namespace that is not there, Kubernetes' words say so."""
    with pytest.raises(MatchError, match=r'^namespaces "gone" not found$'):
        matches(constraints(namespace_selector=LABELLED), asked(namespace="gone"))


def test_namespaces_without_a_name_are_an_error() -> None:
    """A selector cannot be asked about the deletion of a Namespace that has no name."""
    with pytest.raises(MatchError, match=r"^Internal error occurred: resource name may not be empty$"):
        matches(constraints(EVERYTHING, namespace_selector=LABELLED), namespace("DELETE", namespace=""))


@pytest.mark.parametrize("name", ["gone", "far"])
@pytest.mark.parametrize(
    "match",
    [
        constraints(rule("services"), namespace_selector=LABELLED),
        constraints(exclude_resource_rules=(rule(),), namespace_selector=LABELLED),
        constraints(object_selector=LABELLED, namespace_selector=LABELLED),
    ],
    ids=["rules", "exclusion", "object selector"],
)
def test_no_namespace_is_asked_about_in_vain(name: str, match: MatchResources) -> None:
    """Where something else does not match, an error about the Namespace does not count."""
    assert matches(match, asked(namespace=name)) is False


def test_an_unknown_namespace_is_asked_for() -> None:
    """Labels that are not at hand are asked for as a look-up."""
    with pytest.raises(Missing, match="far"):
        matches(constraints(namespace_selector=LABELLED), asked(namespace="far"))


@pytest.mark.parametrize(
    ("group", "resource", "expected"),
    [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", False),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", False),
        ("authentication.k8s.io", "tokenreviews", False),
        ("authorization.k8s.io", "subjectaccessreviews", False),
        ("example.org", "tokenreviews", True),
        ("", "pods", True),
    ],
)
def test_resources_that_no_policy_sees(group: str, resource: str, expected: bool) -> None:  # noqa: FBT001
    """No policy is asked about policies or about reviews of access."""
    request = asked(resource=GroupVersionResource(group, "v1", resource))

    assert is_seen(request) is expected
