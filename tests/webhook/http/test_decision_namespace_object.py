"""Policies that read `namespaceObject`: the Namespace is fetched while the call waits, and may be lost."""

from __future__ import annotations

from textwrap import dedent

import pytest
from support.builders import WORKLOADS, pod
from support.policies.policydocuments import documents
from support.service.reviews import answer_of, body
from support.service.servers import Directory, Serve, Unreachable

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS
from policies.admissionpolicy.rules.validatingrule import rules
from policies.engine.ruleset import RuleSet
from webhook.http.decision import Served

_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: teams}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "'team' in namespaceObject.metadata.labels"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: teams}
spec: {policyName: teams, validationActions: [Deny]}
"""


def _ruleset() -> RuleSet:
    loaded = read(documents(dedent(_POLICY)))
    return RuleSet(rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS))


@pytest.mark.parametrize(("namespace", "allowed"), [("gold", True), ("lead", False)])
async def test_the_namespace_is_read_once(serve: Serve, namespace: str, *, allowed: bool) -> None:
    """The Namespace that an expression reads is fetched when it is not at hand, and is what decides."""
    directory = Directory({"gold": {"team": "a"}, "lead": {"other": "b"}})
    running = await serve(Served(_ruleset(), directory.facts(), directory))

    reply = await running.post(body(pod(), namespace=namespace), "/validate")

    assert answer_of(reply.body)["allowed"] is allowed
    assert [name for name, _ in directory.asked] == [namespace]


async def test_a_namespace_that_is_lost_follows_the_failure_policy(serve: Serve) -> None:
    """A Namespace that cannot be had fails the policy, after one attempt, with the reason."""
    cluster = Unreachable("connection refused")
    running = await serve(Served(_ruleset(), Directory().facts(), cluster))

    answer = answer_of((await running.post(body(pod()), "/validate")).body)

    assert answer["allowed"] is False
    assert "namespace default could not be read: connection refused" in answer["status"]["message"]
    assert cluster.asked == ["default"]
