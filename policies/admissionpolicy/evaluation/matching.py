"""Whether a policy or a binding matches a request, as in kube-apiserver.

Sources, all of k8s.io/apiserver's pkg/admission/plugin: policy/matching/matching.go, policy/generic/plugin.go,
webhook/predicates/{rules,namespace,object}; for the excluded resources k8s.io/kubernetes'
pkg/kubeapiserver/admission/exclusion/resources.go. Differences:

- With `matchPolicy: Equivalent`, all versions of a resource are equivalent, and nothing is converted: the policy sees
the kind, the resource and the object of the request as they were sent. Whether the API server serves a version in a
rule is not checked.
- `events` of the core group and of events.k8s.io, the one pair of resources that are equivalent across groups, are two
  resources here, because their objects have different fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from policies.admissionpolicy.model import MatchResources, NamedRule, Scope
from policies.engine.match import LabelSelector, object_labels, selects
from policies.engine.request import AdmissionRequest

NamespaceLabels = Callable[[str], Mapping[str, str] | None]
"""The labels of a Namespace by its name, None if it does not exist. May raise Missing and FactUnavailable."""

_ALL = "*"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

UNSEEN: Mapping[str, frozenset[str]] = {
    "admissionregistration.k8s.io": frozenset(
        {
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
        }
    ),
    "authentication.k8s.io": frozenset({"selfsubjectreviews", "tokenreviews"}),
    "authorization.k8s.io": frozenset(
        {"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"}
    ),
}
"""Resources by group to which no policy applies, because it could lock everybody out.

kube-apiserver applies policies to the two kinds of webhook configurations, but never calls webhooks for them, and the
service is a webhook.
"""


class MatchError(Exception):
    """It is unknown whether something matches; the policy's failurePolicy decides. The text is Kubernetes'."""


def is_seen(request: AdmissionRequest) -> bool:
    """Whether policies apply to the resource of a request at all."""
    return request.resource.resource not in UNSEEN.get(request.resource.group, ())


class Matcher:
    """A policy's matchConstraints or a binding's matchResources, prepared for many requests."""

    __slots__ = ("_any_version", "_excluded", "_namespaces", "_objects", "_rules")

    def __init__(self, constraints: MatchResources) -> None:
        self._rules = tuple(map(_Rule, constraints.resource_rules))
        self._excluded = tuple(map(_Rule, constraints.exclude_resource_rules))
        self._any_version = constraints.match_policy == "Equivalent"
        self._namespaces = constraints.namespace_selector
        self._objects = constraints.object_selector

    @property
    def is_named(self) -> bool:
        """Whether it has names of objects, so that it covers only some of the requests about a resource."""
        return any(rule.names for rule in (*self._rules, *self._excluded))

    @property
    def is_selective(self) -> bool:
        """Whether it has selectors."""
        return bool(self._objects.requirements or self._namespaces.requirements)

    def matches(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the request matches.

        Raises MatchError, and what `namespace_labels` raises, only if everything but the Namespace matches: the API
        server, too, ignores the error of a selector if the rules or the other selector do not match.
        """
        return self.covers(request) and self.selects(request, namespace_labels)

    def covers(self, request: AdmissionRequest) -> bool:
        """Whether the request matches but for selectors."""
        if self._excluded and _covered(self._excluded, request, self._any_version):
            return False
        return not self._rules or _covered(self._rules, request, self._any_version)

    def selects(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the selectors match. Raises MatchError, and what `namespace_labels` raises."""
        return (not self._objects.requirements or selects(self._objects, request)) and (
            not self._namespaces.requirements or _namespace_is_selected(self._namespaces, request, namespace_labels)
        )


class _Rule:
    """One rule with its lists as sets; None means all."""

    __slots__ = ("groups", "names", "operations", "resources", "scope", "versions")

    def __init__(self, rule: NamedRule) -> None:
        self.operations = _set(rule.operations)
        self.groups = _set(rule.api_groups)
        self.versions = _set(rule.api_versions)
        # `*` alone means all resources without their subresources.
        self.resources = frozenset((name, below) for name, _, below in (each.partition("/") for each in rule.resources))
        self.scope: Scope = rule.scope
        self.names = frozenset(rule.resource_names)

    def covers(self, request: AdmissionRequest, any_version: bool) -> bool:  # noqa: FBT001 - its one caller names it
        target = request.resource
        return (
            (self.operations is None or request.operation in self.operations)
            and (self.groups is None or target.group in self.groups)
            and (any_version or self.versions is None or target.version in self.versions)
            and self._covers_resource(target.resource, request.sub_resource)
            and (not self.names or request.name in self.names)
            and (self.scope == _ALL or self.scope == _scope(request))
        )

    def _covers_resource(self, resource: str, subresource: str) -> bool:
        known = self.resources
        return (
            (resource, subresource) in known
            or (_ALL, subresource) in known
            or (resource, _ALL) in known
            or (_ALL, _ALL) in known
        )


def _covered(rules: tuple[_Rule, ...], request: AdmissionRequest, any_version: bool) -> bool:  # noqa: FBT001
    for rule in rules:  # noqa: SIM110 - this runs for every policy of every request, and `any` takes twice the time
        if rule.covers(request, any_version):
            return True
    return False


def _set(values: Collection[str]) -> frozenset[str] | None:
    return None if _ALL in values else frozenset(values)


def _scope(request: AdmissionRequest) -> Scope:
    """The scope of a request. A Namespace is cluster-scoped, although its request has a namespace, its own name."""
    target = request.resource
    is_namespace = (target.group, target.version, target.resource) == ("", "v1", "namespaces")
    return "Cluster" if is_namespace or not request.namespace else "Namespaced"


def _namespace_is_selected(
    selector: LabelSelector, request: AdmissionRequest, namespace_labels: NamespaceLabels
) -> bool:
    """Whether a namespaceSelector matches. It matches every cluster-scoped object other than a Namespace.

    For a Namespace its new labels count on CREATE and UPDATE, otherwise those in the cluster.
    """
    about_namespaces = request.resource.resource == "namespaces"
    if not (request.namespace or about_namespaces):
        return True
    if about_namespaces and not request.sub_resource and request.operation in ("CREATE", "UPDATE"):
        return selector.matches(object_labels(request.object) or {})
    if not request.namespace:
        raise MatchError("Internal error occurred: resource name may not be empty")
    labels = namespace_labels(request.namespace)
    if labels is None:
        raise MatchError(f'namespaces "{request.namespace}" not found')
    return selector.matches(labels)
