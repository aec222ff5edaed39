"""The gangs of an object, found by deciding about it: what is asked about them, and what the answer is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.constraint import Constraint
from policies.topology.gang.gang import Gang
from policies.topology.rule import Explained
from policies.topology.topology import Topology
from policies.topology.way.permission import Way as WrittenWay
from webhook.cli.objects.outcome import ObjectOutcome, decide
from webhook.cli.topology.context import Context
from webhook.cli.topology.placement.answer import GangAnswer, ObjectAnswer, Way
from webhook.cli.topology.placement.replica import leaders
from webhook.cli.topology.stock import Chooser
from webhook.files.manifest import Manifest

_TOO_LARGE = "no domain can hold it"
_UNUSABLE = "what is asked for cannot be used"
_ALONE = "a topology alone places nothing"
_KUEUE = "Kueue places it, and is told the level"
_NAMED = "the domain is named, and written as node affinity"


class Questions:
    """A chooser that notes what it was asked and what the answer was. A question that is repeated is the same one."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._answers: dict[ChoiceKey, tuple[Choice, ...]] = {}

    def __call__(self, key: ChoiceKey) -> tuple[Choice, ...]:
        """The choices, one for each gang."""
        if key not in self._answers:
            self._answers[key] = self._chooser(key)
        return self._answers[key]

    @property
    def answers(self) -> dict[Gang, Choice]:
        """The first choice for each gang."""
        first: dict[Gang, Choice] = {}
        for key, choices in self._answers.items():
            for gang, choice in zip(key.gangs, choices, strict=True):
                first.setdefault(gang, choice)
        return first


def place(given: Manifest, context: Context) -> ObjectAnswer:
    """What becomes of the gangs of an object."""
    request = context.request(given)
    questions = Questions(context.chooser)
    facts = replace(context.facts(request.namespace), chooser=questions)
    explained = context.rule.explain(request, facts)
    outcome = decide(given, request, context.ruleset, facts)
    replicas = tuple(_replicas(outcome, context))
    answers = (*_asked(questions.answers, explained), *(replicas or _others(questions.answers, explained)))
    return ObjectAnswer(outcome, answers, "" if answers else context.nothing(request))


def _replicas(outcome: ObjectOutcome, context: Context) -> Iterator[GangAnswer]:
    """The gangs of a LeaderWorkerSet, each placed when its leader is created."""
    changed, namespace = outcome.changed, outcome.request.namespace
    for leader in leaders(changed, namespace):
        context.known.records.ledger.put({**changed, "metadata": {**changed["metadata"], "namespace": namespace}})
        questions = Questions(context.chooser)
        request = context.request(Manifest(outcome.manifest.where, leader))
        explained = context.rule.explain(request, replace(context.facts(namespace), chooser=questions))
        yield from _asked(questions.answers, explained)


def _asked(answers: dict[Gang, Choice], explained: Explained) -> Iterator[GangAnswer]:
    """The gangs about which was asked."""
    for gang, choice in answers.items():
        position = gang.preferred if gang.required is None else gang.required
        level = "" if position is None else gang.tiers[position].name
        is_known, path = choice.outcome != "unknown", gang.members[0].path
        reason = explained.plan.reasons.get(path, _TOO_LARGE) if choice.outcome == "never" else choice.reason
        yield GangAnswer(
            tuple(member.path for member in gang.members),
            "domain" if is_known else _way(path, explained),
            gang.topology,
            level if gang.required is not None else choice.level or level,
            is_required=gang.required is not None,
            reason=reason,
            gang=gang,
            choice=choice,
        )


def _others(answers: dict[Gang, Choice], explained: Explained) -> Iterator[GangAnswer]:
    """The templates about which nothing was asked."""
    asked = {member.path for gang in answers for member in gang.members}
    for constraint in explained.constraints:
        topology = constraint.topology
        if constraint.template.path not in asked and topology is not None:
            yield _unasked(constraint, topology, explained)


def _unasked(constraint: Constraint, topology: Topology, explained: Explained) -> GangAnswer:
    placement = constraint.required or constraint.preferred
    way, reason = _way(constraint.template.path, explained), constraint.obstacle
    named: dict[str, str] = {}
    if placement is None or not constraint.is_usable:
        reason = _ALONE if constraint.is_usable else _UNUSABLE
    elif way == "none" and not reason:
        way, reason = ("domain", _NAMED) if placement.is_named else ("none", _KUEUE)
        named = {domain.level.keys[0]: domain.values[0] for domain in placement.domains if len(domain.values) == 1}
    return GangAnswer(
        (constraint.template.path,),
        way,
        topology.name,
        "" if placement is None else topology.called(placement.level),
        is_required=constraint.required is not None,
        reason=reason or explained.plan.reasons.get(constraint.template.path, ""),
        named=named,
    )


def _way(path: str, explained: Explained) -> Way:
    """Who keeps the Pods of a template together. What Kueue places, nobody else does."""
    assignment = explained.plan.assignments.get(path)
    way: WrittenWay | Literal[""] = "" if assignment is None else assignment.way
    return "none" if way == "" or way == "kueue" else way  # noqa: PLR1714 - narrows the type
