"""`python -m benchmarks.cel.ours`: measure this project's engine, in its own process so that memory can be measured."""

from __future__ import annotations

import gc
import time
from itertools import count
from pathlib import Path

from benchmarks.cel import engine
from benchmarks.cel.policies import POD, Policy, many, policies, shapes
from benchmarks.cel.timing import measure, write

LOADED = 1000


def main() -> None:
    """Print the figures as lines of JSON."""
    _load()
    pod = POD.read_bytes()
    for policy in shapes():
        _shape(policy, pod)
    _twenty(pod)
    for policy in policies():
        _compilation(policy)


def _load() -> None:
    """Compile many policies and keep them. This runs first, while the process holds nothing else."""
    engine.compile("true", {})  # makes everything that is made at first use
    gc.collect()
    texts = many(LOADED)
    before, start = _resident(), time.perf_counter()
    kept = [[engine.compile(text, {}) for text in policy] for policy in texts]
    seconds = time.perf_counter() - start
    gc.collect()
    write("load", seconds=seconds, megabytes=_resident() - before)
    del kept


def _shape(policy: Policy, pod: bytes) -> None:
    program, decoded = engine.compile(policy.expression, policy.variables), engine.decode(pod)

    def once() -> None:
        assert engine.evaluate(program, engine.activation(decoded)) is policy.allowed, policy.name

    measure(f"evaluate/{policy.name}", once)


def _twenty(pod: bytes) -> None:
    programs = [(engine.compile(p.expression, p.variables), p.allowed) for p in policies()]

    def once() -> None:
        names = engine.activation(engine.decode(pod))
        assert all(engine.evaluate(program, names) is allowed for program, allowed in programs)

    measure("twenty", once)


def _compilation(policy: Policy) -> None:
    numbers = count()

    def once() -> None:
        comment = f" // {next(numbers)}"  # the engine keeps the trees of texts that it has compiled
        engine.compile(policy.expression + comment, {name: text + comment for name, text in policy.variables.items()})

    measure(f"compile/{policy.name}", once, operations=1 + len(policy.variables))


def _resident() -> float:
    """The resident set of this process, in MB of 10^6 bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    main()
