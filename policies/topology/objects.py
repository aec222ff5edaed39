"""The rule about Topology objects, and how topologies are read: from objects of KAI, Kueue and Grove, from JSON.

Sources: the Topology types of KAI Scheduler (`kai.scheduler/v1alpha1`, `alias` since 0.17) and Kueue
(`kueue.x-k8s.io`), which share `spec.levels[].nodeLabel`; Grove's ClusterTopologyBinding (`grove.io`; ClusterTopology
before 0.1.0-alpha.9), whose levels have a `domain` and a `key`; Run:ai's Network Topologies API, and "Known
limitations": running workloads go on, suspended and unbound ones stay pending; Kueue's "Topology Aware Scheduling",
which leaves out Nodes that lack one of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from policies import vocabulary
from policies.engine.facts import Facts, Node, ReferencesKey
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping
from policies.engine.violation import Verdict, Violation, listed, quote
from policies.kubernetes.name import label_key
from policies.objects.fieldpath import Location, render
from policies.topology.topology import Catalog, Level, Topology, level, no_level
from policies.vocabulary import HOSTNAME

KAI, KUEUE, GROVE = "kai.scheduler", "kueue.x-k8s.io", "grove.io"
GROUPS = {KAI: "KAI", KUEUE: "Kueue", GROVE: "Grove"}
"""The API groups whose topologies are read, with their usual names."""

KINDS = {KAI: ("Topology",), KUEUE: ("Topology",), GROVE: ("ClusterTopologyBinding", "ClusterTopology")}
"""The kinds of topologies in each group, newest first."""
# The limit in both CustomResourceDefinitions.
MOST_LEVELS = 16


class TopologyError(Exception):
    """A topology is invalid. problems: each with its location."""

    def __init__(self, problems: Sequence[tuple[Location, str]]) -> None:
        super().__init__("; ".join(f"{render(at)}: {problem}" if at else problem for at, problem in problems))
        self.problems = tuple(problems)


def read(document: Any, source: str, *, in_cluster: bool = False) -> Topology:
    """The topology in a document of any of the forms. Raises TopologyError."""
    if not isinstance(document, dict):
        raise TopologyError([((), f"a map was expected, found {quote(document)}")])
    if "apiVersion" not in document and "kind" not in document:
        return make(document.get("name"), document.get("levels"), source, at=())
    group = str(document.get("apiVersion")).partition("/")[0]
    if document.get("kind") not in KINDS.get(group, ()):
        identity = f"{quote(document.get('kind'))} of {quote(document.get('apiVersion'))}"
        known = f"a Topology of {KAI} or {KUEUE}, or a {KINDS[GROVE][0]} of {GROVE}"
        raise TopologyError([(("kind",), f"{known} was expected, found {identity}")])
    name, levels = mapping(document, "metadata").get("name"), mapping(document, "spec").get("levels")
    # What schedulers know is the Topology that Grove makes of its own.
    in_cluster = in_cluster and group != GROVE
    return make(name, levels, source, at=("spec",), in_cluster=in_cluster, objects=(GROUPS[group],))


def make(
    name: object,
    levels: object,
    source: str,
    *,
    at: Location = (),
    requirement: LabelSelector = EVERYTHING,
    pool: LabelSelector | None = None,
    in_cluster: bool = False,
    objects: tuple[str, ...] = (),
) -> Topology:
    """A topology from its name and levels, each a label key or a map with `nodeLabel` and `alias`, or Grove's names.

    at: the location of both, for messages. Raises TopologyError.
    """
    problems: list[tuple[Location, str]] = []
    if not isinstance(name, str) or not name:
        place = ("metadata", "name") if at == ("spec",) else (*at, "name")
        problems.append((place, f"a topology needs a name, found {quote(name)}"))
    at = (*at, "levels")
    if not isinstance(levels, list | tuple) or not levels:
        there = quote(levels) if levels else "none"
        problems.append((at, f"a topology needs levels, farthest first, found {there}"))
        levels = ()
    if len(levels) > MOST_LEVELS:
        problems.append((at, f"a topology has {MOST_LEVELS} levels at most, found {len(levels)}"))
    parsed = [_level(written, (*at, index), problems) for index, written in enumerate(levels)]
    of_grove = any(isinstance(written, dict) and "key" in written for written in levels)
    keys: dict[str, Level] = {}
    for position, declared in enumerate(parsed):  # None stands for an invalid one
        if declared is None:
            continue
        if (before := keys.setdefault(declared.keys[0], declared)) is not declared:
            problems.append(((*at, position), f"{quote(declared.name)} is the same level as {quote(before.name)}"))
        if declared.name == HOSTNAME and position < len(parsed) - 1:
            problems.append(((*at, position), f"{HOSTNAME} is a single Node, so it must be the last level"))
        others = {name for one in parsed if one and one is not declared for name in (one.alias, *one.keys)}
        if declared.alias and declared.alias in others:
            place = (*at, position, "domain" if of_grove else "alias")
            problems.append((place, f"{quote(declared.alias)} is the name of another level"))
    if problems:
        raise TopologyError(problems)
    known = tuple(level for level in parsed if level is not None)
    return Topology(str(name), known, (), requirement, pool, source, in_cluster, objects)


def _level(written: object, at: Location, problems: list[tuple[Location, str]]) -> Level | None:
    key, alias, place = written, "", at
    if isinstance(written, dict):
        fields = ("key", "domain") if "key" in written else ("nodeLabel", "alias")
        key, alias, place = written.get(fields[0]), written.get(fields[1]) or "", (*at, fields[0])
    if not isinstance(key, str) or label_key(key):
        problems.append((place, f"a level is the key of a node label, such as example.org/rack; found {quote(key)}"))
        return None
    if why := no_level(key):
        known = vocabulary.key(key)
        hint = f"; name {known.instead}" if known is not None else ""
        problems.append((place, f"{quote(key)} {why}{hint}"))
        return None
    if not isinstance(alias, str):
        problems.append(((*at, "alias"), f"an alias is a name, found {quote(alias)}"))
        return None
    return level(key, alias)


def source_of(document: JsonObject) -> str:
    """The name of an object of the cluster in messages: `KAI Topology fabric`."""
    group = str(document.get("apiVersion")).partition("/")[0]
    return f"{GROUPS.get(group, group)} {document.get('kind')} {mapping(document, 'metadata').get('name')}"


RULE = "topology-objects"
FLAVOR = (KUEUE, "ResourceFlavor")
READS = frozenset({"spec.levels", "spec.topologyName"})
BROKEN = "This topology cannot work."
DOUBTFUL = "This topology may not work as intended."
SUMMARY = "Workloads still name this topology."
_REMEDY = "Change or delete them first: Pods that wait would never be scheduled. Running ones go on."
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
            # The workloads that name a topology that a ResourceFlavor of Kueue does not name any more.
            before, after = (mapping(one, "spec").get("topologyName") for one in (request.old_object, request.object))
            what = f"is detached from ResourceFlavor {_name(request)}, and "
            return (
                tuple(self._named(before, what, facts)) if isinstance(before, str) and before not in ("", after) else ()
            )
        if request.kind.kind not in KINDS.get(request.kind.group, ()):
            return ()
        if request.operation == "DELETE":
            return tuple(self._named(_name(request), "", facts))
        return tuple(self._written(request, facts))

    def _written(self, request: AdmissionRequest, facts: Facts) -> Iterator[Violation]:
        new, old = request.object or {}, request.old_object
        if old is not None and _levels(new) == _levels(old):
            return
        document = {"apiVersion": f"{request.kind.group}/{request.kind.version}", "kind": request.kind.kind, **new}
        try:
            topology = read(document, source_of(document))
        except TopologyError as error:
            keys = _keys(new)
            # Whether a scheduler can make a tree of Nodes from these keys, whatever they mean.
            works = bool(keys) and all(isinstance(key, str) and not label_key(key) for key in keys)
            works = works and len(set(keys)) == len(keys) and HOSTNAME not in keys[:-1]
            for at, problem in error.problems:
                yield _problem(at, problem, *((_DIFFER, DOUBTFUL, "warn") if works else (_REWRITE, BROKEN, "")))
        else:
            catalog = self.catalog.joined(facts.topologies())
            for position, problem, remedy in doubts(topology, catalog, facts.nodes()):
                yield _problem(("spec", "levels", position), problem, remedy, DOUBTFUL, "warn")
        if old is not None:
            gone = [str(key) for key in _keys(old) if key not in _keys(new)]
            what = f"loses {', '.join(gone)}, and " if gone else "has its levels in another order, and "
            name = str(mapping(new, "metadata").get("name") or "")
            yield from self._named(name, what, facts)

    def _named(self, name: str, what: str, facts: Facts) -> Iterator[Violation]:
        """A violation with the workloads that name a topology; none if all were read and none names it."""
        if self.leaving == "off":
            return
        references = facts.look_up(ReferencesKey(name))
        if not references.workloads and not references.incomplete:
            return
        names = listed(references.workloads, 1 if what and self.leaving == "warn" else _SHOWN)  # a warning is short
        doubt = f"not all could be looked at: {references.incomplete}" if references.incomplete else ""
        text = "; ".join(part for part in (f"{what}is named by {names}" if names else "", doubt) if part)
        remedy = f"{_REMEDY} topology.deletion: deny refuses this." if self.leaving == "warn" else _REMEDY
        verdict: Verdict = "" if self.leaving == "deny" else self.leaving
        yield Violation(RULE, "", f"topology {quote(name)}", text, SUMMARY, remedy, verdict)


def _name(request: AdmissionRequest) -> str:
    """The name of the object. When all objects are deleted at once, the request for each has none."""
    return request.name or str(mapping(request.old_object, "metadata").get("name") or "")


def doubts(topology: Topology, catalog: Catalog, nodes: Sequence[Node]) -> Iterator[tuple[int, str, str]]:
    """The positions of levels of which something is wrong, with what, and what to do.

    It is their order, or that no Node carries them.
    """
    levels, others = topology.levels, [one for one in catalog.by_name.values() if one.name != topology.name]
    orders = [(one, {level.keys[0]: index for index, level in enumerate(one.levels)}) for one in others]
    for position, (farther, nearer) in enumerate(pairwise(levels)):
        far, near = farther.keys[0], nearer.keys[0]
        other = next((one for one, at in orders if far in at and near in at and at[far] > at[near]), None)
        if other is not None:
            where = f"in topology {quote(other.name)} ({other.source})"
            yield position, f"{quote(farther.name)} is nearer than {quote(nearer.name)} {where}", _ORDER
        elif _contained(farther.name, nearer.name, nodes):
            yield position, f"each {quote(farther.name)} is within one {quote(nearer.name)} on the Nodes", _ORDER
    for position, one in enumerate(levels):
        if nodes and one.name != HOSTNAME and not any(one.name in node.labels for node in nodes):
            twin, meant = vocabulary.twin(one.name), vocabulary.near(one.name)
            hint = f"Did you mean {meant}?" if meant else "Label the Nodes, or leave it out."
            if twin and any(twin in node.labels for node in nodes):
                hint = f"They carry its twin: write {twin}."
            effect = ", and Kueue leaves out Nodes that lack a level" if "Kueue" in topology.objects else ""
            yield position, f"no Node carries the label {one.name}{effect}", hint


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


def _problem(at: Location, problem: str, remedy: str, summary: str, verdict: Verdict) -> Violation:
    return Violation(RULE, render(at), "", problem, summary, remedy, verdict)
