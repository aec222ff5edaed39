"""What an expression reads of an object is all that it needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.casefile import files, read
from hypothesis import given
from hypothesis import strategies as st
from properties.shapes import bounded, pods
from support.builders import Json

from policies.cel.cases import COMPILE, CelCase, bound, compiled, difference, encode, run
from policies.cel.checker import check
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.reads import EVERYTHING, NOTHING, OBJECTS, ROOTS, Reads, composed_reads, reads
from policies.cel.syntax.ast import Node
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.kubernetes.release import NEWEST
from policies.objects.fieldpath import Pattern, Wildcard
from policies.objects.fieldpath import parse as parse_path


def tree_of(source: Source, composition: Composition) -> Node:
    """The checked tree of an expression."""
    tree = parse(source)
    check(tree, source, composition.environment)
    return tree


def found(text: str, **variables: str) -> Mapping[str, Reads]:
    """What an expression reads, with variables in their order."""
    composition = Composition(admission())
    for name, expression in variables.items():
        composition = composition.declare(name, expression)
    both = composed_reads([Source(text)], composition)
    assert both == reads(tree_of(Source(text), composition), _trees(composition))
    return both


def _trees(composition: Composition) -> dict[str, Node]:
    programs = {name: each for name, each in composition.programs.items() if isinstance(each, Program)}
    return {name: tree_of(program.source, composition) for name, program in programs.items()}


def projected(value: Any, patterns: list[Pattern]) -> Any:
    """The value without what no pattern leads to; what is of a type that is not expected stays as it is."""
    if () in patterns:
        return value
    steps = {pattern[0] for pattern in patterns}
    if isinstance(value, dict) and all(isinstance(step, str) for step in steps):
        rests = {key: [pattern[1:] for pattern in patterns if pattern[0] == key] for key in value}
        return {key: projected(child, rests[key]) for key, child in value.items() if rests[key]}
    if isinstance(value, list) and steps == {Wildcard.ITEMS}:
        return [projected(child, [pattern[1:] for pattern in patterns]) for child in value]
    return value


def kept(obj: Any, read_: Reads) -> Any:
    """What is left of an object when only these parts are decoded."""
    return projected(deepcopy(obj), [parse_path(path) for path in read_.paths])


PATHS = yaml.safe_load((Path(__file__).parent / "reads.yaml").read_text(encoding="utf-8"))["paths"]


@pytest.mark.parametrize("case", PATHS, ids=lambda case: case["name"])
def test_paths(case: Json) -> None:
    """What is selected is followed as far as it goes; what is used as it is, is read with all below."""
    both = found(case["expression"])

    assert ({*both["object"].paths}, {*both["oldObject"].paths}) == ({*case["object"]}, {*case.get("oldObject", ())})


def test_variables_are_followed() -> None:
    """A variable reads what its own expression reads, no further than the one that uses it; a broken one nothing."""
    both = found(
        "variables.all.all(c, c.image != '') && variables.old.a == 1 && variables.broken == 1",
        containers="object.spec.containers",
        all="variables.containers + object.spec.?initContainers.orValue([])",
        old="oldObject.spec",
        unused="object.status",
        broken="object.a +",
    )

    paths = {root: {*both[root].paths} for root in OBJECTS}
    assert paths == {
        "object": {"spec.containers[*].image", "spec.initContainers[*].image"},
        "oldObject": {"spec.a"},
    }


TOUCHES: dict[str, tuple[str, str, bool]] = {
    "the same": ("object.spec.a == 1", "spec.a", True),
    "above": ("object.spec.a == 1", "spec", True),
    "below": ("object.spec.a == object.b", "spec.a.x", True),
    "beside": ("object.spec.a == 1", "spec.b", False),
    "another field of elements": ("object.spec.v.all(v, !has(v.hostPath))", "spec.v[*].projected", False),
    "a field of elements": ("object.spec.v.all(v, !has(v.hostPath))", "spec.v[*].hostPath.path", False),
    "the field of elements itself": ("object.spec.v.all(v, !has(v.hostPath))", "spec.v[*].hostPath", True),
    "the list of the elements": ("object.spec.v.all(v, !has(v.hostPath))", "spec.v", True),
    "something below what is there": ("has(object.spec)", "spec.a", False),
    "the presence itself": ("has(object.spec.a)", "spec.a", True),
    "every value of a map": ("object.spec.a.b == 1", "spec.*.b", True),
    "a whole object": ("object == oldObject", "spec.a", True),
    "whether there is an object": ("object != null", "spec.a", False),
}


@pytest.mark.parametrize(("text", "path", "expected"), TOUCHES.values(), ids=TOUCHES)
def test_touches(text: str, path: str, expected: bool) -> None:  # noqa: FBT001
    """A change is seen where it is on the way to what is read, or below what is read as a whole."""
    assert found(text)["object"].touches(path) is expected


def test_a_policy_reads_what_its_expressions_read() -> None:
    """Several expressions together, with the variables that they share."""
    composition = Composition(admission()).declare("spec", "object.spec")

    both = composed_reads([Source("variables.spec.a > 1"), Source("has(oldObject.b)")], composition)

    assert both == {
        "object": Reads(frozenset({"spec.a"}), frozenset({"", "spec", "spec.a"})),
        "oldObject": Reads(frozenset(), frozenset({"", "b"})),
        "request": NOTHING,
    }


def test_an_expression_that_is_too_deep_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the walk does not come to an end, nothing may be left out."""

    def failing(_: object) -> None:
        raise RecursionError

    tree = tree_of(Source("object.a == 1"), Composition(admission()))
    monkeypatch.setattr("policies.cel.reads.deeply", failing)

    assert reads(tree, {}) == dict.fromkeys(ROOTS, EVERYTHING)


