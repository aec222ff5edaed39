"""The rule about Topology objects: whether a written one can work, and who still names one that changes or goes.

Sources: the CustomResourceDefinitions of KAI, Kueue and Grove; Run:ai's documentation, "Known limitations": running
workloads go on, suspended and unbound ones stay pending; Kueue's "Topology Aware Scheduling", which leaves out Nodes
that lack one of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from policies import vocabulary
from policies.engine.facts import Facts, Node
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping
from policies.engine.violation import Verdict, Violation, quote
from policies.kubernetes.name import label_key
from policies.objects.fieldpath import Location, render
from policies.topology.catalog import Catalog
from policies.topology.document import KINDS, KUEUE, TopologyError, read, source_of
from policies.topology.topology import Topology
from policies.vocabulary import HOSTNAME

RULE = "topology-objects"
FLAVOR = (KUEUE, "ResourceFlavor")
READS = frozenset({"spec.levels", "spec.topologyName"})
BROKEN = "This topology cannot work."
DOUBTFUL = "This topology may not work as it is meant."
SUMMARY = "Workloads still name this topology; those that are not running yet would not be scheduled."
_REMEDY = "Change or delete these workloads first. Running Pods go on."
_REWRITE = "List keys of node labels that say where a Node is, farthest first, each once, kubernetes.io/hostname last."
_DIFFER = "List places of Nodes, each once."
_ORDER = "List the farthest first."
_SHOWN = 5


class TopologyObjects(Struct, frozen=True):
    """The rule. catalog: the topologies that do not come from a cluster. leaving: what becomes of workloads' names.

    leaving: the verdict about an object that workloads name and that changes or goes.
    """

    catalog: Catalog
    leaving: Literal["deny", "warn", "audit", "off"] = "warn"

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What is wrong with the object, and the workloads that name it, if it goes or its levels change."""
        if request.sub_resource or is_owned(request.object) or is_being_deleted(request.object):
            return ()
        if request.kind.group_kind == FLAVOR:
            return tuple(self._detached(request, facts))
        if request.kind.kind not in KINDS.get(request.kind.group, ()):
            return ()
        if request.operation == "DELETE":
            # When all objects are deleted at once, the request for each has no name.
            name = request.name or str(mapping(request.old_object, "metadata").get("name") or "")
            return tuple(self._named(name, "", facts))
        return tuple(self._written(request, facts))

    def _written(self, request: AdmissionRequest, facts: Facts) -> Iterator[Violation]:
        new, old = request.object or {}, request.old_object
        if old is not None and _levels(new) == _levels(old):
            return
        document = {"apiVersion": f"{request.kind.group}/{request.kind.version}", "kind": request.kind.kind, **new}
        try:
            topology = read(document, source_of(document))
        except TopologyError as error:
            works = _can_work(_keys(new))
            for at, problem in error.problems:
                if works:
                    yield _problem(at, problem, _DIFFER, DOUBTFUL, "warn")
                else:
                    yield _problem(at, problem, _REWRITE, BROKEN, "")
        else:
            catalog = self.catalog.joined(facts.topologies())
            for position, problem, remedy in doubts(topology, catalog, facts.nodes()):
                yield _problem(("spec", "levels", position), problem, remedy, DOUBTFUL, "warn")
        if old is not None:
            gone = [str(key) for key in _keys(old) if key not in _keys(new)]
            what = f"loses {', '.join(gone)}, and " if gone else "has its levels in another order, and "
            name = str(mapping(new, "metadata").get("name") or "")
            yield from self._named(name, what, facts)

    def _detached(self, request: AdmissionRequest, facts: Facts) -> Iterator[Violation]:
        """The workloads that name a topology that a ResourceFlavor of Kueue does not name any more."""
        before, after = (mapping(obj, "spec").get("topologyName") for obj in (request.old_object, request.object))
        if isinstance(before, str) and before and before != after:
            flavor = request.name or str(mapping(request.old_object, "metadata").get("name") or "")
            yield from self._named(before, f"is detached from ResourceFlavor {flavor}, and ", facts)

    def _named(self, name: str, what: str, facts: Facts) -> Iterator[Violation]:
        """A violation with the workloads that name a topology; none if all were read and none names it."""
        if self.leaving == "off":
            return
        references = facts.references(name)
        if not references.workloads and not references.incomplete:
            return
        names = ", ".join(references.workloads[:_SHOWN])
        more = f" and {len(references.workloads) - _SHOWN} more" if len(references.workloads) > _SHOWN else ""
        doubt = f"not all could be looked at: {references.incomplete}" if references.incomplete else ""
        told = "; ".join(part for part in (f"{what}is named by {names}{more}" if names else "", doubt) if part)
        violation = Violation(RULE, "", f"topology {quote(name)}", told, SUMMARY, _REMEDY)
        yield violation if self.leaving == "deny" else _softened(violation, self.leaving)


