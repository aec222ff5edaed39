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

from collections.abc import Callable, Iterable, Mapping

from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.engine.match import ResourceRule, object_labels, selects
from policies.engine.request import AdmissionRequest

NamespaceLabels = Callable[[str], Mapping[str, str] | None]
"""The labels of a Namespace by its name, None if it does not exist. May raise Missing and FactUnavailable."""

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
    """Constraints prepared for many requests. is_named: it has names of objects. is_selective: it has selectors."""

    def __init__(self, constraints: MatchResources) -> None:
        any_version = constraints.match_policy == "Equivalent"
        self._rules, self._excluded = (
            [(rule, to_resource_rule(rule, any_version=any_version)) for rule in rules]
            for rules in (constraints.resource_rules, constraints.exclude_resource_rules)
        )
        self._namespaces = constraints.namespace_selector
        self._objects = constraints.object_selector
        self.is_named = any(rule.resource_names for rule, _ in (*self._rules, *self._excluded))
        self.is_selective = bool(self._objects.requirements or self._namespaces.requirements)

    def matches(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the request matches.

        Raises MatchError, and what `namespace_labels` raises, only if everything but the Namespace matches: the API
        server, too, ignores the error of a selector if the rules or the other selector do not match.
        """
        return self.covers(request) and self.selects(request, namespace_labels)

    def covers(self, request: AdmissionRequest) -> bool:
        """Whether the request matches but for selectors."""
        target = request.resource
        # A Namespace is cluster-scoped, although its request has a namespace, its own name.
        is_namespace = (target.group, target.version, target.resource) == ("", "v1", "namespaces")
        scopes = ("*", "Cluster" if is_namespace or not request.namespace else "Namespaced")

        def covered(rules: Iterable[tuple[NamedRule, ResourceRule]]) -> bool:
            return any(
                resources.matches(request)
                and rule.scope in scopes
                and (not rule.resource_names or request.name in rule.resource_names)
                for rule, resources in rules
            )

        return not covered(self._excluded) and (not self._rules or covered(self._rules))

    def selects(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the selectors match. Raises MatchError, and what `namespace_labels` raises."""
        selector, about_namespaces = self._namespaces, request.resource.resource == "namespaces"
        if self._objects.requirements and not selects(self._objects, request):
            return False
        # A namespaceSelector matches every cluster-scoped object other than a Namespace. For a Namespace its new labels
        # count on CREATE and UPDATE, otherwise those in the cluster.
        if not selector.requirements or not (request.namespace or about_namespaces):
            return True
        if about_namespaces and not request.sub_resource and request.operation in ("CREATE", "UPDATE"):
            return selector.matches(object_labels(request.object) or {})
        if not request.namespace:
            raise MatchError("Internal error occurred: resource name may not be empty")
        labels = namespace_labels(request.namespace)
        if labels is None:
            raise MatchError(f'namespaces "{request.namespace}" not found')
        return selector.matches(labels)


def to_resource_rule(rule: NamedRule, *, any_version: bool) -> ResourceRule:
    """The requests that a rule covers, but for names and scope."""
    operations = _OPERATIONS if "*" in rule.operations else rule.operations
    return ResourceRule(operations, rule.api_groups, rule.resources, ("*",) if any_version else rule.api_versions)
