"""Rules, selectors and bindings that no request can meet."""

from typing import Any

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, Json, binding, policy, said

_RULE = "spec.matchConstraints.resourceRules[0]"
_TRUE = "object.metadata.name != 'a'"

_NEVER: dict[str, tuple[Json, str, str]] = {
    "singular": ({"resources": ["deployment"]}, ".resources[0]", "there is no resource 'deployment' in apps"),
    "misspelt": ({"resources": ["deploymnets"]}, ".resources[0]", "there is no resource 'deploymnets' in apps"),
    "subresource": (
        {"resources": ["deployments/scales"]},
        ".resources[0]",
        "there is no resource 'deployments/scales' in apps",
    ),
    "other group": ({"apiGroups": [""]}, ".resources[0]", "there is no resource 'deployments' in the core group"),
    "scope": ({"scope": "Cluster"}, ".scope", "the scope is Cluster, but deployments is Namespaced"),
    "connect": ({"operations": ["CONNECT"]}, ".resources[0]", "CONNECT never happens to deployments"),
    "created status": (
        {"resources": ["deployments/status"], "operations": ["CREATE", "CONNECT"]},
        ".resources[0]",
        "CREATE and CONNECT never happen to deployments/status",
    ),
}
_SOME: dict[str, Json] = {
    "subresource": {"resources": ["deployments/scale"], "operations": ["UPDATE"]},
    "wildcards": {"resources": ["*"]},
    "all below": {"resources": ["deployments/*"]},
    "custom group": {"apiGroups": ["example.org"], "resources": ["widget"]},
    "custom group beside": {"apiGroups": ["apps", "example.org"], "resources": ["widgets"]},
    "version that is off by default": {"apiVersions": ["v2alpha1"], "resources": ["widgets"]},
    "unknown in any version": {"apiVersions": ["*"], "resources": ["widgets"]},
    "connection": {"apiGroups": [""], "resources": ["pods/exec"], "operations": ["CONNECT"]},
    "operations of which one happens": {"resources": ["deployments/status"], "operations": ["CREATE", "UPDATE"]},
    "scope": {"scope": "Namespaced"},
    "scope of an unknown one": {"apiGroups": ["example.org"], "resources": ["widgets"], "scope": "Cluster"},
}


@pytest.mark.parametrize(("rule", "path", "message"), _NEVER.values(), ids=_NEVER)
def test_rule_that_never_matches(rule: Json, path: str, message: str) -> None:
    """What does not exist, or never happens, is named with the field."""
    assert said(policy(_TRUE, rules=({**DEPLOYMENTS, **rule},))) == [("never-matches", f"{_RULE}{path}", message)]


@pytest.mark.parametrize("rule", _SOME.values(), ids=_SOME)
def test_rule_that_may_match(rule: Json) -> None:
    """What exists, and what may exist in some cluster, is no finding."""
    assert said(policy(_TRUE, rules=({**DEPLOYMENTS, **rule},))) == []


@pytest.mark.parametrize(
    ("excluded", "covered"),
    [
        (DEPLOYMENTS, True),
        ({**DEPLOYMENTS, "operations": ["*"], "resources": ["*/*"]}, True),
        ({**DEPLOYMENTS, "resourceNames": ["a"]}, False),
        ({**DEPLOYMENTS, "operations": ["CREATE"]}, False),
        (PODS, False),
    ],
    ids=["same", "wider", "some names", "other operation", "other resource"],
)
def test_rule_that_is_excluded(excluded: Json, covered: bool) -> None:  # noqa: FBT001 - a column of the table
    """A rule of which an exclusion takes in everything is for nothing."""
    found = said(policy(_TRUE, constraints={"excludeResourceRules": [excluded]}))

    message = "excludeResourceRules excludes everything that this rule matches"
    assert found == ([("never-matches", _RULE, message)] if covered else [])


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ([("In", ["a"]), ("In", ["b"])], "In [a] and In [b]"),
        ([("In", ["a"]), ("NotIn", ["a", "b"])], "In [a] and NotIn [a, b]"),
        ([("NotIn", ["a"]), ("In", ["a"])], "NotIn [a] and In [a]"),
        ([("Exists", []), ("DoesNotExist", [])], "Exists and DoesNotExist"),
        ([("In", ["a", "b"]), ("NotIn", ["a"])], None),
        ([("NotIn", ["a"]), ("DoesNotExist", [])], None),
    ],
    ids=["two values", "in and not in", "not in and in", "there and not", "one value is left", "absent is not in"],
)
def test_selector_that_contradicts_itself(requirements: list[tuple[str, list[str]]], message: str | None) -> None:
    """Requirements of one label that no object meets together are a finding."""
    expressions = [{"key": "team", "operator": operator, "values": values} for operator, values in requirements]

    found = said(policy(_TRUE, constraints={"objectSelector": {"matchExpressions": expressions}}))

    whole = f"no object can meet both requirements for the label team: {message}"
    path = "spec.matchConstraints.objectSelector"
    assert found == ([("never-matches", path, whole)] if message else [])


@pytest.mark.parametrize(
    ("rule", "apart"),
    [
        (DEPLOYMENTS, False),
        ({**DEPLOYMENTS, "apiGroups": ["*"], "resources": ["*/*"], "operations": ["*"]}, False),
        (PODS, True),
        ({**DEPLOYMENTS, "operations": ["CREATE"]}, True),
        ({**DEPLOYMENTS, "resources": ["deployments/scale"]}, True),
    ],
    ids=["same", "wider", "other resource", "other operation", "subresource"],
)
def test_binding_that_its_policy_has_nothing_in_common_with(rule: Json, apart: bool) -> None:  # noqa: FBT001
    """The rules of a binding have to be for something that those of its policy are for."""
    bound: dict[str, Any] = binding(matchResources={"resourceRules": [rule]})

    message = "no request matches both this binding and the policy p"
    path = "spec.matchResources.resourceRules"
    assert said(policy(_TRUE), bound) == ([("never-matches", path, message)] if apart else [])
