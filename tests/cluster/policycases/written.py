"""The cases that stand in cases.yaml: what its keys say is said there."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cluster.policycases import case
from cluster.policycases.case import DENY, EVERYTHING, Ask, Case, Json

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = {"TWO_CHECKS": case.TWO_CHECKS, "ONE_CHECK": case.ONE_CHECK, "EXPENSIVE": case.EXPENSIVE, "BIG": case.BIG}
_KINDS = {
    each.kind: each for each in (case.CONFIG_MAP, case.POD, case.DEPLOYMENT, case.NAMESPACE_KIND, case.CLUSTER_ROLE)
}


def _cases(section: str, name: str, row: Json) -> Iterator[Case]:
    """The cases of a row: one for each of its failure policies and lists of actions."""
    policies = row.pop("failurePolicy", None)
    actions = row.pop("actions", None)
    for policy, action in product(*(each if isinstance(each, list) else [each] for each in (policies, actions))):
        parts = [name, *([policy] if isinstance(policies, list) else []), *(action or ())]
        spec = {**row, **({"failurePolicy": policy} if policy else {})}
        if action:
            spec["bindings"] = [{"validationActions": action}]
        yield _case(section, "-".join(parts).lower(), spec)


def _case(section: str, name: str, row: Json) -> Case:
    """The case of a row without alternatives."""
    asks = [_ask(**each) for each in row.pop("asks", [{}])]
    bindings = row.pop("bindings", [{} if section == "mutating" else DENY])
    if "ref" in row:
        bindings = [bindings[0] | {"paramRef": {"parameterNotFoundAction": "Deny"} | row.pop("ref")}]
    if "kind" in row:
        row["paramKind"] = row.pop("kind")
    prefix = "m" if section == "mutating" else "v"
    if "rule" in row:
        rule = {**row.pop("rule"), "apiVersions": ["*"], "resourceNames": [f"{prefix}-{name}-old"]}
        row["match"] = {"resourceRules": [{key: rule[key] for key in (*EVERYTHING, "resourceNames")}]}
    if "conditions" in row:
        row["matchConditions"] = [
            {"name": f"c{index}", "expression": text} for index, text in enumerate(row.pop("conditions"))
        ]
    if "variables" in row:
        row["variables"] = [{"name": key, "expression": text} for key, text in row["variables"].items()]
    if "annotations" in row:
        notes = row.pop("annotations").items()
        row["auditAnnotations"] = [{"key": key, "valueExpression": text} for key, text in notes]
    if section == "mutating":
        return case.mutating(name, *row.pop("do"), asks=asks, bindings=bindings, **row)
    checks = row.pop("checks", None) or ([row.pop("check")] if "check" in row else [])
    if "says" in row:
        checks = [{"expression": "false", "messageExpression": row.pop("says")}]
    return case.validating(name, *checks, asks=asks, bindings=bindings, **row)


def _ask(kind: str = "ConfigMap", **fields: Any) -> Ask:
    for key in ("groups", "extra"):
        if key in fields:
            fields[key] = tuple(tuple(each) if isinstance(each, list) else each for each in fields[key])
    return Ask(kind=_KINDS[kind], **fields)


def _filled(value: Any) -> Any:
    """A part of the file with the texts that its words stand for."""
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, str):
        for word, text in _LONG.items():
            value = value.replace(word, text)
    return value


CASES: dict[str, tuple[Case, ...]] = {
    section: tuple(made for name, row in rows.items() for made in _cases(section, name, row))
    for section, rows in _filled(
        yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))
    ).items()
}
