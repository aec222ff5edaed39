"""Types of expressions in Kubernetes' words; tests/cluster compares many more with a real cluster."""

from typing import Any

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, policy

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.lint.typecheck import catalog, checked_kinds, warnings

_CORE = ["pods", "services", "configmaps", "secrets", "nodes", "namespaces", "endpoints", "limitranges", "bindings"]

_KINDS = ["Binding", "ConfigMap", "Endpoints", "LimitRange", "Namespace", "Node", "Pod", "Secret"]


def _read(document: dict[str, Any]) -> Any:
    return read([Document(value=document, name="p.yaml", places=lambda _: (1, 1))]).policies[0]


def test_warnings_are_those_of_the_status() -> None:
    """A warning has the field, and for each kind the issue, the line and dots up to the place."""
    found = warnings(_read(policy("object.spec.nodeName == 'a'", rules=(DEPLOYMENTS, PODS))), catalog(()))

    assert [(each.field_ref, each.warning) for each in found] == [
        (
            "spec.validations[0].expression",
            (
                "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'nodeName'\n"
                " | object.spec.nodeName == 'a'\n"
                " | ...........^\n"
            ),
        )
    ]


def test_several_kinds_follow_each_other() -> None:
    """The texts of the kinds are in their order, an empty line between them."""
    rules = ({**DEPLOYMENTS, "resources": ["statefulsets", "deployments"]},)

    found = warnings(_read(policy("object.spec.nope == 'a'", rules=rules)), catalog(()))

    text = ": ERROR: <input>:1:12: undefined field 'nope'\n | object.spec.nope == 'a'\n | ...........^\n"
    assert [each.warning for each in found] == [f"apps/v1, Kind=Deployment{text}\napps/v1, Kind=StatefulSet{text}"]


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        (({**DEPLOYMENTS, "apiVersions": ["*"]},), []),
        (({**DEPLOYMENTS, "resources": ["*"]},), []),
        (({**DEPLOYMENTS, "resources": ["deployments/scale"]},), []),
        (({**DEPLOYMENTS, "resources": ["deployment"]},), ["Deployment"]),
        (({**DEPLOYMENTS, "apiGroups": [""]},), ["Deployment"]),
        (({**PODS, "resources": ["events"]},), ["Event", "Event"]),
        (
            ({**PODS, "resources": _CORE}, DEPLOYMENTS),
            [*_KINDS, "Deployment", "Service"],
        ),
        (
            ({**PODS, "resources": [*_CORE, "events"]}, DEPLOYMENTS),
            [*_KINDS, "Event", "Event"],
        ),
    ],
    ids=["any version", "any resource", "subresource", "singular", "any group", "two groups", "nine", "ten are enough"],
)  # fmt: skip
def test_kinds_that_are_checked(rules: tuple[dict[str, Any], ...], kinds: list[str]) -> None:
    """Rules without wildcards lead to kinds as a RESTMapper finds them, and a rule with ten of them ends the search."""
    found = checked_kinds(_read(policy("true", rules=rules)), catalog(()))

    assert sorted(kind.kind for kind in found) == sorted(kinds)
