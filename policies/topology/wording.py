"""What people read about topology annotations: refusals, and warnings of one line."""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.violation import Verdict, Violation, quote
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import render
from policies.topology.annotation import ANNOTATIONS, TOPOLOGY, Template, Written
from policies.topology.catalog import Catalog
from policies.topology.level import Level
from policies.topology.placement import Placement, PlacementError
from policies.topology.topology import Topology

RULE = "topology"
NO_ACCELERATOR = "it requests no accelerator, as other templates of the workload do"
_SHOWN = 12
_SHORT = {key: key.removeprefix("kai.scheduler/") for key in ANNOTATIONS}
_PLACEMENT = "The placement cannot be used."


def violation(path: str, found: str, problem: str, summary: str, remedy: str, verdict: Verdict = "") -> Violation:
    """A violation of this rule."""
    return Violation(RULE, path, found, problem, summary, remedy, verdict)


def warning(text: str, path: str = "") -> Violation:
    """A warning, whatever the rule's action is."""
    return Violation(RULE, path, "", "", text, "", "warn")


def as_warning(found: Violation) -> Violation:
    """What was wrong before already, as a warning."""
    return warning(found.line)


def malformed(written: Written) -> Violation:
    """An annotation that is no string."""
    return violation(written.path, quote(written.value), "is no string.", _PLACEMENT, "Quote the value.")


def without_topology(written: Written, catalog: Catalog) -> Violation:
    """A placement without a topology."""
    remedy = f"Add the annotation {TOPOLOGY}: NAME. {_known(list(catalog.by_name))}"
    return violation(
        written.path, quote(written.value), "is a level of no topology.", "A placement needs a topology.", remedy
    )


def unknown_topology(written: Written, catalog: Catalog) -> Violation:
    """A topology that nobody knows."""
    near = closest(written.value, catalog.by_name)
    names = catalog.nearest_first(written.value)
    remedy = f"Did you mean {near}? {_known(names)}" if near else _known(names)
    problem = "is no topology that is known." if written.value.strip() else "is empty."
    return violation(written.path, quote(written.value), problem, "The topology is not known.", remedy)


def unreadable(written: Written, error: PlacementError) -> Violation:
    """A placement that cannot be read."""
    return violation(written.path, quote(written.value), error.problem, _PLACEMENT, error.remedy)


def not_more_specific(written: Written | None, preferred: Level, required: Level, topology: Topology) -> Violation:
    """A preferred placement that has no effect beside the required one."""
    name, floor = topology.called(preferred), topology.called(required)
    same = topology.position(preferred) == topology.position(required)
    problem = "is the level that is required already." if same else f"is farther than the required {quote(floor)}."
    below, above = topology.below(required), topology.above(preferred)
    advice = (
        [f"Prefer {_either(topology, below)}"] if below else [f"Nothing is more specific than {floor}: prefer nothing"]
    )
    if above:
        advice.append(f"require a level above {name}: {_either(topology, above)}")
    return violation(
        written.path if written else "", quote(name), problem,
        "The preferred placement must be more specific than the required one.",
        f"  {topology.in_order}\n{', or '.join(advice)}.",
    )  # fmt: skip


def domain_for_reader(written: Written, reader: str, topology: Topology, placement: Placement) -> Violation:
    """A domain in an annotation that a scheduler reads which does not know the form."""
    return violation(
        written.path, quote(written.value), f"names a domain, which the scheduler cannot read ({reader}).",
        "A scheduler that reads the annotations itself knows levels only.",
        f"Write {topology.called(placement.level)}, and choose the domain by a node selector.",
    )  # fmt: skip


def union_for_reader(written: Written, reader: str, topology: Topology, level: Level) -> Violation:
    """A level that is one label or another, for a scheduler that knows labels."""
    known = _either(topology, [each for each in topology.levels if each.keys[0] in level.keys])
    return violation(
        written.path, quote(written.value), f"is no label of Nodes, which the scheduler looks for ({reader}).",
        "A scheduler that reads the annotations itself knows levels only.", f"Write {known}.",
    )  # fmt: skip


def two_pools(path: str, first: tuple[str, Sequence[str]], second: tuple[str, Sequence[str]]) -> Violation:
    """A workload for pools whose topologies differ; each pool with the names of its topologies."""
    told = [f"{pool} ({', '.join(names)})" for pool, names in (first, second)]
    return violation(
        path, told[1], f"has another topology than {told[0]}.",
        "A workload cannot be placed in node pools of different topologies; its Pods would stay pending.",
        "Choose one of the pools, or split the workload.",
    )  # fmt: skip


