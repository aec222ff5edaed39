"""What the Pods of a template ask of Nodes: node selector, node affinity, and the keys by which Pods are grouped.

Sources: NodeSelector, PodAffinity and TopologySpreadConstraint in the Kubernetes API reference. What is malformed is
left to the API server, which refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.topology.affinity import PREFERRED, REQUIRED, TERMS
from policies.topology.gang.gang import Requirement

FIELDS = ("nodeSelector", "affinity", "topologySpreadConstraints")
"""The fields of a Pod's spec that are read."""

Term = tuple[Requirement, ...]
Effect = Literal["together", "apart", "spread"]


class Grouping(Struct, frozen=True):
    """A topology key: Pods on Nodes with the same value of it are grouped. path: within the Pod's spec.

    effect: whether Pods are kept together or apart, or spread. is_required: whether Pods wait where it cannot be met.
    is_own: whether the Pods that count are those of the same template.
    """

    path: str
    key: str
    effect: Effect
    is_required: bool
    is_own: bool = False


class Selection(Struct, frozen=True):
    """What a template asks of Nodes. A term on the names of Nodes is None: nothing is known of it."""

    selector: Term
    required: tuple[Term | None, ...]
    preferred: tuple[Term | None, ...]
    groupings: tuple[Grouping, ...]


def selection(template: JsonObject) -> Selection:
    """What a template asks of Nodes."""
    spec = mapping(template, "spec")
    affinity = spec.get("affinity")
    labels = mapping(mapping(template, "metadata"), "labels")
    node = mapping(affinity, "nodeAffinity")
    preferences = (mapping(weighted, "preference") for weighted in _maps(node.get(PREFERRED)))
    # The API server sorts them, too.
    selector = sorted(mapping(spec, "nodeSelector").items())
    return Selection(
        tuple(Requirement(key, "In", (value,)) for key, value in selector if isinstance(value, str)),
        _terms(_maps(mapping(node, REQUIRED).get(TERMS))),
        _terms(preferences),
        (*_affinities(affinity, labels), *_spreads(spec)),
    )


def keys(spec: JsonObject) -> Iterator[str]:
    """The keys of labels that a Pod's spec names to choose Nodes."""
    yield from mapping(spec, "nodeSelector")
    affinity = mapping(spec, "affinity")
    if affinity:
        node = mapping(affinity, "nodeAffinity")
        terms = [*_maps(mapping(node, REQUIRED).get(TERMS)), *_maps(node.get(PREFERRED))]
        for term in terms:
            expressions = mapping(term, "preference").get("matchExpressions") or term.get("matchExpressions")
            yield from (str(expression.get("key")) for expression in _maps(expressions))
        yield from (grouping.key for grouping in _affinities(affinity, {}))
    yield from (grouping.key for grouping in _spreads(spec))


def _terms(written: Iterable[JsonObject]) -> tuple[Term | None, ...]:
    return tuple(None if term.get("matchFields") else tuple(_requirements(term)) for term in written)


def _requirements(term: JsonObject) -> Iterator[Requirement]:
    for expression in _maps(term.get("matchExpressions")):
        key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or []
        if isinstance(key, str) and isinstance(operator, str) and isinstance(values, list):
            yield Requirement(key, operator, tuple(value for value in values if isinstance(value, str)))


def _affinities(affinity: Any, labels: JsonObject) -> Iterator[Grouping]:
    kinds: tuple[tuple[str, Effect], ...] = (("podAffinity", "together"), ("podAntiAffinity", "apart"))
    for kind, effect in kinds:
        path, rules = f"affinity.{kind}", mapping(affinity, kind)
        for term in _maps(rules.get(REQUIRED)):
            if isinstance(key := term.get("topologyKey"), str):
                yield Grouping(path, key, effect, is_required=True, is_own=_is_own(term, labels))
        for weighted in _maps(rules.get(PREFERRED)):
            if isinstance(key := mapping(weighted, "podAffinityTerm").get("topologyKey"), str):
                yield Grouping(path, key, effect, is_required=False)


def _spreads(spec: JsonObject) -> Iterator[Grouping]:
    for constraint in _maps(spec.get("topologySpreadConstraints")):
        if isinstance(key := constraint.get("topologyKey"), str):
            waits = constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
            yield Grouping("topologySpreadConstraints", key, "spread", is_required=waits)


def _is_own(term: JsonObject, labels: JsonObject) -> bool:
    """Whether a term's label selector is plainly met by the template's own labels."""
    wanted = mapping(mapping(term, "labelSelector"), "matchLabels")
    return bool(wanted) and wanted.items() <= labels.items()


def _maps(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
