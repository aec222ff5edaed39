"""Writes what kube-apiserver's library answers into the case files beside this one.

    cd tests && python -m conformance.record [--all] [FILE ...]

A case without `expect` is recorded; with --all every case is. The library of every release is asked: one answer is
written where they agree, else also one for each release that differs from that before. Each is asked several times,
since Go iterates maps in any order: where the cost varies, every value seen is written as `oneOf`; where the answer
itself varies, or a library panics, the case is named on stderr and left without `expect`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cluster import toolchain

from policies.cel.cases import INPUTS
from policies.kubernetes.release import RELEASES, Release

HERE = Path(__file__).parent
MORE_RUNS = 1_000
"""How often a case is asked whose cost is seen to vary, so that no order of a small map is missed."""

Document = dict[str, Any]
Answer = dict[str, Any]


def main() -> int:
    """Records the files named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="conformance.record", description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="record again what has been recorded")
    parser.add_argument("--runs", type=int, default=6, help="how often each case is asked (default: 6)")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    options = parser.parse_args()
    failures, oracles = 0, {release: built(release) for release in RELEASES}
    for path in options.files or sorted(HERE.glob("*.yaml")):
        failures += record(path, oracles, options.runs, everything=options.all)
    return 1 if failures else 0


def built(release: Release) -> Path:
    """The oracle of a release, built into the user's cache by go, which knows when there is nothing to do."""
    target = toolchain.cache_directory().parent / f"oracle-{release.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    folder, modules = HERE / "oracle", f"{release.name}/go.mod"
    pinned = (folder / modules).read_text(encoding="utf-8")
    go = toolchain.go_for([pinned], toolchain.cache_directory())
    with tempfile.NamedTemporaryFile("w", suffix=".json") as overlay, tempfile.TemporaryDirectory() as scratch:
        replaced = {}
        for source in folder.glob("*.go") if "cel.dev/cel-go" in pinned else ():  # cel-go under its new name
            Path(scratch, source.name).write_text(
                source.read_text().replace("github.com/google/cel-go", "cel.dev/cel-go")
            )
            replaced[str(source)] = f"{scratch}/{source.name}"
        json.dump({"Replace": replaced}, overlay)
        overlay.flush()
        options = (f"-overlay={overlay.name}", f"-modfile={modules}", "-o", str(target))
        command = [str(go.command), "build", *options, "."]
        subprocess.run(command, cwd=folder, env=go.environment, check=True)
    return target


def record(path: Path, oracles: Mapping[Release, Path], runs: int, *, everything: bool) -> int:
    """Records one file and returns how many cases could not be."""
    document: Document = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    cases = [case for case in document["cases"] if everything or "expect" not in case]
    if not cases:
        return 0
    asked = [question(document, case) for case in cases]
    said = {release: _answers(oracle, cases, asked, runs) for release, oracle in oracles.items()}
    failures = 0
    for number, case in enumerate(cases):
        case.pop("expect", None)
        problems = {release.name: _problem(answers[number]) for release, answers in said.items()}
        if not any(problems.values()):
            case["expect"] = _together({release: expectation(answers[number]) for release, answers in said.items()})
        for name, problem in problems.items():
            if problem is not None:
                failures += 1
                print(f"{path.name}: {case['id']}: {name}: {problem}: {case['expression']}", file=sys.stderr)
    path.write_text(dump(document))
    return failures


def _answers(oracle: Path, cases: Sequence[Document], asked: Sequence[Document], runs: int) -> list[list[Answer]]:
    """What an oracle says to each case, asked several times."""
    seen = [ask(oracle, asked) for _ in range(runs)]
    said = [[run[number] for run in seen] for number in range(len(asked))]
    for number, case in enumerate(cases):
        varied = "oneOf" in json.dumps(case.get("expect"))  # a few runs may miss it
        if varied or len(set(map(_text, said[number]))) > 1:
            said[number] += ask(oracle, [asked[number]] * MORE_RUNS)
    return said


def _together(expected: Mapping[Release, Document]) -> Document:
    """What a case expects, once if all releases agree, else by the names of those that differ from the one before."""
    former = [None, *expected.values()]
    changes = {
        release.name: one for (release, one), before in zip(expected.items(), former, strict=False) if one != before
    }
    return changes if len(changes) > 1 else next(iter(expected.values()))


def question(document: Document, case: Document) -> Document:
    """A case as the oracle reads it: with its own fixtures, or else those of its file."""
    fixtures = {name: case.get(name, document["fixtures"].get(name)) for name in INPUTS}
    mode = case.get("mode", "any")
    variables = [{"Name": one["name"], "Expression": one["expression"]} for one in case.get("variables", ())]
    asked = {"id": case["id"], "expression": case["expression"], "mode": "" if mode == "any" else mode}
    return asked | {"variables": variables} | fixtures


def ask(oracle: Path, questions: Sequence[Document]) -> list[Answer]:
    """The oracle's answers, in the same order."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(questions, file)
        file.flush()
        done = subprocess.run([oracle, file.name], stdout=subprocess.PIPE, check=True)
    answers: list[Answer] = json.loads(done.stdout)
    return answers


def expectation(answers: Iterable[Answer]) -> Document:
    """What a case expects, from answers that differ in nothing but cost."""
    answer, *_ = answers = list(answers)
    costs = sorted({one["cost"] for one in answers})
    cost = costs[0] if len(costs) == 1 else {"oneOf": costs, "why": "Go map iteration order"}
    if "error" in answer:
        return {"stage": answer["stage"], "error": answer["error"], "cost": cost}
    return {"value": answer.get("value"), "type": answer["type"], "cost": cost}


def _problem(answers: Sequence[Answer]) -> str | None:
    if any(answer.get("stage") == "panic" for answer in answers):
        return f"the library panics: {answers[0]['error']}"
    if len({_text(answer | {"cost": 0}) for answer in answers}) > 1:
        return "the answer depends on the order of a map"
    return None


def _text(answer: Answer) -> str:
    return json.dumps(answer, sort_keys=True)


def dump(document: Document) -> str:
    """The YAML of a case file: what a case expects on one line, so that the file stays short."""
    cases = []
    for case in document["cases"]:
        expect = case.get("expect", {})
        by_release = RELEASES[0].name in expect
        lines = {name: _OneLine(one) for name, one in expect.items()} if by_release else _OneLine(expect)
        cases.append(case | {"expect": lines} if expect else case)
    document = document | {"cases": cases}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=160)


class _OneLine(dict[str, Any]):
    """A map that is written within braces."""


class _Dumper(yaml.CSafeDumper):
    """Without anchors: what two cases share is written twice."""

    def ignore_aliases(self, data: object) -> bool:
        """Never an alias."""
        del data
        return True


_NUMBER = re.compile(r"[-+]?(?:[0-9.]+[eE][-+]?[0-9]+|\.[0-9]+|0o[0-7]+)")


def _text_node(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    """A text, in quotes also where only other readers of YAML, Kubernetes' among them, would take it for a number."""
    quoted = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)


_Dumper.add_representer(str, _text_node)
_Dumper.add_representer(
    _OneLine, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)
)


if __name__ == "__main__":
    sys.exit(main())