def doubts(topology: Topology, catalog: Catalog, nodes: Sequence[Node]) -> Iterator[tuple[int, str, str]]:
    """The positions of levels of which something is wrong, with what, and what to do.

    It is their order, or that no Node carries them.
    """
    levels = topology.levels
    for position in range(len(levels) - 1):
        farther, nearer = levels[position], levels[position + 1]
        other = next((one for one in catalog.by_name.values() if _reversed(topology, one, position)), None)
        if other is not None:
            where = f"in topology {quote(other.name)} ({other.source})"
            yield position, f"{quote(farther.name)} is nearer than {quote(nearer.name)} {where}", _ORDER
        elif _contained(farther.name, nearer.name, nodes):
            yield position, f"each {quote(farther.name)} is within one {quote(nearer.name)} on the Nodes", _ORDER
    for position, level in enumerate(levels):
        if nodes and level.name != HOSTNAME and not any(level.name in node.labels for node in nodes):
            twin, near = vocabulary.twin(level.name), vocabulary.near(level.name)
            hint = f"Did you mean {near}?" if near else "Label the Nodes, or leave it out."
            if twin and any(twin in node.labels for node in nodes):
                hint = f"They carry its twin: write {twin}."
            effect = ", and Kueue leaves out Nodes that lack a level" if "Kueue" in topology.objects else ""
            yield position, f"no Node carries the label {level.name}{effect}", hint


def _reversed(topology: Topology, other: Topology, position: int) -> bool:
    """Whether another topology has two levels that follow each other in the opposite order."""
    if other.name == topology.name:
        return False
    order = {level.keys[0]: index for index, level in enumerate(other.levels)}
    farther, nearer = (level.keys[0] for level in topology.levels[position : position + 2])
    return farther in order and nearer in order and order[farther] > order[nearer]


def _contained(farther: str, nearer: str, nodes: Sequence[Node]) -> bool:
    """Whether each domain of the farther level is within one of the nearer, which is larger. Numbers may repeat."""
    around: dict[str, set[str]] = {}
    for node in nodes:
        if farther in node.labels and nearer in node.labels:
            around.setdefault(node.labels[farther], set()).add(node.labels[nearer])
    inner = {value for values in around.values() for value in values}
    is_within = all(len(values) == 1 for values in around.values())
    return is_within and len(around) > len(inner) and not any(value.isdecimal() for value in inner)


def _levels(obj: JsonObject | None) -> object:
    return mapping(obj, "spec").get("levels")


def _keys(obj: JsonObject) -> list[object]:
    levels = _levels(obj)
    written = [level if isinstance(level, dict) else {} for level in (levels if isinstance(levels, list) else [])]
    return [level.get("nodeLabel") or level.get("key") for level in written]


def _can_work(keys: Sequence[object]) -> bool:
    """Whether a scheduler can make a tree of Nodes from these keys, whatever they mean."""
    valid = bool(keys) and all(isinstance(key, str) and not label_key(key) for key in keys)
    return valid and len(set(keys)) == len(keys) and HOSTNAME not in keys[:-1]


def _problem(at: Location, problem: str, remedy: str, summary: str, verdict: Verdict) -> Violation:
    violation = Violation(RULE, render(at), "", problem, summary, remedy)
    return violation if not verdict else _softened(violation, verdict)


def _softened(violation: Violation, verdict: Verdict) -> Violation:
    """The violation with a verdict of its own; as a warning it is one line, which ends in what to do."""
    if verdict != "warn":
        return replace(violation, verdict=verdict)
    return Violation(violation.rule, "", "", "", violation.warning, "", "warn")
