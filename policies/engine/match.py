"""Which requests a rule applies to: resource rules and label selectors, as Kubernetes defines them.

Source: the API reference of `admissionregistration.k8s.io/v1` RuleWithOperations and of `meta/v1` LabelSelector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import AdmissionRequest, JsonObject, Target

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII).fullmatch
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class ResourceRule(Struct, frozen=True):
    """Operations on resources. In each list `*` stands for all.

    resources: `pods`, `pods/status`, `pods/*` (Pods and all their subresources), `*` (all resources, no subresources),
    `*/*` (all). Source for `pods/*` including Pods themselves: the API server's predicates/rules/rules.go.
    """

    operations: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    versions: tuple[str, ...] = ("*",)

    def matches(self, request: Target) -> bool:
        """Whether the request's operation and resource are among the rule's."""
        target = request.resource
        return (
            listed(request.operation, self.operations)
            and listed(target.group, self.groups)
            and listed(target.version, self.versions)
            and any(_resource_matches(pattern, target.resource, request.sub_resource) for pattern in self.resources)
        )

    def intersection(self, other: ResourceRule) -> ResourceRule | None:
        """The rule for the requests that both rules match; None if there are none."""
        lists = (
            _shared(self.operations, other.operations),
            _shared(self.groups, other.groups),
            _shared_resources(self.resources, other.resources),
            _shared(self.versions, other.versions),
        )
        return ResourceRule(*lists) if all(lists) else None

    def to_json(self, scope: str) -> dict[str, Any]:
        """The rule as in a webhook configuration."""
        return {
            "apiGroups": list(self.groups),
            "apiVersions": list(self.versions),
            "operations": list(self.operations),
            "resources": list(self.resources),
            "scope": scope,
        }


def listed(value: str, allowed: tuple[str, ...]) -> bool:
    """Whether a list contains a value, or `*`, which stands for everything."""
    return value in allowed or "*" in allowed


def _resource_matches(pattern: str, resource: str, subresource: str) -> bool:
    of_resource, _, of_subresource = pattern.partition("/")
    return of_resource in ("*", resource) and of_subresource in ("*", subresource)


def _shared(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """What two lists share, in which `*` stands for everything."""
    if "*" in first:
        return second
    return first if "*" in second else tuple(value for value in first if value in second)


def _shared_resources(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The patterns of resources that match what patterns of both lists match, without those that others contain."""
    pairs = ((a.partition("/"), b.partition("/")) for a in first for b in second)
    shared = dict.fromkeys(
        resource + (f"/{subresource}" if subresource else "")
        for (a, _, sub_a), (b, _, sub_b) in pairs
        for resource in _shared((a,), (b,))
        for subresource in _shared((sub_a,), (sub_b,))
    )
    return tuple(
        pattern
        for pattern in shared
        if not any(other != pattern and _resource_matches(other, *pattern.partition("/")[::2]) for other in shared)
    )


def holds(operator: object, value: str | None, values: Sequence[str]) -> bool:
    """Whether a label meets a requirement, also one of Nodes. value: None where there is no such label.

    Source: Requirement.Matches of k8s.io/apimachinery's labels. No label meets an operator that the API server refuses.
    """
    match operator:
        case "In" | "NotIn":
            return (value is not None and value in values) is (operator == "In")
        case "Exists" | "DoesNotExist":
            return (value is not None) is (operator == "Exists")
        case "Gt" | "Lt" if len(values) == 1 and value is not None and _INTEGER(value) and _INTEGER(str(values[0])):
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
        case _:
            return False


class SelectorRequirement(Struct, frozen=True):
    """A requirement of a selector, or of a term on Nodes; `values` is empty for Exists and DoesNotExist.

    key: of a label; empty for the Node's name.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement. NotIn is also met where the key is absent."""
        return holds(self.operator, labels.get(self.key), self.values)

    def excludes(self, other: SelectorRequirement) -> bool:
        """Whether no labels meet this requirement and another one. Numbers are not compared with each other."""
        pair = {self.operator: self, other.operator: other}
        if self.key != other.key:
            return False
        if self.operator == other.operator:
            return self.operator == "In" and set(self.values).isdisjoint(other.values)
        if "DoesNotExist" in pair:
            return "NotIn" not in pair
        return pair.keys() == {"In", "NotIn"} and set(pair["In"].values) <= set(pair["NotIn"].values)

    def to_json(self) -> dict[str, Any]:
        """The requirement in the API's form."""
        values = {"values": list(self.values)} if self.values else {}
        return {"key": self.key, "operator": self.operator, **values}


Term = tuple[SelectorRequirement, ...]


class LabelSelector(Struct, frozen=True):
    """Requirements that must all hold. A selector without requirements matches everything."""

    requirements: tuple[SelectorRequirement, ...] = ()

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> LabelSelector:
        """A valid selector in the API's form. matchLabels become requirements, sorted by their keys."""
        labels = sorted(written.get("matchLabels", {}).items())
        expressions = written.get("matchExpressions", ())
        return cls(
            (
                *(SelectorRequirement(key, "In", (label,)) for key, label in labels),
                *(
                    SelectorRequirement(one["key"], one["operator"], tuple(one.get("values", ())))
                    for one in expressions
                ),
            )
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def to_json(self) -> dict[str, Any]:
        """The selector in the API's form."""
        return {"matchExpressions": [requirement.to_json() for requirement in self.requirements]}


EVERYTHING = LabelSelector()


def common(selectors: Iterable[LabelSelector]) -> LabelSelector:
    """The requirements that all selectors share. Labels that match any of the selectors meet them."""
    first, *others = selectors
    return LabelSelector(tuple(r for r in first.requirements if all(r in other.requirements for other in others)))


def selects(selector: LabelSelector, request: AdmissionRequest) -> bool:
    """Whether a selector matches the labels of the object or of the old one, as in predicates/object/matcher.go."""
    both = object_labels(request.object), object_labels(request.old_object)
    return any(labels is not None and selector.matches(labels) for labels in both)


def object_labels(obj: JsonObject | None) -> Mapping[str, str] | None:
    """The labels: empty if malformed, None without metadata. Then no selector matches, not even one for absence."""
    metadata = None if obj is None else obj.get("metadata")
    if not isinstance(metadata, dict):
        return None
    labels = metadata.get("labels")
    if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()):
        return labels
    return {}
