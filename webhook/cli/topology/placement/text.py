"""What becomes of gangs, in words, with the table of the domains that were considered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from policies.topology.choice.choice import Candidate, Choice
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Amounts, Gang, Tier
from webhook.cli.output import counted, table
from webhook.cli.topology.placement.answer import GangAnswer, ObjectAnswer, resources

_WAYS = {
    "workload": "Kubernetes' workload scheduling keeps the Pods together",
    "domain": "the service chooses the domain, and writes it as node affinity",
    "affinity": "Pod affinity of the gang to itself; Pods are placed one by one and may wait for ever",
    "labels": "Pods are kept on Nodes that have the level, not in one domain",
    "none": "nothing is written",
}
_HEAD = ("NODES", "GPUS", "FREE", "PROMISED", "PODS", "MISSING")


def text(answer: ObjectAnswer) -> Iterator[str]:
    """The lines about an object."""
    outcome = answer.outcome
    yield outcome.headline
    if answer.nothing:
        yield f"  Nothing is placed: {answer.nothing}."
    for gang in answer.gangs:
        yield from ("  " + line for line in _gang(gang))
    for warning in outcome.warnings:
        yield f"  {click.style('Warning:', fg='yellow')} {warning}"
    yield from ("  " + line for line in outcome.message.splitlines())


def _gang(answer: GangAnswer) -> Iterator[str]:
    templates = ", ".join(path or "the Pod itself" for path in answer.templates)
    templates = f"replica {answer.replica}" if answer.replica else templates
    size = f": {_size(answer.gang)}" if answer.gang is not None else ""
    yield click.style(f"{templates}{size}", bold=True)
    asked = "required" if answer.is_required else "preferred"
    yield f"  {asked}: one {answer.level}, topology {answer.topology}"
    yield f"  placement: {answer.way} ({answer.reason or _WAYS[answer.way]})"
    if answer.gang is not None and answer.choice is not None and answer.choice.outcome != "unknown":
        yield from (f"  {line}" for line in _choice(answer, answer.gang, answer.choice))


def _choice(answer: GangAnswer, gang: Gang, choice: Choice) -> Iterator[str]:
    if answer.address:
        yield f"domain: {called(answer.address, gang.tiers)}"
    if preferred := [called(address, gang.tiers) for address in choice.preferred if address != answer.address]:
        yield f"preferred: {', then '.join(preferred)}"
    yield _verdict(gang, choice)
    if choice.wider:
        yield f"wider: {called(choice.wider, gang.tiers)} would fit now"
    if choice.considered:
        yield from _considered(choice, gang.tiers)


def _verdict(gang: Gang, choice: Choice) -> str:
    """Whether the gang fits, with what is missing."""
    lacking = f"{_without_place(gang, choice)} without a place ({_amounts(choice.missing)} missing)"
    verdicts = {
        "fits": click.style("it fits now", fg="green"),
        "preempts": "it fits now if Pods of lower priority make room",
        "full": click.style(f"it is full now: {lacking} until other work ends", fg="yellow"),
        "never": click.style(f"it can never fit on these Nodes: {lacking}", fg="red"),
    }
    return verdicts[choice.outcome]


def _without_place(gang: Gang, choice: Choice) -> str:
    gpus = f" with {counted(choice.accelerators_missing, 'GPU')}" if choice.accelerators_missing else ""
    return f"{choice.pods_missing} of {counted(gang.pods, 'Pod')}{gpus}"


def _considered(choice: Choice, tiers: Sequence[Tier]) -> Iterator[str]:
    """The domains that were considered; the chosen one is marked."""
    rows = [(called(candidate.address, tiers), *_cells(candidate)) for candidate in choice.considered]
    marks = ["*" if _is_chosen(candidate, choice) else " " for candidate in choice.considered]
    level = tiers[choice.considered[0].address[-1].tier].name if choice.considered[0].address else "domain"
    lines = table((level.upper(), *_HEAD), rows, right=range(1, len(_HEAD)))
    yield from (f"{mark} {line}" for mark, line in zip((" ", *marks), lines, strict=True))
    if more := choice.domains - len(choice.considered):
        yield f"  and {counted(more, 'domain')} more"


def _is_chosen(candidate: Candidate, choice: Choice) -> bool:
    return bool(candidate.address) and candidate.address in (choice.required, *choice.preferred)


def _cells(candidate: Candidate) -> tuple[str, ...]:
    promised = str(candidate.promised) if candidate.promised else ""
    numbers = (str(candidate.nodes), str(candidate.total), str(candidate.free), promised, str(candidate.pods))
    return (*numbers, "" if candidate.fits else _amounts(candidate.missing))


def called(address: Address, tiers: Sequence[Tier]) -> str:
    """A domain as people call it: `superpod 2, rack 12`."""
    return ", ".join(f"{tiers[step.tier].name} {' or '.join(step.values)}" for step in address)


def _size(gang: Gang) -> str:
    gpus = f" with {counted(gang.accelerators, 'GPU')}" if gang.accelerators else ""
    return f"{counted(gang.pods, 'Pod')}{gpus}"


def _amounts(amounts: Amounts) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in resources(amounts).items()) or "room for more Pods"
