"""Asks kube-apiserver's library and our engine for random expressions, and prints where they differ.

    cd tests && python -m conformance.fuzz --cases 20000 --seed 1 --oracle PATH

A difference is made as small as possible and printed as a case for found.yaml.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import IO, Any

from conformance.fuzz.grammar import Tree, generate
from conformance.ours import generated_differs, ours
from conformance.record import dump, expectation, question

from policies.cel.cases import Case, difference

BATCH = 200
MODES = ("any",) * 12 + ("bool",) * 4 + ("jsonpatch", "applyconfig")
VARIABLES = (("i", "int"), ("b", "bool"), ("s", "string"), ("l", "list"))
AGAIN = 12
"""How often the reference is asked again about a difference: its answer may depend on the order of a map."""
SCALARS: Sequence[Any] = (0, 1, -7, 2.5, "a", "", "1", True, False, None, [], [1, "a"], {}, {"x": 1})


class Oracle:
    """The program built from oracle/, kept running."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path, "-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """The answers to cases."""
        source, sink = _pipes(self._process)
        sink.write("".join(f"{json.dumps(_question(case))}\n" for case in cases).encode())
        sink.flush()
        return [json.loads(source.readline()) for _ in cases]

    def close(self) -> None:
        """End the program."""
        _pipes(self._process)[1].close()
        self._process.wait()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdout is None or process.stdin is None:
        raise RuntimeError("the oracle has no pipes")
    return process.stdout, process.stdin


def main() -> int:
    """Fuzzes; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="conformance.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--oracle", type=Path, required=True, help="the program built from oracle/")
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    options = parser.parse_args()
    oracle, found, seen = Oracle(options.oracle), [], set[str]()
    for batch in _batches(Random(options.seed), options.cases):  # noqa: S311 - repeatable on purpose
        for case, tree in _different(oracle, batch):
            small = _minimised(oracle, case, tree)
            problem = _problem(oracle, small) or "differs only at times"
            kind = problem if problem.startswith("crash") else problem.split(",")[0] + small.expression[:20]
            if kind in seen:
                continue
            seen.add(kind)
            found.append(_written(oracle, small))
            print(f"{small.expression}\n  {problem}", file=sys.stderr)
        if len(found) >= options.most:
            break
    oracle.close()
    if found:
        print(dump({"cases": found}), end="")
    return 1 if found else 0


def _batches(random: Random, count: int) -> Iterator[list[tuple[Case, Tree]]]:
    for first in range(0, count, BATCH):
        shared = _inputs(random), _variables(random)
        yield [_case(random, f"fuzz-{first + number}", *shared) for number in range(min(BATCH, count - first))]


def _case(
    random: Random, name: str, inputs: Mapping[str, Any], variables: tuple[tuple[str, str], ...]
) -> tuple[Case, Tree]:
    mode = random.choice(MODES)
    tree = generate(random, mode)
    return Case(id=name, expression=str(tree), mode=mode, inputs=inputs, variables=variables), tree


def _inputs(random: Random) -> dict[str, Any]:
    """Inputs whose maps have at most one key where an expression may go through them, so that order does not matter."""
    fields = {name: random.choice(SCALARS) for name in "idsbnlm" if random.random() < 0.9}
    return {
        "object": {"a": fields, "l": [random.choice(SCALARS) for _ in range(random.randint(0, 3))]},
        "oldObject": {"a": {"i": random.choice(SCALARS)}} if random.random() < 0.7 else None,
        "params": {"i": random.choice(SCALARS)} if random.random() < 0.8 else None,
        "namespaceObject": {"metadata": {"name": "n"}},
        "request": {
            "operation": random.choice(("CREATE", "UPDATE")),
            "name": "n",
            "userInfo": {"username": "alice", "groups": ["a"]},
        },
    }


def _variables(random: Random) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(generate(random, "bool" if type_ == "bool" else "any"))) for name, type_ in VARIABLES)


def _different(oracle: Oracle, batch: Sequence[tuple[Case, Tree]]) -> Iterator[tuple[Case, Tree]]:
    answers = oracle.ask([case for case, _ in batch])
    for (case, tree), answer in zip(batch, answers, strict=True):
        if _compare(case, [answer]) is not None and _problem(oracle, case) is not None:
            yield case, tree


def _problem(oracle: Oracle, case: Case) -> str | None:
    """The difference, if no answer that the reference gives in several tries is ours."""
    return _compare(case, oracle.ask([case] * AGAIN))


def _compare(case: Case, answers: Sequence[dict[str, Any]]) -> str | None:
    if any(map(_panicked, answers)):
        return None  # nobody depends on it
    try:
        outcome = ours(case)
        if (unlike := generated_differs(case)) is not None:
            return unlike
    except Exception as error:  # noqa: BLE001 - a crash of ours is what is looked for
        return f"crash: {type(error).__name__}: {error}"
    problems = [difference(replace(case, expect=expectation([answer])), outcome) for answer in answers]
    return None if None in problems else problems[0]


def _panicked(answer: Mapping[str, Any]) -> bool:
    return answer.get("stage") == "panic" or "internal error: " in str(answer.get("error"))


def _minimised(oracle: Oracle, case: Case, tree: Tree) -> Case:
    """The smallest expression, and then inputs, that still differ."""
    if case.variables and _problem(oracle, replace(case, variables=())) is not None:
        case = replace(case, variables=())
    smaller = True
    while smaller:
        smaller = False
        for other in sorted(tree.smaller(), key=lambda one: len(str(one)))[:300]:
            tried = replace(case, expression=str(other))
            if len(tried.expression) < len(case.expression) and _problem(oracle, tried) is not None:
                case, tree, smaller = tried, other, True
                break
    for name in case.inputs:
        tried = replace(case, inputs={**case.inputs, name: None})
        if _problem(oracle, tried) is not None:
            case = tried
    return case


def _question(case: Case) -> dict[str, Any]:
    return question({"fixtures": case.inputs}, _raw(case))


def _raw(case: Case) -> dict[str, Any]:
    variables = [{"name": name, "expression": expression} for name, expression in case.variables]
    return {"id": case.id, "expression": case.expression, "mode": case.mode, "variables": variables}


def _written(oracle: Oracle, case: Case) -> dict[str, Any]:
    raw = {key: value for key, value in _raw(case).items() if value}
    return raw | dict(case.inputs) | {"expect": expectation(oracle.ask([case]))}


if __name__ == "__main__":
    sys.exit(main())
