"""Where gangs fit now, beside Pods that may be bound anywhere yet and room that is kept for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from policies.cached import cached_property
from policies.topology.choice.choice import Ground, Placing, Search, Terms, choose
from policies.topology.choice.crowd import Crowd, is_safe
from policies.topology.gang.gang import Gang as Demand
from policies.topology.nodes.eligibility import ANYWHERE
from policies.topology.nodes.table import Integers, Mask
from policies.topology.placer.opening import Goal
from policies.topology.placer.readiness import Attempt, Readiness
from policies.topology.placer.state import Group, Pod, State


class Fitting:
    """What fits at one time. held: by gang, what is kept for its Pods that are still to come.

    closed: the Nodes that are kept free for gangs that have waited for too long.
    """

    def __init__(self, state: State, ready: Readiness) -> None:
        self.held: dict[Group, Mapping[str, Integers]] = {}
        self.closed: Mask = np.zeros(state.inventory.size, bool)
        self._state = state
        self._ready = ready

    def placings(self, attempts: Sequence[Attempt], within: Mask | None) -> tuple[list[Placing] | None, bool, bool]:
        """Where gangs fit, and whether their Pods have to run on the Nodes on which they are packed.

        And whether they would fit but for Pods that were opened and are not bound yet, which may be bound anywhere.
        """
        opened = ~self.closed if within is None else within & ~self.closed
        unsettled = False
        for inside in (*self._near(attempts[0].goal, opened), opened):
            for priority in self._priorities(attempts):
                made, fixed, waits = self._placings_in(attempts, inside, priority)
                if made is not None:
                    return made, fixed, False
                unsettled |= waits
        return None, False, unsettled

    def _placings_in(
        self, attempts: Sequence[Attempt], within: Mask, priority: int | None
    ) -> tuple[list[Placing] | None, bool, bool]:
        """The same on some Nodes, if Pods below a priority make room."""
        ground = self.ground({one.gang.group for one in attempts})
        by_demand = {id(one.demand): one for one in attempts}
        unsettled = False

        def holds(asked: Demand, level: int, group: int) -> bool:
            nonlocal unsettled
            own = by_demand[id(asked)]
            terms = Terms(self._state.layouts.of(asked.tiers).rows(level, group) & within, priority, own.leaving)
            if any(next(Search(ground, whole, terms).placing(), None) is None for whole in own.whole):
                return False
            rows = self._required(own, level, group) & within
            if self._is_fixed(ground, [(own, rows)], priority) is not None:
                return True
            unsettled = True
            return False

        made = choose(ground, [one.demand for one in attempts], Terms(within, priority), holds)
        if made is None:
            return None, False, unsettled
        wheres = [
            (one, self._required(one, at.level, at.group) & within) for one, at in zip(attempts, made, strict=True)
        ]
        fixed = self._is_fixed(ground, wheres, priority)
        return (None, False, True) if fixed is None else (made, fixed, False)

    def _near(self, goal: Goal, within: Mask) -> Iterator[Mask]:
        """The Nodes of the domains that are named as preferred, then of those around them."""
        for terms in goal.near:
            yield within & self._state.inventory.eligible(replace(ANYWHERE, terms=terms))[1]

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

    def _is_fixed(self, ground: Ground, wheres: Sequence[tuple[Attempt, Mask]], priority: int | None) -> bool | None:
        """Whether Pods have to be bound where they are packed, since they do not fit in every order of binding.

        None: they have to wait for others that are not bound yet, and may be bound anywhere. wheres: the gangs that are
        opened together, each with the Nodes on which its Pods may be.
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
            *(Crowd(one, one.count, eligible(one)[0] & where) for own, where in wheres for one in own.demand.members),
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

    def forget(self) -> None:
        """Forget which Pods are unbound, because some are no longer opened."""
        vars(self).pop("unbound", None)

    def where(self, group: Group) -> Mask:
        """The Nodes on which opened Pods of a gang may be bound."""
        goal = self._state.goal(group)
        own = None if isinstance(goal, str) else self._ready.domain(self._state.gangs[group], goal)
        return np.ones(self._state.inventory.size, bool) if own is None else own

    def ground(self, own: set[Group]) -> Ground:
        """The Nodes, with what is kept for the later stages of other gangs."""
        total: dict[str, Integers] = {}
        for group, held in self.held.items():
            if group not in own:
                for resource, column in held.items():
                    total[resource] = total[resource] + column if resource in total else column
        return Ground(self._state.inventory, self._state.layouts, total)


def least(attempts: Sequence[Attempt]) -> int | None:
    """The priority below which Pods make room for gangs; None if they may not preempt others."""
    members = [one for attempt in attempts for one in attempt.demand.members]
    known = [one.priority for one in members if one.priority is not None and one.preempts]
    return min(known) if len(known) == len(members) else None