def _outcome(program: Program, composition: Composition, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    names = bound(inputs, composition)
    evaluation = program.evaluate_exactly(names)
    error = evaluation.error and str(evaluation.error)
    return repr(encode(evaluation.value)), error, evaluation.cost + names["variables"].cost


def _difference(case: CelCase) -> Any:
    """How the outcome on what is read differs from the recorded one, which is that on the whole objects."""
    expect = dict(case.expected(NEWEST) or {})
    if expect.get("stage") == COMPILE:
        return None
    program, composition = compiled(case)
    read_ = reads(tree_of(program.source, composition), _trees(composition))
    given: Json = dict(case.inputs)
    parts = {root: kept(given[root], read_[root]) for root in OBJECTS if given.get(root) is not None}
    outcome = run(replace(case, inputs={**given, **parts}))
    cost = expect.pop("cost")
    most = max(cost["oneOf"]) if isinstance(cost, dict) else cost
    wrong = difference(replace(case, expect=expect), outcome)
    return None if wrong is None and outcome.cost <= most else (case.expression, wrong, outcome.cost, most, read_)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_what_is_read_is_enough(path: Path) -> None:
    """Every recorded expression has on what it reads the value and the error that it has on all, and costs no more."""
    different = {case.id: wrong for case in read(path) if (wrong := _difference(case)) is not None}

    assert different == {}


EXPRESSIONS = (
    "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits)",
    "object.spec.?initContainers.orValue([]).all(c, c.?resources.?limits[?'cpu'].hasValue())",
    "(object.spec.containers + object.spec.?initContainers.orValue([])).map(c, c.resources.requests.cpu)",
    "object.spec.containers.filter(c, has(c.resources)).all(c, c.resources.limits != null)",
    "object.spec.tolerations.exists(t, t.key == 'is_gpu' && (!has(t.effect) || t.effect == 'NoSchedule'))",
    "object.spec.tolerations[0].key + object.metadata.name",
    "size(object.spec.tolerations) > 1 ? object.spec.nodeSelector : object.metadata.labels",
    "object.metadata.labels.all(k, k.startsWith('x') || object.metadata.labels[k] != '')",
    "object.metadata.ownerReferences.exists(o, o.controller) || !has(object.spec.nodeName)",
    "object.spec.containers.map(c, c.resources.limits.map(k, c.resources.limits[k]))",
    "[object.spec, object.metadata].exists(o, has(o.nodeName))",
    "object.spec.containers.transformList(i, c, c.resources)",
    "type(object.spec.nodeSelector) == map && object.spec.nodeSelector.exists(k, v, v == 'a')",
    "object.?spec.?affinity.optMap(a, has(a.nodeAffinity)).orValue(true)",
    "object.spec.tolerations.map(t, t.?tolerationSeconds.orValue(0)).sum() == 0 || object.spec == null",
)


@bounded
@given(st.sampled_from(EXPRESSIONS), pods)
def test_what_is_read_is_enough_of_odd_objects(text: str, obj: Json) -> None:
    """The same holds where parents are missing, null or of another type: the errors are the same too."""
    composition = Composition(admission())
    program = compile_expression(text, composition.environment)
    part = kept(obj, found(text)["object"])

    assert _outcome(program, composition, {"object": obj})[:2] == _outcome(program, composition, {"object": part})[:2]


def test_much_is_left_out() -> None:
    """Of the recorded policies over real objects most read a small part of them."""
    sizes = []
    for path in files():
        for case in read(path) if path.stem.startswith("real_") else ():
            try:
                program, composition = compiled(case)
            except CompileError:
                continue
            read_ = reads(tree_of(program.source, composition), _trees(composition))["object"]
            whole = case.inputs.get("object")
            if whole:
                sizes.append(len(repr(kept(whole, read_))) / len(repr(whole)))

    assert sum(sizes) / len(sizes) < 0.2
