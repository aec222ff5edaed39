"""Conclusions: what to remember, log and count at the end of a turn of the registration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from webhook.registration.configurations import UNREGISTER
from webhook.registration.drift import BundleOnly, WriteTarget, changed_by, foreign
from webhook.registration.state import REACHED_SECONDS, Memory, Observation, Problem

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