def fixed(kind: str, written: Written | None, before: Written | None) -> Violation:
    """A placement that was changed where that has no effect any more. One of the two is there."""
    there, gone = written or before, "" if written else ", and is gone"
    was = f"was {quote(before.value)} before" if before else "was not there before"
    return violation(
        there.path if there else "", quote(written.value) if written else "", f"{was}{gone}.",
        f"The placement of a {kind} is fixed when it is created.", f"Delete the {kind} and create it again.",
    )  # fmt: skip


def unapplied(template: Template, placement: str, left: str) -> Violation:
    """A required placement of which the node affinity says nothing."""
    path = render((*template.location, "spec", "affinity"))
    why = f"since {left}" if left else "so its Pods may run anywhere"
    return violation(
        path, "nothing", f"for the required {quote(placement)}, {why}.",
        "A required placement is not in the node affinity.",
        "Add the node affinity yourself." if left else "Create the object again, or add the node affinity yourself.",
    )  # fmt: skip


def unapplied_warning(template: Template, placement: str, left: str) -> Violation:
    """The same as a warning."""
    why = left or "the Pods may run anywhere; create it again"
    at = f" ({template.path})" if template.path else ""
    return warning(f"required {quote(placement)} is not in the node affinity: {why}{at}")


def bare_level(written: Written, name: str) -> Violation:
    """A required level without a domain, which node affinity cannot keep Pods together in."""
    return warning(
        f"required {quote(name)} keeps Pods on Nodes that have a {name}, not in one; "
        f"name the domain or use a gang scheduler{_where(written)}"
    )


def no_label(written: Written, name: str, keys: Sequence[str]) -> Violation:
    """A level that no Node has."""
    return warning(f"{_what(written)} {quote(name)}: no Node carries the label {' or '.join(keys)}{_where(written)}")


def no_domain(written: Written, placement: str, known: Sequence[str]) -> Violation:
    """Domains that no Node is in. known: those that there are."""
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    there = f"; Nodes are in {', '.join(known[:3])}{more}" if known else ""
    return warning(f"{_what(written)} {quote(placement)}: no Node is in it{there}{_where(written)}")


def unmet_requirement(topology: Topology) -> Violation:
    """A topology that requires what no Node has."""
    told = ", ".join(f"{r.key} {r.operator} {list(r.values)}" for r in topology.requirement.requirements)
    return warning(f"topology {quote(topology.name)}: no Node has what it requires, {told}")


def empty_pool(topology: Topology) -> Violation:
    """A topology whose pool has no Nodes."""
    return warning(f"topology {quote(topology.name)}: its node pool has no Nodes now")


def topology_alone(written: Written) -> Violation:
    """A topology without a placement."""
    return warning(f"{_SHORT[TOPOLOGY]} alone places nothing: add a required or a preferred placement{_where(written)}")


def ignored(scheduler: str, name: str) -> Violation:
    """A required level on Pods whose scheduler does not look at node affinity."""
    return warning(f"required {quote(name)} has no effect: the scheduler {scheduler} ignores node affinity")


def not_in_cluster(topology: Topology, reader: str) -> Violation:
    """A topology that the scheduler does not know which reads the annotations."""
    return warning(
        f"topology {quote(topology.name)} is no object of the cluster, and the scheduler knows only those ({reader})"
    )


def clashing(first: str, second: str, name: str) -> Violation:
    """A topology that is defined in two ways."""
    return warning(f"topology {quote(name)} has two definitions that differ: {first} counts, {second} does not")


def unreadable_record(path: str) -> str:
    """A record that somebody else wrote."""
    return f"{path} cannot be read and is dropped; node affinity that it noted stays"


def never_translated(kind: str) -> str:
    """Why nothing of a kind is translated."""
    return f"a {kind} is never translated; write it yourself"


def read_by_scheduler(reader: str) -> str:
    """Why nothing is translated for a scheduler."""
    return f"its scheduler reads the annotations itself ({reader})"


def _what(written: Written) -> str:
    return written.key.removeprefix(f"{TOPOLOGY}-").removesuffix("-placement") or "preferred"


def _where(written: Written) -> str:
    return f" ({render(written.holder)})" if written.holder else ""


def _known(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Known topologies: {', '.join(names[:_SHOWN])}{more}."


def _either(topology: Topology, levels: Sequence[Level]) -> str:
    *others, last = map(topology.called, levels)
    return f"{', '.join(others)} or {last}" if others else last
