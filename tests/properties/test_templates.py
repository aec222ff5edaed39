"""A policy on Pods that was exported for templates judges workloads as the service does with the Pods it derives."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.policies import publicpolicies

from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.pods.derivation import templated
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.admissionpolicy.templates.assembly import exported
from policies.objects.workload import BUILT_IN, Workload, table
from policies.suite import Case, Expectation
from properties.podrules import rules
from properties.templateworkloads import workloads

_TABLE = table(BUILT_IN)
_RULES = publicpolicies.rules()
_ROWS = tuple(templated(_TABLE).values())
_OPERATIONS = [("CREATE", "UPDATE"), ("CREATE",)]
_LABELLED = {("slinky.slurm.net", "NodeSet")}
"""Kinds whose controllers give Pods labels that no template has: a rule that reads all labels is not exported."""


@cache
def _runs(index: int, operations: tuple[str, ...], row: Workload) -> tuple[SuiteRun, SuiteRun] | None:
    """The policy of a rule, and what is exported of it for one kind; None if nothing is."""
    loaded = publicpolicies.loaded(publicpolicies.documents(_RULES[index], operations))
    result = exported(loaded.policies[0], loaded.bindings, {row.group_kind: row})
    if row.group_kind in _LABELLED and any("labels reads all labels" in error for error in result.errors):
        return None
    assert result.errors == ()
    given_ = StaticParameters([publicpolicies.parameters(_RULES[index])], {})
    return SuiteRun(loaded, given_), SuiteRun(publicpolicies.loaded([*result.policies, *result.bindings]), given_)


def _case(row: Workload, obj: Any, old: Any) -> Case:
    return Case(
        name=row.kind,
        operation="CREATE" if old is None else "UPDATE",
        object=obj,
        old_object=old,
        derived=True,
        expect=Expectation(verdict="allowed"),
    )


@settings(max_examples=200, phases=[Phase.generate])
@given(st.data(), st.sampled_from(range(len(_RULES))), st.sampled_from(_ROWS), st.sampled_from(_OPERATIONS))
def test_templates_are_judged_as_their_pods(data: Any, index: int, row: Workload, operations: tuple[str, ...]) -> None:
    """The API server refuses just the workloads that the service refuses, by the same rule."""
    runs = _runs(index, operations, row)
    if runs is None:
        return
    here, there = runs
    case = _case(row, data.draw(workloads(row)), data.draw(st.one_of(st.none(), workloads(row))))

    ours, theirs = here.outcome(case), there.outcome(case)

    assert theirs.verdict == ours.verdict, (yaml.dump(case.object), yaml.dump(case.old_object), ours, theirs)


@settings(max_examples=40, phases=[Phase.generate])
@given(st.data(), rules(), st.sampled_from(_ROWS), st.sampled_from(_OPERATIONS))
def test_random_rules_judge_templates_as_pods(
    data: Any, rule: dict[str, Any], row: Workload, operations: tuple[str, ...]
) -> None:
    """Whatever a rule on Pods reads, what is exported of it refuses the same workloads; or nothing is exported."""
    loaded = publicpolicies.loaded(publicpolicies.documents(rule, operations))
    result = exported(loaded.policies[0], loaded.bindings, {row.group_kind: row})
    if result.errors or result.notes:
        return
    made = publicpolicies.loaded([*result.policies, *result.bindings])
    here, there = (SuiteRun(each, StaticParameters([], {})) for each in (loaded, made))
    for _ in range(3):
        case = _case(row, data.draw(workloads(row)), data.draw(st.one_of(st.none(), workloads(row))))
        ours, theirs = here.outcome(case), there.outcome(case)
        assert theirs.verdict == ours.verdict, (rule, yaml.dump(case.object), yaml.dump(case.old_object), ours, theirs)
