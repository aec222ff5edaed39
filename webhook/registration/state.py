"""The state of the registration at one moment, and the memory between turns. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject
from webhook.cluster.api.errors import ClusterError
from webhook.configuration.settings import Registration
from webhook.registration.announcement import Announcement, Withheld
from webhook.registration.configurations import Owner
from webhook.registration.drift import WriteTarget

# A Service includes a process only after a probe found it ready, every 5 s in the chart. Then the endpoints and the
# proxies of all Nodes have to be updated.
REACHED_SECONDS = 10.0

# More repairs than this within the time mean a fight: people do not write that often.
_MANY_REPAIRS = 5
_FIGHT_SECONDS = 60.0


class Calls(Struct, frozen=True):
    """Whether calls reach a replica, so that configurations may be created. Once true, it stays true.

    It becomes true when a replica has been ready for a while: for serve this process. ready_since: None while none is
    ready.
    """

    ready_since: float | None = None
    arrive: bool = False

    def observed(self, *, ready: bool, now: float) -> Calls:
        """The state after another check. now: by a monotonic clock."""
        if self.arrive:
            return self
        if not ready:
            return Calls()
        since = now if self.ready_since is None else self.ready_since
        return Calls(since, arrive=now - since >= REACHED_SECONDS)


class Repairs(Struct, frozen=True):
    """The times of the last repairs, by a monotonic clock. fight: whether the last one was part of a fight."""

    times: tuple[float, ...] = ()
    fight: bool = False

    def added(self, now: float) -> Repairs:
        """The state after one more repair."""
        times = (*self.times, now)[-(_MANY_REPAIRS + 1) :]
        is_many = len(times) > _MANY_REPAIRS and now - times[0] <= _FIGHT_SECONDS
        return Repairs(times, fight=is_many or self.undone(now))

    def undone(self, now: float) -> bool:
        """Whether somebody undoes repairs: there were too many, and the last one was not long ago."""
        return self.fight and now - self.times[-1] <= _FIGHT_SECONDS


class Problem(Struct, frozen=True):
    """A problem, with the event under which it is logged. details: only for the log."""

    event: str
    reason: str
    level: Literal["info", "warning", "error"] = "error"
    details: Mapping[str, Any] = {}


class Memory(Struct, frozen=True):
    """What is remembered from one turn to the next.

    written: the last written target of each configuration, by kind. owner: the ClusterRole as last found. ca_file: the
    last usable content of registration.caFile. strangers: kind and name of foreign entries that were reported.
    problems: the current problems, by event.
    """

    written: Mapping[str, WriteTarget] = {}
    owner: Owner | None = None
    ca_file: bytes | None = None
    strangers: frozenset[tuple[str, str]] = frozenset()
    repairs: Repairs = Repairs()
    problems: Mapping[str, Problem] = {}


class WatchState(Struct, frozen=True):
    """The state of the two configurations in the watches, which may be outdated.

    synced: whether both first lists have arrived. current: the existing configurations, whole, by kind. ever: the kinds
    that have existed since this process follows them. unregistered: whether their permanent deletion was announced.
    This stays true while they do not exist, and ends when they exist without the announcement.
    """

    synced: bool = False
    current: Mapping[str, JsonObject] = {}
    ever: frozenset[str] = frozenset()
    unregistered: bool = False


class CaFile(Struct, frozen=True):
    """The content of registration.caFile. problem: why it cannot be used; empty if it can."""

    content: bytes = b""
    problem: str = ""


class OwnerLookUp(Struct, frozen=True):
    """The uid of the ClusterRole that should own the configurations, None if there is none; or why it is unknown."""

    uid: str | None = None
    problem: str = ""


class Progress(Struct, frozen=True):
    """The progress of one configuration in this turn: as it was read, and as it was after the last write."""

    read: JsonObject | None
    stored: JsonObject | None = None
    writes: int = 0


class Observation(Struct, frozen=True):
    """Everything on which the plan of a turn depends.

    leading: whether this process is the leader, which writes. calls_arrive: whether calls reach a replica.
    configurations: those that the rules need, by kind, with CAs but without owner; None while policies or CAs are not
    known. bundle: these CAs as PEM. replicas: what the Pods of replicas announce; None if this process is the replica.

    withheld: the entries that the plan has taken out of `configurations`, because of replicas.

    owner, progress and failure: the results of this turn's steps.
    """

    registration: Registration
    watch: WatchState
    memory: Memory
    now: float
    leading: bool
    calls_arrive: bool
    configurations: Mapping[str, JsonObject] | None
    bundle: bytes = b""
    ca_file: CaFile | None = None
    replicas: tuple[Announcement, ...] | None = None
    withheld: tuple[Withheld, ...] = ()
    owner: OwnerLookUp | None = None
    progress: Mapping[str, Progress] = {}
    failure: ClusterError | None = None

    @property
    def known_owner(self) -> Owner | None:
        """The owner of the configurations, if known."""
        if self.owner is None or self.owner.uid is None:
            return self.memory.owner
        return Owner(self.registration.owner, self.owner.uid)

    @property
    def owner_is_gone(self) -> bool:
        """Whether the owner was deleted.

        Its deletion deletes the configurations. If they were recreated, nothing would delete them any more.
        """
        is_absent = self.owner is not None and self.owner.uid is None and not self.owner.problem
        return is_absent and self.memory.owner is not None

    def is_new(self, kind: str, target: WriteTarget) -> bool:
        """Whether a target differs from what was written, so that writing it is not a repair."""
        return self.memory.written.get(kind) != target

    def title(self, kind: str) -> str:
        """The name of a configuration in messages."""
        return f"{kind}/{self.registration.name}"
