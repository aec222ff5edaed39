"""The shipped packs: each policy complete, its suite true here, its expressions sound and cheap."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.policies import packs

from policies.admissionpolicy.evaluation.expressiongroup import Group
from policies.admissionpolicy.rules import suiterun
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT, POLICY_LIMIT
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, compile_expression
from policies.objects.fieldpath import Wildcard, locate, render
from policies.objects.workload import BUILT_IN
from policies.suite import Case, Expectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.policies.packs import PackPolicy

    from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
    from policies.objects.workload import Workload

Json = dict[str, Any]
POLICIES = packs.shipped()
CASES = packs.cases()
COMPILED = [(policy, compiled) for policy in POLICIES for compiled in policy.compiled]
EXPECTED = {
    "interruptable-qos/interruptable-candidate",
    "interruptable-qos/interruptable-database",
    "interruptable-qos/interruptable-drain",
    "interruptable-qos/interruptable-training",
    "interruptable-qos/interruptable-value",
    "scheduling-safety/keyless-toleration",
    "scheduling-safety/node-selector",
    "scheduling-safety/reserved-toleration",
    "sunk/lock-toleration",
}
_REMEDY = re.compile(
    r"(?:^|\. )(?:Remove|Write|Set|Use|Name|Lower|Raise|Make sure)\b",
)
_SHARED = 3
"""So many variables, the first of each policy, find pod templates."""
_WORKLOADS = [row for row in BUILT_IN if row.templates]
# What an odd object may hold where something else belongs; lists not in place of maps, where CEL has no way to ask.
_ODD: tuple[Any, ...] = (None, "text", 5)
_ODD_LISTS: tuple[Any, ...] = ({}, [], [None, 5])
_POD: Json = {
    "metadata": {"labels": {"qos.coreweave.cloud/interruptable": "true"}},
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"node.kubernetes.io/type": "A40.1"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "node.kubernetes.io/type", "operator": "In", "values": ["A40.1"]}
                            ]
                        }
                    ]
                }
            }
        },
        "tolerations": [
            {"operator": "Exists"},
            {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "5f3a"},
            {"key": "sunk.coreweave.com/lock"},
        ],
        "containers": [{"name": "main", "image": "postgres:17", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    },
}


def _id(value: Any) -> str:
    if isinstance(value, packs.PackPolicy | Case):
        return value.name
    return str(value.policy.name)


def test_the_packs_are_all_there() -> None:
    """Every policy of the contract has its folder, and each folder is one."""
    assert {policy.name for policy in POLICIES} == EXPECTED


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_a_folder_is_complete(policy: PackPolicy) -> None:
    """Policies, bindings for each, parameters where they are asked for, a suite, and a README that says it all."""
    bound = {binding.policy_name for binding in policy.loaded.bindings}
    referred = {binding.param_ref.name for binding in policy.loaded.bindings if binding.param_ref is not None}
    readme = (policy.folder / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", readme, re.MULTILINE)

    assert policy.loaded.problems == ()
    assert bound == {each.name for each in policy.loaded.policies}
    assert referred == {config_map["metadata"]["name"] for config_map in policy.parameters}
    assert policy.suite.name == policy.folder.name
    assert policy.suite.policies == ("policy.yaml",)
    assert headings == ["Why", "What it costs to break it", "How to fix it", "Parameters", "When it cannot tell"]


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_a_readme_names_every_parameter(policy: PackPolicy) -> None:
    """What an operator can set is in the README."""
    readme = (policy.folder / "README.md").read_text(encoding="utf-8")
    keys = {key for config_map in policy.parameters for key in config_map["data"]}

    assert {key for key in keys if f"`{key}`" not in readme} == set()


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_every_validation_says_what_to_do(policy: PackPolicy) -> None:
    """A message has a remedy, both the one that is computed and the one for when that fails; a refusal is a 403."""
    for compiled in policy.compiled:
        for validation in compiled.policy.validations:
            assert validation.message_expression is not None
            texts = [validation.message, *re.findall(r"'((?:[^'\\]|\\.)*)'", validation.message_expression.text)]
            assert _REMEDY.search(texts[0]), texts[0]
            assert any(_REMEDY.search(text) for text in texts[1:]), texts
            assert validation.reason == "Forbidden"


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_every_expression_compiles(policy: PackPolicy) -> None:
    """Nothing is left that the compiler refuses."""
    assert [compiled.errors for compiled in policy.compiled] == [()] * len(policy.compiled)


@pytest.mark.parametrize(("policy", "case"), CASES, ids=_id)
def test_a_case_is_judged_as_its_suite_says(policy: PackPolicy, case: Case) -> None:
    """The engine of this project says what the suite expects, which the real API server says too."""
    assert packs.judged(policy, case) == case.expect


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_every_validation_has_a_case(policy: PackPolicy) -> None:
    """Each validation fails in some case, and some case passes without a word."""
    found = {
        (finding.policy, finding.index)
        for case in policy.suite.cases
        for finding in packs.result(policy, case)
        if finding.kind == "violation"
    }
    every = {(each.policy.name, index) for each in policy.compiled for index in range(len(each.policy.validations))}

    assert found == every
    assert Expectation(verdict="allowed") in [case.expect for case in policy.suite.cases]


@pytest.mark.parametrize(("policy", "case"), CASES, ids=_id)
def test_nothing_fails_on_a_case(policy: PackPolicy, case: Case) -> None:
    """No expression of a policy fails to evaluate, not even behind a failurePolicy that would hide it."""
    assert [finding for finding in packs.result(policy, case) if finding.kind != "violation"] == []


def test_all_policies_find_templates_alike() -> None:
    """The variables that find pod templates are the same text everywhere."""
    texts = {
        (variable.name, variable.expression.text)
        for _, compiled in COMPILED
        for variable in compiled.policy.variables
        if variable.name in ("objects", "roots", "templates")
    }

    assert sorted(name for name, _ in texts) == ["objects", "roots", "templates"]


@pytest.mark.parametrize("row", _WORKLOADS, ids=lambda row: f"{row.kind}.{row.group}")
def test_templates_are_found_where_the_table_of_workloads_says(row: Workload) -> None:
    """The pod templates of every kind, and their paths, are those of the built-in rules."""
    obj = _example(row)
    placed = suiterun.located(obj, _case(obj).namespace.name)
    expected = {f"{render(at)}." if at else "": pod for pattern in row.templates for at, pod in locate(placed, pattern)}

    group, found = _templates(obj, row)

    assert (group, len(found)) == (1, len(expected))
    assert {each["path"]: each["pod"] for each in found} == expected


@pytest.mark.parametrize(("policy", "compiled"), COMPILED, ids=_id)
def test_every_workload_is_matched(policy: PackPolicy, compiled: CompiledPolicy) -> None:
    """A policy that denies is for all kinds that hold pod templates, created or updated."""
    actions = [each.validation_actions for each in policy.loaded.bindings if each.policy_name == compiled.policy.name]
    if actions != [frozenset({"Deny"})]:
        return
    rules = compiled.policy.match_constraints.resource_rules
    matched = {(group, resource) for rule in rules for group in rule.api_groups for resource in rule.resources}

    assert matched == {(row.group, f"{row.kind.lower()}s") for row in _WORKLOADS}
    assert {rule.operations for rule in rules} == {("CREATE", "UPDATE")}


@pytest.mark.parametrize("row", _WORKLOADS, ids=lambda row: f"{row.kind}.{row.group}")
def test_odd_objects_are_judged_without_an_error(row: Workload) -> None:
    """Whatever stands at any place, a list in place of a map apart, no expression fails."""
    obj = _example(row)
    # Only these two look at more of the object than its templates, which all find alike.
    wider = ("interruptable-qos/interruptable-database", "interruptable-qos/interruptable-training")
    policies = [each for each in POLICIES if row.kind == "Rollout" or each.name in wider]
    templates = [at for pattern in row.templates for at, _ in locate(obj, pattern)]
    for path in list(_places(obj)):
        inside = any(path[: len(at)] == at and len(path) > len(at) for at in templates)
        # Inside, the templates of all kinds are looked at alike, so one kind will do.
        if path[0] in ("apiVersion", "kind", "metadata") or (inside and row.kind != "Rollout"):
            continue
        for odd in _ODD if isinstance(_get(obj, path), dict) else (*_ODD, *_ODD_LISTS):
            spoilt = copy.deepcopy(obj)
            _put(spoilt, path, odd)
            for policy in policies:
                case = _case(spoilt)
                failed = [each.message for each in packs.result(policy, case) if each.kind != "violation"]
                assert failed == [], (policy.name, path, odd)


@pytest.mark.parametrize(("policy", "compiled"), COMPILED, ids=_id)
def test_big_objects_are_cheap(policy: PackPolicy, compiled: CompiledPolicy) -> None:
    """For 50 templates of 10 containers an expression costs a tenth of its limit, a policy a hundredth of its own."""
    pod = copy.deepcopy(_POD)
    pod["spec"]["containers"] *= 10
    jobs = [{"name": f"job-{index}", "template": {"spec": {"template": pod}}} for index in range(50)]
    obj = {"apiVersion": "jobset.x-k8s.io/v1", "kind": "JobSet", "metadata": {"name": "big"}, "spec": {}}
    case = _case({**obj, "spec": {"replicatedJobs": jobs}})
    case = replace(case, operation="UPDATE", old_object={**obj, "spec": {"replicatedJobs": []}})
    inputs = packs.inputs_of(case)
    params = policy.parameters[0] if policy.parameters else None

    conditions = Group(compiled.composition, inputs.names(params), MATCH_CONDITIONS_LIMIT, None)
    for unit in compiled.conditions:
        conditions.evaluate(unit)
    validations = Group(compiled.composition, inputs.names(params, namespace=True), POLICY_LIMIT, None)
    for unit in (*compiled.validations, *(each for each in compiled.messages if each is not None)):
        before = validations.remaining
        validations.evaluate(unit)
        assert before - validations.remaining < EXPRESSION_LIMIT / 10

    assert MATCH_CONDITIONS_LIMIT - conditions.remaining < MATCH_CONDITIONS_LIMIT / 100
    assert POLICY_LIMIT - validations.remaining < POLICY_LIMIT / 100


def _templates(obj: Json, row: Workload) -> tuple[int, list[Json]]:
    """How many objects the variables are about, and the templates that they find in the first."""
    policy = COMPILED[0][1].policy
    composition = Composition(admission(params=True))
    for variable in policy.variables[:_SHARED]:
        composition = composition.declare(variable.name, variable.expression.text)
    program = compile_expression("variables.templates", composition.environment)
    names = packs.inputs_of(_case(obj)).names(None)
    assert names["request"]["kind"]["kind"] == row.kind
    found = program.evaluate(composition.bind(names))
    assert found.error is None, found.error
    return len(found.value), found.value[0]


def _example(row: Workload) -> Json:
    """An object of a kind with a Pod in all places where there is one; two where there may be many."""
    obj: Json = {"apiVersion": f"{row.group}/v1".lstrip("/"), "kind": row.kind, "metadata": {"name": "example"}}
    for pattern in row.templates:
        if not pattern:
            obj |= {**copy.deepcopy(_POD), "metadata": {"name": "example", **_POD["metadata"]}}
        else:
            _fill(obj, pattern)
    return obj


def _fill(value: Any, pattern: Any) -> None:
    step, rest = pattern[0], pattern[1:]
    if step is Wildcard.ITEMS:
        while len(value) < 2:
            value.append({})
        for each in value:
            _fill(each, rest)
    elif step is Wildcard.VALUES:
        for key in ("Master", "Worker"):
            _fill(value.setdefault(key, {}), rest)
    elif not rest:
        value[step] = copy.deepcopy(_POD)
    else:
        _fill(value.setdefault(step, [] if rest[0] is Wildcard.ITEMS else {}), rest)


def _case(obj: Json) -> Case:
    return Case(name="example", operation="CREATE", object=obj, expect=Expectation(verdict="allowed"))


def _places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a value, the first of each list only."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _places(each, (*at, key))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*at, 0))


def _get(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _put(value: Any, path: tuple[str | int, ...], odd: Any) -> None:
    _get(value, path[:-1])[path[-1]] = copy.deepcopy(odd)
