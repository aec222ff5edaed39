"""Choices of domains as an inventory would make them, for tests of what becomes of them."""

from __future__ import annotations

from support.builders import TODAY

from policies.engine.facts import StaticFacts
from policies.topology.choice.choice import Candidate, Choice, ChoiceKey, Outcome
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import Gang


class Chooser:
    """Chooses the domain with this value at the levels that are asked for, and notes what it was asked.

    above: by a level's name, the value of its domain where it is an ancestor. outcome: that of each choice.
    """

    def __init__(self, value: str = "1", above: dict[str, str] | None = None, outcome: Outcome = "fits") -> None:
        self.value = value
        self.above = above or {}
        self.outcome = outcome
        self.asked: list[ChoiceKey] = []

    def __call__(self, key: ChoiceKey) -> tuple[Choice, ...]:
        """The choices."""
        self.asked.append(key)
        return tuple(self._choice(gang) for gang in key.gangs)

    @property
    def facts(self) -> StaticFacts:
        """Facts with this chooser."""
        return StaticFacts(TODAY, chooser=self)

    def _choice(self, gang: Gang) -> Choice:
        if self.outcome == "unknown":
            return Choice("unknown", "the inventory is stale")
        required, preferred = (self._address(gang, tier) for tier in (gang.required, gang.preferred))
        tier = gang.preferred if gang.required is None else gang.required
        considered = tuple(
            Candidate(address, 9, free, 72, free // 8, fits=True) for address, free in ((required or preferred, 64),)
        )
        missing = 2 if self.outcome == "full" else 0
        return Choice(
            self.outcome, "",
            () if self.outcome == "never" else required, (preferred,) if preferred else (),
            gang.tiers[tier or 0].name, (), 8 * missing, missing, considered, 1,
        )  # fmt: skip

    def _address(self, gang: Gang, position: int | None) -> Address:
        if position is None:
            return ()
        steps = [
            Step(tier, level.keys[:1], (self.above[level.name],))
            for tier, level in enumerate(gang.tiers[:position])
            if level.name in self.above
        ]
        return (*steps, Step(position, gang.tiers[position].keys[:1], (self.value,)))
