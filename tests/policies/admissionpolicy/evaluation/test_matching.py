"""Which requests a policy or binding is for. The expectations are those of kube-apiserver's own code (matching.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import Json

from policies.admissionpolicy.evaluation.matching import Matcher, MatchError, is_seen
from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.engine.facts import NamespaceKey
from policies.engine.interruption import Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource

LABELLED = LabelSelector((SelectorRequirement("env", "In", ("prod",)),))
UNLABELLED = LabelSelector((SelectorRequirement("env", "DoesNotExist"),))
PROD: Json = {"metadata": {"name": "x", "labels": {"env": "prod"}}}
TEST: Json = {"metadata": {"name": "x", "labels": {"env": "test"}}}
BARE: Json = {"metadata": {"name": "x"}}
OPTIONS: Json = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"]}


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


def sub(name: str) -> AdmissionRequest:
    """A request about a subresource of a Pod."""
    return asked(sub_resource=name)


NODE = asked(resource=GroupVersionResource("", "v1", "nodes"), namespace="", name="n1")
DEPLOYMENT = asked(resource=GroupVersionResource("apps", "v1", "deployments"))
OLD_CRON_JOB = asked(resource=GroupVersionResource("batch", "v1beta1", "cronjobs"))
CRON_JOBS = {"api_groups": ("batch",), "resources": ("cronjobs",)}

RULES: dict[str, tuple[MatchResources, AdmissionRequest, bool]] = {
    "the resource": (constraints(rule("pods")), asked(), True),
    "another resource": (constraints(rule("services")), asked(), False),
    "one of several resources": (constraints(rule("services", "pods")), asked(), True),
    "one of several rules": (constraints(rule("services"), rule("pods")), asked(), True),
    "a resource is not its subresource": (constraints(rule("pods")), sub("status"), False),
    "a subresource": (constraints(rule("pods/status")), sub("status"), True),
    "a subresource is not its resource": (constraints(rule("pods/status")), asked(), False),
    "another subresource": (constraints(rule("pods/status")), sub("exec"), False),
    "all subresources": (constraints(rule("pods/*")), sub("exec"), True),
    "all subresources take in the resource": (constraints(rule("pods/*")), asked(), True),
    "all subresources of another": (constraints(rule("nodes/*")), sub("exec"), False),
    "a subresource of all": (constraints(rule("*/status")), sub("status"), True),
    "a subresource of all is no resource": (constraints(rule("*/status")), asked(), False),
    "all resources": (constraints(rule("*")), asked(), True),
    "all resources are no subresources": (constraints(rule("*")), sub("status"), False),
    "all and all below": (constraints(rule("*/*")), sub("status"), True),
    "all and all below, the resource": (constraints(rule("*/*")), asked(), True),
    "another group": (constraints(rule("deployments")), DEPLOYMENT, False),
    "the group": (constraints(rule("deployments", api_groups=("apps",))), DEPLOYMENT, True),
    "all groups": (constraints(rule("deployments", api_groups=("*",))), DEPLOYMENT, True),
    "the operation": (constraints(rule(operations=("CREATE", "UPDATE"))), asked(), True),
    "another operation": (constraints(rule(operations=("UPDATE", "DELETE"))), asked(), False),
    "connecting": (constraints(rule("pods/exec", operations=("CONNECT",))), sub("exec"), False),
    "the exact version": (
        constraints(rule(**CRON_JOBS, api_versions=("v1beta1",)), match_policy="Exact"),
        OLD_CRON_JOB,
        True,
    ),
    "another version": (constraints(rule(**CRON_JOBS), match_policy="Exact"), OLD_CRON_JOB, False),
    "all versions": (constraints(rule(**CRON_JOBS, api_versions=("*",)), match_policy="Exact"), OLD_CRON_JOB, True),
    "an equivalent version": (constraints(rule(**CRON_JOBS)), OLD_CRON_JOB, True),
    "events of another group": (
        constraints(rule("events")),
        asked(resource=GroupVersionResource("events.k8s.io", "v1", "events")),
        False,
    ),
    "namespaced": (constraints(rule(scope="Namespaced")), asked(), True),
    "not cluster-scoped": (constraints(rule(scope="Cluster")), asked(), False),
    "cluster-scoped": (constraints(rule("*", scope="Cluster")), NODE, True),
    "not namespaced": (constraints(rule("*", scope="Namespaced")), NODE, False),
    "any scope": (constraints(rule("*", scope="*")), NODE, True),
    "a Namespace is cluster-scoped": (constraints(rule("*", scope="Cluster")), namespace(obj=BARE), True),
    "a Namespace is not namespaced": (constraints(rule("*", scope="Namespaced")), namespace(obj=BARE), False),
    "a Namespace's status is cluster-scoped": (
        constraints(rule("*/*", scope="Cluster")),
        namespace("UPDATE", BARE, sub_resource="status"),
        True,
    ),
    "the name": (constraints(rule(resource_names=("web-0", "web-1"))), asked(), True),
    "another name": (constraints(rule(resource_names=("web-1",))), asked(), False),
    "a name that is yet to be made": (constraints(rule(resource_names=("web-0",))), asked(name=""), False),
    "another rule without names": (constraints(rule(resource_names=("web-1",)), rule("*")), asked(), True),
    "an equivalent version by name": (constraints(rule(**CRON_JOBS, resource_names=("web-0",))), OLD_CRON_JOB, True),
    "an equivalent version by another name": (
        constraints(rule(**CRON_JOBS, resource_names=("x",))),
        OLD_CRON_JOB,
        False,
    ),
    "excluded": (constraints(rule("*"), exclude_resource_rules=(rule("pods"),)), asked(), False),
    "another is excluded": (constraints(rule("*"), exclude_resource_rules=(rule("services"),)), asked(), True),
    "excluded by name": (constraints(exclude_resource_rules=(rule(resource_names=("web-0",)),)), asked(), False),
    "another name is excluded": (constraints(exclude_resource_rules=(rule(resource_names=("web-1",)),)), asked(), True),
    "excluded in an equivalent version": (
        constraints(rule("*", api_groups=("*",)), exclude_resource_rules=(rule(**CRON_JOBS),)),
        OLD_CRON_JOB,
        False,
    ),
    "a binding without rules": (MatchResources(), asked(), True),
    "a binding without rules, but an exclusion": (MatchResources(exclude_resource_rules=(rule(),)), asked(), False),
}


@pytest.mark.parametrize(("match", "request_", "expected"), RULES.values(), ids=RULES)
def test_resource_rules(match: MatchResources, request_: AdmissionRequest, expected: bool) -> None:  # noqa: FBT001
    """Groups, versions, operations, resources, scopes and names are compared as the API server does."""
    assert matches(match, request_) is expected


OBJECTS: dict[str, tuple[LabelSelector, Json | None, Json | None, bool]] = {
    "the new object": (LABELLED, PROD, None, True),
    "neither": (LABELLED, TEST, BARE, False),
    "the old object is enough": (LABELLED, TEST, PROD, True),
    "the new object is enough": (LABELLED, PROD, TEST, True),
    "a deleted object": (LABELLED, None, PROD, True),
    "no labels": (LABELLED, BARE, None, False),
    "no labels and none wanted": (UNLABELLED, BARE, None, True),
    "labels of other types count as none": (UNLABELLED, {"metadata": {"labels": {"env": 1}}}, None, True),
    "an object without metadata": (UNLABELLED, OPTIONS, None, False),
    "an object without metadata and no selector": (LabelSelector(), OPTIONS, None, True),
    "nothing": (UNLABELLED, None, None, False),
}


@pytest.mark.parametrize(("selector", "new", "old", "expected"), OBJECTS.values(), ids=OBJECTS)
def test_object_selectors(selector: LabelSelector, new: Json | None, old: Json | None, expected: bool) -> None:  # noqa: FBT001
    """The new object or the old one has to be selected; one without metadata never is, unless nothing is asked."""
    request = asked(operation="UPDATE", object=new, old_object=old)

    assert matches(constraints(object_selector=selector), request) is expected


EVERYTHING = rule("*/*", api_groups=("*",), api_versions=("*",))
NAMESPACES: dict[str, tuple[LabelSelector, AdmissionRequest, bool]] = {
    "selected": (LABELLED, asked(), True),
    "not selected": (LABELLED, asked(namespace="team-b"), False),
    "without labels": (UNLABELLED, asked(namespace="team-b"), True),
    "missing, but nothing is asked": (LabelSelector(), asked(namespace="gone"), True),
    "not known yet, but nothing is asked": (LabelSelector(), asked(namespace="far"), True),
    "a cluster-scoped object is in none": (LABELLED, NODE, True),
    "a new Namespace has its own labels": (LABELLED, namespace("CREATE", TEST), False),
    "a new Namespace that has them": (LABELLED, namespace("CREATE", PROD), True),
    "a new Namespace without a name": (LABELLED, namespace("CREATE", PROD, namespace=""), True),
    "a changed Namespace has its new labels": (LABELLED, namespace("UPDATE", TEST, old_object=PROD), False),
    "a deleted Namespace has those in the cluster": (LABELLED, namespace("DELETE", old_object=TEST), True),
    "a Namespace's status: those in the cluster": (LABELLED, namespace("UPDATE", TEST, sub_resource="status"), True),
    "namespaces of another group": (
        LABELLED,
        asked(resource=GroupVersionResource("example.org", "v1", "namespaces"), namespace="", object=TEST),
        False,
    ),
}


@pytest.mark.parametrize(("selector", "request_", "expected"), NAMESPACES.values(), ids=NAMESPACES)
def test_namespace_selectors(selector: LabelSelector, request_: AdmissionRequest, expected: bool) -> None:  # noqa: FBT001
    """The labels of the request's Namespace count, for a Namespace that is written its own."""
    assert matches(constraints(EVERYTHING, namespace_selector=selector), request_) is expected


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
