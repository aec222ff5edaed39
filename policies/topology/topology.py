"""A topology: ordered levels, farthest first, and for which Nodes it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from policies.engine.match import EVERYTHING, LabelSelector
from policies.topology.level import Level


@dataclass(frozen=True)
class Topology:
    """Levels, farthest first.

    unions: levels that Nodes have under the key of one level or of another, each at the place of its first key.
    requirement: what labels every Node must have that a Pod is placed on. pool: for which Nodes it is, None where
    nothing is said. source: where it is defined, for people. in_cluster: whether it is an object of the cluster, which
    the schedulers know that read the annotations themselves.
    """

    name: str
    levels: tuple[Level, ...]
    unions: tuple[Level, ...] = ()
    requirement: LabelSelector = EVERYTHING
    pool: LabelSelector | None = None
    source: str = "built in"
    in_cluster: bool = False

    def find(self, name: str) -> Level | None:
        """The level with a key, an alias or a short name; None where there is none, or where several have it."""
        return self._names.get(name)

    def position(self, level: Level) -> int:
        """How near a level is: 0 is the farthest."""
        return self._positions[level.keys[0]]

    def below(self, level: Level | None) -> tuple[Level, ...]:
        """The levels that are nearer than one, all of them below None."""
        return self.levels[0 if level is None else self.position(level) + 1 :]

    def above(self, level: Level) -> tuple[Level, ...]:
        """The levels that are farther than one."""
        return self.levels[: self.position(level)]

    def ambiguous(self, name: str) -> tuple[Level, ...]:
        """The levels that share a short name, for which it stands for none of them."""
        found = tuple(level for level in self.levels if level.short == name)
        return found if len(found) > 1 else ()

    def called(self, level: Level) -> str:
        """The shortest name of a level."""
        names = [level.alias, level.short, level.name]
        return next(name for name in names if name and self._names.get(name) is level)

    def called_all(self, levels: Iterable[Level]) -> str:
        """The shortest names of levels, as a list."""
        return ", ".join(map(self.called, levels))

    @property
    def in_order(self) -> str:
        """The sentence that lists the levels."""
        return f'Levels of topology "{self.name}", farthest first: {self.called_all(self.levels)}.'

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that a level may be called by, the short ones first."""
        return tuple(dict.fromkeys((*map(self.called, (*self.levels, *self.unions)), *self._names)))

    @cached_property
    def _names(self) -> Mapping[str, Level]:
        levels = (*self.levels, *self.unions)
        shorts = Counter(level.short for level in levels)
        found = {level.short: level for level in levels if shorts[level.short] == 1}
        found |= {level.alias: level for level in levels if level.alias}
        # A key is a name in any case. The keys of a union are those of other levels.
        return found | {level.name: level for level in self.unions} | {k: lv for lv in self.levels for k in lv.keys}

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {level.keys[0]: position for position, level in enumerate(self.levels)}
