"""What is known of the registration at one moment, and what is remembered from one turn to the next. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject
from webhook.cluster.api.errors import ClusterError
from webhook.configuration.settings import Registration
from webhook.registration.configurations import Owner
from webhook.registration.drift import WriteTarget

# A Service knows of no process before a probe has found it ready, every 5 s by the chart; then endpoints and the
# proxies of all Nodes have to hear of it.
REACHED_SECONDS = 10.0

# More repairs than these within the time: people do not write that often.
_MANY_REPAIRS = 5
_FIGHT_SECONDS = 60.0


class Calls(Struct, frozen=True):
    """Whether calls reach this process, so that the API server may be told to call: once they do, for good.

    They do when it has been ready for a while at some time. Of several workers each goes by itself, though the Pod is
    ready only when all are, a few seconds after the first. ready_since: None while the process is not ready.
    """

    ready_since: float | None = None
    arrive: bool = False

    def observed(self, *, ready: bool, now: float) -> Calls:
        """What is known after another look. now: by a clock that never jumps."""
        if self.arrive:
            return self
        if not ready:
            return Calls()
        since = now if self.ready_since is None else self.ready_since
        return Calls(since, arrive=now - since >= REACHED_SECONDS)


class Repairs(Struct, frozen=True):
    """When the configurations were repaired last, by a clock that never jumps. fight: as of the last of them."""

    times: tuple[float, ...] = ()
    fight: bool = False

    def added(self, now: float) -> Repairs:
        """With one more repair."""
        times = (*self.times, now)[-(_MANY_REPAIRS + 1) :]
        is_many = len(times) > _MANY_REPAIRS and now - times[0] <= _FIGHT_SECONDS
        return Repairs(times, fight=is_many or self.undone(now))

    def undone(self, now: float) -> bool:
        """Whether somebody undoes repairs: there were too many, and nothing has been quiet for long since."""
        return self.fight and now - self.times[-1] <= _FIGHT_SECONDS


class Problem(Struct, frozen=True):
    """What is wrong, by the event under which it is logged. details: for the log only."""

    event: str
    reason: str
    level: Literal["info", "warning", "error"] = "error"
    details: Mapping[str, Any] = {}


class Memory(Struct, frozen=True):
    """What is remembered from one turn to the next.

    written: what each configuration was made last, by kind. owner: the ClusterRole as it was found last. ca_file: the
    last content of registration.caFile that could be used. strangers: kind and name of entries of others that were told
    of. problems: what is wrong, by event.
    """

    written: Mapping[str, WriteTarget] = {}
    owner: Owner | None = None
    ca_file: bytes | None = None
    strangers: frozenset[tuple[str, str]] = frozenset()
    repairs: Repairs = Repairs()
    problems: Mapping[str, Problem] = {}


class WatchState(Struct, frozen=True):
    """What the watches show of the two configurations, which may lag behind.

    synced: whether both first lists have arrived. current: those that there are, whole, by kind. ever: the kinds of
    which there has been one since this process follows them. unregistered: whether they were announced to go for good;
    that holds while they are gone, and ends when they are there without the announcement.
    """

    synced: bool = False
    current: Mapping[str, JsonObject] = {}
    ever: frozenset[str] = frozenset()
    unregistered: bool = False


class CaFile(Struct, frozen=True):
    """What registration.caFile holds. problem: why it cannot be used, empty where it can."""

    content: bytes = b""
    problem: str = ""


class OwnerLookUp(Struct, frozen=True):
    """The uid of the ClusterRole that is to own the configurations, None where there is none, or why it is unknown."""

    uid: str | None = None
    problem: str = ""


class Progress(Struct, frozen=True):
    """How far one configuration has come in this turn: as it was read, and as the last of the writes left it."""

    read: JsonObject | None
    stored: JsonObject | None = None
    writes: int = 0


class Observation(Struct, frozen=True):
    """All on which the plan of a turn depends.

    leading: whether this process is the one to write. calls_arrive: whether calls reach this process. configurations:
    those that the rules call for, by kind, with the CAs to trust and without their owner; None while it is not known
    which policies or CAs there are. bundle: these CAs as PEM.

    owner, progress and failure: what came of the steps of this turn.
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
    owner: OwnerLookUp | None = None
    progress: Mapping[str, Progress] = {}
    failure: ClusterError | None = None

    @property
    def known_owner(self) -> Owner | None:
        """The owner of the configurations, as far as it is known."""
        if self.owner is None or self.owner.uid is None:
            return self.memory.owner
        return Owner(self.registration.owner, self.owner.uid)

    @property
    def owner_is_gone(self) -> bool:
        """Whether the owner is no more.

        It takes the configurations with it, and whoever put them back would leave them for ever.
        """
        is_absent = self.owner is not None and self.owner.uid is None and not self.owner.problem
        return is_absent and self.memory.owner is not None

    def is_new(self, kind: str, target: WriteTarget) -> bool:
        """Whether a target is another one than was written, so that writing it repairs nothing."""
        return self.memory.written.get(kind) != target

    def title(self, kind: str) -> str:
        """How people are told of a configuration."""
        return f"{kind}/{self.registration.name}"
