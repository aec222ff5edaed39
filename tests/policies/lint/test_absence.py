"""Reads of what may not be there, and the tests that guard them."""

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, policy, said

_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "limits.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Limit", "plural": "limits"},
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["max"],
                                "properties": {
                                    "max": {"type": "integer"},
                                    "min": {"type": "integer"},
                                    "step": {"type": "integer", "default": 1},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
_GUARDED = {
    "required": "object.spec.template.spec.containers.size() > 0",
    "filled in": "object.spec.replicas <= 5 && object.spec.strategy.type == 'Recreate'",
    "metadata": "object.metadata.name != object.metadata.namespace",
    "and": "has(object.spec.paused) && object.spec.paused",
    "and, behind": "object.spec.paused && has(object.spec.paused)",
    "or not": "!has(object.spec.paused) || object.spec.paused == false",
    "choice": "has(object.spec.paused) ? object.spec.paused == true : true",
    "choice, other branch": "!has(object.spec.paused) ? true : object.spec.paused == true",
    "optional": "object.spec.?paused.orValue(false) == false",
    "has value": "object.spec.?paused.hasValue() && object.spec.paused",
    "key": "has(object.metadata.labels) && 'a' in object.metadata.labels && object.metadata.labels['a'] == 'b'",
    "key as a field": "has(object.metadata.labels) && has(object.metadata.labels.a) && object.metadata.labels.a == 'b'",
    "optional key": "object.metadata.?labels[?'a'].orValue('') == 'b'",
    "keys": "has(object.metadata.labels) && object.metadata.labels.all(k, object.metadata.labels[k] != '')",
    "key that exists": (
        "has(object.metadata.labels) && object.metadata.labels.exists(k, k == 'a') && object.metadata.labels.a == 'b'"
    ),
    "macro": "object.spec.template.spec.containers.all(c, has(c.command) && c.command[0] != 'sh')",
    "filter": "object.spec.template.spec.containers.filter(c, has(c.command)).all(x, x.command[0] != 'sh')",
    "filter of map": "object.spec.template.spec.containers.map(c, has(c.command), c.command).all(x, x[0] != 'sh')",
    "optMap": "object.metadata.?labels.optMap(l, 'a' in l && l.a == 'b').orValue(true)",
    "template labels": "'a' in object.spec.template.metadata.labels",
    "null": "oldObject == null || oldObject.spec.replicas == 1",
    "operation": "request.operation == 'CREATE' || oldObject.spec.replicas == 1",
}
_UNGUARDED = {
    "field": ("object.spec.paused == false", "object.spec.paused"),
    "second of a chain": ("object.metadata.annotations['a'] == 'b'", "object.metadata.annotations"),
    "wrong field": ("has(object.spec.minReadySeconds) && object.spec.paused", "object.spec.paused"),
    "wrong side": ("has(object.spec.paused) || object.spec.paused", "object.spec.paused"),
    "wrong branch": ("has(object.spec.paused) ? true : object.spec.paused == true", "object.spec.paused"),
    "in has": ("has(object.metadata.labels.a)", "object.metadata.labels"),
    "element": ("object.spec.template.spec.containers.all(c, c.command[0] != 'sh')", "c.command"),
    "filtered otherwise": (
        "object.spec.template.spec.containers.filter(c, has(c.args)).all(c, c.command[0] != 'sh')",
        "c.command",
    ),
    "range": ("object.spec.template.spec.volumes.all(v, v.name != '')", "object.spec.template.spec.volumes"),
    "namespace": ("namespaceObject.metadata.annotations.a == 'b'", "namespaceObject.metadata.annotations"),
}


@pytest.mark.parametrize("expression", _GUARDED.values(), ids=_GUARDED)
def test_what_is_there_or_tested_is_no_finding(expression: str) -> None:
    """Fields that are always there, and those that are tested in any of CEL's ways, may be read."""
    assert said(policy(expression)) == []


@pytest.mark.parametrize(("expression", "read"), _UNGUARDED.values(), ids=_UNGUARDED)
def test_what_is_read_untested_is_a_finding(expression: str, read: str) -> None:
    """The first field of a chain that may be absent is named, once."""
    assert said(policy(expression)) == [
        ("missing-has", "spec.validations[0].expression", f"{read} may be absent; then the expression fails")
    ]


def test_a_key_of_a_map_may_be_absent() -> None:
    """A map that is there may be without the key that is read."""
    assert said(policy("has(object.metadata.labels) && object.metadata.labels['a'] == 'b'")) == [
        (
            "missing-has",
            "spec.validations[0].expression",
            "object.metadata.labels may not have the key 'a'; then the expression fails",
        )
    ]


def test_parameters_follow_the_schema_of_their_definition() -> None:
    """What a custom resource requires or defaults is there; its other fields may be absent."""
    kind = {"apiVersion": "example.org/v1", "kind": "Limit"}
    expression = "params.spec.max + params.spec.step > params.spec.min"

    assert said(policy(expression, paramKind=kind), _CRD) == [
        ("missing-has", "spec.validations[0].expression", "params.spec.min may be absent; then the expression fails")
    ]


def test_variables_count_as_what_they_stand_for() -> None:
    """A test of a variable guards the field, a variable is read under the tests where it is used, and named itself."""
    variables = {
        "spec": "object.spec",
        "labels": "object.metadata.labels",
        "safe": "object.spec.minReadySeconds > 1",
        "tested": "has(object.spec.revisionHistoryLimit) && has(object.spec.minReadySeconds)",
    }
    expressions = ("has(variables.spec.paused) && object.spec.paused", "variables.tested && variables.safe")

    assert said(policy(*expressions, "variables.labels.size() > 0", variables=variables)) == [
        (
            "missing-has",
            "spec.variables[1].expression",
            "object.metadata.labels may be absent; then the expression fails",
        )
    ]


def test_match_conditions_guard_all_else() -> None:
    """Where a condition is not met nothing is evaluated."""
    assert said(policy("object.spec.paused == true", conditions={"paused": "has(object.spec.paused)"})) == []


def test_what_another_validation_demands_is_there() -> None:
    """Without it the other validation refuses anyway; a test within an alternative demands nothing."""
    message = {"message": "set the field to what the guide says"}
    demands = {"expression": "has(object.spec.paused) && 1 < 2", **message}
    allows = {"expression": "!has(object.spec.paused) || object.spec.replicas > 1", **message}

    assert said(policy("object.spec.paused == true", demands)) == []
    assert [path for _, path, _ in said(policy("object.spec.paused == true", allows))] == [
        "spec.validations[0].expression"
    ]


def test_a_message_is_made_where_its_validation_is_false() -> None:
    """What the validation tested may be just what is absent then."""
    guarded = "has(object.spec.paused) && object.spec.paused == false"
    validation = {"expression": guarded, "messageExpression": "string(object.spec.paused) + ' is wrong'"}

    assert [(id_, path) for id_, path, _ in said(policy(validation))] == [
        ("missing-has", "spec.validations[0].messageExpression")
    ]


@pytest.mark.parametrize(
    ("operations", "expression", "expected"),
    [
        (
            ["CREATE"],
            "oldObject.spec.replicas == 1",
            "oldObject is null on CREATE, which the policy matches, but oldObject.spec is read",
        ),
        (
            ["DELETE"],
            "object.spec.replicas == 1",
            "object is null on DELETE, which the policy matches, but object.spec is read",
        ),
        (
            ["*"],
            "object.spec.replicas == 1",
            "object is null on DELETE, which the policy matches, but object.spec is read",
        ),
        (["UPDATE"], "oldObject.spec.replicas == object.spec.replicas", None),
        (["DELETE"], "oldObject.spec.replicas == 1", None),
        (["CREATE"], "oldObject != null && oldObject.spec.replicas == 1", None),
        (["*"], "oldObject == null ? object.spec.replicas == 1 : oldObject.spec.replicas == 1", None),
    ],
    ids=["create", "delete", "any", "update", "old on delete", "tested", "one of both"],
)
def test_objects_are_null_on_some_operations(operations: list[str], expression: str, expected: str | None) -> None:
    """The object that an operation does not have is read only behind a test."""
    found = said(policy(expression, rules=({**DEPLOYMENTS, "operations": operations},)))

    where = "spec.validations[0].expression"
    assert found == ([("null-object", where, expected)] if expected else [])


@pytest.mark.parametrize(
    ("condition", "is_null"),
    [
        ("has(namespaceObject.metadata.labels) && 'team' in namespaceObject.metadata.labels", True),
        ("namespaceObject == null || namespaceObject.metadata.name == 'a'", False),
    ],
)
def test_match_conditions_have_no_namespace(condition: str, *, is_null: bool) -> None:
    """A match condition never has a namespaceObject, whatever else it tests; a validation has."""
    expected = "namespaceObject is null in match conditions, so this fails on every request"

    found = said(policy("namespaceObject.metadata.name != 'b'", conditions={"c": condition}))

    assert found == ([("null-object", "spec.matchConditions[0].expression", expected)] if is_null else [])


def test_null_objects_are_found_without_a_schema() -> None:
    """A rule with wildcards tells nothing of fields, and yet that the object is null."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}

    assert [id_ for id_, _, _ in said(policy("oldObject.a.b == 1 || object.a.b == 1", rules=(rule,)))] == [
        "null-object"
    ]


def test_what_is_for_another_kind_is_not_looked_at() -> None:
    """Behind a test of the kind only that kind counts, whichever way the test is written."""
    rules = (DEPLOYMENTS, PODS)
    tested = (
        "object.kind != 'Pod' || has(object.spec.nodeName) && object.spec.nodeName != 'a'",
        "!(request.kind.kind in ['Pod']) || object.spec.containers.size() < 3",
        "['Deployment', 'Job'].all(k, object.kind != k) || object.spec.replicas < 5",
        "object.kind == 'Pod' ? object.spec.containers.size() > 0 : object.spec.replicas > 0",
        "(has(object.spec.template) ? object.spec.template.spec : object.spec).containers.size() < 3",
        "has(object.spec.template) ? object.spec.replicas < 3 : object.spec.containers.size() < 4",
    )

    assert said(policy(*tested, rules=rules)) == []
    assert said(policy("object.kind != 'Pod' || object.spec.nodeName != 'a'", rules=rules)) == [
        (
            "missing-has",
            "spec.validations[0].expression",
            "object.spec.nodeName may be absent; then the expression fails",
        )
    ]
