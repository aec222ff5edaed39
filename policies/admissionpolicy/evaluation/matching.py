"""Whether a policy or a binding is for a request, as kube-apiserver decides it, and an index over many of them.

Sources, all of k8s.io/apiserver's pkg/admission/plugin: policy/matching/matching.go, policy/generic/plugin.go,
webhook/predicates/{rules,namespace,object}; for the resources that no policy sees k8s.io/kubernetes'
pkg/kubeapiserver/admission/exclusion/resources.go. What differs:

- `matchPolicy: Equivalent` takes every version of a group and resource for equivalent and converts nothing: the policy
  sees the kind, the resource and the object of the request as they were sent. Whether a version that a rule names is
  served at all is not asked.
- `events` of the core group and of events.k8s.io, the one pair of resources that are equivalent across groups, are two
  resources here, since an object of the one does not have the fields of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import Generic, TypeVar

from policies.admissionpolicy.model import MatchResources, NamedRule, Scope
from policies.engine.match import LabelSelector, object_labels, selects
from policies.engine.request import AdmissionRequest

T = TypeVar("T")

NamespaceLabels = Callable[[str], Mapping[str, str] | None]
"""The labels of a Namespace by its name, None where there is none. May raise Missing and FactUnavailable."""

_ALL = "*"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

# Bounds the memory of an index; a cluster has some hundred resources, of which few are written in many ways.
_CACHED = 4096

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
"""Resources by group that no policy is asked about, or one could lock everybody out.

kube-apiserver itself asks policies about the two kinds of webhook configurations, but never a webhook, as we are one.
"""


class MatchError(Exception):
    """It cannot be told whether a policy or binding is for a request, in Kubernetes' words.

    The API server takes it for an error of the configuration, and the policy's failurePolicy decides.
    """


def is_seen(request: AdmissionRequest) -> bool:
    """Whether policies are asked about the resource of a request at all."""
    return request.resource.resource not in UNSEEN.get(request.resource.group, ())


class Matcher:
    """What a policy's matchConstraints or a binding's matchResources match, prepared for many requests."""

    __slots__ = ("_any_version", "_excluded", "_namespaces", "_objects", "_rules")

    def __init__(self, constraints: MatchResources) -> None:
        self._rules = tuple(map(_Rule, constraints.resource_rules))
        self._excluded = tuple(map(_Rule, constraints.exclude_resource_rules))
        self._any_version = constraints.match_policy == "Equivalent"
        self._namespaces = constraints.namespace_selector
        self._objects = constraints.object_selector

    @property
    def is_plain(self) -> bool:
        """Whether neither labels nor names are asked for: then requests about one resource are all alike."""
        named = any(rule.names for rule in (*self._rules, *self._excluded))
        return not (named or self._objects.requirements or self._namespaces.requirements)

    def matches(self, request: AdmissionRequest, namespace_labels: NamespaceLabels) -> bool:
        """Whether the request is matched.

        Raises MatchError, and what `namespace_labels` raises, only where all but the Namespace matches: the API server
        likewise drops the error of a selector where the rules or the other selector do not match.
        """
        if self._excluded and _covered(self._excluded, request, self._any_version):
            return False
        if self._rules and not _covered(self._rules, request, self._any_version):
            return False
        return (not self._objects.requirements or selects(self._objects, request)) and (
            not self._namespaces.requirements or _namespace_is_selected(self._namespaces, request, namespace_labels)
        )


class _Rule:
    """One rule with its lists as sets; None stands for all."""

    __slots__ = ("groups", "names", "operations", "resources", "scope", "versions")

    def __init__(self, rule: NamedRule) -> None:
        self.operations = _operations(rule)
        self.groups = _set(rule.api_groups)
        self.versions = _set(rule.api_versions)
        self.resources = frozenset(map(_split, rule.resources))
        self.scope: Scope = rule.scope
        self.names = frozenset(rule.resource_names)

    def covers(self, request: AdmissionRequest, any_version: bool) -> bool:  # noqa: FBT001 - its one caller names it
        target = request.resource
        return (
            request.operation in self.operations
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


def _operations(rule: NamedRule) -> frozenset[str]:
    return frozenset(_OPERATIONS if _ALL in rule.operations else rule.operations)


def _set(values: Collection[str]) -> frozenset[str] | None:
    return None if _ALL in values else frozenset(values)


def _split(pattern: str) -> tuple[str, str]:
    """Resource and subresource; `*` alone is all resources without their subresources."""
    resource, _, subresource = pattern.partition("/")
    return resource, subresource


def _scope(request: AdmissionRequest) -> Scope:
    """A Namespace has its own name for a namespace in the request, and is cluster-scoped all the same."""
    target = request.resource
    is_namespace = (target.group, target.version, target.resource) == ("", "v1", "namespaces")
    return "Cluster" if is_namespace or not request.namespace else "Namespaced"


def _namespace_is_selected(
    selector: LabelSelector, request: AdmissionRequest, namespace_labels: NamespaceLabels
) -> bool:
    """A cluster-scoped object is in no Namespace, so that no selector keeps a policy away from it.

    A Namespace that is created or updated is judged by its new labels, otherwise by those that it has in the cluster.
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


_Key = tuple[str, str, str, str]  # group, resource, subresource and operation; `*` in the first three stands for all


class PolicyIndex(Generic[T]):
    """Policies by group, resource, subresource and operation, so that those for other requests cost nothing.

    It never changes, but for its cache. Versions, scopes, names and selectors are left to
    `Matcher.matches`. An entry without resource rules is for all resources. Excluded resources do not count here.
    """

    def __init__(self, entries: Iterable[tuple[MatchResources, T]]) -> None:
        self._items: list[T] = []
        self._positions: dict[_Key, list[int]] = {}
        for position, (constraints, item) in enumerate(entries):
            self._items.append(item)
            for key in _keys(constraints.resource_rules):
                self._positions.setdefault(key, []).append(position)
        self._cached = lru_cache(_CACHED)(self._find)

    def candidates(self, request: AdmissionRequest) -> tuple[T, ...]:
        """The policies that may match a request, in the order given; none for resources that no policy sees."""
        target = request.resource
        return self._cached(target.group, target.resource, request.sub_resource, request.operation)

    def _find(self, group: str, resource: str, subresource: str, operation: str) -> tuple[T, ...]:
        if resource in UNSEEN.get(group, ()):
            return ()
        ways = product((group, _ALL), (resource, _ALL), (subresource, _ALL), (operation,))
        positions = {position for key in ways for position in self._positions.get(key, ())}
        return tuple(self._items[position] for position in sorted(positions))


def _keys(rules: Iterable[NamedRule]) -> set[_Key]:
    listed = tuple(rules)
    if not listed:
        return {(_ALL, _ALL, _ALL, operation) for operation in _OPERATIONS}
    return {
        (_ALL if _ALL in rule.api_groups else group, resource, subresource, operation)
        for rule in listed
        for group in rule.api_groups
        for resource, subresource in map(_split, rule.resources)
        for operation in _operations(rule)
    }
