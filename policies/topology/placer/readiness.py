"""Which gangs may start: those whose Pods all exist, behind our gate alone; and where they fit now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from policies.cached import cached_property
from policies.engine.request import mapping
from policies.topology.choice import Ground, Placing, Search, Terms, choose
from policies.topology.gang import Gang as Demand
from policies.topology.gang import Member, excess, member
from policies.topology.membership import ROOT_KINDS, Need, needs, placement_of
from policies.topology.nodes.inventory import ANYWHERE, Integers, Mask, PodKey
from policies.topology.pack import Crowd, is_safe
from policies.topology.placement import GATE
from policies.topology.placer.opening import Goal, counted
from policies.topology.placer.state import Gang, Group, Pod, State

UNSEEN_SECONDS: Final = 15.0
"""How long a root of a known kind may take to be seen after its last Pod; then its Pods are all that there are."""


class Attempt(Struct):
    """A gang that may start now. pods: those to open, by member of `demand`. whole: the gang with all that is to come.

    within: the Nodes on which it has to be; None for all. leaving: Pods of older revisions, for `whole` only.
    """

    gang: Gang
    goal: Goal
    pods: tuple[tuple[PodKey, ...], ...]
    demand: Demand
    whole: tuple[Demand, ...] = ()
    within: Mask | None = None
    leaving: tuple[PodKey, ...] = ()


class Readiness:
    """Who may start at one time, and where gangs fit. wake: when those may start that wait for nothing but time.

    held: by gang, what is kept for its Pods that are still to come. closed: the Nodes that are kept free for gangs that
    have waited for too long.
    """

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._now = now
        self.wake = inf
        self.held: dict[Group, Mapping[str, Integers]] = {}
        self.closed: Mask = np.zeros(state.inventory.size, bool)

    def attempts(self, gang: Gang) -> tuple[Attempt, ...] | str:
        """The gang with those that start together with it, each inside the domain of the one before; or why not.

        What is made of the same objects is made once.
        """
        family = self._state.family(gang.group.root)
        objects = (self._state.topologies, self._state.inventory.edition, *((id(one), one.version) for one in family))
        if gang.plan is not None and gang.plan[0] == objects:
            plan: tuple[Attempt, ...] = gang.plan[1]
            return plan
        goal = self._state.goal(gang.group)
        if isinstance(goal, str):
            return f"{goal}."
        made, together = [], "it starts together with others of its workload: "
        for one in self._chain(gang, goal):
            attempt = self._ready(one)
            if isinstance(attempt, str):  # which may change with the time alone
                return attempt if one is gang else f"{together}{attempt}"
            made.append(attempt)
        if absent := self._absent(gang, goal):
            return f"{together}0 of {counted(absent, 'Pod')} exist."
        gang.plan = (objects, tuple(made))
        return tuple(made)

    def needs(self, gang: Gang) -> list[Need] | None:
        """What the root of a gang needs of its placement; None if that is not known."""
        key = gang.group.root
        if key.kind == "Pod" and not key.group:
            return []
        obj, row = self._state.root(key), self._state.options.workloads.get((key.group, key.kind))
        return None if obj is None or row is None else needs(obj, row, gang.group.annotations)

    def domain(self, gang: Gang, goal: Goal) -> Mask | None:
        """The Nodes of the domain in which a gang is; None if none of its Pods is placed on a Node that there is.

        The domain of bound Pods is that of their Nodes, that of opened ones is in their affinity.
        """
        layout, inventory = self._state.layouts.of(goal.tiers), self._state.inventory
        if goal.required is None:
            return layout.present
        rows: list[int] = []
        for pod in gang.anchors:
            row = inventory.row(pod.node or pod.host)
            if row >= 0 and layout.present[row]:
                rows.append(row)
            elif pod.is_written and not pod.node:  # the packed Node is gone
                rows += np.flatnonzero(inventory.eligible(pod.demand)[1] & layout.present)[:1].tolist()
        if not rows:
            return None
        ((group, _),) = Counter(layout.groups(goal.required)[rows].tolist()).most_common(1)
        return layout.rows(goal.required, group)

    def places(self, gang: Gang, goal: Goal, within: Mask, pods: Sequence[Pod]) -> Iterator[Mask]:
        """Where further Pods of a gang belong: near most of the others first, then farther out in its domain.

        Where each of them needs a Node to itself, those of the others are left out.
        """
        layout, inventory = self._state.layouts.of(goal.tiers), self._state.inventory
        rows = {row: pod for pod in gang.anchors if (row := inventory.row(pod.node or pod.host)) >= 0}
        roles = {pod.role for pod in pods if pod.demand.alone}
        free = within.copy()
        free[[row for row, pod in rows.items() if pod.role in roles]] = False
        near = [row for row in rows if layout.present[row]]
        outer = -1 if goal.required is None else goal.required
        for level in range(outer if goal.preferred is None or not near else goal.preferred, outer, -1):
            ((group, _),) = Counter(layout.groups(level)[near].tolist()).most_common(1)
            if layout.carries(level)[group]:
                yield layout.rows(level, group) & free
        yield free

    def attempt(self, gang: Gang, goal: Goal, keys: Sequence[PodKey], given: Sequence[Need]) -> Attempt:
        """The attempt to open some Pods of a gang. given: what its root needs."""
        members: dict[Member, list[PodKey]] = {}
        for key in keys:
            members.setdefault(on_nodes(gang.pods[key].demand, goal), []).append(key)
        asked = demand(gang, goal, [replace(one, count=len(own)) for one, own in members.items()])
        # What has to fit into the domain beside the Pods that are there, however far it is spread in it.
        root, family = gang.group.root, self._state.family(gang.group.root)
        scaler, live = self._state.scaler(root), Counter(pod.role for pod in gang.pods.values())
        replicas = mapping(scaler, "spec").get("replicas", 1) if scaler is not None else 0
        phases: dict[int, list[Need]] = {}
        for need in given:
            count = max(need.count, replicas if isinstance(replicas, int) else 0, live[need.role])
            phases.setdefault(need.phase, []).append(replace(need, count=count))
        rolls = scaler is not None or root.kind == "StatefulSet"
        others = [other for other in family if other is not gang] if rolls else []
        older = tuple(pod.key for other in others for pod in other.pods.values() if pod.node)
        wholes: list[Demand] = []
        if older or any(sum(need.count for need in own) != asked.pods for own in phases.values()):
            made = (demand(gang, goal, self._members(gang, goal, own)) for own in phases.values())
            wholes = [replace(one, required=None, preferred=None) for one in made]
        whole = tuple(one for one in wholes if one.pods and (one.pods != asked.pods or older))
        # The Nodes around or inside the domains of other gangs of the root that are placed.
        within: Mask | None = None
        layout = self._state.layouts.of(goal.tiers)
        for other in family:
            own_goal = self._state.goal(other.group)
            level = None if isinstance(own_goal, str) or other.group.root != root else own_goal.nested(goal)
            if level is None or isinstance(own_goal, str) or goal.required is None:
                continue
            if (rows := self.domain(other, own_goal)) is not None:
                groups = layout.groups(min(goal.required, level))
                around = np.isin(groups, groups[rows]) & layout.present
                within = around if within is None else within & around
        return Attempt(gang, goal, tuple(map(tuple, members.values())), asked, whole, within, older if wholes else ())

    def later(self, gang: Gang, goal: Goal, given: Sequence[Need]) -> list[Member]:
        """The Pods of a gang that come only after those that are placed have started."""
        live = Counter(pod.role for pod in gang.pods.values())
        first = min((need.stage for need in given), default=0)
        left = [need for need in given if need.count > live[need.role] and (need.single or need.stage > first)]
        return self._members(gang, goal, [replace(need, count=need.count - live[need.role]) for need in left])

    def _chain(self, gang: Gang, goal: Goal) -> list[Gang]:
        """The gang with those of its root inside its domain or around it, wider ones first; one of each level."""
        levels = {} if goal.required is None else {goal.required: gang}
        kin = [one for one in self._state.family(gang.group.root) if one.gated and not one.anchors]
        for other in sorted(kin, key=lambda one: one.group.annotations):
            own = self._state.goal(other.group)
            is_kin = other.group.root == gang.group.root and other.group.revision == gang.group.revision
            if is_kin and not isinstance(own, str) and (level := own.nested(goal)) is not None:
                levels.setdefault(level, other)
        return [levels[level] for level in sorted(levels)] or [gang]

    def _absent(self, gang: Gang, goal: Goal) -> int:
        """How many Pods are due of gangs that belong inside the domain or around it, and of which there is none yet."""
        key = gang.group.root
        obj, row = self._state.root(key), self._state.options.workloads.get((key.group, key.kind))
        if obj is None or row is None:
            return 0
        absent = 0
        for placement in {placement_of(template) for _, template in row.pods(obj)} - {gang.group.annotations}:
            group = replace(gang.group, annotations=placement)
            other = self._state.goal(group) if placement and group not in self._state.gangs else ""
            if not isinstance(other, str) and other.nested(goal) is not None:
                given = needs(obj, row, placement) or ()
                absent += sum(need.count for need in given if not (need.stage or need.phase))
        return absent

    def _ready(self, gang: Gang) -> Attempt | str:
        goal = self._state.goal(gang.group)
        assert not isinstance(goal, str)  # noqa: S101 - `_chain` has those with a placement
        gated = gang.gated
        broken = next((pod for pod in gated if pod.problem), None)
        if broken is not None:
            return f"Pod {broken.key[1]} cannot be placed: {broken.problem}."
        if too_much := excess({pod.demand: pod.demand for pod in gated}):
            return f"it has {too_much}."
        given = self.needs(gang)
        settle = self._state.options.settle
        if given is None:
            key = gang.group.root
            is_unseen = (key.group, key.kind) in ROOT_KINDS and self._state.root(key) is None
            due = gang.last + (UNSEEN_SECONDS if is_unseen else settle)
            if self._now < due:
                self.wake = min(self.wake, due)
                return f"{len(gated)} Pods exist, and it is not known yet whether more come."
        elif lacking := missing(gang, given):
            due = min(pod.created for pod in gang.pods.values()) + settle
            if goal.required is not None or self._now < due:
                self.wake = min(self.wake, due) if goal.required is None else self.wake
                return f"{len(gang.pods)} of {len(gang.pods) + lacking} Pods exist."
        others = sorted({gate for pod in gated for gate in pod.gates if gate != GATE})
        if others:
            held = [pod for pod in gated if len(pod.gates) > 1]
            return f"{len(held)} of its Pods wait behind other gates, too: {', '.join(others)}."
        return self.attempt(gang, goal, [pod.key for pod in gated], given or ())

    def _members(self, gang: Gang, goal: Goal, given: Sequence[Need]) -> list[Member]:
        options, namespace = self._state.options, gang.group.root.namespace
        made = [
            member(need.template, need.role, need.count, options.facts, options.accelerators, namespace=namespace)
            for need in given
            if need.count
        ]
        return [on_nodes(one, goal) for one in made if isinstance(one, Member)]

    def placings(self, attempts: Sequence[Attempt], within: Mask | None) -> tuple[list[Placing] | None, bool, bool]:
        """Where gangs fit, and whether their Pods have to run on the Nodes on which they are packed.

        And whether they would fit but for Pods that were opened and are not bound yet, which may be bound anywhere.
        """
        opened = ~self.closed if within is None else within & ~self.closed
        unsettled = False
        # The domains that are named as preferred come first, then those around them.
        eligible = self._state.inventory.eligible
        near = (opened & eligible(replace(ANYWHERE, terms=terms))[1] for terms in attempts[0].goal.near)
        for inside in chain(near, (opened,)):
            for priority in self._priorities(attempts):
                made, fixed, waits = self._placings_in(attempts, inside, priority)
                if made is not None:
                    return made, fixed, False
                unsettled |= waits
        return None, False, unsettled

    def _placings_in(
        self, attempts: Sequence[Attempt], within: Mask, priority: int | None
    ) -> tuple[list[Placing] | None, bool, bool]:
        ground = self.ground({one.gang.group for one in attempts})
        by_demand = {id(one.demand): one for one in attempts}
        unsettled = False

        def holds(asked: Demand, level: int, group: int) -> bool:
            nonlocal unsettled
            own = by_demand[id(asked)]
            terms = Terms(self._state.layouts.of(asked.tiers).rows(level, group) & within, priority, own.leaving)
            if any(next(Search(ground, whole, terms).placing(), None) is None for whole in own.whole):
                return False
            if self._is_fixed(ground, [(own, self._required(own, level, group))], within, priority) is not None:
                return True
            unsettled = True
            return False

        made = choose(ground, [one.demand for one in attempts], Terms(within, priority), holds)
        if made is None:
            return None, False, unsettled
        wheres = [(one, self._required(one, at.level, at.group)) for one, at in zip(attempts, made, strict=True)]
        fixed = self._is_fixed(ground, wheres, within, priority)
        return (None, False, True) if fixed is None else (made, fixed, False)

    def _priorities(self, attempts: Sequence[Attempt]) -> Iterator[int | None]:
        """None, and then the priority below which Pods make room, if the gangs may preempt others."""
        yield None
        priority, free = least(attempts), self._state.inventory.free
        names = {name for one in attempts for member in one.demand.members for name, _ in member.requests}
        if priority is not None and any(not np.array_equal(free(name, priority), free(name)) for name in names):
            yield priority

    def _required(self, attempt: Attempt, level: int, group: int) -> Mask:
        """The Nodes that a gang's required level allows around a domain; all if it requires none."""
        layout, required = self._state.layouts.of(attempt.demand.tiers), attempt.demand.required
        if required is None:
            return layout.present
        return layout.rows(required, int(layout.groups(required)[layout.row(level, group)]))

    def _is_fixed(
        self, ground: Ground, wheres: Sequence[tuple[Attempt, Mask]], within: Mask, priority: int | None
    ) -> bool | None:
        """Whether Pods have to be bound where they are packed, since they do not fit in every order of binding.

        None: they have to wait for others that are not bound yet, and may be bound anywhere. wheres: the gangs that are
        opened together, each with the Nodes on which its Pods may be bound, which are more than those `within` where
        they only prefer to be in a nearer domain.
        """
        rows = np.logical_or.reduce([where for _, where in wheres])
        others = [(where, pods) for where, pods in self.unbound.values() if (where & rows).any()]
        loose = [(where, [pod for pod in pods if not pod.fixed]) for where, pods in others]
        leaving = tuple(pod.key for _, pods in loose for pod in pods)
        # What is kept for others, and Pods that need their Node, would not be safe from Pods that may be anywhere.
        is_set = any(pod.fixed for _, pods in others for pod in pods) or any(
            (column[rows] > 0).any() for column in ground.held.values()
        )
        if is_set:
            return None if leaving else True
        eligible = self._state.inventory.eligible
        crowds = [
            *(
                Crowd(one, one.count, eligible(one)[0] & where & within)
                for own, where in wheres
                for one in own.demand.members
            ),
            *(
                Crowd(one, count, eligible(one)[0] & where)
                for where, pods in loose
                for one, count in Counter(pod.demand for pod in pods).items()
            ),
        ]
        if is_safe(crowds, lambda name: ground.free(name, priority, leaving)):
            return False
        return None if leaving else True

    @cached_property
    def unbound(self) -> dict[Group, tuple[Mask, list[Pod]]]:
        """The Pods that were opened and are not bound yet, by gang, with the Nodes on which they may be bound."""
        found: dict[Group, list[Pod]] = {}
        for key in self._state.open:
            pod = self._state.pods[key]
            if pod.host:
                found.setdefault(pod.group, []).append(pod)
        return {group: (self.where(group), pods) for group, pods in found.items()}

    def where(self, group: Group) -> Mask:
        """The Nodes on which opened Pods of a gang may be bound."""
        goal = self._state.goal(group)
        own = None if isinstance(goal, str) else self.domain(self._state.gangs[group], goal)
        return np.ones(self._state.inventory.size, bool) if own is None else own

    def ground(self, own: set[Group]) -> Ground:
        """The Nodes, with what is kept for the later stages of other gangs."""
        total: dict[str, Integers] = {}
        for group, held in self.held.items():
            if group not in own:
                for resource, column in held.items():
                    total[resource] = total[resource] + column if resource in total else column
        return Ground(self._state.inventory, self._state.layouts, total)


