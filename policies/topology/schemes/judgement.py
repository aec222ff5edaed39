"""What is wrong with levels that an object names in other ways, by topologies and Nodes, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from policies import vocabulary
from policies.engine.facts import Node
from policies.engine.request import AdmissionRequest, is_being_deleted, is_owned
from policies.engine.violation import WARNING_COUNT, Violation, quote
from policies.kubernetes.spelling import closest
from policies.objects.workload import Workload
from policies.topology.catalog import Catalog
from policies.topology.placement import PlacementError, parse
from policies.topology.refusal import as_warning
from policies.topology.schemes.mention import GROVE, JOBSET, Mention, mentions
from policies.topology.topology import Level, Topology

# Characters for a list. What is wrong and where must have room beside it in a warning.
_ROOM = 60


# A long value is shown so far; what to do must have room.
_VALUE = 60


class Judge:
    """Judges mentions. nodes: of the cluster; empty if they are not known."""

    def __init__(self, catalog: Catalog, nodes: Sequence[Node]) -> None:
        self._catalog = catalog
        self._nodes = nodes
        self._values: dict[str, frozenset[str]] = {}

    def problem(self, mention: Mention) -> str:
        """What is wrong with what is named, with what to do, to continue `VALUE …`; empty if it is right."""
        if mention.problem or mention.sort == "unconstrained":
            return mention.problem
        if not isinstance(mention.value, str) or not mention.value.strip():
            return "names nothing. Name a level."
        problem = self._of_key(mention) if mention.topology is None else self._of_level(mention)
        return problem or self._too_few(mention)

    def meaning(self, mention: Mention) -> str:
        """What is asked for, in a sentence, with the domains that there are."""
        key = self._key(mention)
        level = key.rpartition("/")[2] or str(mention.value)
        if mention.sort == "unconstrained":
            return "Kueue admits its Pods once there is room for all of them on Nodes, wherever these are"
        told = {
            "required": f"{mention.reader} keeps all Pods in one {level}, or lets them wait",
            "preferred": f"{mention.reader} packs the Pods into one {level} if there is room, else into few",
            "slice": f"{mention.reader} keeps each slice of the Pods in one {level}",
            "exclusive": f"{mention.reader} gives each group of Pods one {level}, which no other such group shares",
        }[mention.sort]
        values = self._carried(key)
        there = f"; Nodes are in {len(values)} of them: {_listed(values)}" if values else ""
        return f"{told}{f' ({key})' if key != level else ''}{there}"

    def _key(self, mention: Mention) -> str:
        """The key of the label that a mention is about; empty if its level is not known."""
        if mention.topology is None:
            return str(mention.value)
        topology = self._catalog.find(mention.topology) if isinstance(mention.topology, str) else None
        level = topology.find(str(mention.value)) if topology is not None else None
        return level.name if level is not None else ""

    def _of_key(self, mention: Mention) -> str:
        """What is wrong with the key of a node label."""
        key = mention.value.strip()
        own = [topology for topology in self._catalog.by_name.values() if mention.reader in topology.objects]
        if mention.reader == "Kueue" and own and not any(key == level.name for one in own for level in one.levels):
            levels = [level for topology in own for level in topology.levels]
            known = _listed(dict.fromkeys(level.name for level in levels))
            hint = "" if vocabulary.key(key) or self._carried(key) else self._hint(key, levels)
            return f"is no level of a Topology of Kueue. {hint or f'Levels are {known}.'}"
        if self._carried(key):
            return f"{why}. Name {instead}." if (why := vocabulary.no_place(key)) and (instead := _instead(key)) else ""
        hint = self._hint(key, [level for one in self._catalog.by_name.values() for level in one.levels])
        if why := vocabulary.no_place(key):
            return f"{why}. {hint or f'Name {_instead(key)}.'}"
        if "/" not in key and hint:
            return f"is no key of a node label. {hint}"
        if not self._nodes:
            near = vocabulary.near(key)
            return f"is no key that is known. Did you mean {near}?" if near else ""
        carried = [name for name in self._levels() if name != key]
        there = f"They carry {_listed(carried)}." if carried else "They carry no label of a topology."
        return f"is a label that no Node carries. {hint or there}"

    def _hint(self, key: str, levels: Iterable[Level]) -> str:
        """The key that was probably meant, of those that Nodes carry where they are known."""
        twin = vocabulary.twin(key)
        if twin and self._carried(twin):
            return f"Nodes carry its twin: write {twin}. "
        keys = list(dict.fromkeys(name for level in levels for name in level.keys if name != key and "/" in name))
        keys = [name for name in keys if self._carried(name)] or ([] if self._nodes else keys)
        near = _by_short(key, keys) or vocabulary.near(key)
        return f"Did you mean {near}? " if near and near != key else ""

    def _of_level(self, mention: Mention) -> str:
        """What is wrong with a level of a named topology."""
        name, names = mention.topology, list(self._catalog.by_name)
        if mention.reader == GROVE:
            names = [one.name for one in self._catalog.by_name.values() if GROVE in one.objects] or names
        topology = self._catalog.find(name) if isinstance(name, str) and name in names else None
        if topology is None:
            near = closest(str(name), names)
            hint = f"Did you mean {near}?" if near else f"Known are {_listed(names)}."
            return f"is a level of {quote(name)}, which is no topology. {hint}"
        return self._of_form(mention, topology) or self._without_nodes(mention, topology)

    def _of_form(self, mention: Mention, topology: Topology) -> str:
        """Why the reader of a mention does not know a level by this name."""
        value = mention.value
        if mention.reader == JOBSET:
            try:
                parse(value, topology)
            except PlacementError as error:
                return f"{error.problem} {error.remedy.strip().rpartition(chr(10))[2]}"
            return ""
        aliases = [level.alias for level in topology.levels if level.alias]
        known = aliases if mention.reader == GROVE else [*aliases, *(level.name for level in topology.levels)]
        if value in known:
            return ""
        level = topology.find(value)
        written = "" if level is None else level.alias if mention.reader == GROVE else level.name
        near = written or _by_short(value, known)
        hint = f"Did you mean {near}?" if near else f"Its levels are {_listed(known)}."
        return f"is no level of topology {quote(topology.name)}. {hint}"

    def _without_nodes(self, mention: Mention, topology: Topology) -> str:
        level = topology.find(mention.value)
        if not self._nodes or level is None or any(map(self._carried, level.keys)):
            return ""
        others = [one.alias or one.name for one in topology.levels if any(map(self._carried, one.keys))]
        remedy = (
            f"Levels that they carry: {', '.join(others)}." if others else "Label the Nodes, or name another topology."
        )
        return f"is the label {' or '.join(level.keys)}, which no Node carries. {remedy}"

    def _too_few(self, mention: Mention) -> str:
        """Why there is no domain for each group of Pods."""
        values = self._carried(self._key(mention))
        if mention.sort != "exclusive" or not values or mention.groups is None or mention.groups <= len(values):
            return ""
        return (
            f"gives each of {mention.groups} groups of Pods a domain of its own, and there are {len(values)}: "
            f"{_listed(values)}. Ask for fewer, or name a nearer level."
        )

    def _carried(self, key: str) -> frozenset[str]:
        """The values that Nodes have under a key."""
        if key not in self._values:
            self._values[key] = frozenset(node.labels[key] for node in self._nodes if key in node.labels)
        return self._values[key]

    def _levels(self) -> Iterator[str]:
        """The keys of known levels that Nodes carry."""
        levels: Mapping[str, None] = dict.fromkeys(
            key for one in self._catalog.by_name.values() for level in one.levels for key in level.keys
        )
        return (key for key in levels if self._carried(key))


def warnings(
    request: AdmissionRequest, row: Workload | None, catalog: Catalog, nodes: Sequence[Node]
) -> Iterator[Violation]:
    """What is wrong with what an object newly names. Nothing is said to a controller, which would not read it."""
    obj, kind = request.object, request.kind.group_kind
    if request.sub_resource or obj is None or is_owned(obj) or is_being_deleted(obj):
        return
    named = {mention.location: mention for mention in mentions(obj, kind, row)}
    if not named:
        return
    before = {mention.location: mention for mention in mentions(request.old_object, kind, row)}
    judge, told = Judge(catalog, nodes), 0
    for location, mention in named.items():
        is_new = before.get(location) != mention
        if told < WARNING_COUNT and is_new and (problem := judge.problem(mention)):
            told += 1
            yield as_warning(f"{mention.path}: {quote(mention.value, _VALUE)} {problem.strip()}")


def _by_short(name: str, keys: Iterable[str]) -> str:
    """The key whose part behind the slash is closest to that of a name: prefixes are alike whatever is meant."""
    shorts: dict[str, str] = {}
    for key in keys:
        shorts.setdefault(key.rpartition("/")[2], key)
    return shorts.get(closest(name.rpartition("/")[2], shorts), "")


def _instead(key: str) -> str:
    """What to name in place of a label that is no place."""
    known = vocabulary.key(key)
    return known.instead if known is not None else ""


def _listed(texts: Iterable[str]) -> str:
    """As many of the texts as there is room for, and how many more there are."""
    ordered = sorted(texts, key=lambda text: (len(text), text)) if isinstance(texts, frozenset) else list(texts)
    shown = next((n for n in range(len(ordered), 1, -1) if len(", ".join(ordered[:n])) <= _ROOM), 1)
    more = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
    return f"{', '.join(ordered[:shown])}{more}"
