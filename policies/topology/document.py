"""Topologies from documents: objects of KAI and Kueue, JSON of Run:ai's API, entries of the configuration.

Sources: the Topology types of KAI Scheduler (`kai.scheduler/v1alpha1`, `alias` since 0.17) and Kueue
(`kueue.x-k8s.io`), which share `spec.levels[].nodeLabel`; Grove's ClusterTopologyBinding (`grove.io`; ClusterTopology
before 0.1.0-alpha.9), whose levels have a `domain` and a `key`; Run:ai's Network Topologies API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policies import vocabulary
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import JsonObject, mapping
from policies.engine.violation import quote
from policies.kubernetes.name import label_key
from policies.objects.fieldpath import Location, render
from policies.topology.topology import Level, Topology, level, no_level
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
    _compare(parsed, at, "domain" if of_grove else "alias", problems)
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


def _compare(levels: Sequence[Level | None], at: Location, field: str, problems: list[tuple[Location, str]]) -> None:
    """Add the problems of levels that contradict each other. None stands for an invalid one. field: of their names."""
    keys: dict[str, Level] = {}
    for position, declared in enumerate(levels):
        if declared is None:
            continue
        if (before := keys.setdefault(declared.keys[0], declared)) is not declared:
            problems.append(((*at, position), f"{quote(declared.name)} is the same level as {quote(before.name)}"))
        if declared.name == HOSTNAME and position < len(levels) - 1:
            problems.append(((*at, position), f"{HOSTNAME} is a single Node, so it must be the last level"))
        others = {name for other in levels if other and other is not declared for name in (other.alias, *other.keys)}
        if declared.alias and declared.alias in others:
            problems.append(((*at, position, field), f"{quote(declared.alias)} is the name of another level"))


def source_of(document: JsonObject) -> str:
    """The name of an object of the cluster in messages: `KAI Topology fabric`."""
    group = str(document.get("apiVersion")).partition("/")[0]
    return f"{GROUPS.get(group, group)} {document.get('kind')} {mapping(document, 'metadata').get('name')}"
