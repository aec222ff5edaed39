"""Types of expressions in Kubernetes' words; tests/cluster compares many more with a real cluster."""

from typing import Any

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, policy

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.lint.typecheck import catalog, checked_kinds

_CORE = ["pods", "services", "configmaps", "secrets", "nodes", "namespaces", "endpoints", "limitranges", "bindings"]

_KINDS = ["Binding", "ConfigMap", "Endpoints", "LimitRange", "Namespace", "Node", "Pod", "Secret"]


def _read(document: dict[str, Any]) -> Any:
    return read([Document(value=document, name="p.yaml", places=lambda _: (1, 1))]).policies[0]


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
