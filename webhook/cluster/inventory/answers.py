"""What was promised a moment ago: choices that no watch has shown yet. Pure."""

from __future__ import annotations

from collections import Counter
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
"""The workloads that are remembered. Beyond, the oldest of the namespace with the most are forgotten, as if the watch
had shown them: whoever asks for thousands loses his own."""

# A gang that fits nowhere now takes no room yet, and its request may be refused for that.
_PROMISED: frozenset[Outcome] = frozenset({"fits", "preempts"})
# Where the API server makes up the end of a name, this and something unique stand for it.
_UNNAMED = "…"


class Answers:
    """The newest answers of this process, by workload, oldest first."""

    def __init__(self) -> None:
        self._promises: dict[GangKey, tuple[Promise, ...]] = {}

    def __len__(self) -> int:
        """The number of workloads."""
        return len(self._promises)

    def note(self, key: ChoiceKey, choices: Sequence[Choice], now: float) -> None:
        """Remember the domains that were chosen now; not those that gangs had before, which are on record."""
        if key.dry_run or any(key.kept):
            return
        own = key.gangs[0].key
        promises = tuple(_promises(key, choices, now + SECONDS))
        self._promises.pop(own, None)
        if promises:
            self._promises[own] = promises
        if len(self._promises) > MOST:
            crowds = Counter(key.namespace for key in self._promises)
            largest = max(crowds, key=crowds.__getitem__)
            del self._promises[next(key for key in self._promises if key.namespace == largest)]

    def shown(self, workload: GangKey, beginning: str = "") -> None:
        """Forget what was promised to a workload, since the watch shows it.

        beginning: of its name, where the API server has made up the rest. Of several such workloads the oldest one is
        forgotten, which asked for about the same.
        """
        if self._promises.pop(workload, None) is None and beginning:
            alike = (key for key in self._promises if _may_be(key, workload, beginning))
            self._promises.pop(next(alike, workload), None)

    def promises(self, now: float) -> Iterator[Promise]:
        """What counts now. An answer of the future is from before the clock was set back."""
        for key in [key for key, promises in self._promises.items() if not 0 < promises[0].until - now <= SECONDS]:
            del self._promises[key]
        return (promise for promises in self._promises.values() for promise in promises)


def _promises(key: ChoiceKey, choices: Sequence[Choice], until: float) -> Iterator[Promise]:
    """What was promised to the gangs of a workload. A template in several gangs counts in the narrowest, the last."""
    counted: set[str] = set()
    for gang, choice in reversed(list(zip(key.gangs, choices, strict=True))):
        address = choice.required or next(iter(choice.preferred), ())
        if choice.outcome in _PROMISED and address:
            members: tuple[Member, ...] = tuple(member for member in gang.members if member.path not in counted)
            counted.update(member.path for member in members)
            yield Promise(gang.key, address, members, until)


def _may_be(key: GangKey, workload: GangKey, beginning: str) -> bool:
    """Whether a key without a whole name may be that of a workload whose name begins like this."""
    start, unnamed, _ = key.name.partition(_UNNAMED)
    return bool(unnamed) and start == beginning and replace(key, name=workload.name) == workload
