"""The placer: which gangs start now, where each of their Pods belongs, and why the others wait.

A gang with a required level starts when all of its Pods exist, ours is the last gate on each, and all fit, Node by
Node, in one domain. Gangs are tried by priority, then by age. One that does not fit lets others pass, until it has
waited for longer than the patience: then the domain in which least must still be freed is kept free for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import controller_reference, mapping
from policies.topology.choice import Placing, Search, Terms, choose, taken
from policies.topology.gang import Member
from policies.topology.nodes.inventory import Mask, PodKey
from policies.topology.placement import GATE
from policies.topology.placer.opening import Goal, Opening, Seat, counted, size, spread, words
from policies.topology.placer.readiness import Attempt, Readiness, demand, least, missing
from policies.topology.placer.state import Gang, State
from policies.topology.topology import NVL_DOMAIN
from policies.vocabulary import HOSTNAME


class Subject(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Placed(Struct, frozen=True):
    """A gang that this look opens. seconds: since its last Pod."""

    about: Subject
    message: str
    seconds: float
    level: str
    pods: int


class Waiting(Struct, frozen=True):
    """A gang that waits. reason: a sentence for people. since: seconds since the epoch. existing: of its Pods.

    position: its place in the queue, from 1. behind: the gang before it in words. kept: the domain that is kept free
    for it. overdue: whether it waits for longer than patience although there was room.
    """

    about: Subject
    reason: str
    since: float
    level: str
    required: bool
    pods: int
    existing: int
    position: int = 0
    behind: str = ""
    kept: str = ""
    overdue: bool = False


class Notice(Struct, frozen=True):
    """Something else that people should know."""

    about: Subject
    reason: Literal["DomainLost", "Stuck", "OutsideDomain"]
    message: str


class Look(Struct, frozen=True):
    """What was decided. wake: seconds since the epoch at which to look again; inf for only after a change."""

    openings: tuple[Opening, ...] = ()
    placed: tuple[Placed, ...] = ()
    queue: tuple[Waiting, ...] = ()
    notices: tuple[Notice, ...] = ()
    wake: float = float("inf")


# After so long an opened Pod that is not bound gets an Event. Schedulers bind within seconds.
_STUCK_SECONDS = 60.0

KEPT_SECONDS: Final = 600.0
"""How long room for a later stage is kept after the earlier one is Ready."""

# How often it is looked up anew why a gang does not fit, and for how many gangs in one look: that takes milliseconds,
# longer than to see that it does not.
_REASON_SECONDS, _MOST_REASONS = 5.0, 1
# How soon to look again at what waits for Pods to be bound.
_SOON = 1.0


class Placer(State):
    """The state is made of what was put; whoever puts the same comes to the same decisions."""

    def failed(self, opening: Opening) -> None:
        """Take back an opening that was not carried out, unless somebody else has opened the gate meanwhile."""
        pod = self.pods.get((opening.namespace, opening.name))
        if pod is None or pod.uid != opening.uid or not pod.is_open:
            return
        gates = pod.content["spec"].get("schedulingGates") or ()
        if any(gate.get("name") == GATE for gate in gates):
            self.gated(pod)

    def forget_openings(self) -> None:
        """Count as gated what was to be opened and is not seen opened yet: another process has led meanwhile."""
        for key in [*self.open]:
            pod = self.pods[key]
            if not pod.is_written:
                self.gated(pod)

    def sizes(self) -> Mapping[str, int]:
        """How much is known, by kind."""
        return {"node": len(self.inventory.nodes), "pod": len(self.inventory.pods), "gang": len(self.gangs)}

    def look(self, now: float) -> Look:
        """What is to be done now. It counts on its openings being carried out. now: seconds since the epoch."""
        return _Round(self, now).look()


class _Round:
    def __init__(self, state: Placer, now: float) -> None:
        self._state = state
        self._now = now
        self._ready = Readiness(state, now)
        self._openings: list[Opening] = []
        self._placed: list[Placed] = []
        self._queue: list[Waiting] = []
        self._notices: list[Notice] = []
        self._wake = inf
        # Pools of which a domain is kept free for a gang that has waited for too long, and a Node of each such domain.
        self._pools: set[object] = set()
        self._kept: list[str] = []
        # By what gangs ask for, the numbers of Pods that did not fit.
        self._failures: dict[object, list[tuple[int, ...]]] = {}
        self._helped: dict[tuple[int, Member, int | None], bool] = {}
        self._reasons = _MOST_REASONS

    def look(self) -> Look:
        """What is to be done."""
        state = self._state
        for group in [*state.active]:
            if all(pod.node for pod in state.gangs[group].pods.values()):
                state.active.discard(group)
        for group in [*state.staged]:
            if group not in state.gangs or not self._judge(state.gangs[group], self._hold):
                state.staged.discard(group)
        # Pods that were bound elsewhere than the placer opened them for, and those that are not bound in time.
        for pod in [state.pods[key] for key in state.bound if key in state.pods]:
            gang, goal = state.gangs[pod.group], state.goal(pod.group)
            within = None if isinstance(goal, str) or goal.required is None else self._ready.domain(gang, goal)
            row = state.inventory.row(pod.node)
            if within is not None and row >= 0 and not within[row]:
                text = f"Pod {pod.key[1]} was bound to Node {pod.node}, outside of the domain of the others. "
                remedy = "Something else than the placer opened or bound it; delete it to have it placed with them."
                self._notices.append(Notice(self._subject(gang), "OutsideDomain", f"{text}{remedy}"))
        state.bound.clear()
        for key, first in state.open.items():
            since = state.open[key] = first or self._now
            if self._now < since + _STUCK_SECONDS:
                self._wake = min(self._wake, since + _STUCK_SECONDS)
                continue
            pod = state.pods[key]
            conditions = mapping(pod.content, "status").get("conditions") or ()
            cause = next((c.get("message") for c in conditions), "") or "no scheduler says why"
            text = f"was opened {_STUCK_SECONDS:.0f} s ago or more and is not bound: {cause.rstrip('.')}. "
            remedy = "Delete the Pod: its controller makes another one, and the placer chooses a place for it."
            about = Subject("v1", "Pod", *pod.key, pod.uid)
            self._notices.append(Notice(about, "Stuck", f"Pod {pod.key[1]} {text}{remedy}"))
        waiting = sorted(
            (gang for group in state.active if (gang := state.gangs[group]).gated), key=lambda gang: gang.order
        )
        # Those that run already come first: their Pods can go nowhere else.
        for gang in [gang for gang in waiting if gang.anchors]:
            self._judge(gang, self._grow)
        for gang in [gang for gang in waiting if not gang.anchors]:
            if gang.gated and not gang.anchors:  # it may have been placed with another one of its root
                self._judge(gang, self._start)
        queue = tuple(
            replace(one, position=n, behind=self._queue[n - 2].about.name if n > 1 else "")
            for n, one in enumerate(self._queue, 1)
        )
        wake = min(self._wake, self._ready.wake)
        return Look(tuple(self._openings), tuple(self._placed), queue, tuple(self._notices), wake)

    def _judge(self, gang: Gang, decide: Callable[[Gang], None]) -> bool:
        """Decide about a gang. One that cannot be judged, as nobody knows what is in objects, waits and stops no other.

        Returns whether it could be judged.
        """
        openings, placed = len(self._openings), len(self._placed)
        try:
            decide(gang)
        except Exception as error:  # noqa: BLE001 - whatever it is, all other gangs go on
            for opening in self._openings[openings:]:
                self._state.failed(opening)
            del self._openings[openings:], self._placed[placed:]
            vars(self._ready).pop("unbound", None)  # some are no longer opened
            if gang.gated:
                reason = f"It cannot be judged: {type(error).__name__}: {error}. Look at its workload's fields."
                self._wait(gang, reason, is_known=False)
            return False
        return True

    # Gangs that start.

    def _start(self, gang: Gang) -> None:
        attempts = self._ready.attempts(gang)
        if isinstance(attempts, str):
            self._wait(gang, attempts)
            return
        context = (
            self._state.topologies,
            tuple(one.gang.version for one in attempts),
            tuple(self._kept),
            frozenset((group, self._state.gangs[group].version) for group in self._ready.held),
        )
        unsettled = False
        if self._may_fit(attempts, context):
            made, fixed, unsettled = self._ready.placings(attempts, attempts[0].within)
            if made is not None:
                self._open(attempts, made, fixed=fixed)
                return
            first = attempts[0]
            if first.demand.required is None:
                if not self._ready.unbound or self._now >= gang.last + self._state.options.settle:
                    self._scatter(first)
                    return
                unsettled = True
            elif not (unsettled or any(one.whole for one in attempts)):
                # Others that ask for as much of the same need not be tried now.
                key, counts = _kind(attempts)
                self._failures.setdefault(key, []).append(counts)
        for one in attempts:
            one.gang.tried = None if unsettled else (self._state.inventory.freed, context)
            self._refuse(one, unsettled=unsettled)
        if unsettled:
            self._wake = min(self._wake, self._now + _SOON)

    def _may_fit(self, attempts: Sequence[Attempt], context: object) -> bool:
        if any(one.whole for one in attempts):
            return True
        key, counts = _kind(attempts)
        if any(all(map(int.__le__, failed, counts)) for failed in self._failures.get(key, ())):
            return False
        tried = attempts[0].gang.tried
        if tried is None or tried[1] != context:
            return True
        return any(
            self._helps(tried[0], replace(one, count=1), least(attempts))
            for attempt in attempts
            for one in attempt.demand.members
        )

    def _helps(self, freed: int, one: Member, priority: int | None) -> bool:
        """Whether a Pod has room on a Node on which there has become more since then."""
        known = self._helped.get((freed, one, priority))
        if known is not None:
            return known
        inventory = self._state.inventory
        rows = inventory.freed_since(freed)
        if rows is None:
            helps = True
        else:
            fit = inventory.eligible(one)[0][rows]
            for name, amount in one.requests:
                fit &= inventory.free(name, priority)[rows] >= amount
            helps = bool(fit.any())
        self._helped[freed, one, priority] = helps
        return helps

    # What is opened.

    def _open(self, attempts: Sequence[Attempt], made: Sequence[Placing], *, fixed: bool) -> None:
        names = self._state.inventory.names()
        for attempt, placing in zip(attempts, made, strict=True):
            search = Search(self._ready.ground(set()), attempt.demand)
            rows = [row for rows in search.slots(placing) for row in rows]
            keys = [key for own in attempt.pods for key in own]
            layout, required = search.layout, attempt.goal.required
            outer = placing.level if required is None else required
            nearer = [level for level in layout.nearer(outer) if HOSTNAME not in layout.tiers[level].keys]
            seats = []
            for row in rows:
                levels = (outer, *(one for one in nearer if layout.carries(one)[layout.groups(one)[row]]))
                around, nearest = (layout.address(one, int(layout.groups(one)[row])) for one in (outer, levels[-1]))
                labels = self._state.inventory.labels(row)
                seats.append(Seat(labels, around, nearest if len(levels) > 1 else (), fixed))
            domain = words(seats[0].domain) if seats[0].domain else "the cluster, as near together as there is room"
            about = f"{size(attempt.demand.pods, attempt.demand.accelerators)} in {domain}"
            inner = {
                one: f", next to its neighbours in {words(one)}" if one else ""
                for one in {seat.inner for seat in seats}
            }
            for key, row, seat in zip(keys, rows, seats, strict=True):
                sentence = f"{about}; packed on {names[row]}{inner[seat.inner]}"
                self._opening(attempt, key, seat, names[row], sentence)
            group = attempt.gang.group
            own = [*self._ready.unbound.get(group, (None, []))[1], *(attempt.gang.pods[key] for key in keys)]
            self._ready.unbound[group] = (self._ready.where(group), own)
            self._place(attempt, f"{about}{spread(seat.inner for seat in seats)}")

    def _scatter(self, attempt: Attempt) -> None:
        """Open a gang that only prefers to be together and has no room: it does not wait for any."""
        goal, inventory = attempt.goal, self._state.inventory
        best = next(iter(Search(self._ready.ground(set()), attempt.demand, Terms()).candidates(1)), None)
        rows = np.flatnonzero(np.logical_or.reduce([inventory.eligible(one)[1] for one in attempt.demand.members]))
        labels = dict(inventory.labels(int(rows[0]))) if len(rows) else {}
        labels.pop(HOSTNAME, None)
        about = size(attempt.demand.pods, attempt.demand.accelerators)
        sentence = f"{about} wherever there is room: no {goal.level} holds them together now"
        for key in (key for own in attempt.pods for key in own):
            self._opening(attempt, key, Seat(labels, best.address if best else ()), "", sentence)
        self._place(attempt, sentence)

    def _opening(self, attempt: Attempt, key: PodKey, seat: Seat, host: str, sentence: str) -> None:
        pod = attempt.gang.pods[key]
        steps = [step for step in (*seat.domain, *seat.inner) if NVL_DOMAIN in step.keys]
        cliques = {step.value: self._state.cliques(step.value) for step in steps}
        self._openings.append(Opening(*key, pod.uid, pod.content, attempt.goal, seat, cliques, sentence))
        self._state.opened(pod, host, self._now, fixed=seat.is_fixed)
        self._wake = min(self._wake, self._now + _STUCK_SECONDS)

    def _place(self, attempt: Attempt, message: str) -> None:
        gang = attempt.gang
        gang.tried, gang.kept, gang.reason = None, "", (0.0, "", False)
        waited = max(0.0, self._now - gang.last)
        self._placed.append(Placed(self._subject(gang), f"{message}.", waited, attempt.goal.level, attempt.demand.pods))
        self._hold(gang)

    # Gangs that run, and those of which Pods are still to come.

    def _grow(self, gang: Gang) -> None:
        goal = self._state.goal(gang.group)
        if isinstance(goal, str):
            self._wait(gang, f"{goal}.")
            return
        within = self._ready.domain(gang, goal)
        if within is None:
            self._wait(gang, "the Nodes of its other Pods are gone.")
            return
        context = (
            self._state.topologies,
            gang.version,
            frozenset((group, self._state.gangs[group].version) for group in self._ready.held),
        )
        tried = (self._state.inventory.freed, (context, self._state.inventory.edition))
        if gang.tried != tried:
            unsettled = self._grow_in(gang, goal, within)
            gang.tried = None if unsettled else tried
            gang.refusal = self._why_not_grown(gang, goal, within) if gang.gated else None
        if gang.gated and gang.refusal:
            notice, reason = gang.refusal
            self._notices += [notice] if notice else []
            self._wait(gang, reason)

    def _grow_in(self, gang: Gang, goal: Goal, within: Mask) -> bool:
        """Open what has room of a gang's further Pods, and whether some wait for others that are not bound yet."""
        pods = [pod for pod in gang.gated if len(pod.gates) == 1 and not pod.problem]
        failed: set[Member] = set()
        unsettled = False
        for own in (pods, *([pod] for pod in pods)) if len(pods) > 1 else (pods,):
            if not own or not all(gang.pods[pod.key].is_gated for pod in own) or own[0].demand in failed:
                continue
            attempt = self._ready.attempt(gang, goal, [pod.key for pod in own], ())
            made, fixed, waits = None, False, False
            for where in self._ready.places(gang, goal, within, own):
                attempt = replace(attempt, within=where)
                made, fixed, waits = self._ready.placings([attempt], where)
                if made is not None or waits:
                    break
            if made is not None:
                self._open([attempt], made, fixed=fixed)
            elif waits:
                unsettled = True
                self._wake = min(self._wake, self._now + _SOON)
            elif goal.required is None:
                self._scatter(attempt)
            elif len(own) == 1:
                failed.add(own[0].demand)
        return unsettled

    def _why_not_grown(self, gang: Gang, goal: Goal, within: Mask) -> tuple[Notice | None, str]:
        """Why further Pods of a gang wait, with what people have to know if that is for ever."""
        attempt = self._ready.attempt(gang, goal, [pod.key for pod in (*gang.gated, *gang.anchors)], ())
        ground = self._ready.ground({gang.group})
        domain = words(Search(ground, attempt.demand, Terms(within)).address(within))
        count = counted(len(gang.gated), "Pod")
        if next(Search(ground, attempt.demand, Terms(within, empty=True)).placing(), None) is None:
            text = (
                f"{domain}, where its other Pods run, has no Nodes any more that hold all of them. "
                "Bring its Nodes back, or delete the workload and create it again."
            )
            notice = Notice(self._subject(gang), "DomainLost", f"{count} cannot start: {text}")
            return notice, f"{domain} cannot hold its Pods any more."
        broken = next((pod for pod in gang.gated if pod.problem), None)
        if broken is not None:
            return None, f"Pod {broken.key[1]} cannot be placed: {broken.problem}."
        others = sorted({gate for pod in gang.gated for gate in pod.gates if gate != GATE})
        waits = "waits" if len(gang.gated) == 1 else "wait"
        behind = f"{waits} behind other gates, too: {', '.join(others)}" if others else f"{waits} for room there"
        return None, f"others of its Pods run in {domain}, and {count} {behind}."

    def _hold(self, gang: Gang) -> None:
        goal, given = self._state.goal(gang.group), self._ready.needs(gang)
        if isinstance(goal, str) or not given or not gang.anchors or goal.required is None:
            return
        members = self._ready.later(gang, goal, given)
        ready = [pod.ready for pod in gang.anchors]
        until = max(ready) + KEPT_SECONDS if all(ready) else inf
        if not members or until <= self._now:
            self._state.staged.discard(gang.group)
            return
        within = self._ready.domain(gang, goal)
        if within is None:
            return
        self._wake = min(self._wake, until)
        free = self._state.inventory.free
        if (
            gang.held is None
            or gang.held[0] != gang.version
            or any(
                len(column) != self._state.inventory.size or (column > free(name))[within].any()
                for name, column in gang.held[1].items()
            )
        ):
            asked = replace(demand(gang, goal, members), preferred=None)
            ground = self._ready.ground({gang.group})
            nearest_first = self._ready.places(gang, goal, within, ())
            made = next(filter(None, (choose(ground, [asked], Terms(where)) for where in nearest_first)), None)
            gang.held = None if made is None else (gang.version, taken({}, made, self._state.inventory.size))
        if gang.held is not None:
            self._ready.held[gang.group] = gang.held[1]

    # Why gangs wait.

    def _refuse(self, attempt: Attempt, *, unsettled: bool) -> None:
        """Say why a gang waits that does not fit, and keep a domain free for it if it has waited for too long."""
        gang, goal, now = attempt.gang, attempt.goal, self._now
        patient = gang.since + self._state.options.patience
        about = size(attempt.demand.pods, attempt.demand.accelerators)
        kept = ""
        if now < patient:
            self._wake = min(self._wake, patient)
        elif goal.topology.pool not in self._pools and goal.required is not None:
            kept = self._keep(attempt)
        if unsettled:
            self._wait(gang, f"{about} wait until Pods that start in the same {goal.level} are bound.")
            return
        if now - gang.reason[0] >= _REASON_SECONDS and self._reasons:
            self._reasons -= 1
            search = Search(self._ready.ground({gang.group}), attempt.demand, Terms(attempt.within))
            overdue = now >= patient and next(search.placing(), None) is not None
            gang.reason = (now, self._why(attempt, search, about), overdue)
        elif not gang.reason[1]:
            self._wake = min(self._wake, now + _SOON)
        _, reason, overdue = gang.reason
        self._wait(gang, reason or f"no {goal.level} has room for {about} now.", kept=kept, overdue=overdue)

    def _why(self, attempt: Attempt, search: Search, about: str) -> str:
        level = attempt.goal.level
        candidates = search.candidates(1)
        if not candidates:
            keys = " or ".join(attempt.goal.tiers[search.required].keys)
            return f"no Node that its Pods may run on has the label {keys}."
        best = candidates[0]
        gpus = f" and {best.free} of {counted(best.total, 'GPU')} free" if best.total else ""
        empty = Search(self._ready.ground(set()), attempt.demand, Terms(attempt.within, empty=True))
        if next(empty.placing(), None) is None:
            largest = empty.candidates(1)[0]
            return (
                f"no {level} can hold {about}, even if nothing else ran: the largest, {words(largest.address)}, "
                f"holds {counted(largest.pods, 'Pod')}. Require a level above {level}, or ask for less."
            )
        return (
            f"no {level} has room for {about} now: the best, {words(best.address)}, has room for "
            f"{counted(best.pods, 'Pod')}{gpus}."
        )

    def _keep(self, attempt: Attempt) -> str:
        """Keep the domain free for a gang in which least must still be freed. Returns the domain; empty for none."""
        gang, inventory = attempt.gang, self._state.inventory
        search = Search(self._ready.ground({gang.group}), attempt.demand, Terms(attempt.within))
        layout, required = search.layout, search.required
        row = inventory.row(gang.kept) if gang.kept else -1
        if row < 0 or not layout.present[row]:
            row = -1
            for candidate in search.candidates():
                rows = search.inside(candidate.address)
                empty = Search(self._ready.ground(set()), attempt.demand, Terms(rows, empty=True))
                if next(empty.placing(), None) is not None:
                    row = int(np.flatnonzero(rows)[0])
                    break
        gang.kept = inventory.names()[row] if row >= 0 else ""
        if row < 0:
            return ""
        group = int(layout.groups(required)[row])
        self._ready.closed = self._ready.closed | layout.rows(required, group)
        self._pools.add(attempt.goal.topology.pool)
        self._kept.append(gang.kept)
        return words(layout.address(required, group))

    def _wait(self, gang: Gang, reason: str, *, kept: str = "", overdue: bool = False, is_known: bool = True) -> None:
        """Enter a gang into the queue. is_known: whether its workload can be read."""
        goal = self._state.goal(gang.group)
        level, is_required = ("", False) if isinstance(goal, str) else (goal.level, goal.required is not None)
        existing = len(gang.pods)
        lacking = 0 if gang.anchors or gang.plan or not is_known else missing(gang, self._ready.needs(gang) or ())
        self._queue.append(
            Waiting(
                self._subject(gang), reason[:1].upper() + reason[1:], gang.since, level, is_required,
                existing + lacking, existing, kept=kept, overdue=overdue,
            )
        )  # fmt: skip

    def _subject(self, gang: Gang) -> Subject:
        """The root as the object of an Event; the Pods' controller, or the Pod itself, where the root is not known."""
        key = gang.group.root
        obj = self._state.root(key)
        if obj is not None:
            uid = str(mapping(obj, "metadata").get("uid"))
            return Subject(str(obj.get("apiVersion")), key.kind, key.namespace, key.name, uid)
        pod = next(iter(gang.pods.values()))
        owner = controller_reference(pod.content)
        if owner is None:
            return Subject("v1", "Pod", *pod.key, pod.uid)
        version, kind, name, uid = (str(owner.get(field)) for field in ("apiVersion", "kind", "name", "uid"))
        return Subject(version, kind, key.namespace, name, uid)


def _kind(attempts: Sequence[Attempt]) -> tuple[object, tuple[int, ...]]:
    """What gangs ask for and where, but for the number of Pods, and these numbers."""
    return (
        tuple(
            (tuple(replace(member, count=0) for member in one.demand.members), one.demand.tiers, one.demand.required,
             one.demand.preferred, b"" if one.within is None else one.within.tobytes(), one.goal.near)
            for one in attempts
        ),
        tuple(member.count for one in attempts for member in one.demand.members),
    )  # fmt: skip
