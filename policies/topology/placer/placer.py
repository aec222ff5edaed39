"""The placer: which gangs start now, where each of their Pods belongs, and why the others wait.

A gang with a required level starts when all of its Pods exist, ours is the last gate on each, and all fit, Node by
Node, in one domain. Gangs are tried by priority, then by age. One that does not fit lets others pass, until it has
waited for longer than the patience: then the domain in which least must still be freed is kept free for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from policies.cached import cached_property
from policies.engine.request import JsonObject, controller_reference, mapping
from policies.topology.choice.choice import Ground, Placing, Search, Terms, choose, taken
from policies.topology.choice.crowd import Crowd, is_safe
from policies.topology.gang.address import called
from policies.topology.gang.demand import Cluster, member
from policies.topology.gang.gang import Gang as Demand
from policies.topology.gang.gang import Member
from policies.topology.gang.size import excess
from policies.topology.gate import GATE, PLACEMENT
from policies.topology.nodes.table import Integers, Mask
from policies.topology.nodes.usage import PodKey
from policies.topology.placer import root
from policies.topology.placer.opening import Goal, Seat, patch, placement_of
from policies.topology.placer.root import Need, needs
from policies.topology.placer.state import Gang, Group, Options, Pod, State
from policies.topology.topology import natural
from policies.vocabulary.keys import HOSTNAME
from policies.vocabulary.nvlink import NVL_DOMAIN

__all__ = ["ROOT_KINDS", "Look", "Notice", "Opening", "Options", "Placed", "Placer", "Subject", "Waiting"]

ROOT_KINDS: Final = root.KINDS
"""The kinds whose objects `Placer.put_root` needs."""

STUCK_SECONDS: Final = 60.0
"""After so long an opened Pod that is not bound is told of. A scheduler binds within seconds."""

KEPT_SECONDS: Final = 600.0
"""How long room for a later stage is kept after the earlier one is Ready."""

UNSEEN_SECONDS: Final = 15.0
"""How long a root of a known kind may take to be seen after its last Pod; then its Pods are all that there are."""


class Subject(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Opening(Struct, frozen=True):
    """A Pod whose gate is to be opened. patch: a JSON Patch with tests of its uid and of the gate."""

    namespace: str
    name: str
    uid: str
    patch: tuple[JsonObject, ...]


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
    position: int
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


class _Attempt(Struct):
    """A gang that may start now. pods: those to open, by member of `demand`. whole: the gang with all that is to come.

    within: the Nodes on which it has to be; None for all. leaving: Pods of older revisions, for `whole` only.
    """

    gang: Gang
    goal: Goal
    pods: tuple[tuple[Pod, ...], ...]
    demand: Demand
    whole: tuple[Demand, ...] = ()
    within: Mask | None = None
    leaving: tuple[PodKey, ...] = ()


class Placer(State):
    """The state is made of what was put; whoever puts the same comes to the same decisions."""

    def failed(self, opening: Opening) -> None:
        """Take back an opening that was not carried out."""
        pod = self.pods.get((opening.namespace, opening.name))
        if pod is not None and pod.uid == opening.uid and pod.is_open:
            self.gated(pod)

    def forget_openings(self) -> None:
        """Count as gated what was to be opened and is not seen opened yet: another process has led meanwhile."""
        for key in [*self.open]:
            pod = self.pods[key]
            if PLACEMENT not in pod.content["metadata"]["annotations"]:
                self.gated(pod)

    def sizes(self) -> Mapping[str, int]:
        """How much is known, by kind."""
        return {"node": len(self.inventory.nodes), "pod": len(self.inventory.pods), "gang": len(self.gangs)}

    def look(self, now: float) -> Look:
        """What is to be done now. It counts on its openings being carried out. now: seconds since the epoch."""
        return _Round(self, now).look()


class _Round:
    """One look."""

    def __init__(self, state: Placer, now: float) -> None:
        self._state = state
        self._now = now
        self._openings: list[Opening] = []
        self._placed: list[Placed] = []
        self._queue: list[Waiting] = []
        self._notices: list[Notice] = []
        self._wake = inf
        self._held: dict[Any, Mapping[str, Integers]] = {}
        # The Nodes that are kept free for gangs that have waited for too long, and for which pools.
        self._closed: Mask = np.zeros(state.inventory.size, bool)
        self._pools: set[object] = set()
        self._failures: set[object] = set()

    def look(self) -> Look:
        """What is to be done."""
        gangs = [self._state.gangs[group] for group in self._state.active]
        for group in [*self._state.staged]:
            if group in self._state.gangs:
                self._hold(self._state.gangs[group])
            else:
                self._state.staged.discard(group)
        self._astray()
        for gang in gangs:
            self._watch(gang)
        waiting = sorted((gang for gang in gangs if gang.gated), key=_order)
        # Those that run already come first: their Pods can go nowhere else.
        for gang in [gang for gang in waiting if gang.anchors]:
            self._grow(gang)
        for gang in [gang for gang in waiting if not gang.anchors]:
            if gang.gated and not gang.anchors:  # it may have been placed with another one of its root
                self._start(gang)
        queue = tuple(
            replace(one, position=n, behind=self._queue[n - 2].about.name if n > 1 else "")
            for n, one in enumerate(self._queue, 1)
        )
        return Look(tuple(self._openings), tuple(self._placed), queue, tuple(self._notices), self._wake)

    # Who may start.

    def _start(self, gang: Gang) -> None:
        """Open a gang none of whose Pods is placed, or say why it waits."""
        goal = self._state.goal(gang.group)
        if isinstance(goal, str):
            self._wait(gang, None, f"{goal}.")
            return
        chain = self._chain(gang, goal)
        attempts = []
        for one in chain:
            made = self._ready(one)
            if isinstance(made, str):
                own = "" if one is gang else "it starts together with others of its workload: "
                self._wait(gang, goal, f"{own}{made}")
                return
            attempts.append(made)
        if absent := self._absent(gang, goal):
            self._wait(
                gang, goal, f"it starts together with others of its workload: 0 of {_counted(absent, 'Pod')} exist."
            )
            return
        self._attempt(attempts)

    def _chain(self, gang: Gang, goal: Goal) -> list[Gang]:
        """The gang with those of the same root that have to be inside its domain or around it, wider ones first."""
        if goal.required is None:
            return [gang]
        chain = []
        for other in self._state.family(gang.group.root):
            own = self._state.goal(other.group)
            is_kin = other.group.root == gang.group.root and other.group.revision == gang.group.revision
            if is_kin and not isinstance(own, str) and own.tiers == goal.tiers and other.gated and not other.anchors:
                chain += [(own.required, other)] if own.required is not None else []
        return [other for _, other in sorted(chain, key=lambda pair: (pair[0], pair[1].group.annotations))]

    def _absent(self, gang: Gang, goal: Goal) -> int:
        """How many Pods are due of gangs that belong inside the domain or around it, and of which there is none yet."""
        key = gang.group.root
        obj, row = self._state.root(key), self._state.options.workloads.get((key.group, key.kind))
        if goal.required is None or obj is None or row is None:
            return 0
        absent = 0
        for annotations in {placement_of(template) for _, template in row.pods(obj)} - {gang.group.annotations}:
            group = replace(gang.group, annotations=annotations)
            other = self._state.goal(group) if annotations and group not in self._state.gangs else ""
            if not isinstance(other, str) and other.tiers == goal.tiers and other.required is not None:
                given = needs(obj, row, annotations) or ()
                absent += sum(need.count for need in given if not (need.stage or need.phase))
        return absent

    def _ready(self, gang: Gang) -> _Attempt | str:
        """The gang as it may start, or why it waits for Pods, gates or its root."""
        goal = self._state.goal(gang.group)
        assert not isinstance(goal, str)  # noqa: S101 - `_chain` has those with a placement
        gated = gang.gated
        broken = next((pod for pod in gated if pod.problem), None)
        if broken is not None:
            return f"Pod {broken.key[1]} cannot be placed: {broken.problem}."
        if too_much := excess({pod.demand: pod.demand for pod in gated}):
            return f"it has {too_much}."
        given = self._needs(gang)
        last = max(pod.created for pod in gang.pods.values())
        if given is None:
            known = (gang.group.root.group, gang.group.root.kind) in ROOT_KINDS and self._state.root(
                gang.group.root
            ) is None
            due = last + (UNSEEN_SECONDS if known else self._state.options.settle)
            if self._now < due:
                self._wake = min(self._wake, due)
                return f"{len(gated)} Pods exist, and it is not known yet whether more come."
            given = []
        elif lacking := _lacking(gang, given):
            due = min(pod.created for pod in gang.pods.values()) + self._state.options.settle
            if goal.required is not None or self._now < due:
                self._wake = min(self._wake, due) if goal.required is None else self._wake
                total = len(gang.pods) + lacking
                return f"{len(gang.pods)} of {total} Pods exist."
        others = sorted({gate for pod in gated for gate in pod.gates if gate != GATE})
        if others:
            held = [pod for pod in gated if len(pod.gates) > 1]
            return f"{len(held)} of its Pods wait behind other gates, too: {', '.join(others)}."
        return self._attempt_of(gang, goal, gated, given)

    def _attempt_of(self, gang: Gang, goal: Goal, pods: Sequence[Pod], given: Sequence[Need]) -> _Attempt:
        """The attempt to open some Pods of a gang now."""
        members: dict[Member, list[Pod]] = {}
        for pod in pods:
            members.setdefault(_within(pod.demand, goal), []).append(pod)
        demand = _demand(gang, goal, [replace(one, count=len(own)) for one, own in members.items()])
        whole, leaving = self._whole(gang, goal, given, demand)
        return _Attempt(
            gang, goal, tuple(map(tuple, members.values())), demand, whole, self._around(gang, goal), leaving
        )

    def _whole(
        self, gang: Gang, goal: Goal, given: Sequence[Need], demand: Demand
    ) -> tuple[tuple[Demand, ...], tuple[PodKey, ...]]:
        """What has to fit into the domain beside the Pods that are there, and the Pods of older revisions."""
        scaler = self._state.scaler(gang.group.root)
        replicas = mapping(scaler, "spec").get("replicas", 1) if scaler is not None else 0
        phases: dict[int, list[Member]] = {}
        for need in given:
            live = sum(pod.role == need.role for pod in gang.pods.values())
            count = max(need.count, replicas if isinstance(replicas, int) else 0, live)
            own = member(
                need.template, need.role, count, Cluster(self._state.options.facts, self._state.options.accelerators),
                namespace=gang.group.root.namespace,
            )  # fmt: skip
            if isinstance(own, Member) and count:
                phases.setdefault(need.phase, []).append(_within(own, goal))
        # The domain is given; what there is beside the Pods has to fit into it, however far it is spread.
        wholes = tuple(replace(_demand(gang, goal, own), required=None, preferred=None) for own in phases.values())
        older = (
            tuple(
                pod.key
                for other in self._state.family(gang.group.root)
                if other is not gang
                for pod in other.pods.values()
                if pod.node
            )
            if scaler is not None or gang.group.root.kind == "StatefulSet"
            else ()
        )
        return tuple(one for one in wholes if one.pods != demand.pods or older), older

    def _needs(self, gang: Gang) -> list[Need] | None:
        """What the root of a gang needs of its placement; None if that is not known."""
        key = gang.group.root
        if key.kind == "Pod" and not key.group:
            return []
        obj, row = self._state.root(key), self._state.options.workloads.get((key.group, key.kind))
        return None if obj is None or row is None else needs(obj, row, gang.group.annotations)

    def _around(self, gang: Gang, goal: Goal) -> Mask | None:
        """The Nodes around or inside the domains of other gangs of the root that are placed; None for all."""
        within: Mask | None = None
        if goal.required is None:
            return None
        layout = self._state.layouts.of(goal.tiers)
        for other in self._state.family(gang.group.root):
            own = self._state.goal(other.group)
            if other is gang or other.group.root != gang.group.root or isinstance(own, str) or own.tiers != goal.tiers:
                continue
            if own.required is not None and (rows := self._anchored(other, own)) is not None:
                groups = layout.groups(min(goal.required, own.required))
                around = np.isin(groups, groups[rows]) & layout.present
                within = around if within is None else within & around
        return within

    def _anchored(self, gang: Gang, goal: Goal) -> Mask | None:
        """The Nodes of the domain in which a gang is; None if none of its Pods is placed on a Node that there is."""
        layout, inventory = self._state.layouts.of(goal.tiers), self._state.inventory
        if goal.required is None:
            return layout.present
        rows: list[int] = []
        for pod in gang.anchors:
            row = inventory.row(pod.node or pod.host)
            if row >= 0 and layout.present[row]:
                rows.append(row)
            elif pod.is_written and not pod.node:  # the packed Node is gone, and the affinity tells the domain
                rows += np.flatnonzero(inventory.eligible(pod.demand)[1] & layout.present)[:1].tolist()
        if not rows:
            return None
        ((group, _),) = Counter(int(layout.groups(goal.required)[row]) for row in rows).most_common(1)
        return layout.rows(goal.required, group)

    # What becomes of an attempt.

    def _attempt(self, attempts: Sequence[_Attempt]) -> None:
        """Open gangs, each inside the domain of the one before, if they fit; else say why they wait."""
        state, now = self._state, self._now
        first = attempts[0]
        what = tuple(
            (one.demand.members, one.goal.tiers, one.demand.required, one.demand.preferred) for one in attempts
        )
        kept = tuple(sorted(map(str, self._pools)))
        around = b"" if first.within is None else first.within.tobytes()
        there = (state.inventory.freed, tuple(one.gang.version for one in attempts), kept, len(self._held))
        failure = (what, around, kept)
        unsettled = False
        if first.gang.tried != there and failure not in self._failures:
            within = ~self._closed if first.within is None else first.within & ~self._closed
            made, fixed, unsettled = self._placings(attempts, within)
            if made is not None:
                self._open(attempts, made, fixed=fixed)
                return
            if first.demand.required is None:
                self._scatter(first)
                return
            self._failures.add(failure)
        for one in attempts:
            one.gang.tried = () if unsettled else there
            self._refuse(one, unsettled=unsettled)
        if unsettled:
            self._wake = min(self._wake, now + 1.0)

    def _placings(self, attempts: Sequence[_Attempt], within: Mask) -> tuple[list[Placing] | None, bool, bool]:
        """Where gangs fit, and whether their Pods have to run on the Nodes on which they are packed.

        And whether they would fit but for Pods that were opened and are not bound yet, which may be bound anywhere.
        """
        groups = {one.gang.group for one in attempts}
        ground = self._ground(groups)
        by_demand = {id(one.demand): one for one in attempts}
        unsettled = False
        for priority in self._priorities(attempts):

            def holds(demand: Demand, level: int, group: int, priority: int | None = priority) -> bool:
                nonlocal unsettled
                own = by_demand[id(demand)]
                rows = self._state.layouts.of(demand.tiers).rows(level, group) & within
                terms = Terms(rows, priority, own.leaving)
                if any(next(Search(ground, whole, terms).placing(), None) is None for whole in own.whole):
                    return False
                if self._order_of(ground, [(own, rows)], priority) is not None:
                    return True
                unsettled = True
                return False

            placings = choose(ground, [one.demand for one in attempts], Terms(within, priority), holds)
            if placings is not None:
                layouts = self._state.layouts
                wheres = [
                    (one, layouts.of(one.demand.tiers).rows(made.level, made.group) & within)
                    for one, made in zip(attempts, placings, strict=True)
                ]
                fixed = self._order_of(ground, wheres, priority)
                return (None, False, True) if fixed is None else (placings, fixed, False)
        return None, False, unsettled

    def _priorities(self, attempts: Sequence[_Attempt]) -> Iterator[int | None]:
        """None, and then the priority below which Pods make room, if the gangs may preempt others."""
        yield None
        members = [one for attempt in attempts for one in attempt.demand.members]
        priorities = [one.priority for one in members]
        known = [priority for priority in priorities if priority is not None]
        if len(known) == len(priorities) and all(one.preempts for one in members):
            least, free = min(known), self._state.inventory.free
            names = {name for one in members for name, _ in one.requests}
            if any(not np.array_equal(free(name, least), free(name)) for name in names):
                yield least

    def _order_of(
        self, ground: Ground, wheres: Sequence[tuple[_Attempt, Mask]], priority: int | None
    ) -> bool | None:
        """Whether Pods have to be bound where they are packed, since they do not fit in every order of binding.

        None: they have to wait for others that are not bound yet, and may be bound anywhere. wheres: the gangs that are
        opened together, each with the Nodes on which its Pods may be.
        """
        rows = np.logical_or.reduce([where for _, where in wheres])
        others = [(where, pods) for where, pods in self._unbound.values() if (where & rows).any()]
        eligible = self._state.inventory.eligible
        loose = [(pod, where) for where, pods in others for pod in pods if not pod.fixed]
        crowds = [
            Crowd(one, one.count, eligible(one)[0] & where)
            for attempt, where in wheres
            for one in attempt.demand.members
        ]
        is_kept = any((column[rows] > 0).any() for column in ground.held.values())
        fixed = is_kept or any(pod.fixed for _, pods in others for pod in pods)
        if not loose:
            return fixed or not is_safe(crowds, lambda name: ground.free(name, priority))
        counts = Counter((pod.demand, id(where)) for pod, where in loose)
        by_id = {id(where): where for where, _ in others}
        crowds += [Crowd(one, count, eligible(one)[0] & by_id[where]) for (one, where), count in counts.items()]
        leaving = tuple(pod.key for pod, _ in loose)
        is_free = not fixed and is_safe(crowds, lambda name: ground.free(name, priority, leaving))
        return False if is_free else None

    @cached_property
    def _unbound(self) -> dict[Group, tuple[Mask, list[Pod]]]:
        """The Pods that were opened and are not bound yet, by gang, with the Nodes on which they may be bound."""
        found: dict[Group, list[Pod]] = {}
        for key, since in self._state.open.items():
            pod = self._state.pods[key]
            if pod.host and self._now - (since or self._now) < STUCK_SECONDS:
                found.setdefault(pod.group, []).append(pod)
        return {group: (self._where(group), pods) for group, pods in found.items()}

    def _where(self, group: Group) -> Mask:
        """The Nodes on which opened Pods of a gang may be bound."""
        goal = self._state.goal(group)
        own = None if isinstance(goal, str) else self._anchored(self._state.gangs[group], goal)
        return np.ones(self._state.inventory.size, bool) if own is None else own

    def _ground(self, own: set[Any]) -> Ground:
        """The Nodes, with what is kept for the later stages of other gangs."""
        total: dict[str, Integers] = {}
        for group, held in self._held.items():
            if group not in own:
                for resource, column in held.items():
                    total[resource] = total[resource] + column if resource in total else column
        return Ground(self._state.inventory, self._state.layouts, total)

    def _open(self, attempts: Sequence[_Attempt], made: Sequence[Placing], *, fixed: bool) -> None:
        """Open the Pods of gangs on the Nodes of their placings."""
        for attempt, placing in zip(attempts, made, strict=True):
            search = Search(self._ground(set()), attempt.demand)
            rows = [row for rows in search.slots(placing) for row in rows]
            pods = [pod for own in attempt.pods for pod in own]
            seats = [
                _seat(search, placing, attempt.goal, row, self._state.inventory.labels(row), fixed=fixed)
                for row in rows
            ]
            domain = _words(seats[0].domain) if seats[0].domain else "the cluster, as near together as there is room"
            about = f"{_size(attempt.demand.pods, attempt.demand.accelerators)} in {domain}"
            names = self._state.inventory.names()
            for pod, row, seat in zip(pods, rows, seats, strict=True):
                inner = f", next to its neighbours in {_words(seat.inner)}" if seat.inner else ""
                self._opening(attempt, pod, seat, names[row], f"{about}; packed on {names[row]}{inner}")
            group = attempt.gang.group
            now = [self._state.pods[pod.key] for pod in pods]
            self._unbound[group] = (self._where(group), [*self._unbound.get(group, (None, []))[1], *now])
            self._place(attempt, f"{about}{_spread(seats)}")

    def _scatter(self, attempt: _Attempt) -> None:
        """Open a gang that only prefers to be together and has no room: it does not wait."""
        goal, inventory = attempt.goal, self._state.inventory
        best = next(iter(Search(self._ground(set()), attempt.demand, Terms()).candidates()), None)
        rows = np.flatnonzero(np.logical_or.reduce([inventory.eligible(one)[1] for one in attempt.demand.members]))
        labels = (
            {key: value for key, value in inventory.labels(int(rows[0])).items() if key != HOSTNAME}
            if len(rows)
            else {}
        )
        size = _size(attempt.demand.pods, attempt.demand.accelerators)
        sentence = f"{size} wherever there is room: no {goal.level} holds them together now"
        for pod in (pod for own in attempt.pods for pod in own):
            self._opening(attempt, pod, Seat(labels, best.address if best else ()), "", sentence)
        self._place(attempt, sentence)

    def _opening(self, attempt: _Attempt, pod: Pod, seat: Seat, host: str, sentence: str) -> None:
        values = (value for step in (*seat.domain, *seat.inner) if NVL_DOMAIN in step.keys for value in step.values)
        cliques = {value: self._state.cliques(value) for value in values}
        written = patch(pod.content, attempt.goal, seat, cliques, sentence)
        self._openings.append(Opening(*pod.key, pod.uid, tuple(written)))
        self._state.opened(pod, host, self._now, fixed=seat.is_fixed)
        self._wake = min(self._wake, self._now + STUCK_SECONDS)

    def _place(self, attempt: _Attempt, message: str) -> None:
        gang = attempt.gang
        gang.tried, gang.kept, gang.reason = (), "", (0.0, "")
        last = max(pod.created for pod in gang.pods.values())
        about = self._subject(gang)
        self._placed.append(
            Placed(about, f"{message}.", max(0.0, self._now - last), attempt.goal.level, attempt.demand.pods)
        )
        self._hold(gang)

    # Gangs that run, wait or come in stages.

    def _grow(self, gang: Gang) -> None:
        """Open further Pods of a gang that is placed, each as there is room in its domain."""
        goal = self._state.goal(gang.group)
        if isinstance(goal, str):
            self._wait(gang, None, f"{goal}.")
            return
        pods = [pod for pod in gang.gated if len(pod.gates) == 1 and not pod.problem]
        within = self._anchored(gang, goal)
        if within is None:
            self._wait(gang, goal, "the Nodes of its other Pods are gone.")
            return
        for own in (pods, *([pod] for pod in pods)):
            left = [pod for pod in own if self._state.pods[pod.key].is_gated]
            if not left or (len(own) == len(pods) > 1 and len(left) < len(pods)):
                continue
            attempt = replace(self._attempt_of(gang, goal, left, ()), within=within)
            made, fixed, _ = self._placings([attempt], within)
            if made is not None:
                self._open([attempt], made, fixed=fixed)
            elif goal.required is None:
                self._scatter(attempt)
        if not gang.gated:
            return
        attempt = self._attempt_of(gang, goal, [*gang.gated, *gang.anchors], ())
        ground = self._ground({gang.group})
        domain = _words(Search(ground, attempt.demand, Terms(within)).address(within))
        count = len(gang.gated)
        if next(Search(ground, attempt.demand, Terms(within, empty=True)).placing(), None) is None:
            text = (
                f"{domain}, where its other Pods run, has no Nodes any more that hold all of them. "
                "Bring its Nodes back, or delete the workload and create it again."
            )
            self._notices.append(
                Notice(self._subject(gang), "DomainLost", f"{_counted(count, 'Pod')} cannot start: {text}")
            )
            self._wait(gang, goal, f"{domain} cannot hold its Pods any more.")
            return
        others = sorted({gate for pod in gang.gated for gate in pod.gates if gate != GATE})
        behind = f"wait behind other gates, too: {', '.join(others)}" if others else "wait for room there"
        self._wait(gang, goal, f"others of its Pods run in {domain}, and {_counted(count, 'Pod')} {behind}.")

    def _refuse(self, attempt: _Attempt, *, unsettled: bool) -> None:
        """Say why a gang waits that does not fit, and keep a domain free for it if it has waited for too long."""
        gang, goal, now = attempt.gang, attempt.goal, self._now
        since = min(pod.created for pod in gang.gated)
        patient = since + self._state.options.patience
        ground = self._ground({gang.group})
        search = Search(ground, attempt.demand, Terms(attempt.within))
        if now >= patient and goal.topology.pool not in self._pools:
            self._keep(attempt, search)
        elif now < patient:
            self._wake = min(self._wake, patient)
        size = _size(attempt.demand.pods, attempt.demand.accelerators)
        if unsettled:
            self._wait(gang, goal, f"{size} wait until Pods that start in the same {goal.level} are bound.")
            return
        if now - gang.reason[0] >= _REASON_SECONDS:
            gang.reason = (now, self._why(attempt, search, size))
        kept = ""
        if gang.kept and (row := self._state.inventory.row(gang.kept)) >= 0:
            kept = _words(search.layout.address(search.required, int(search.layout.groups(search.required)[row])))
        overdue = (
            now >= patient and next(Search(ground, attempt.demand, Terms(attempt.within)).placing(), None) is not None
        )
        self._wait(gang, goal, gang.reason[1], kept=kept, overdue=overdue)

    def _why(self, attempt: _Attempt, search: Search, size: str) -> str:
        """The reason why a gang does not fit, with the domain in which most of it does."""
        level = attempt.goal.level
        candidates = search.candidates()
        if not candidates:
            keys = " or ".join(attempt.goal.tiers[search.required].keys)
            return f"no Node that its Pods may run on has the label {keys}."
        best = candidates[0]
        gpus = f" and {best.free} of {_counted(best.total, 'GPU')} free" if best.total else ""
        empty = Search(self._ground(set()), attempt.demand, Terms(attempt.within, empty=True))
        if next(empty.placing(), None) is None:
            largest = empty.candidates()[0]
            return (
                f"no {level} can hold {size}, even if nothing else ran: the largest, {_words(largest.address)}, "
                f"holds {_counted(largest.pods, 'Pod')}. Require a level above {level}, or ask for less."
            )
        return (
            f"no {level} has room for {size} now: the best, {_words(best.address)}, has room for "
            f"{_counted(best.pods, 'Pod')}{gpus}."
        )

    def _keep(self, attempt: _Attempt, search: Search) -> None:
        """Keep the domain free for a gang in which least must still be freed."""
        gang, layout, inventory = attempt.gang, search.layout, self._state.inventory
        row = inventory.row(gang.kept) if gang.kept else -1
        if row < 0 or not layout.present[row]:
            row = -1
            for candidate in search.candidates():
                rows = search.inside(candidate.address)
                inside = Search(self._ground(set()), attempt.demand, Terms(rows, empty=True))
                if next(inside.placing(), None) is not None:
                    row = int(np.flatnonzero(rows)[0])
                    break
        if row >= 0:
            gang.kept = inventory.names()[row]
            self._closed = self._closed | layout.rows(search.required, int(layout.groups(search.required)[row]))
            self._pools.add(attempt.goal.topology.pool)

    def _hold(self, gang: Gang) -> None:
        """Keep room for the Pods of a gang that come only after those that are placed have started."""
        goal, given = self._state.goal(gang.group), self._needs(gang)
        if isinstance(goal, str) or not given or not gang.anchors or goal.required is None:
            return
        live = Counter(pod.role for pod in gang.pods.values())
        left = [
            need for need in given if need.count > live[need.role] and (need.stage or need.single or len(given) > 1)
        ]
        later = [need for need in left if need.single or need.stage > min(one.stage for one in given)]
        ready = [pod.ready for pod in gang.anchors]
        until = inf if not all(ready) else max(ready) + KEPT_SECONDS
        within = self._anchored(gang, goal)
        if not later or until <= self._now or within is None:
            if not later or until <= self._now:
                self._state.staged.discard(gang.group)
            return
        self._wake = min(self._wake, until)
        cluster = Cluster(self._state.options.facts, self._state.options.accelerators)
        made = [
            member(need.template, need.role, need.count - live[need.role], cluster, namespace=gang.group.root.namespace)
            for need in later
        ]
        members = [_within(one, goal) for one in made if isinstance(one, Member)]
        ground = self._ground({gang.group})
        placings = (
            choose(ground, [replace(_demand(gang, goal, members), preferred=None)], Terms(within)) if members else None
        )
        if placings is not None:
            self._held[gang.group] = taken({}, placings, self._state.inventory.size)

    def _watch(self, gang: Gang) -> None:
        """Tell of Pods that were opened and are not bound, and of those that are bound outside of their domain."""
        for pod in gang.pods.values():
            if pod.key not in self._state.open:
                continue
            since = self._state.open[pod.key] or self._now
            self._state.open[pod.key] = since
            if self._now < since + STUCK_SECONDS:
                self._wake = min(self._wake, since + STUCK_SECONDS)
                continue
            conditions = mapping(pod.content, "status").get("conditions") or ()
            cause = (
                next((c.get("message") for c in conditions if c.get("type") == "PodScheduled"), "")
                or "no scheduler says why"
            )
            text = f"was opened {STUCK_SECONDS:.0f} s ago or more and is not bound: {cause.rstrip('.')}. "
            remedy = "Delete the Pod: its controller makes another one, for which a place is chosen anew."
            about = Subject("v1", "Pod", *pod.key, pod.uid)
            self._notices.append(Notice(about, "Stuck", f"Pod {pod.key[1]} {text}{remedy}"))

    def _astray(self) -> None:
        """Tell of Pods that were bound outside of the domain of their gang."""
        for pod in [self._state.pods[key] for key in self._state.bound if key in self._state.pods]:
            gang, goal = self._state.gangs[pod.group], self._state.goal(pod.group)
            within = None if isinstance(goal, str) or goal.required is None else self._anchored(gang, goal)
            row = self._state.inventory.row(pod.node)
            if within is not None and row >= 0 and not within[row]:
                text = f"Pod {pod.key[1]} was bound to Node {pod.node}, outside of the domain of the others. "
                remedy = "Something else than the placer opened or bound it; delete it to have it placed with them."
                self._notices.append(Notice(self._subject(gang), "OutsideDomain", f"{text}{remedy}"))
        self._state.bound.clear()

    def _wait(self, gang: Gang, goal: Goal | None, reason: str, *, kept: str = "", overdue: bool = False) -> None:
        """Enter a gang into the queue."""
        given = self._needs(gang) or []
        total = len(gang.pods) + (_lacking(gang, given) if not gang.anchors else 0)
        level = "" if goal is None else goal.level
        required = goal is not None and goal.required is not None
        since = min(pod.created for pod in gang.gated)
        about = self._subject(gang)
        self._queue.append(
            Waiting(
                about,
                reason[:1].upper() + reason[1:],
                since,
                level,
                required,
                total,
                len(gang.pods),
                0,
                "",
                kept,
                overdue,
            )
        )

    def _subject(self, gang: Gang) -> Subject:
        """The root as the object of an Event; the Pods' controller, or the Pod itself, where the root is not known."""
        key = gang.group.root
        obj = self._state.root(key)
        if obj is not None:
            return Subject(
                str(obj.get("apiVersion")), key.kind, key.namespace, key.name, str(mapping(obj, "metadata").get("uid"))
            )
        pod = next(iter(gang.pods.values()))
        owner = controller_reference(pod.content)
        if owner is None:
            return Subject("v1", "Pod", *pod.key, pod.uid)
        version, kind, name, uid = (str(owner.get(field)) for field in ("apiVersion", "kind", "name", "uid"))
        return Subject(version, kind, key.namespace, name, uid)


