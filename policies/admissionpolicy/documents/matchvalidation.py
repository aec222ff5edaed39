"""Validation of resource rules and selectors, which say what requests a policy or binding matches.

Source: kubernetes' pkg/apis/admissionregistration/validation/validation.go; for selectors k8s.io/apimachinery's
pkg/apis/meta/v1/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.admissionpolicy.documents.check import Values, check_choice, check_format, check_labels, check_word
from policies.admissionpolicy.documents.problem import (
    Spot,
    Word,
    duplicate,
    forbidden,
    invalid,
    required,
    show,
    unsupported,
)
from policies.kubernetes.name import SERVED_VERSIONS, label_key, label_value, path_segment

MATCH_POLICIES = ("Equivalent", "Exact")
SCOPES = ("*", "Cluster", "Namespaced")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")


def no_delete(value: Values, spot: Spot) -> None:
    """Refuse the operation DELETE, which has nothing to mutate. The API server's message names no rule."""
    path = show((*spot.path, "resourceRules", "operations"))
    for index, rule in enumerate(value.get("resourceRules", ())):
        for number, operation in enumerate(rule.get("operations", ())):
            if operation not in MUTATING_OPERATIONS:
                place = spot.child("resourceRules", index, "operations", number)
                hint = "a mutating policy has nothing to do on DELETE: leave it out"
                place.fault(unsupported(operation, MUTATING_OPERATIONS), hint, path=path)


def unconverted(value: Values, spot: Spot) -> None:
    """Warn if a rule omits a version of its group: with Equivalent, objects of that version match nevertheless.

    kube-apiserver would convert them to the version in the rule, if it serves that version.
    """
    if value.get("matchPolicy", "Equivalent") != "Equivalent":
        return
    for index, rule in enumerate(value.get("resourceRules", ())):
        named = rule.get("apiVersions", ())
        unnamed = [
            f"{group}/{version}" if group else version
            for group in rule.get("apiGroups", ())
            for version in SERVED_VERSIONS.get(group, ())
            if named and version not in named and "*" not in named
        ]
        if unnamed:
            message = f"objects of {', '.join(unnamed)} are not converted: expressions see them as they are sent"
            hint = "name that version as well, or write matchPolicy: Exact to leave it out"
            spot.child("resourceRules", index, "apiVersions").warn(message, hint)


def match_resources(value: Values, spot: Spot) -> None:
    """Validate matchConstraints or matchResources."""
    check_choice(value, "matchPolicy", MATCH_POLICIES, spot)
    for name in ("namespaceSelector", "objectSelector"):
        selector(value.get(name, {}), spot.child(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(value.get(name, ())):
            _rule(rule, spot.child(name, index))


def selector(value: Values, spot: Spot) -> None:
    """Validate a label selector."""
    check_labels(value.get("matchLabels", {}), spot.child("matchLabels"))
    for index, requirement in enumerate(value.get("matchExpressions", ())):
        _requirement(requirement, spot.child("matchExpressions", index))


def _requirement(value: Values, spot: Spot) -> None:
    operator, values = value.get("operator", ""), value.get("values", ())
    below = spot.child("values")
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            below.fault(required(detail), "list the values, or use Exists")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            below.fault(forbidden(detail), "leave the values out, or use In or NotIn")
    else:
        hint = "write In, NotIn, Exists or DoesNotExist"
        spot.child("operator").fault(invalid(Word(operator), "not a valid selector operator"), hint)
    check_format(value.get("key", ""), label_key, spot.child("key"), "write a label key, as example.org/team")
    for index, item in enumerate(values):
        check_format(item, label_value, below.child(index), "write a label value of at most 63 characters")


def _rule(value: Values, spot: Spot) -> None:
    names = value.get("resourceNames", ())
    for index, name in enumerate(names):
        check_format(
            name, path_segment, spot.child("resourceNames", index), "write a name as it stands in metadata.name"
        )
        if name in names[:index]:
            spot.child("resourceNames", index).fault(duplicate(name), "name each object once")
    _operations(value.get("operations", ()), spot.child("operations"))
    _alone(
        value.get("apiGroups", ()), "API groups", spot.child("apiGroups"), 'write "" for the core group, "*" for all'
    )
    versions = value.get("apiVersions", ())
    _alone(versions, "API versions", spot.child("apiVersions"), 'write the versions, as v1, or "*" for all')
    for index, version in enumerate(versions):
        if not version:
            spot.child("apiVersions", index).fault(required(), "write a version, as v1")
    _resources(value.get("resources", ()), spot.child("resources"))
    check_choice(value, "scope", SCOPES, spot)


def _operations(operations: Sequence[str], spot: Spot) -> None:
    _alone(operations, "operations", spot, 'write CREATE, UPDATE, DELETE, CONNECT, or "*" for all')
    for index, operation in enumerate(operations):
        check_word(operation, OPERATIONS, spot.child(index))


def _alone(items: Sequence[str], what: str, spot: Spot, hint: str) -> None:
    """Require at least one item, and no other item beside `*`."""
    if not items:
        spot.fault(required(), hint)
    elif len(items) > 1 and "*" in items:
        spot.fault(invalid(items, f"if '*' is present, must not specify other {what}"), "leave the others out")


def _resources(resources: Sequence[str], spot: Spot) -> None:
    if not resources:
        spot.fault(required(), 'write plural names in small letters, as pods or deployments/scale, or "*" for all')
    _subresources(resources, spot)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        spot.fault(invalid(resources, detail), "leave the others out")
    plain = [resource for resource in resources if resource and "/" not in resource]
    if "*" in plain and plain[-1] != "*":  # the API server checks only the last one
        detail = "if '*' is present, must not specify other resources without subresources"
        spot.fault(invalid(resources, detail), "leave the others out")


def _subresources(resources: Sequence[str], spot: Spot) -> None:
    """Refuse resources after a pattern, such as `pods/*`, that matches them."""
    below: set[str] = set()  # resources with a pattern for all their subresources
    everywhere: set[str] = set()  # subresources with a pattern for all resources
    for index, resource in enumerate(resources):
        name, slash, subresource = resource.partition("/")
        if not resource:
            spot.child(index).fault(required(), "write a resource, as pods")
        elif slash:
            patterns = [f"{name}/*"] if name in below else []
            patterns += [f"*/{subresource}"] if subresource in everywhere else []
            for pattern in patterns:
                detail = f"if '{pattern}' is present, must not specify {resource}"
                spot.child(index).fault(invalid(resource, detail), "leave it out: it is among the others")
            below |= {name} if subresource == "*" else set()
            everywhere |= {subresource} if name == "*" else set()
