"""`python -m benchmarks.cel.celpython RUNNER`: measure cel-python on the shapes that it can run.

It lacks quantities and the variables of a policy. Each runner needs its own process: the two do not work in one.
"""

from __future__ import annotations

import json
import logging
import sys

import celpy
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from benchmarks.cel.policies import POD, Policy, shapes
from benchmarks.cel.timing import measure, write

RUNNERS: dict[str, type[celpy.Runner]] = {
    "interpreted": celpy.InterpretedRunner,
    "compiled": celpy.CompiledRunner,
}


def main() -> None:
    """Print the figures as lines of JSON, with an error for a shape that cannot be run."""
    logging.disable()  # it logs each expression that it cannot run
    runner = RUNNERS[sys.argv[1]]
    for policy in shapes():
        _shape(policy, runner)


def _shape(policy: Policy, runner: type[celpy.Runner]) -> None:
    pod = json_to_cel(json.loads(POD.read_text(encoding="utf-8")))
    environment = celpy.Environment(runner_class=runner)

    def once() -> None:
        assert bool(program.evaluate({"object": pod})) is policy.allowed

    try:
        program = environment.program(environment.compile(policy.expression))
        once()
    except (CELEvalError, CELParseError) as error:
        write(f"evaluate/{policy.name}", error=str(error.args[0]))
    else:
        measure(f"evaluate/{policy.name}", once)


if __name__ == "__main__":
    main()
