"""What becomes of the gangs of an object: who keeps each together, and in which domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from policies.topology.choice.choice import Candidate, Choice
from policies.topology.gang.address import Address
from policies.topology.gang.gang import PODS, Amounts, Gang
from webhook.cli.objects.outcome import ObjectOutcome

Way = Literal["workload", "domain", "affinity", "labels", "none"]
"""Who keeps a gang together: Kubernetes' workload scheduling, the service by a domain, Pod affinity, labels, nobody."""


class GangAnswer(Struct, frozen=True):
    """What becomes of a gang. templates: paths of its pod templates. level: the short name.

    way: see `Way`. reason: why that way was taken, or nothing is done; empty where there is nothing to say. gang,
    choice: None where no domain was asked for. named: the domain that the placement itself names, by node labels.
    """

    templates: tuple[str, ...]
    way: Way
    topology: str = ""
    level: str = ""
    is_required: bool = True
    reason: str = ""
    gang: Gang | None = None
    choice: Choice | None = None
    named: Mapping[str, str] = {}

    @property
    def replica(self) -> str:
        """The index of the replica of a LeaderWorkerSet; empty for other gangs."""
        return "" if self.gang is None else self.gang.key.part

    @property
    def address(self) -> Address:
        """The domain that holds the whole gang; empty where none was chosen."""
        choice, gang = self.choice, self.gang
        if choice is None or gang is None or choice.required:
            return () if choice is None else choice.required
        alone = (address for address in choice.preferred if address and all(len(step.values) == 1 for step in address))
        return next((address for address in alone if gang.tiers[address[-1].tier].name == choice.level), ())

    @property
    def fits(self) -> bool:
        """Whether nothing is known to be in the way of the gang."""
        return self.choice is None or self.choice.outcome not in ("full", "never")


class ObjectAnswer(Struct, frozen=True):
    """What becomes of an object's gangs. nothing: why it has none, empty where it has."""

    outcome: ObjectOutcome
    gangs: tuple[GangAnswer, ...]
    nothing: str = ""

    @property
    def fits(self) -> bool:
        """Whether it is admitted, and all of its gangs fit."""
        return self.outcome.allowed and all(answer.fits for answer in self.gangs)


def data(answer: GangAnswer, outcome: ObjectOutcome) -> dict[str, Any]:
    """A gang for machines. `missing`: accelerators of the Pods without a place; absent where all have one.

    `wider`: the domain above the required level in which a gang that is full would fit now; absent without one.
    """
    gang, choice = answer.gang, answer.choice
    told: dict[str, Any] = {
        **outcome.head,
        "templates": list(answer.templates),
        **({"replica": int(answer.replica)} if answer.replica else {}),
        "placement": answer.way,
        "topology": answer.topology,
        "level": answer.level,
        "required": answer.is_required,
        "domain": labels(answer.address) or dict(answer.named),
    }
    if gang is not None:
        told |= {"pods": gang.pods, "gpus": gang.accelerators}
    if choice is not None:
        told |= {"outcome": choice.outcome, "preferred": list(map(_preferred, choice.preferred))}
        if not answer.fits:
            told["missing"] = choice.accelerators_missing
            told |= {"missingPods": choice.pods_missing, "missingResources": resources(choice.missing)}
        if choice.wider:
            told["wider"] = labels(choice.wider)
        told |= {"considered": list(map(_candidate, choice.considered)), "domains": choice.domains}
    return {**told, "reason": answer.reason, "message": outcome.message, "warnings": outcome.warnings}


def labels(address: Address) -> dict[str, str]:
    """A domain by node labels. Of several keys for the same label it has the first."""
    return {step.keys[0]: step.values[0] for step in address}


def _preferred(address: Address) -> dict[str, list[str]]:
    """Domains that are preferred together, by node labels."""
    return {step.keys[0]: list(step.values) for step in address}


def resources(amounts: Amounts) -> Mapping[str, int | str]:
    """Amounts in Kubernetes' units: cpu in thousandths as `1500m`, all others as numbers."""
    return {name: f"{amount}m" if name == "cpu" else amount for name, amount in amounts if name != PODS}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "domain": labels(candidate.address),
        "nodes": candidate.nodes,
        "gpus": candidate.total,
        "free": candidate.free,
        "promised": candidate.promised,
        "pods": candidate.pods,
        "fits": candidate.fits,
        "missing": resources(candidate.missing),
    }
