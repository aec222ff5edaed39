"""Asks kube-apiserver's library and our engine for random expressions, and prints where they differ.

    cd tests && python -m conformance.fuzz --kubernetes 1.37 --cases 20000 --seed 1

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
from threading import Timer
from typing import IO, Any

import yaml
from conformance.casefile import HERE, generated_differs
from conformance.fuzz.grammar import Tree, generate, typed
from conformance.record import built, dump, expectation, question

from policies.cel.cases import CelCase, difference, run
from policies.cel.environment import Dialect
from policies.kubernetes.release import NEWEST, Release, named

BATCH = 200
MODES = ("any",) * 12 + ("bool",) * 4 + ("jsonpatch", "applyconfig")
VARIABLES = (("i", "int"), ("b", "bool"), ("s", "string"), ("l", "list"), ("d", "dyn"))
KNOWN = ("unsupported key type: ",)
"""Errors of ours where README.md says that the reference has none."""
PATIENCE = 10.0
"""Seconds for one answer."""
AGAIN = 12
"""How often the reference is asked again about a difference: its answer may depend on the order of a map."""
AUTHORIZER = yaml.safe_load((HERE / "found.yaml").read_bytes())["fixtures"]["authorizer"]
"""What authorization checks are answered with: as in the file that a difference is kept in."""
SCALARS: Sequence[Any] = (0, 1, -7, 2.5, "a", "", "1", True, False, None, [], [1, "a"], {}, {"x": 1})


class Oracle:
    """The program built from oracle/ for a release, kept running."""

    def __init__(self, release: Release, path: Path | None) -> None:
        self.dialect = Dialect(release, stored=True)
        self._path = path or built(release)
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([self._path, "-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, cases: Sequence[CelCase]) -> list[dict[str, Any]]:
        """The answers to cases. One that takes too long, or kills the program, counts as a panic."""
        answers: list[dict[str, Any]] = []
        while len(answers) < len(cases):
            answers += self._ask(cases[len(answers) :])
            if len(answers) < len(cases):
                print(f"no answer: {cases[len(answers)].expression}", file=sys.stderr)
                answers.append({"stage": "panic", "error": "no answer", "cost": 0})
                self.close()
                self._process = self._started()
        return answers

    def _ask(self, cases: Sequence[CelCase]) -> Iterator[dict[str, Any]]:
        source, sink = _pipes(self._process)
        for case in cases:
            sink.write(f"{json.dumps(question({'fixtures': case.inputs}, _raw(case)))}\n".encode())
            sink.flush()
            timer = Timer(PATIENCE, self._process.kill)
            timer.start()
            line = source.readline()
            timer.cancel()
            if not line:
                return
            yield json.loads(line)

    def close(self) -> None:
        """End the program."""
        source, sink = _pipes(self._process)
        sink.close()
        source.close()
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
    parser.add_argument("--kubernetes", type=named, default=NEWEST, help="the release (default: the newest proven)")
    parser.add_argument("--oracle", type=Path, help="the program built from oracle/; without, it is built by go")
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    options = parser.parse_args()
    oracle, found, seen = Oracle(options.kubernetes, options.oracle), [], set[str]()
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
    print(f"{options.cases} expressions, {len(found)} differences", file=sys.stderr)
    if found:
        print(dump({"cases": found}), end="")
    return 1 if found else 0


def _batches(random: Random, count: int) -> Iterator[list[tuple[CelCase, Tree]]]:
    for first in range(0, count, BATCH):
        inputs, variables = _inputs(random), tuple((name, str(typed(random, type_))) for name, type_ in VARIABLES)
        batch = []
        for number in range(first, min(first + BATCH, count)):
            mode = random.choice(MODES)
            tree = generate(random, mode)
            name = f"fuzz-{number}"
            case = CelCase(id=name, expression=str(tree), mode=mode, inputs=inputs, variables=variables)
            batch.append((case, tree))
        yield batch


def _inputs(random: Random) -> dict[str, Any]:
    """Inputs whose maps have at most one key where an expression may go through them, so that order does not matter."""
    fields = {name: random.choice(SCALARS) for name in "idsbnlm" if random.random() < 0.9}
    items = [random.choice(SCALARS) for _ in range(random.randint(0, 3))]
    texts = {f"s{size}": "a" * size for size in (9, 10, 11, 30)} | {"u": "é" * 11}
    containers = [
        _some(random, {"name": random.choice("abc"), "image": "a.example/b:1", "ports": [{"containerPort": 80}, {}]})
        for _ in range(random.randint(0, 3))
    ]
    spec = _some(random, {"containers": containers, "replicas": random.choice(SCALARS), "template": None})
    return {
        "object": _some(random, {"a": fields, "l": items, "t": texts, "spec": spec, "metadata": _meta(random)}),
        "oldObject": {"a": {"i": random.choice(SCALARS)}} if random.random() < 0.7 else None,
        "params": {"i": random.choice(SCALARS)} if random.random() < 0.8 else None,
        "namespaceObject": {"metadata": _meta(random) | {"name": "n"}} if random.random() < 0.8 else None,
        "request": {
            "operation": random.choice(("CREATE", "UPDATE")),
            "name": "n",
            "userInfo": {"username": "alice", "groups": ["a", "system:authenticated"]},
        }
        | _some(random, {"namespace": "team-a", "dryRun": True, "kind": {"group": "", "version": "v1", "kind": "Pod"}}),
        "authorizer": AUTHORIZER,
    }


def _meta(random: Random) -> dict[str, Any]:
    labels = {random.choice(("app", "a", "é")): random.choice(("a", "", "aaaaaaaaaaa"))}
    return _some(random, {"labels": labels, "name": "a-b", "creationTimestamp": "2026-01-02T03:04:05Z"})


def _some(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if random.random() < 0.85}


def _different(oracle: Oracle, batch: Sequence[tuple[CelCase, Tree]]) -> Iterator[tuple[CelCase, Tree]]:
    answers = oracle.ask([case for case, _ in batch])
    for (case, tree), answer in zip(batch, answers, strict=True):
        if _compare(oracle, case, [answer]) is not None and _problem(oracle, case) is not None:
            yield case, tree


def _problem(oracle: Oracle, case: CelCase) -> str | None:
    """The difference, if no answer that the reference gives in several tries is ours."""
    problem = _compare(oracle, case, oracle.ask([case] * AGAIN))
    if problem is None or not case.variables:
        return problem
    alone = [replace(case, mode="any", expression=f"variables.{name}") for name, _ in case.variables]
    return None if any(map(_panicked, oracle.ask(alone))) else problem  # a panic in a variable shows only in the cost


def _compare(oracle: Oracle, case: CelCase, answers: Sequence[dict[str, Any]]) -> str | None:
    if any(map(_panicked, answers)) or any(_of_go_types(case, answer) for answer in answers):
        return None  # nobody depends on it
    try:
        outcome = run(case, oracle.dialect)
        if (unlike := generated_differs(case, oracle.dialect)) is not None:
            return unlike
    except Exception as error:  # noqa: BLE001 - a crash of ours is what is looked for
        return f"crash: {type(error).__name__}: {error}"
    if outcome.error is not None and outcome.error.startswith(KNOWN):
        return None
    problems = [difference(replace(case, expect=expectation([answer])), outcome) for answer in answers]
    return None if None in problems else problems[0]


def _panicked(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is a failure of the reference itself, names its classes, or is a value that JSON lacks."""
    error = str(answer.get("error"))
    if answer.get("stage") == "panic" or "internal error: " in error or "reflectSchemaless" in error:
        return True
    value = str(answer.get("value"))
    return "'$error'" in value or "'ForceQuery'" in value  # the second is a url within an Object{}


def _of_go_types(case: CelCase, answer: Mapping[str, Any]) -> bool:
    """Whether an answer may be one about a struct of Go, such as `request`, in place of a map: see README.md."""
    structs = any(name in case.expression for name in ("request", "namespaceObject"))
    return structs and str(answer.get("error")).startswith(("no such overload", "unsupported map key type"))


def _minimised(oracle: Oracle, case: CelCase, tree: Tree) -> CelCase:
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


def _raw(case: CelCase) -> dict[str, Any]:
    variables = [{"name": name, "expression": expression} for name, expression in case.variables]
    return {"id": case.id, "expression": case.expression, "mode": case.mode, "variables": variables}


def _written(oracle: Oracle, case: CelCase) -> dict[str, Any]:
    raw = {key: value for key, value in _raw(case).items() if value}
    own = {name: value for name, value in case.inputs.items() if value != AUTHORIZER}
    return raw | own | {"expect": expectation(oracle.ask([case]))}


if __name__ == "__main__":
    sys.exit(main())
