"""What is said about a placing: the chosen domain, what is preferred in it, and the domains that were considered."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

import numpy as np

from policies.topology.choice.choice import MOST_CONSIDERED, Candidate, Choice
from policies.topology.choice.domains import Domains
from policies.topology.choice.ground.layout import WHOLE
from policies.topology.choice.pack.room import Room
from policies.topology.choice.preference import preferred
from policies.topology.choice.question import Question
from policies.topology.choice.stock import Integers
from policies.topology.gang.address import Address
from policies.topology.gang.gang import PODS, Amounts


def fitting(question: Question, domains: Domains, holding: Sequence[int], *, preempts: bool) -> Choice:
    """The choice of the first of the domains that hold the gang."""
    level, group = domains.level, holding[0]
    rest = _rest(question, domains, holding)
    return Choice(
        "preempts" if preempts else "fits",
        required=required(question, level, group),
        preferred=preferred(question, domains.room, level, group),
        level=_name(question, level),
        considered=_candidates(question, domains, [*holding, *rest], len(holding)),
        domains=_count(question, level),
    )


def full(question: Question, now: Domains, groups: Sequence[int]) -> Choice:
    """The choice of the first of the domains, in which the gang does not fit now."""
    first = _candidates(question, now, groups, 0)
    return Choice(
        "full",
        required=required(question, now.level, groups[0]),
        preferred=preferred(question, question.whole, now.level, groups[0]),
        level=_name(question, now.level),
        missing=first[0].missing,
        accelerators_missing=_accelerators(now, groups[0]),
        pods_missing=question.pods - first[0].pods,
        considered=first,
        domains=_count(question, now.level),
    )


def never(question: Question, whole: Domains, groups: Sequence[int]) -> Choice:
    """No choice, with the numbers of the domain that would hold the most Pods if nothing else ran."""
    if not len(groups):
        return Choice("never", pods_missing=question.pods, accelerators_missing=question.gang.accelerators)
    considered = _candidates(question, whole, groups, 0)
    return Choice(
        "never",
        missing=considered[0].missing,
        accelerators_missing=_accelerators(whole, groups[0]),
        pods_missing=question.pods - considered[0].pods,
        considered=considered,
        domains=_count(question, whole.level),
    )


def required(question: Question, level: int, group: int) -> Address:
    """The address of the domain of the required level that contains a domain; empty without such a level."""
    if question.required == WHOLE:
        return ()
    return question.address(question.required, int(question.layout.around(level, question.required)[group]))


def _rest(question: Question, domains: Domains, holding: Sequence[int]) -> Sequence[int]:
    """The domains that do not hold the gang, those with room for the most Pods first."""
    number = MOST_CONSIDERED - len(holding)
    if number <= 0 or domains.level == WHOLE:
        return ()
    pods = domains.capacities.sum(axis=0)
    others = np.setdiff1d(np.flatnonzero(domains.layout.carries(domains.level)), holding)
    best = others[np.lexsort((others, -pods[others]))][:number]
    return list(question.eligible(domains.level, best.tolist()))


def _candidates(question: Question, domains: Domains, groups: Sequence[int], fits: int) -> tuple[Candidate, ...]:
    """The domains, the first `fits` of which hold the gang."""
    shown = list(groups[:MOST_CONSIDERED])
    others = domains.most(shown[fits:])
    pods = [question.pods] * len(shown[:fits]) + others.sum(axis=0).tolist()
    missing = [()] * len(shown[:fits]) + [_missing(domains.room, own) for own in others.T]
    sums = question.sums(domains.level, shown).tolist()
    return tuple(
        Candidate(question.address(domains.level, group), nodes, free, total, placed, index < fits, promised, lacking)
        for index, (group, nodes, free, total, promised, placed, lacking) in enumerate(
            zip(shown, *sums, pods, missing, strict=True)
        )
    )


def _missing(room: Room, pods: Integers) -> Amounts:
    """What the Pods without a place ask for."""
    left = (room.counts - pods).tolist()
    sums = (_sum(left, column) for column in room.requests.T.tolist())
    return tuple((name, amount) for name, amount in zip(room.resources, sums, strict=True) if amount and name != PODS)


def _accelerators(domains: Domains, group: int) -> int:
    pods = domains.most([group])[:, 0]
    left = (domains.room.counts - pods).tolist()
    return _sum(left, [member.accelerators for member in domains.room.members])


def _sum(pods: list[int], requests: list[int]) -> int:
    """What Pods ask for together, by members. Python's numbers: a template's may be larger than those of 64 bits."""
    return sum(map(mul, pods, requests))


def _name(question: Question, level: int) -> str:
    return "" if level == WHOLE else question.gang.tiers[level].name


def _count(question: Question, level: int) -> int:
    return 0 if level == WHOLE else int(question.layout.carries(level).sum())
