"""Who chooses domains for the reviews of a process."""

from __future__ import annotations

from support.rackgangs import fitting, gang, question

from policies.topology.choice.choice import Choice, ChoiceKey
from webhook.choices import counted
from webhook.metrics import Metrics


async def test_outcomes_are_counted() -> None:
    """Each gang's choice counts by its outcome, wherever it comes from, and is handed on as it is."""
    answers = [(fitting(), Choice("full")), (Choice("unknown", "no inventory"),)]

    async def choices(_key: ChoiceKey, _seconds: float) -> tuple[Choice, ...]:
        return answers.pop(0)

    measures = Metrics()
    read = counted(choices, measures)

    assert await read(question(gang(), gang()), 1) == (fitting(), Choice("full"))
    assert await read(question(), 1) == (Choice("unknown", "no inventory"),)
    shown = measures.expose().decode().splitlines()
    assert [line for line in shown if line.startswith("cks_admission_placements_total")] == [
        'cks_admission_placements_total{outcome="fits"} 1.0',
        'cks_admission_placements_total{outcome="full"} 1.0',
        'cks_admission_placements_total{outcome="unknown"} 1.0',
    ]
