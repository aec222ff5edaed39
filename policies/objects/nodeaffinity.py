"""Whether a Pod's node selector and required node affinity allow a Node.

Source: "Assigning Pods to Nodes" in the Kubernetes documentation and the API reference of NodeSelectorTerm. Terms are
ORed, the requirements in a term are ANDed, and a term without requirements matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.facts import Node
from policies.engine.request import JsonObject, mapping


def allows(pod_spec: JsonObject, node: Node, *, labels_complete: bool = True) -> bool:
    """Whether the Node's labels and name allow the Pod to run there.

    labels_complete: False if only some of the Node's labels are known. Requirements on other labels are then met.
    """
    selector = pod_spec.get("nodeSelector")
    if isinstance(selector, dict):
        for key, value in selector.items():
            if (labels_complete or key in node.labels) and node.labels.get(key) != value:
                return False
    affinity = mapping(mapping(pod_spec, "affinity"), "nodeAffinity")
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, dict):
        return True
    terms = required.get("nodeSelectorTerms")
    return isinstance(terms, list) and any(_term_allows(term, node, labels_complete=labels_complete) for term in terms)


def size(pod_spec: JsonObject) -> int:
    """How many requirements, and values in them, `allows` compares with each Node at most."""
    required = mapping(mapping(pod_spec, "affinity"), "nodeAffinity").get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = required.get("nodeSelectorTerms") if isinstance(required, dict) else None
    lists = (
        term.get(field) for term in (terms if isinstance(terms, list) else ()) if isinstance(term, dict)
        for field in ("matchExpressions", "matchFields")
    )  # fmt: skip
    requirements = (
        requirement for requirements in lists if isinstance(requirements, list) for requirement in requirements
    )
    return len(mapping(pod_spec, "nodeSelector")) + sum(map(_length, requirements))


def _length(requirement: object) -> int:
    values = requirement.get("values") if isinstance(requirement, dict) else None
    return 1 + (len(values) if isinstance(values, list) else 0)


def _term_allows(term: object, node: Node, *, labels_complete: bool) -> bool:
    if not isinstance(term, dict):
        return False
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not isinstance(expressions, list) or not isinstance(fields, list) or not (expressions or fields):
        return False
    named = {"metadata.name": node.name} if node.name else {}
    return all(_holds(e, node.labels, complete=labels_complete) for e in expressions) and all(
        _holds(f, named, complete=labels_complete) for f in fields
    )


def _holds(requirement: object, labels: Mapping[str, str], *, complete: bool) -> bool:
    """Whether the labels meet a requirement; False if it is malformed. complete: whether these are all labels."""
    fields = requirement if isinstance(requirement, dict) else {}
    key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values") or []
    if not isinstance(key, str) or not isinstance(values, list):
        return False
    if key not in labels:
        return not complete or operator in ("NotIn", "DoesNotExist")
    value = labels[key]
    if operator in ("In", "NotIn"):
        return bool((value in values) == (operator == "In"))
    return operator == "Exists" or (operator in ("Gt", "Lt") and _compares(operator, value, values))


def _compares(operator: str, value: str, bounds: list[Any]) -> bool:
    """Whether Gt or Lt holds. They compare integers; any other label meets neither."""
    try:
        number, bound = int(value), int(bounds[0])
    except (ValueError, TypeError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound
