"""What was chosen for a gang, and why."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from policies.engine.lookup import Key
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Amounts, Gang

Outcome = Literal["fits", "preempts", "full", "never", "unknown"]
"""fits: now. preempts: now, if Pods of lower priority make room. full: once running work ends. never: on no domain
of the Nodes that there are. unknown: nothing could be chosen; `Choice.reason` says why."""


class Candidate(Struct, frozen=True):
    """A domain that was considered. pods: how many of the gang's Pods fit now. free, total: accelerators in it.

    promised: accelerators that are free, but promised to other gangs. missing: see `Choice`.
    """

    address: Address
    nodes: int
    free: int
    total: int
    pods: int
    fits: bool
    promised: int = 0
    missing: Amounts = ()


class Choice(Struct, frozen=True):
    """The domain for a gang. The same gang and the same inventory give the same choice.

    required: the domain of the required level; empty without one, or where none was chosen. preferred: the domains
    below it that are preferred, each with its ancestors, nearest first. level: the name of the nearest level in which
    the whole gang is together. missing: by resource what the Pods without a place ask for in the best domain.
    pods_missing: how many Pods those are. considered: domains of the required level (or of the level that was chosen
    for a preferred placement), the chosen one first, then the best ones, at most MOST_CONSIDERED; the second is the
    runner-up. domains: how many there are in all. wider: for a gang that is full, the domain of the nearest level above
    the required one in which it would fit now; empty if there is none.
    """

    outcome: Outcome
    reason: str = ""
    required: Address = ()
    preferred: tuple[Address, ...] = ()
    level: str = ""
    missing: Amounts = ()
    accelerators_missing: int = 0
    pods_missing: int = 0
    considered: tuple[Candidate, ...] = ()
    domains: int = 0
    wider: Address = ()


MOST_CONSIDERED = 20


class ChoiceKey(Key[tuple[Choice, ...]], Struct, frozen=True):
    """The key of the choices for all gangs of a workload, in their order: wider required levels first.

    A wider gang's domain contains those of the narrower ones. kept: by gang, the domain that it already has, which it
    keeps if the domain still exists: then the choice only tells how the gang fits there. dry_run: whether the choice
    is not to be remembered as a promise.
    """

    gangs: tuple[Gang, ...]
    kept: tuple[Address, ...] = ()
    dry_run: bool = False

    @property
    def missing(self) -> str:
        """The message that nothing has been chosen."""
        return f"a domain for {self.gangs[0].key.kind} {self.gangs[0].key.name!r} is not chosen yet"

    def failure(self, reason: str) -> tuple[Choice, ...]:
        """No choice. A placement must not fail because of that: the rule falls back to another way."""
        return tuple(Choice("unknown", reason) for _ in self.gangs)
