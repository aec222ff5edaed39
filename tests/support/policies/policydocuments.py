"""Policy documents from YAML text, read with the place of every value, as from files."""

from __future__ import annotations

from policies.admissionpolicy.documents.document import Document
from webhook.sources import policyfiles


def documents(text: str, name: str = "policy.yaml") -> list[Document]:
    """The documents of a file."""
    return policyfiles.parse(text, name)


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: {fail}
  matchConstraints: {{resourceRules: [{rule}]}}
  validations: [{{expression: "{expression}", message: "{message}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [{action}]}}
---
"""
CREATED_PODS = '{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}'


def policy(
    name: str,
    expression: str,
    message: str = "It is not so.",
    action: str = "Deny",
    fail: str = "Fail",
    rule: str = CREATED_PODS,
) -> str:
    """The text of a policy, about the creation of Pods by default, with its binding."""
    return _POLICY.format(name=name, expression=expression, message=message, action=action, fail=fail, rule=rule)
