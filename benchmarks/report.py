"""The figures with their targets: as text for people, as JSON to compare runs."""

from __future__ import annotations

import os
import platform
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speed import UNDISTURBED, Comparison, middle

THROUGHPUT = {"small": 0.85, "real": 1.1}
P99 = 1.5
LIBRARIES = ("aiohttp", "msgspec", "uvloop")


class Figure(NamedTuple):
    """A measured value and its target."""

    name: str
    value: float
    target: float
    at_least: bool = False
    unit: str = ""
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def line(self) -> str:
        """The figure as a line of the table."""
        target = f"{'>=' if self.at_least else '<='} {self.target:g}{self.unit}"
        value = f"{self.value:.{1 if self.value >= 10 else 2}f}{self.unit}"
        return f"  {self.name:<52}{value:>10}  {target:>10}  {'met' if self.met else 'missed':<8}{self.note}".rstrip()


def speed_figures(comparisons: Sequence[Comparison]) -> Iterator[Figure]:
    """The ratios of throughput per core and of p99, for each comparison."""
    for comparison in comparisons:
        name, target = f"{comparison.path} {comparison.review}", THROUGHPUT[comparison.review]
        yield Figure(f"throughput of {name}, to echo", comparison.ratio("capacity"), target, at_least=True)
        yield Figure(f"p99 of {name}, to echo", comparison.ratio("p99"), P99)


def speed_table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The table of the medians behind the ratios, for service and echo."""
    yield f"{'':30}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'server':>9}{'load':>7}"
    for comparison in comparisons:
        for who, samples in (("echo", comparison.echo), ("service", comparison.service)):
            rate, p50, p99, cpu, server, load = (
                middle(samples, field) for field in ("rate", "p50", "p99", "cpu", "server_busy", "load_busy")
            )
            yield (
                f"  {comparison.path + ' ' + comparison.review:<16}{comparison.size:>6} B {who:<8}"
                f"{rate:>9.0f}{p50 * 1e3:>9.2f}{p99 * 1e3:>9.2f}{cpu * 1e6:>9.0f}{server:>9.0%}{load:>7.0%}"
            )
        ratios = (comparison.ratio(field) for field in ("rate", "p50", "p99", "cpu"))
        yield f"  {'ratio':<32}{''.join(f'{ratio:>9.2f}' for ratio in ratios)}"


def bottleneck(comparisons: Sequence[Comparison]) -> str:
    """A sentence that says whether the servers limited the throughput."""
    samples = [sample for comparison in comparisons for sample in (*comparison.echo, *comparison.service)]
    server, load = min(s.server_busy for s in samples), max(s.load_busy for s in samples)
    text = f"The server used {server:.0%} of its core or more in every run, the load {load:.0%} of the other at most: "
    if server >= UNDISTURBED:
        return text + "the server was the bottleneck."
    return text + "other processes took the rest. Throughput is judged by processor time; take the p99 with care."


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "processor": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "load average": [round(value, 2) for value in os.getloadavg()],
        **{name: version(name) for name in LIBRARIES},
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def as_json(comparisons: Sequence[Comparison], figures: Sequence[Figure], details: Mapping[str, Any]) -> dict[str, Any]:
    """All figures, each round included. details: further findings of other parts, by their names."""
    return {
        "machine": machine(),
        "figures": [{**figure._asdict(), "met": figure.met} for figure in figures],
        "comparisons": [
            {
                **comparison._asdict(),
                "echo": [sample._asdict() for sample in comparison.echo],
                "service": [sample._asdict() for sample in comparison.service],
                "ratios": {field: comparison.ratio(field) for field in ("rate", "capacity", "p50", "p99", "cpu")},
            }
            for comparison in comparisons
        ],
        **details,
    }
