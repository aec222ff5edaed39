"""Finds Nodes that lack labels of the topologies in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from policies.engine.request import JsonObject, mapping
from policies.topology.catalog import Catalog
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.tree import best_topology, domain, present, suited
from policies.topology.scheduling.workload import ANNOTATION, Support
from policies.topology.topology import Level, Topology
from policies.vocabulary.keys import HOSTNAME
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen
from webhook.doctor.diagnosis import Level as Grade
from webhook.doctor.observation import TopologyObjects

CHECK: Final = "topology"
_LABELS: Final = "check what should label them (the cloud's controller, Topograph), or label them yourself"

_GATES: Final = "turn on what is missing, or set it to off: the placer chooses domains"


def check(
    settings: Settings, catalog: Read[Catalog], own: Read[TopologyObjects], machines: Read[Sequence[Machine]]
) -> Iterator[Diagnosis]:
    """Diagnoses of the labels of Nodes. own: the topologies that are objects of the cluster."""
    if settings.topology.action == "off" or isinstance(catalog, Unread):
        return
    if isinstance(own, Unread):
        yield unseen(CHECK, "Topology objects", own)
    else:
        remedy = "correct the object, or grant the right"
        yield from (Diagnosis(CHECK, "warning", "Topology objects", problem, remedy) for problem in own.problems)
    if isinstance(machines, Unread):
        yield unseen(CHECK, "Nodes", machines)
        return
    if not machines:
        yield Diagnosis(CHECK, "ok", "Nodes", "there are none")
        return
    known = catalog if isinstance(own, Unread) else catalog.joined(own.found)
    for clash in known.clashes:
        yield Diagnosis(CHECK, "warning", "Topology objects", str(clash), "rename or delete one of them")
    for topology in _used(settings, known, machines):
        yield _labelled(topology, suited(topology, machines))


def check_scheduling(settings: Settings, own: Read[JsonObject | None]) -> Iterator[Diagnosis]:
    """Diagnoses of Kubernetes' own scheduling of workloads, where placements are left to it and `manage` finds out.

    own: the service's MutatingWebhookConfiguration, in which `manage` writes what the API server keeps.
    """
    if not (rules.schedules_workloads(settings) and settings.manage.apart):
        return
    where = "topology.workloadScheduling"
    if isinstance(own, Unread):
        yield unseen(CHECK, where, own)
        return
    text = mapping(mapping(own or {}, "metadata"), "annotations").get(ANNOTATION)
    try:
        support = msgspec.json.decode(str(text or "{}"), type=Support)
    except msgspec.MsgspecError as error:
        support = Support(reason=f"the annotation {ANNOTATION} cannot be read: {error}")
    if support.form:
        found = f"the API server keeps topology constraints of {support.form}s"
        yield Diagnosis(CHECK, "ok", where, found)
        return
    reason = support.reason or "manage has not found out yet"
    yield Diagnosis(CHECK, "warning", where, f"no placement is left to Kubernetes: {reason}", _GATES)


def _used(settings: Settings, known: Catalog, machines: Sequence[Machine]) -> list[Topology]:
    """The topologies that are configured or defined here, and the one that fits the Nodes best."""
    default = settings.topology.default.topology
    named = [
        topology for topology in known.by_name.values() if topology.source != "built in" or topology.name == default
    ]
    best = best_topology(machines, list(known.by_name.values()))
    return [*named, *(topology for topology in [best] if topology not in named)]


def _labelled(topology: Topology, machines: Sequence[Machine]) -> Diagnosis:
    where = f"topology {topology.name}"
    levels = [level for level in present(machines, topology) if level.name != HOSTNAME]
    gpus = [machine for machine in machines if machine.total]
    if not levels:
        keys = listed([level.name for level in topology.levels if level.name != HOSTNAME])
        text = f"none of {count(len(machines), 'Node')} has a label of its levels: {keys}"
        grade: Grade = "warning" if gpus or topology.source != "built in" else "ok"
        return Diagnosis(CHECK, grade, where, text, _LABELS if grade == "warning" else "")
    lacking = {machine.node.name: missing for machine in gpus if (missing := _missing(machine, levels))}
    if lacking:
        named = [f"{name} ({topology.called_all(missing)})" for name, missing in lacking.items()]
        text = f"{len(lacking)} of {count(len(gpus), 'Node')} with accelerators lack labels: {listed(named)}"
        return Diagnosis(CHECK, "warning", where, text, _LABELS)
    others = sum(bool(_missing(machine, levels)) for machine in machines)
    text = f"{count(len(gpus), 'Node')} with accelerators, none without the labels of {topology.called_all(levels)}"
    lacking_too = f"; {others} of {count(len(machines) - len(gpus), 'other')} without" if others else ""
    return Diagnosis(CHECK, "ok", where, f"{text}{lacking_too}")


def _missing(machine: Machine, levels: Sequence[Level]) -> list[Level]:
    return [level for level in levels if domain(level, machine.node.labels) is None]
