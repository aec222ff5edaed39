"""A topology: ordered levels, farthest first, and the Nodes that it applies to.

A level is the key of a node label, with equivalent keys under which Nodes may have the same label. Sources: CoreWeave's
page "InfiniBand and RoCE labels" for renamed keys, Topograph's "Node Labels and Annotations" for long values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import Struct, structs

from policies.cached import cached_property
from policies.engine.match import EVERYTHING, LabelSelector
from policies.kubernetes import name
from policies.vocabulary import HOSTNAME, TOPOGRAPH, equivalent, no_place

_DIGITS = re.compile(r"([0-9]+)")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class Level(Struct, frozen=True):
    """A level. keys: its labels on Nodes; if a Node has several, the first one counts.

    name: a key, or the name of a union. alias: a further name. distinct: whether the values under the keys differ, so
    that a later key counts only if the earlier ones are absent. beside: the key of the level whose domains these are,
    under other values. shortened: whether Topograph writes it under a key of its configuration. independent: whether
    its domains are inside none of the farther levels but region and zone, and around no nearer one but a Node.
    """

    name: str
    keys: tuple[str, ...]
    alias: str = ""
    distinct: bool = False
    beside: str = ""
    shortened: bool = False
    independent: bool = False

    @property
    def short(self) -> str:
        """The part of the name behind the slash."""
        return self.name.rpartition("/")[2]

    def value(self, labels: Mapping[str, str]) -> str | None:
        """The value of a Node with these labels; None if it has none of the keys."""
        return next((labels[key] for key in self.keys if key in labels), None)


def level(key: str, alias: str = "") -> Level:
    """The level of a node label key, with all equivalent keys."""
    return Level(key, equivalent(key), alias)


def value_problem(value: str) -> str:
    """Why a text is not a valid label value; empty if it is valid."""
    if len(value) > name.NAME_LENGTH:
        return f"has {len(value)} characters, and the value of a label has {name.NAME_LENGTH} at most"
    if not value or name.label_value(value):
        return "is no value of a label: letters, digits, and within them - _ . are allowed"
    return ""


def label_value(level: Level, key: str, value: str) -> str:
    """The value as Nodes have it. Topograph replaces values of over 63 characters by `x` and their hash."""
    is_shortened = len(value) > name.NAME_LENGTH and (level.shortened or key.startswith(TOPOGRAPH))
    return f"x{fnv1a_64(value.encode()):x}" if is_shortened else value


def shortened(topology: Topology, prefixes: tuple[str, ...]) -> Topology:
    """The topology with levels whose long values Topograph shortens, by the prefixes of keys that it writes."""
    if not any(key.startswith(prefixes) for level in topology.levels for key in level.keys):
        return topology
    levels = (
        structs.replace(level, shortened=any(key.startswith(prefixes) for key in level.keys))
        for level in topology.levels
    )
    return replace(topology, levels=tuple(levels))


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that orders numbers in names by their value."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)


def fnv1a_64(data: bytes) -> int:
    """The 64-bit FNV-1a hash. Source: RFC 9923, "The FNV Non-Cryptographic Hash Algorithm"."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def no_level(key: str) -> str:
    """Why a known node label is not a level; empty for places, and for labels that are not known."""
    why = no_place(key)
    return f"{why}, and is no level" if why else ""


@dataclass(frozen=True)
class Topology:
    """Levels, farthest first.

    unions: levels whose keys belong to several levels, or that stand beside one; each has the position of its first
    key, or of that one. requirement: the labels
    that every Node for a placement must have. pool: the Nodes that the topology applies to; None if not specified.
    source: where it is defined, for messages. in_cluster: whether it is an object of the cluster, which schedulers that
    read the annotations themselves know. objects: whose object it is, such as Kueue.
    """

    name: str
    levels: tuple[Level, ...]
    unions: tuple[Level, ...] = ()
    requirement: LabelSelector = EVERYTHING
    pool: LabelSelector | None = None
    source: str = "built in"
    in_cluster: bool = False
    objects: tuple[str, ...] = ()

    def find(self, name: str) -> Level | None:
        """The level with a key, an alias or a short name; None if no level or several levels have it."""
        return self._names.get(name)

    def position(self, level: Level) -> int:
        """The position of a level; 0 is the farthest."""
        return self._positions[level.keys[0]]

    @property
    def lowest(self) -> Level:
        """The nearest level whose domains hold several Nodes; the last one if there is no such level."""
        several = [level for level in self.levels if HOSTNAME not in level.keys]
        return several[-1] if several else self.levels[-1]

    def below(self, level: Level | None) -> tuple[Level, ...]:
        """The levels that are nearer than a level; all levels for None."""
        return self.levels[0 if level is None else self.position(level) + 1 :]

    def above(self, level: Level) -> tuple[Level, ...]:
        """The levels that are farther than a level."""
        return self.levels[: self.position(level)]

    def ambiguous(self, name: str) -> tuple[Level, ...]:
        """The levels that share a short name; empty if fewer than two do."""
        sharing = tuple(level for level in self.levels if level.short == name)
        return sharing if len(sharing) > 1 else ()

    def called(self, level: Level) -> str:
        """The shortest name of a level."""
        names = [level.alias, level.short, level.name]
        return next(name for name in names if name and self._names.get(name) is level)

    def called_all(self, levels: Iterable[Level]) -> str:
        """The shortest names of levels, separated by commas."""
        return ", ".join(map(self.called, levels))

    @property
    def in_order(self) -> str:
        """A sentence that lists the levels."""
        return f'Levels of topology "{self.name}", farthest first: {self.called_all(self.levels)}.'

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name of every level, short names first."""
        return tuple(dict.fromkeys((*map(self.called, (*self.levels, *self.unions)), *self._names)))

    @cached_property
    def _names(self) -> Mapping[str, Level]:
        levels = (*self.levels, *self.unions)
        shorts = Counter(level.short for level in levels)
        names = {level.short: level for level in levels if shorts[level.short] == 1}
        names |= {level.alias: level for level in levels if level.alias}
        # A key is a name in any case. The keys of a union are those of other levels.
        return names | {level.name: level for level in self.unions} | {k: lv for lv in self.levels for k in lv.keys}

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        positions = {level.keys[0]: position for position, level in enumerate(self.levels)}
        return positions | {other.keys[0]: positions[other.beside] for other in self.unions if other.beside}
