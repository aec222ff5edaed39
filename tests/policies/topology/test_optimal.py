"""The choice against an exact solver: the order of `choice.order`, written down once more, as a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ortools.sat.python import cp_model
from support.gangs.machines import Machine, ground
from support.gangs.smallclusters import GPU, PRIORITY, Case, case

from policies.topology.choice import Search, Terms
from policies.topology.gang import Member
from policies.topology.topology import Level, natural

CLUSTERS = int(os.environ.get("CLUSTERS", "200"))

Path = tuple[str, ...]
"""The values of a Node from the farthest level down, empty for one that it lacks."""


class Expected(NamedTuple):
    """What the choice must be: fits, preempts, full or never; -1 is the whole cluster, an empty path no domain."""

    outcome: str
    level: int = -1
    path: Path = ()


class Solution(NamedTuple):
    """A domain of the model, with the Pods and accelerators that have no place in it."""

    path: Path
    pods: int
    accelerators: int


class View(NamedTuple):
    """Nodes as one of the three ways to look at them shows them. free: by Node and resource."""

    usable: Mapping[str, bool]
    free: Mapping[str, Mapping[str, int]]


def values(machine: Machine, tiers: Sequence[Level]) -> Path:
    """The path of a Node."""
    return tuple(next((machine.labels[key] for key in tier.keys if key in machine.labels), "") for tier in tiers)


def view(case_: Case, priority: int | None, *, healed: bool = False) -> View:
    """The Nodes now, if Pods below a priority made room, or if nothing ran and all were well."""
    free = {
        one.name: {
            name: max(0, amount - sum(
                pod.requests.get(name, 0) for pod in one.bound
                if not healed and (priority is None or pod.priority >= priority)
            ))
            for name, amount in one.amounts.items()
        }
        for one in case_.machines
    }  # fmt: skip
    return View({one.name: (healed or one.ready) and not one.taint for one in case_.machines}, free)


def may(member: Member, machine: Machine) -> bool:
    """Whether the member's selector allows a Node."""
    return all(machine.labels.get(key) == value for key, value in member.node_selector)


def domains(case_: Case, level: int) -> list[Path]:
    """The domains of a level that labels can tell from others, in natural order."""
    if level < 0:
        return [()]
    paths = [values(one, case_.gang.tiers)[: level + 1] for one in case_.machines]
    own = {path for path in paths if path[-1]}
    unique = [path for path in own if all(other == path or not _carries(other, path) for other in paths)]
    return sorted(unique, key=lambda path: tuple(map(natural, path)))


def _carries(other: Path, path: Path) -> bool:
    return all(not value or value == others for value, others in zip(path, other, strict=True))


def free_by_path(case_: Case, view_: View, path: Path) -> int:
    """What is free in a domain of what is measured."""
    asks = [m for m in case_.gang.members if m.accelerators] or list(case_.gang.members)
    resource = GPU if case_.gang.accelerators else "cpu"
    return sum(
        view_.free[one.name].get(resource, 0)
        for one in case_.machines
        if values(one, case_.gang.tiers)[: len(path)] == path
        and view(case_, None).usable[one.name]
        and any(may(member, one) for member in asks)
    )


def solve(case_: Case, level: int, view_: View, among: Sequence[Path], *, all_pods: bool) -> Solution | None:
    """The best domain by the order, as one model: one domain, Pods on its Nodes, and the nearer domains they need."""
    gang, model = case_.gang, cp_model.CpModel()
    if not among:
        return None
    nearer = next((t for t in range(level + 1, len(gang.tiers)) if _present(case_, t)), None)
    chosen = {path: model.new_bool_var("") for path in among}
    model.add_exactly_one(chosen.values())
    lower = {values(one, gang.tiers)[: (nearer or 0) + 1]: model.new_bool_var("") for one in case_.machines}
    placed: dict[tuple[int, str], Any] = {}
    for one in case_.machines:
        path = values(one, gang.tiers)
        domain = chosen.get(path[: level + 1])
        for number, member in enumerate(gang.members):
            most = member.count if domain is not None and view_.usable[one.name] and may(member, one) else 0
            placed[number, one.name] = pods = model.new_int_var(0, most, "")
            if domain is not None:
                model.add(pods <= most * domain)
                model.add(pods <= most * lower[path[: (nearer or 0) + 1]])
        for resource in {name for member in gang.members for name, _ in member.requests}:
            asked = sum(dict(m.requests).get(resource, 0) * placed[n, one.name] for n, m in enumerate(gang.members))
            model.add(asked <= view_.free[one.name].get(resource, 0))
    sums = [sum(placed[n, one.name] for one in case_.machines) for n in range(len(gang.members))]
    for member, total in zip(gang.members, sums, strict=True):
        model.add(total == member.count if all_pods else total <= member.count)
    around = {
        path: [free_by_path(case_, view_, path[:size]) for size in range(len(path), -1, -1)] for path in among
    }  # fmt: skip
    ranks = sorted(set(map(tuple, around.values())))
    rank = sum(ranks.index(tuple(around[path])) * var for path, var in chosen.items())
    order = sum(among.index(path) * var for path, var in chosen.items())
    spread = sum(lower.values()) if nearer is not None and all_pods else 0
    lacking = gang.pods - sum(sums)
    accelerators = gang.accelerators - sum(m.accelerators * s for m, s in zip(gang.members, sums, strict=True))
    model.minimize((((lacking * 1000 + accelerators) * 100 + rank) * 100 + spread) * 100 + order)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        return None
    path = next(path for path, var in chosen.items() if solver.value(var))
    return Solution(path, solver.value(lacking), solver.value(accelerators))


def _present(case_: Case, tier: int) -> bool:
    return any(values(one, case_.gang.tiers)[tier] for one in case_.machines)


def expected(case_: Case) -> Expected:
    """The choice by the solver."""
    gang = case_.gang
    required = -1 if gang.required is None else gang.required
    nearest = required if gang.preferred is None else gang.preferred
    known = all(member.priority is not None and member.preempts for member in gang.members)
    levels = range(nearest, required - 1, -1)
    for outcome, priority in (("fits", None), *([("preempts", PRIORITY)] if known else [])):
        for level in levels:
            solution = solve(case_, level, view(case_, priority), domains(case_, level), all_pods=True)
            if solution:
                return Expected(outcome, level, solution.path)
    healed = view(case_, None, healed=True)
    among = domains(case_, required)
    return Expected("full" if solve(case_, required, healed, among, all_pods=True) else "never")


def chosen(case_: Case) -> Expected:
    """The choice of the product in the same terms."""
    gang, nodes = case_.gang, ground(case_.machines)
    known = all(member.priority is not None and member.preempts for member in gang.members)
    for outcome, priority in (("fits", None), *([("preempts", PRIORITY)] if known else [])):
        search = Search(nodes, gang, Terms(priority=priority))
        made = next(search.placing(), None)
        if made is not None:
            address = search.layout.address(made.level, made.group)
            steps = {step.keys: step.value for step in address}
            return Expected(
                outcome, made.level, tuple(steps.get(tier.keys, "") for tier in gang.tiers[: made.level + 1])
            )
    empty = Search(nodes, gang, Terms(empty=True))
    return Expected("full" if next(empty.placing(), None) else "never")


def test_the_choice_is_optimal() -> None:
    """On small clusters the domain is the one that an exact solver finds by the same order, in every case."""
    pairs = ((seed, expected(case(seed)), chosen(case(seed))) for seed in range(CLUSTERS))
    assert [(seed, best, own) for seed, best, own in pairs if best != own] == []
