"""The state of the registration at one moment, and the memory between turns. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject
from webhook.cluster.api.errors import ClusterError
from webhook.configuration.settings import Registration
from webhook.registration.announcement import Announcement, Withheld, announced
from webhook.registration.configurations import KINDS, UNREGISTER, Owner, owned
from webhook.registration.drift import BundleOnly, Managed, WriteTarget, changed_by, foreign, is_unregistered

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


FAILED = "not registered"
SUSPENDED = "registration is suspended"
UNDONE = "registration is undone"
UNREADABLE = "CA bundle not read"
NO_OWNER = "owner of the registration not found"
ABSENT = "no configuration for the CA bundle"
WAITING = "registration waits"
WITHHELD = "entries wait for replicas"


class LogEvent(Struct, frozen=True):
    """A line for the log."""

    level: str
    event: str
    details: Mapping[str, Any]


class Conclusion(Struct, frozen=True):
    """What to remember, log and count.

    done: whether the API server now knows everything, or nothing should be written. outcomes: of the writes, for the
    metric.
    """

    memory: Memory
    done: bool
    events: tuple[LogEvent, ...] = ()
    outcomes: tuple[str, ...] = ()


def early(observation: Observation, *, done: bool) -> Conclusion:
    """The conclusion of a turn that ended before the configurations were compared."""
    return _with_failure(observation, Conclusion(_remembered(observation, solved=[FAILED] if done else []), done))


def suspended(observation: Observation) -> Conclusion:
    """The conclusion of a turn without writes, because the configurations were unregistered permanently."""
    until = "nothing is written until the next start, or until they are there without it"
    problem = Problem(SUSPENDED, f"{UNREGISTER} was set on a webhook configuration; {until}", "warning")
    return Conclusion(_remembered(observation, [problem], [FAILED], written={}), done=True)


def follower(observation: Observation, *, done: bool) -> Conclusion:
    """The conclusion of a turn of a process that is not the leader."""
    solved = [FAILED, SUSPENDED, UNDONE, NO_OWNER, ABSENT, WAITING]
    return Conclusion(_remembered(observation, solved=solved, written={}), done)


def reconciled(
    observation: Observation, targets: Mapping[str, WriteTarget], settled: Iterable[str], waiting: Sequence[str]
) -> Conclusion:
    """The conclusion of a turn in which the configurations were compared.

    settled: the kinds with nothing left to do. waiting: the kinds that are not created yet.
    """
    progress = observation.progress
    stored = {kind: targets[kind] for kind in settled if progress[kind].writes}
    news = [kind for kind, target in stored.items() if observation.is_new(kind, target)]
    repaired = {kind: target for kind, target in stored.items() if kind not in news}
    repairs, strangers = observation.memory.repairs, _strangers(observation, stored)
    for _ in repaired:
        repairs = repairs.added(observation.now)
    events = [_repair(observation, kind, target) for kind, target in repaired.items()]
    problems = [_undone(event) for event in events if repairs.undone(observation.now)]
    problems += _missing(observation, targets, waiting)
    events += [_foreign(observation, kind, names) for kind, names in strangers.items()]
    if news:
        events.append(LogEvent("info", "registered", {"configurations": [observation.title(kind) for kind in news]}))
    done = not waiting and observation.failure is None
    memory = _remembered(
        observation,
        problems,
        [SUSPENDED, ABSENT, WAITING, *([FAILED] if done else [])],
        written=_written(observation, targets, settled, waiting),
        strangers=observation.memory.strangers.union((kind, name) for kind in strangers for name in strangers[kind]),
        repairs=repairs,
    )
    outcomes = tuple("written" if kind in news else "repaired" for kind in stored)
    return _with_failure(observation, Conclusion(memory, done, tuple(events), outcomes))


def _written(
    observation: Observation, targets: Mapping[str, WriteTarget], settled: Iterable[str], waiting: Sequence[str]
) -> dict[str, WriteTarget]:
    """The last written target of each configuration."""
    written = dict(observation.memory.written)
    for kind, target in targets.items():
        is_there = observation.progress[kind].read is not None or not isinstance(target, BundleOnly)
        if kind in settled and is_there:
            written[kind] = target
        elif kind not in settled and kind not in waiting and observation.is_new(kind, target):
            written.pop(kind, None)  # a failed write may nevertheless have been stored
    return written


def _with_failure(observation: Observation, conclusion: Conclusion) -> Conclusion:
    """The conclusion with the failure of the turn, if there was one."""
    failure = observation.failure
    if failure is None:
        return conclusion
    if failure.status == 409:
        # The watch will show the other write, and then there is another turn.
        event = LogEvent("info", "somebody else writes the registration, too", {"reason": str(failure)})
        return replace(conclusion, done=False, events=(*conclusion.events, event))
    problems = {**conclusion.memory.problems, FAILED: Problem(FAILED, str(failure))}
    memory = replace(conclusion.memory, problems=problems)
    return replace(conclusion, done=False, memory=memory, outcomes=(*conclusion.outcomes, "failed"))


def _remembered(
    observation: Observation, problems: Iterable[Problem] = (), solved: Iterable[str] = (), **changes: Any
) -> Memory:
    """The previous memory with changes. solved: events of problems that are over unless they are in `problems`."""
    memory = observation.memory
    over = set(solved)
    if not changes.get("repairs", memory.repairs).undone(observation.now):
        over.add(UNDONE)
    if observation.owner is not None:
        over.add(NO_OWNER)
    over.add(WITHHELD)
    if observation.ca_file is not None:
        over.add(UNREADABLE)
        if not observation.ca_file.problem:
            changes["ca_file"] = observation.ca_file.content
    raised = {problem.event: problem for problem in (*_observed(observation), *problems)}
    kept = {event: problem for event, problem in memory.problems.items() if event not in over}
    return replace(memory, problems=kept | raised, owner=observation.known_owner, **changes)


def _observed(observation: Observation) -> list[Problem]:
    """The problems that the observation itself shows."""
    return [*_ca_file(observation), *_owner(observation), *_withheld(observation)]


def _withheld(observation: Observation) -> list[Problem]:
    reasons = [
        f"{withheld.entry} fails closed at {withheld.path}, and is not registered before all replicas answer there: "
        f"{', '.join(withheld.replicas)}"
        for withheld in observation.withheld
    ]
    return [Problem(WITHHELD, "; ".join(reasons), "info")] if reasons else []


def _ca_file(observation: Observation) -> list[Problem]:
    file = observation.ca_file
    if file is None or not file.problem:
        return []
    still = "" if observation.memory.ca_file is None else "; what was in it before stays in force"
    reason = f"registration.caFile: {observation.registration.ca_file}: {file.problem}{still}"
    return [Problem(UNREADABLE, reason)]


def _owner(observation: Observation) -> list[Problem]:
    look_up, name = observation.owner, observation.registration.owner
    if look_up is None or look_up.uid is not None:
        return []
    if look_up.problem:
        reason = look_up.problem
    elif observation.owner_is_gone:
        reason = f"ClusterRole {name} is gone, and the webhook configurations go with it; they are not put back"
    else:
        reason = f"there is no ClusterRole {name}; without it nothing removes the webhook configurations in the end"
    return [Problem(NO_OWNER, f"registration.owner: {reason}", "warning")]


def _missing(observation: Observation, targets: Mapping[str, WriteTarget], waiting: Sequence[str]) -> list[Problem]:
    """Problems with missing configurations, which will be created later or by others."""
    name, problems = observation.registration.name, []
    if waiting:
        titles = " and ".join(f"{kind} {name}" for kind in waiting)
        reason = f"{titles}: to be made once a replica has been ready for {REACHED_SECONDS:.0f} s"
        problems.append(Problem(WAITING, reason, "info"))
    bundles = [kind for kind, target in targets.items() if isinstance(target, BundleOnly)]
    if absent := [kind for kind in bundles if observation.progress[kind].read is None]:
        titles = " and ".join(f"{kind} {name}" for kind in absent)
        problems.append(Problem(ABSENT, f"there is no {titles} to write the caBundle into; apply it", "warning"))
    return problems


def _repair(observation: Observation, kind: str, target: WriteTarget) -> LogEvent:
    """The event for a repair: the differences, who caused them, and what still differs."""
    progress = observation.progress[kind]
    left = [] if progress.stored is None else list(target.correction(progress.stored).differences)
    writer = changed_by(progress.read or {"metadata": {}})
    details = {
        "configuration": observation.title(kind),
        "differences": list(target.correction(progress.read).differences),
        "by": writer.manager,
        "at": writer.time,
        **({"left": left} if left else {}),
    }
    return LogEvent("warning", "registration repaired", details)


def _undone(repair: LogEvent) -> Problem:
    reason = (
        f"{repair.details['by'] or 'somebody'} undoes the webhook configurations again and again; end that, or where "
        "a cloud adds requirements to every namespaceSelector, name them in registration.kept"
    )
    return Problem(UNDONE, reason, details={key: repair.details[key] for key in ("configuration", "differences")})


def _strangers(observation: Observation, stored: Iterable[str]) -> dict[str, list[str]]:
    """The names of foreign entries that were not reported before, by kind."""
    names = {kind: [entry["name"] for entry in foreign(observation.progress[kind].stored or {})] for kind in stored}
    new = {
        kind: [name for name in there if (kind, name) not in observation.memory.strangers]
        for kind, there in names.items()
    }
    return {kind: there for kind, there in new.items() if there}


def _foreign(observation: Observation, kind: str, names: Sequence[str]) -> LogEvent:
    """The event for foreign entries, which stay, but are deleted with the configuration."""
    details = {"configuration": observation.title(kind), "entries": names}
    return LogEvent("warning", "entries of others are left alone", details)


class FindOwner(Struct, frozen=True):
    """Look up the ClusterRole that should own the configurations."""

    name: str
    reasons: Sequence[str] = ("it is made anew with each release",)


class ReadConfiguration(Struct, frozen=True):
    """Read a configuration."""

    kind: str
    reasons: Sequence[str] = ("it may differ, and what is followed lags behind",)


class Apply(Struct, frozen=True):
    """Create or apply a configuration. otherwise: its replacement if the API server refuses that as invalid."""

    kind: str
    configuration: JsonObject
    reasons: Sequence[str]
    otherwise: JsonObject | None = None


class Replace(Struct, frozen=True):
    """Replace a configuration in the version that was read."""

    kind: str
    configuration: JsonObject
    reasons: Sequence[str]


class Remove(Struct, frozen=True):
    """Delete a configuration."""

    kind: str
    reasons: Sequence[str]


Write = Apply | Replace | Remove
Step = FindOwner | ReadConfiguration | Write


class RegistrationPlan(Struct, frozen=True):
    """The next steps, and the conclusion, which is final if there are no steps."""

    steps: Sequence[Step]
    conclusion: Conclusion


def ca_bundle(registration: Registration, own: bytes | None, file: CaFile | None, last: bytes | None) -> bytes | None:
    """The CAs for the caBundle as PEM; None while they are not known.

    own: the service's CAs; empty for those that every system trusts. file: registration.caFile; None if it is not set.
    last: the last usable content of that file.
    """
    if file is None:
        return b"" if registration.inject_ca_from else own
    if not file.problem:
        return file.content
    # An issuer that does not publish its CA writes no such file, and cert-manager may inject a CA.
    return b"" if last is None and registration.inject_ca_from else last


def plan(observation: Observation) -> RegistrationPlan:
    """The next steps, or the final conclusion."""
    if _is_unregistered(observation):
        return RegistrationPlan((), suspended(observation))
    observation = _announced(observation)
    if observation.configurations is None:
        return RegistrationPlan((), early(observation, done=False))
    targets = _targets(observation, observation.configurations)
    if observation.leading:
        return _leading(observation, targets)
    current = observation.watch.current
    done = not any(target.correction(current.get(kind)).differences for kind, target in targets.items())
    return RegistrationPlan((), follower(observation, done=done))


def _announced(observation: Observation) -> Observation:
    """The observation without those entries that fail closed and that some replica does not know yet."""
    if observation.replicas is None or observation.configurations is None or not observation.registration.apply:
        return observation
    if not observation.watch.synced:  # what is registered already must not be taken for new
        return replace(observation, configurations=None)
    remaining, withheld = announced(observation.configurations, observation.watch.current, observation.replicas)
    return replace(observation, configurations=remaining, withheld=tuple(withheld))


def _leading(observation: Observation, targets: Mapping[str, WriteTarget]) -> RegistrationPlan:
    """The plan of the leader, which writes."""
    pending = {kind: target for kind, target in targets.items() if _is_pending(observation, kind, target)}
    name = observation.registration.owner if observation.registration.apply else ""
    if name and observation.owner is None and (pending or observation.known_owner is None):
        return _first(observation, [FindOwner(name)])
    if observation.owner_is_gone:
        return RegistrationPlan((), early(observation, done=True))
    if unread := [ReadConfiguration(kind) for kind in pending if kind not in observation.progress]:
        return _first(observation, unread)
    return _reconciliation(observation, pending)


def _first(observation: Observation, steps: Sequence[Step]) -> RegistrationPlan:
    """A plan with preparatory steps. If one of them failed, the turn ends."""
    return RegistrationPlan(() if observation.failure else steps, early(observation, done=False))


def _reconciliation(observation: Observation, targets: Mapping[str, WriteTarget]) -> RegistrationPlan:
    """The plan to write what differs from the targets."""
    current, progress = observation.watch.current, observation.progress
    if any(progress[kind].read is None and kind in current for kind in targets):
        # It was just deleted. The watch will show whether that is permanent.
        return RegistrationPlan((), early(observation, done=False))
    waiting = [kind for kind, target in targets.items() if _waits(observation, kind, target)]
    writes = {
        kind: write
        for kind, target in targets.items()
        if kind not in waiting and (write := _write(observation, kind, target)) is not None
    }
    settled = [kind for kind in targets if kind not in waiting and kind not in writes]
    outcome = reconciled(observation, targets, settled, waiting)
    return RegistrationPlan(() if observation.failure else list(writes.values()), outcome)


def _write(observation: Observation, kind: str, target: WriteTarget) -> Write | None:
    """The next write of a configuration; None if there is none."""
    progress = observation.progress[kind]
    if progress.writes == 0:
        correction = target.correction(progress.read)
        is_due = observation.is_new(kind, target) and correction.configuration is not None
        if not (correction.differences or is_due):
            return None
        reasons = correction.differences or ["something else was written before, or it is not known what"]
        if correction.configuration is None:
            # If every rule of a phase is off, an old configuration would cause useless calls.
            return Remove(kind, reasons)
        # Fields that others own can make it invalid, as a url beside the service.
        otherwise = None if progress.read is None else target.replacement(progress.read)
        return Apply(kind, correction.configuration, reasons, otherwise)
    if progress.writes > 1 or progress.stored is None:
        return None
    # Applying does not remove what others added to lists and maps, such as a condition that is never true.
    differences = target.correction(progress.stored).differences
    replacement = target.replacement(progress.stored) if differences else None
    return None if replacement is None else Replace(kind, replacement, differences)


def _is_unregistered(observation: Observation) -> bool:
    read = (progress.read for progress in observation.progress.values())
    return observation.watch.unregistered or any(
        configuration is not None and is_unregistered(configuration) for configuration in read
    )


def _targets(observation: Observation, configurations: Mapping[str, JsonObject]) -> dict[str, WriteTarget]:
    """The target of each configuration, by kind."""
    registration, owner = observation.registration, observation.known_owner
    if not registration.apply:
        return {kind: BundleOnly(b"" if registration.inject_ca_from else observation.bundle) for kind in configurations}
    if owner is not None:
        configurations = {kind: owned(configuration, owner) for kind, configuration in configurations.items()}
    return {kind: Managed(configurations.get(kind), registration.kept) for kind in KINDS.values()}


def _is_pending(observation: Observation, kind: str, target: WriteTarget) -> bool:
    """Whether a configuration needs a write, or may need one."""
    watch = observation.watch
    is_known = watch.synced and not observation.is_new(kind, target)
    return not is_known or bool(target.correction(watch.current.get(kind)).differences)


def _waits(observation: Observation, kind: str, target: WriteTarget) -> bool:
    """Whether to delay the creation of a configuration until calls reach this process: entries may fail closed."""
    is_absent = observation.progress[kind].read is None and kind not in observation.watch.ever
    return is_absent and target.correction(None).configuration is not None and not observation.calls_arrive
