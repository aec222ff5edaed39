"""What was promised a moment ago: choices that no watch has shown yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from policies.topology.choice.choice import Choice, ChoiceKey, Outcome
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.promise import Promise

SECONDS = 15.0
"""How long an answer counts that no watch shows, because somebody else refused its request or the watch is late.

Between the answer and the watch's event come the other webhooks and the write to storage.
"""

MOST = 1000
"""The workloads that are remembered. Beyond, the oldest are forgotten, as if the watch had shown them."""

# A gang that fits nowhere now takes no room yet, and its request may be refused for that.
_PROMISED: frozenset[Outcome] = frozenset({"fits", "preempts"})
# Where the API server makes up the name, the key has only the name's beginning, which several workloads may have at the
# same time. No name contains this.
_NUMBERED = "#"


class Answers:
    """The newest answers of this process, by workload, oldest first."""

    def __init__(self) -> None:
        self._promises: dict[GangKey, tuple[Promise, ...]] = {}
        self._number = 0

    def __len__(self) -> int:
        """The number of workloads."""
        return len(self._promises)

    def note(self, key: ChoiceKey, choices: Sequence[Choice], now: float) -> None:
        """Remember the domains that were chosen now; not those that gangs had before, which are on record."""
        if key.dry_run or any(key.kept):
            return
        own = self._named(key.gangs[0].key)
        promises = tuple(_promises(own, key, choices, now + SECONDS))
        self._promises.pop(own, None)
        if promises:
            self._promises[own] = promises
        if len(self._promises) > MOST:
            del self._promises[next(iter(self._promises))]

    def shown(self, workload: GangKey, beginning: str = "") -> None:
        """Forget what was promised to a workload, since the watch shows it.

        beginning: of its name, where the API server has made up the rest. Of several such workloads the oldest one is
        forgotten, which asked for about the same.
        """
        if self._promises.pop(workload, None) is None and beginning:
            numbered = f"{beginning}{_NUMBERED}"
            alike = (key for key in self._promises if _is_numbered(key, workload, numbered))
            self._promises.pop(next(alike, workload), None)

    def promises(self, now: float) -> Iterator[Promise]:
        """What counts now."""
        for key in [key for key, promises in self._promises.items() if promises[0].until <= now]:
            del self._promises[key]
        return (promise for promises in self._promises.values() for promise in promises)

    def _named(self, key: GangKey) -> GangKey:
        """The key under which a workload is remembered, which differs for workloads without a whole name."""
        if key.name and not key.name.endswith("-"):
            return key
        self._number += 1
        return replace(key, name=f"{key.name}{_NUMBERED}{self._number}")


def _promises(own: GangKey, key: ChoiceKey, choices: Sequence[Choice], until: float) -> Iterator[Promise]:
    """What was promised to the gangs of a workload. A template in several gangs counts in the narrowest, the last."""
    counted: set[str] = set()
    for gang, choice in reversed(list(zip(key.gangs, choices, strict=True))):
        address = choice.required or next(iter(choice.preferred), ())
        if choice.outcome in _PROMISED and address:
            members: tuple[Member, ...] = tuple(member for member in gang.members if member.path not in counted)
            counted.update(member.path for member in members)
            yield Promise(own, address, members, until)


def _is_numbered(key: GangKey, workload: GangKey, numbered: str) -> bool:
    return key.name.startswith(numbered) and replace(key, name="") == replace(workload, name="")
