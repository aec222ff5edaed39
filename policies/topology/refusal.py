"""The violations of the rule for topology annotations, with their messages."""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.violation import Violation, quote
from policies.kubernetes.spelling import closest, closest_first
from policies.nvlink import NVL_DOMAIN
from policies.objects.fieldpath import render
from policies.topology.annotation import REQUIRED, TOPOLOGY, Annotation, Annotations, Template
from policies.topology.catalog import Catalog
from policies.topology.gate import GATE
from policies.topology.placement import Placement, PlacementError
from policies.topology.topology import Level, Topology
from policies.vocabulary import CLIQUE

RULE = "topology"
_SHOWN = 12
_PLACEMENT = "The placement cannot be used."
_GATE = "The scheduling gate belongs to cks-admission."
_LEVELS_ONLY = "A scheduler that reads the annotations itself knows levels only."


def as_warning(text: str) -> Violation:
    """A warning, regardless of the rule's action."""
    return Violation(RULE, "", "", "", text, "", "warn")


def malformed(annotation: Annotation) -> Violation:
    """An annotation whose value is not a string."""
    return _refusal(annotation, "is no string.", _PLACEMENT, "Quote the value.")


def without_topology(annotation: Annotation, catalog: Catalog) -> Violation:
    """A placement without a topology."""
    remedy = f"Add the annotation {TOPOLOGY}: NAME. {_known(list(catalog.by_name))}"
    return _refusal(annotation, "is a level of no topology.", "A placement needs a topology.", remedy)


def unknown_topology(annotation: Annotation, catalog: Catalog) -> Violation:
    """An unknown topology."""
    near, known = closest(annotation.value, catalog.by_name), _known(closest_first(annotation.value, catalog.by_name))
    problem = "is no topology that is known." if annotation.value.strip() else "is empty."
    remedy = f"Did you mean {near}? {known}" if near else known
    return _refusal(annotation, problem, "The topology is not known.", remedy)


def unreadable(annotation: Annotation, error: PlacementError) -> Violation:
    """An invalid placement."""
    return _refusal(annotation, error.problem, _PLACEMENT, error.remedy)


def not_more_specific(
    annotation: Annotation | None, preferred: Level, required: Level, topology: Topology
) -> Violation:
    """A preferred placement that has no effect because the required one is as specific or more."""
    name, floor = topology.called(preferred), topology.called(required)
    same = topology.position(preferred) == topology.position(required)
    problem = "is the level that is required already." if same else f"is farther than the required {quote(floor)}."
    below, above = topology.below(required), topology.above(preferred)
    advice = f"Prefer {_either(topology, below)}" if below else f"Nothing is more specific than {floor}: prefer nothing"
    if above:
        advice += f", or require a level above {name}: {_either(topology, above)}"
    summary = "The preferred placement must be more specific than the required one."
    path = annotation.path if annotation else ""
    return Violation(RULE, path, quote(name), problem, summary, f"  {topology.in_order}\n{advice}.")


def domain_for_reader(annotation: Annotation, reader: str, topology: Topology, placement: Placement) -> Violation:
    """A domain in an annotation for a scheduler that reads annotations itself and knows only levels."""
    problem = f"names a domain, which the scheduler cannot read ({reader})."
    remedy = f"Write {topology.called(placement.level)}, and choose the domain by a node selector."
    return _refusal(annotation, problem, _LEVELS_ONLY, remedy)


def outside(annotation: Annotation | None, preferred: str, required: str) -> Violation:
    """A preferred domain that is not in the required one."""
    path = annotation.path if annotation else ""
    return Violation(
        RULE, path, quote(preferred), f"is not in the required {quote(required)}.",
        "The preferred placement must be inside the required one.", "Prefer a domain of it, or the level alone.",
    )  # fmt: skip


def contradiction(template: Template, asked: str) -> Violation:
    """A node selector or node affinity that excludes every Node of a placement. asked: such as `required "rack"`."""
    path = render(template.at("spec"))
    return Violation(
        RULE, path, "nodeSelector and affinity", f"exclude every Node of the {asked}.",
        "No Node can take the Pods.", "Change the placement, or the node selector and node affinity.",
    )  # fmt: skip


def union_for_reader(annotation: Annotation, reader: str, topology: Topology, level: Level) -> Violation:
    """A union of levels in an annotation for a scheduler that knows only labels."""
    keys = {*level.keys, level.beside, CLIQUE if NVL_DOMAIN in level.keys else ""} - {NVL_DOMAIN}
    levels = _either(topology, [known for known in topology.levels if known.keys[0] in keys])
    problem = f"is no level that the scheduler knows ({reader})."
    return _refusal(annotation, problem, _LEVELS_ONLY, f"Write {levels}.")


def fixed(kind: str, now: Annotations, before: Annotations, above: Annotations) -> Violation:
    """A placement that was changed too late to have an effect. Shows the first annotation that differs.

    above: those around the template before, of which it has copies.
    """
    for at in (1, 2, 0):
        new, old = now.all[at], before.all[at]
        if (new and new.value) != (old and old.value):
            old = old if new else above.all[at] or old
            break
    there, gone = new or old, "" if new else ", and is gone"
    problem = f"was {quote(old.value)} before{gone}." if old else "was not there before."
    summary = f"The placement of a {kind} is fixed when it is created."
    remedy = f"Delete the {kind} and create it again."
    return Violation(RULE, there.path if there else "", quote(new.value) if new else "", problem, summary, remedy)


def gated(template: Template, kind: str) -> Violation:
    """Our scheduling gate in a template, or in a Pod that nobody will place."""
    path = render(template.at("spec", "schedulingGates"))
    if template.location:
        problem = f"is added to the Pods of a {kind} when they are created."
        return Violation(RULE, path, quote(GATE), problem, _GATE, "Remove the gate, and write the annotations.")
    remedy = f"Remove the gate, or add the annotation {REQUIRED}."
    return Violation(RULE, path, quote(GATE), "is never opened for a Pod without a placement.", _GATE, remedy)


def unapplied(template: Template, asked: str) -> Violation:
    """A placement that the Pods do not carry, or that nobody keeps: the mutation was skipped, or undone."""
    if template.location:
        path, lacking = render(template.at("metadata", "annotations")), "lack"
        remedy = "Create the object again, or write the annotations into the template yourself."
    else:
        path, lacking = render(template.at("spec", "schedulingGates")), f"lacks {GATE}"
        remedy = "Create the Pod again; if it happens again, another webhook removes the gate."
    problem = f"{lacking} what keeps the {asked}." if template.location else f"{lacking} for the {asked}."
    return Violation(RULE, path, "", problem, "The placement is not applied, so the Pods may run anywhere.", remedy)


def never(annotation: Annotation | None, problem: str, kind: str, remedy: str) -> Violation:
    """A gang that no domain can hold, where no more Nodes come."""
    path, value = (annotation.path, quote(annotation.value)) if annotation else ("", "")
    return Violation(
        RULE, path, value, f"asks for what is not there: {problem}.", f"The {kind} can never be placed.", remedy
    )


def _refusal(annotation: Annotation, problem: str, summary: str, remedy: str) -> Violation:
    return Violation(RULE, annotation.path, quote(annotation.value), problem, summary, remedy)


def _known(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Known topologies: {', '.join(names[:_SHOWN])}{more}."


def _either(topology: Topology, levels: Sequence[Level]) -> str:
    *others, last = map(topology.called, levels)
    return f"{', '.join(others)} or {last}" if others else last