def missing(gang: Gang, given: Sequence[Need]) -> int:
    """How many Pods do not exist that have to before the gang, or its present stage, can start."""
    live = Counter(pod.role for pod in gang.pods.values())
    phase = min((need.phase for need in given if need.count), default=0)
    stage = max((need.stage for need in given if live[need.role]), default=min((n.stage for n in given), default=0))
    due = [need for need in given if need.phase == phase and need.stage <= stage and not need.single]
    return sum(max(0, need.count - live[need.role]) for need in due)


def on_nodes(own: Member, goal: Goal) -> Member:
    """A member on the Nodes of its placement."""
    if not any(goal.nodes):
        return own
    return replace(own, terms=tuple((*mine, *more) for mine in own.terms or ((),) for more in goal.nodes))


def demand(gang: Gang, goal: Goal, members: Sequence[Member]) -> Demand:
    """What some Pods of a gang ask for together."""
    return Demand(gang.group.root, goal.topology.name, goal.tiers, tuple(members), goal.required, goal.preferred)


def least(attempts: Sequence[Attempt]) -> int | None:
    """The priority below which Pods make room for gangs; None if they may not preempt others."""
    members = [one for attempt in attempts for one in attempt.demand.members]
    known = [one.priority for one in members if one.priority is not None and one.preempts]
    return min(known) if len(known) == len(members) else None