_REASON_SECONDS: Final = 5.0
"""How often it is looked up anew why a gang does not fit, which takes longer than to see that it does not."""


def _order(gang: Gang) -> tuple[int, float, str, str]:
    """The order of gangs: by priority, then by age."""
    gated = gang.gated
    priority = max(pod.demand.priority or 0 for pod in gated)
    return -priority, min(pod.created for pod in gated), gang.group.root.namespace, gang.group.root.name


def _lacking(gang: Gang, given: Sequence[Need]) -> int:
    """How many Pods do not exist that have to before the gang, or its present stage, can start."""
    live = Counter(pod.role for pod in gang.pods.values())
    phase = min((need.phase for need in given if need.count), default=0)
    stage = max((need.stage for need in given if live[need.role]), default=min((n.stage for n in given), default=0))
    due = [need for need in given if need.phase == phase and need.stage <= stage and not need.single]
    return sum(max(0, need.count - live[need.role]) for need in due)


def _within(demand: Member, goal: Goal) -> Member:
    """A member on the Nodes of its placement."""
    if not any(goal.nodes):
        return demand
    return replace(demand, terms=tuple((*own, *more) for own in demand.terms or ((),) for more in goal.nodes))


def _demand(gang: Gang, goal: Goal, members: Sequence[Member]) -> Demand:
    return Demand(gang.group.root, goal.topology.name, goal.tiers, tuple(members), goal.required, goal.preferred)


