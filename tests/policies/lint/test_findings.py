"""Fields that may be absent, expressions that decide nothing, rules that nothing meets: policies, and what is found."""

from pathlib import Path

import pytest
import yaml
from support.policies.lintpolicies import DEPLOYMENTS, Json, binding, policy, said

_GROUPS = yaml.safe_load(Path(__file__).with_name("findings.yaml").read_text(encoding="utf-8"))
_CASES = [
    pytest.param(case, id=f"{group['promise']} {case.pop('name', '')}") for group in _GROUPS for case in group["cases"]
]


def _rules(changes: list[Json]) -> list[Json]:
    return [{**DEPLOYMENTS, **change} for change in changes]


@pytest.mark.parametrize("case", _CASES)
def test_findings(case: Json) -> None:
    """What lint says of a policy is its promise, and nothing else."""
    fields = dict(case)
    validations = fields.pop("validations", [fields.pop("expression", "object.metadata.name != 'a'")])
    expected, beside = fields.pop("findings", []), fields.pop("beside", [])
    if "bound" in fields:
        beside = [binding(matchResources={"resourceRules": _rules(fields.pop("bound"))})]
    if "excluded" in fields:
        fields["constraints"] = {"excludeResourceRules": _rules(fields.pop("excluded"))}
    rules = tuple(_rules(fields.pop("rules", [{}])))

    found = said(policy(*validations, rules=rules, **fields), *beside)

    assert [f"{id_}: {path}: {text}" for id_, path, text in found] == expected
