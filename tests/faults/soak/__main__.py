"""`python -m faults.soak`: runs the soak; writes its samples, its picture, and its figures into the documentation."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence

from faults.page import PAGE, conditions, replaced
from faults.site import Site
from faults.soak import sample
from faults.soak.run import REPLICAS, SAMPLE_SECONDS, soaking
from faults.soak.sample import Sample

_DIRECTORY = PAGE.parent / "reliability"
_PLAN = {"reload": 20.0, "rotation": 300.0, "another leader": 420.0}
_TENTH = 10
# After a rotation the API server makes connections anew, and keeps those from before for 90 s.
_IDLE = 12


def main() -> None:
    """Run it. Exits with 1 if something grew or was lost."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all processes are ended too
    seconds = options.hours * 3600
    plan = {name: min(period, seconds / 4) for name, period in _PLAN.items()}
    with Site() as site, soaking(site) as soak:
        capacity = soak.capacity()
        print(f"soak: {capacity:.0f} reviews a second are its capacity", file=sys.stderr, flush=True)
        samples = []
        for each in soak.samples(seconds, capacity / 2, plan):
            samples.append(each)
            print(f"soak: {each}", file=sys.stderr, flush=True)
    problems = _problems(samples)
    _DIRECTORY.mkdir(exist_ok=True)
    sample.write(_DIRECTORY / "soak.csv", samples)
    title = f"{REPLICAS} replicas at {capacity / 2:.0f} reviews a second for {seconds / 60:.0f} minutes"
    (_DIRECTORY / "soak.svg").write_text(sample.draw(samples, title), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(page, "soak", _figures(samples, capacity, problems)), encoding="utf-8")
    sys.exit("\n".join(problems) or 0)


def _problems(samples: Sequence[Sample]) -> list[str]:
    """What grew or was lost."""
    first, last = _ends(samples)
    problems = [f"{count} calls or writes were {what}" for what, count in _losses(samples).items() if count]
    for number in range(REPLICAS):
        sizes = [sample.middle(each.memory[number] for each in part) for part in (first, last)]
        if sizes[1] > 1.1 * sizes[0]:
            problems.append(f"memory of replica {number + 1} grew from {sizes[0]:.0f} to {sizes[1]:.0f} MiB")
        opened = [sample.middle(each.descriptors[number] for each in part) for part in (first, last)]
        if opened[1] > 1.1 * opened[0] + _IDLE:
            problems.append(f"descriptors of replica {number + 1} grew from {opened[0]:.0f} to {opened[1]:.0f}")
    return problems


def _figures(samples: Sequence[Sample], capacity: float, problems: Sequence[str]) -> list[str]:
    """The lines for the page."""
    events = [event for each in samples for event in each.events]
    counts = ", ".join(f"{events.count(event)} times {event}" for event in _PLAN)
    answers, losses = sum(each.rate for each in samples) * SAMPLE_SECONDS, _losses(samples)
    minutes = samples[-1].seconds / 60
    said = (
        f"Last run: {conditions()}; {minutes:.0f} minutes at half of {capacity:.0f} reviews a second, with {counts}.",
        f"Of {answers:,.0f} answers {losses['misjudged']} were wrong; {losses['lost']} calls and writes were lost.",
        f"**It did not hold: {'; '.join(problems)}.**" if problems else "It held.",
    )
    rows = [_row("p99 of answers, ms", samples, lambda each: each.p99)]
    for number in range(REPLICAS):
        name = f"replica {number + 1}"
        rows.append(_row(f"memory of {name}, MiB", samples, lambda each, n=number: each.memory[n]))  # type: ignore[misc]
        rows.append(_row(f"descriptors of {name}", samples, lambda each, n=number: each.descriptors[n]))  # type: ignore[misc]
    head = ["| median of | the first tenth | the last tenth |", "|---|---|---|"]
    return [*said, "", *head, *rows, "", "![Memory, descriptors and latency over time](reliability/soak.svg)"]


def _row(name: str, samples: Sequence[Sample], value: Callable[[Sample], float]) -> str:
    """A line of the table: medians at the beginning and at the end."""
    first, last = (sample.middle(map(value, part)) for part in _ends(samples))
    return f"| {name} | {first:.0f} | {last:.0f} |"


def _losses(samples: Sequence[Sample]) -> dict[str, int]:
    return {"lost": sum(each.lost for each in samples), "misjudged": sum(each.wrong for each in samples)}


def _ends(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The first tenth, after the first minute if there is more, and the last."""
    warm = [each for each in samples if each.seconds > 60] if samples[-1].seconds > 600 else list(samples)
    count = max(1, len(warm) // _TENTH)
    return warm[:count], warm[-count:]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long (default: %(default)g)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