def _seat(search: Search, placing: Placing, goal: Goal, row: int, labels: Mapping[str, str], *, fixed: bool) -> Seat:
    """Where a Pod belongs that is packed into a row."""
    layout = search.layout
    outer = placing.level if goal.required is None else goal.required
    domain = layout.address(outer, int(layout.groups(outer)[row]))
    nearer = [
        level
        for level in range(outer + 1, len(layout.tiers))
        if HOSTNAME not in layout.tiers[level].keys and layout.carries(level)[layout.groups(level)[row]]
    ]
    inner = layout.address(nearer[-1], int(layout.groups(nearer[-1])[row])) if nearer else ()
    return Seat(labels, domain, inner, fixed)


def _spread(seats: Sequence[Seat]) -> str:
    """How the Pods are spread over nearer domains: `: 8 in rack=1, 8 in rack=2`."""
    counts = Counter(_words(seat.inner) for seat in seats if seat.inner)
    if len(counts) < 2:
        return ""
    shown = sorted(counts.items(), key=lambda item: natural(item[0]))[:_MOST_SHOWN]
    more = f" and {len(counts) - len(shown)} more" if len(counts) > len(shown) else ""
    return f": {', '.join(f'{count} in {name}' for name, count in shown)}{more}"


_MOST_SHOWN: Final = 8


def _words(address: Any) -> str:
    """A domain as people write it."""
    return called(address) or "the cluster"


def _size(pods: int, accelerators: int) -> str:
    return _counted(pods, "Pod") + (f" with {_counted(accelerators, 'GPU')}" if accelerators else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
