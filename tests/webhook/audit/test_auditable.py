"""Which policies an audit asks."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from webhook.audit.audit import reason
from webhook.sources import policyfiles

_USER = "request.userInfo, which only a request has"


def _reason(validation: str, *, condition: str = "", variable: str = "true", operations: str = "CREATE UPDATE") -> str:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations.split(), "resources": ["pods"]}
    spec: dict[str, Any] = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "c", "expression": condition}] if condition else [],
        "variables": [{"name": "v", "expression": variable}],
        "validations": [{"expression": validation, "message": "Mend it."}],
    }
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    text = yaml.safe_dump({**document, "metadata": {"name": "p"}, "spec": spec})
    (policy,) = policyfiles.read([("p.yaml", text)], drafts=True).loaded.policies
    return reason(policy)


_SPEC = "has(object.spec)"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"validation": "has(object.metadata.labels)"}, ""),
        ({"validation": "request.namespace != 'x' && request.operation == 'CREATE'"}, ""),
        ({"validation": "variables.v", "variable": "oldObject == null ? true : oldObject.spec == object.spec"}, ""),
        ({"validation": "oldObject == null || object.spec == oldObject.spec"}, ""),
        ({"validation": _SPEC, "condition": "!request.userInfo.username.startsWith('system:')"}, ""),
        ({"validation": "request.userInfo.username == 'a'"}, f"it reads {_USER}"),
        ({"validation": "variables.v", "variable": "dyn(request).userInfo.username == 'a'"}, f"it reads {_USER}"),
        (
            {"validation": _SPEC, "condition": "request.userInfo.username == 'alice'"},
            "it reads request.userInfo to choose whose requests it judges",
        ),
        (
            {"validation": "authorizer.group('').resource('pods').check('get').allowed() || true"},
            "it reads authorizer, which only a request has",
        ),
        ({"validation": _SPEC, "operations": "UPDATE DELETE"}, "it judges UPDATE and DELETE, which no object shows"),
    ],
)
def test_policies_that_need_a_request_are_not_asked(given: dict[str, str], expected: str) -> None:
    """A policy is asked unless what it says depends on a requester or on the authorizer."""
    assert _reason(**given) == expected
