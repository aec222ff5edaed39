"""Admission policies as rules of the engine: what they are asked about, and how they meet its look-ups and failures."""

from textwrap import dedent

import pytest
from builders import FACTS, WORKLOADS, NamespacesLost, NamespacesToAsk, deployment, pod, request
from policydocuments import documents

from policies import engine
from policies.admissionpolicy import mutatingrule, policyrule
from policies.admissionpolicy.documents import Loaded, read
from policies.admissionpolicy.params import NO_PARAMETERS
from policies.admissionpolicy.schema import unknown
from policies.facts import UnknownFact
from policies.match import ResourceRule
from policies.rule import Rule
from policies.ruleset import RuleSet

_SPEC = """\
    matchConstraints:
      matchPolicy: Exact
      namespaceSelector: {matchLabels: {team: ml}}
      resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]
    """
_VALIDATING = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: limits, annotations: {{cks-admission.dev/derive: "DERIVE"}}}}
spec:
{_SPEC}
    validations: [{{expression: has(object.spec.priorityClassName)}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: limits}}
spec: {{policyName: limits, validationActions: [Deny]}}
"""
_MUTATING = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: class}}
spec:
{_SPEC}
    failurePolicy: FAILURE
    reinvocationPolicy: Never
    mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {{expression: "Object{{spec: Object.spec{{priorityClassName: 'low'}}}}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: class}}
spec: {{policyName: class}}
"""


def _loaded(text: str) -> Loaded:
    loaded = read(documents(dedent(text)))
    assert loaded.problems == ()
    return loaded


def _validating(derive: str = "true") -> Rule:
    loaded = _loaded(_VALIDATING.replace("DERIVE", derive))
    (rule,) = policyrule.rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)
    return rule


def _mutating(failure_policy: str = "Fail") -> Rule:
    loaded = _loaded(_MUTATING.replace("FAILURE", failure_policy))
    (rule,) = mutatingrule.rules(loaded.policies, loaded.bindings, NO_PARAMETERS, unknown)
    return rule


_PODS = ResourceRule(("CREATE", "UPDATE", "DELETE", "CONNECT"), ("",), ("pods",), ("v1",))


def test_a_policy_on_pods_asks_about_workloads_too() -> None:
    """The hook of a derived policy has every kind with a pod template, that of another one only what it names."""
    templates = [
        ResourceRule(("CREATE", "UPDATE"), (group,), (f"{kind.lower()}s",))
        for group, kind in WORKLOADS
        if (group, kind) != ("", "Pod")
    ]

    assert [hook.resources for hook in _validating().hooks] == [(_PODS, *templates)]
    assert [hook.resources for hook in _validating("false").hooks] == [(_PODS,)]
    assert [hook.resources for hook in _mutating().hooks] == [(_PODS,)]


@pytest.mark.parametrize("obj", [pod(), deployment()], ids=["pod", "deployment"])
def test_a_namespace_that_is_not_known_is_asked_for(obj: dict[str, object]) -> None:
    """A selector that needs a Namespace asks for it, for a template as well."""
    with pytest.raises(UnknownFact) as needed:
        engine.validate(request(obj), RuleSet([_validating()]), NamespacesToAsk(FACTS.as_of))

    assert needed.value.namespace == "default"


@pytest.mark.parametrize(("failure_policy", "allowed"), [("Fail", False), ("Ignore", True)])
def test_a_namespace_that_is_lost_follows_the_failure_policy(failure_policy: str, *, allowed: bool) -> None:
    """What cannot be judged is refused or let pass as the policy says."""
    answer = engine.mutate(request(pod()), RuleSet([_mutating(failure_policy)]), NamespacesLost(FACTS.as_of))

    assert (answer.allowed, answer.operations) == (allowed, ())
