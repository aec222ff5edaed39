"""The shipped packs: each policy complete, its suite true here, its expressions sound and cheap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from support.builders import merged, node_affinity
from support.policies import packs
from support.templates import filled, written

from policies.admissionpolicy.derivation import UNDERIVED, is_derived
from policies.admissionpolicy.evaluation.compilation import part_of
from policies.admissionpolicy.evaluation.validator import Group
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT, POLICY_LIMIT
from policies.cel.generation import fusion
from policies.objects.fieldpath import locate, render
from policies.objects.workload import BUILT_IN
from policies.suite import Case, Expectation

if TYPE_CHECKING:
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
    "scheduling-safety/gpu-names",
    "scheduling-safety/keyless-toleration",
    "scheduling-safety/node-selector",
    "scheduling-safety/reserved-toleration",
    "sunk/lock-toleration",
    "sunk/prolog-grace",
}
_REMEDY = re.compile(r"(?:^|\. )(?:Remove|Write|Set|Use|Name|Lower|Raise|Make sure)\b")
_OF_WORKLOADS = {
    "interruptable-database": [
        *("pods", "replicationcontrollers", "deployments", "replicasets", "statefulsets", "rollouts"),
    ],
    "interruptable-training-indexed": ["jobs", "cronjobs"],
}
"""What a Pod does not show: how many there are, and claims; and whether a Job is Indexed."""
_WORKLOADS = [row for row in BUILT_IN if row.templates and row.group_kind not in UNDERIVED - {("", "Pod")}]
_TYPE = {"key": "node.kubernetes.io/type", "operator": "In", "values": ["A40.1"]}
_POD: Json = {
    "metadata": {"labels": {"qos.coreweave.cloud/interruptable": "true"}},
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"node.kubernetes.io/type": "A40.1"},
        "affinity": node_affinity({"matchExpressions": [_TYPE]}),
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
    """Policies, bindings, parameters, a suite, and a README that says it all; the compiler refuses nothing of it."""
    bound = {binding.policy_name for binding in policy.loaded.bindings}
    referred = {binding.param_ref.name for binding in policy.loaded.bindings if binding.param_ref is not None}
    readme = (policy.folder / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", readme, re.MULTILINE)

    assert policy.loaded.problems == ()
    assert bound == {each.name for each in policy.loaded.policies}
    assert referred == {config_map["metadata"]["name"] for config_map in policy.parameters}
    assert policy.suite.name == policy.folder.name
    assert policy.suite.policies == ("policy.yaml",)
    keys = {key for config_map in policy.parameters for key in config_map["data"]}
    assert {key for key in keys if f"`{key}`" not in readme} == set()
    assert [compiled.errors for compiled in policy.compiled] == [()] * len(policy.compiled)
    assert headings == ["Why", "What it costs to break it", "How to fix it", "Parameters", "When it cannot tell"]


@pytest.mark.parametrize("policy", POLICIES, ids=_id)
def test_every_validation_says_what_to_do(policy: PackPolicy) -> None:
    """A message has a remedy, both the one that is computed and the one for when that fails; a refusal is a 403."""
    for compiled in policy.compiled:
        for validation in compiled.policy.validations:
            assert _REMEDY.search(validation.message), validation.message
            if validation.message_expression is not None:
                texts = re.findall(r"'((?:[^'\\]|\\.)*)'", validation.message_expression.text)
                assert any(_REMEDY.search(text) for text in texts), texts
            assert validation.reason == "Forbidden"


@pytest.mark.parametrize(("policy", "case"), CASES, ids=_id)
def test_a_case_is_judged_as_its_suite_says(policy: PackPolicy, case: Case) -> None:
    """The engine says what the suite expects, as the real API server does, and no expression fails to evaluate."""
    assert packs.judged(policy, case) == case.expect
    assert [finding for finding in packs.result(policy, case) if finding.kind != "violation"] == []


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


@pytest.mark.parametrize("compiled", [compiled for _, compiled in COMPILED], ids=_id)
def test_rules_are_about_pods(compiled: CompiledPolicy) -> None:
    """Policies match the creation and the update of Pods and of their templates, but for those about workloads."""
    rules = compiled.policy.match_constraints.resource_rules
    resources = [resource for rule in rules for resource in rule.resources]

    assert {rule.operations for rule in rules} == {("CREATE", "UPDATE")}
    assert (is_derived(compiled.policy), resources) in [
        (True, ["pods"]),
        (False, _OF_WORKLOADS.get(compiled.policy.name)),
    ]


@pytest.mark.parametrize("row", _WORKLOADS, ids=lambda row: f"{row.kind}.{row.group}")
def test_every_kind_of_workload_is_judged(row: Workload) -> None:
    """Each policy on Pods speaks about each template of each kind, with its path, unless it excludes the kind."""
    (policy,) = (policy for policy in POLICIES if policy.name == "interruptable-qos/interruptable-value")
    obj = _example(row, {"metadata": {"labels": {"qos.coreweave.cloud/interruptable": "maybe"}}})
    paths = sorted(render(at) for pattern in row.templates for at, _ in locate(obj, pattern))

    messages = packs.judged(policy, replace(_case(obj), derived=True)).messages

    assert sorted(line.strip() for text in messages for line in text.split("\n")[1:]) == [
        f"{path}.{'.'.join(row.shape.labels)}".lstrip(".") for path in paths
    ]


@pytest.mark.parametrize("compiled", [compiled for _, compiled in COMPILED], ids=_id)
def test_one_function_judges_it_with_others(compiled: CompiledPolicy) -> None:
    """All of it is generated code. One policy that is always asked by itself takes as long as all others together."""
    part = part_of(compiled, is_selective=False)
    source, _ = fusion.written([part])

    assert part is not None
    assert "fail()" not in map(str.strip, source.splitlines())


@pytest.mark.parametrize(("policy", "compiled"), COMPILED, ids=_id)
def test_big_objects_are_cheap(policy: PackPolicy, compiled: CompiledPolicy) -> None:
    """For a Pod of 100 containers and tolerations an expression costs a tenth of its limit, a policy a hundredth."""
    spec = {**_POD["spec"], **{field: _POD["spec"][field] * 100 for field in ("containers", "tolerations")}}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big", **_POD["metadata"]}, "spec": spec}
    case = replace(_case(obj), operation="UPDATE", old_object={**obj, "metadata": {"name": "big"}, "spec": {}})
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


def _example(row: Workload, template: Json) -> Json:
    """An object of a kind with a template in all places where there is one; two where there may be many."""
    obj: Json = {"apiVersion": f"{row.group}/v1".lstrip("/"), "kind": row.kind, "metadata": {"name": "example"}}
    for pattern in row.templates:
        obj = filled(obj, pattern, written(row, template), 2) if pattern else merged(obj, template)
    return obj


def _case(obj: Json) -> Case:
    return Case(name="example", operation="CREATE", object=obj, expect=Expectation(verdict="allowed"))
