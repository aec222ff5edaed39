"""What the settings spare: no entry asks about it, and no rule but the guard's decides about it."""

from typing import Any

import pytest
from support.builders import Json, daemon_set, deployment, pod, request
from support.service.reviews import RESERVED, TODAY

from policies.engine.engine import mutate, validate
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from policies.engine.ruleset import RuleSet
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.configurations import Client, configurations
from webhook.sources import policyfiles

_FACTS = StaticFacts(TODAY)
_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: FAIL
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: RESOURCES}]
  validations: [{expression: "false", message: "Never."}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
---
"""
_CHANGE = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: change}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
    - patchType: JSONPatch
      jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: change}
spec: {policyName: change}
"""
_REFUSING: Json = {rule: {"action": "deny"} for rule in ("tolerations", "sunk", "topology")}
_OPT_IN = {"namespaces": [], "bootstrap": False}
_OWN = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cks-admission"]}
_SYSTEM = {**_OWN, "values": ["cks-admission", "kube-system", "kube-public", "kube-node-lease"]}


def _policy(name: str, resources: str, fail: str = "Fail") -> str:
    return _POLICY.replace("NAME", name).replace("RESOURCES", resources).replace("FAIL", fail)


def _rules(*texts: str, **settings: Any) -> RuleSet:
    chosen = Settings.model_validate(settings)
    files = policyfiles.read([("policies.yaml", "\n".join(texts))])
    return rules.build(chosen, (), rules.of_policies(chosen, files))


def _entries(ruleset: RuleSet) -> dict[str, tuple[list[Json], list[str]]]:
    """What each entry asks of Namespaces, and the names of its conditions, by path."""
    found = configurations(
        ruleset, Client(b"", "https://x"), name="cks", own_namespace="cks-admission", timeout_seconds=5
    )
    return {
        f"{webhook['clientConfig']['url'].removeprefix('https://x')} {webhook['name'].partition('.')[0]}": (
            webhook.get("namespaceSelector", {}).get("matchExpressions", []),
            [condition["name"] for condition in webhook.get("matchConditions", [])],
        )
        for configuration in found
        for webhook in configuration["webhooks"]
    }


def _denied(asked: AdmissionRequest, ruleset: RuleSet) -> list[str]:
    """The rules that refuse a request at /validate."""
    return [decision.rule for decision in validate(asked, ruleset, _FACTS).decisions if decision.denies]


_CONTROL_PLANE = {"key": "ns.coreweave.cloud/org", "operator": "NotIn", "values": ["control-plane"]}
_JOINED = ["is-concerned"]


def test_entries_of_the_default_rules() -> None:
    """Only topology refuses besides the guard, which is asked everywhere; what changes or warns is, too."""
    assert _entries(_rules()) == {
        "/mutate/topology topology": ([_OWN], ["topology-is-mentioned"]),
        "/mutate/pods pods": ([_OWN], []),
        "/mutate/daemonsets daemonsets": ([_OWN], []),
        "/validate/labels labels": ([_OWN, _CONTROL_PLANE], _JOINED),
        "/validate/labels cluster-labels": ([], _JOINED),
        "/validate/topology topology": ([_OWN, _SYSTEM], ["topology-is-mentioned"]),
        "/validate/topologies cluster-topologies": ([], []),
        "/validate/pods pods": ([_OWN, _SYSTEM], _JOINED),
        "/validate/daemonsets daemonsets": ([_OWN], []),
    }


def test_entries_of_rules_that_refuse() -> None:
    """Whatever may refuse is not asked about system namespaces; of two rules in one entry it is enough that one may."""
    one = _entries(_rules(sunk={"action": "deny"}))
    all_of_them = _entries(_rules(**_REFUSING))

    assert {path: all_of_them[f"/validate/{path}"][0] for path in ("pods pods", "daemonsets daemonsets")} == {
        "pods pods": [_OWN, _SYSTEM],
        "daemonsets daemonsets": [_OWN, _SYSTEM],
    }
    assert {
        path: asked for path, (asked, _) in one.items() if path.startswith(("/validate/pods", "/validate/daem"))
    } == {
        "/validate/pods pods": [_OWN, _SYSTEM],
        "/validate/daemonsets daemonsets": [_OWN, _SYSTEM],
    }
    assert all_of_them["/mutate/pods pods"] == ([_OWN], [])


@pytest.mark.parametrize(
    ("texts", "settings", "expected"),
    [
        pytest.param(
            [_policy("all", "['*/*']"), _policy("pods", "[pods]")],
            {},
            {"/validate/policies policies": ([_OWN, _SYSTEM], ["cluster-is-not-coming-up"])},
            id="one-of-two-is-for-everything",
        ),
        pytest.param(
            [_policy("pods", "[pods]"), _policy("open", "['nodes/status']", "Ignore"), _CHANGE],
            {},
            {
                "/mutate/policies policies": ([_OWN, _SYSTEM], []),
                "/validate/policies policies": ([_OWN, _SYSTEM], []),
                "/validate/policies-ignore policies-ignore": ([_OWN, _SYSTEM], ["cluster-is-not-coming-up"]),
            },
            id="entries-apart",
        ),
        pytest.param(
            [_policy("all", "['*/*']")],
            {"safety": {"bootstrap": False}},
            {"/validate/policies policies": ([_OWN, _SYSTEM], [])},
            id="bootstrap-is-judged",
        ),
        pytest.param(
            [_policy("all", "['*/*']")],
            {"safety": {"namespaces": []}},
            {"/validate/policies policies": ([_OWN], ["cluster-is-not-coming-up"])},
            id="system-namespaces-are-judged",
        ),
        pytest.param(
            [_policy("all", "['*/*']")],
            {"safety": _OPT_IN},
            {"/validate/policies policies": ([_OWN], [])},
            id="all-is-judged",
        ),
    ],
)
def test_entries_of_policies(texts: list[str], settings: Json, expected: Json) -> None:
    """Entries of policies leave out system namespaces, and bootstrap where they may be asked about it."""
    found = _entries(_rules(*texts, **settings))

    assert {path: entry for path, entry in found.items() if "policies" in path} == expected


_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
_KUBE_SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
_GROUPS = ("system:nodes", "system:authenticated")


@pytest.mark.parametrize(
    ("asked", "spared", "opted_in"),
    [
        pytest.param(request(pod(), namespace="team"), ["all"], ["all"], id="elsewhere"),
        pytest.param(request(pod(), namespace="kube-system"), [], ["all"], id="system-namespace"),
        pytest.param(request(deployment(), namespace="kube-system"), [], ["all"], id="derived-for-templates"),
        pytest.param(request(pod(), namespace="cks-admission"), [], [], id="the-services-own"),
        pytest.param(request(_KUBE_SYSTEM), [], ["all"], id="the-namespace-itself"),
        pytest.param(request(_NODE, user="system:node:n", groups=_GROUPS), [], ["all"], id="node-by-its-kubelet"),
        pytest.param(request(_NODE), ["all"], ["all"], id="node-by-alice"),
    ],
)
def test_requests_that_come_anyway(asked: AdmissionRequest, spared: list[str], opted_in: list[str]) -> None:
    """However the entries were written, policies decide nothing about what is spared."""
    policy = _policy("all", "['*/*']")

    assert [_denied(asked, _rules(policy, safety=safety)) for safety in ({}, _OPT_IN)] == [spared, opted_in]


def test_built_in_rules() -> None:
    """Those that refuse leave system namespaces alone, and go on changing Pods there; the guard guards them."""
    ruleset = _rules(**_REFUSING)
    labelled = pod(labels=RESERVED)

    def told(obj: Json, namespace: str) -> tuple[list[str], list[str]]:
        asked = request(obj, namespace=namespace)
        changed = [
            decision.rule for decision in mutate(asked, ruleset, _FACTS).decisions if decision.verdict == "patch"
        ]
        return _denied(asked, ruleset), changed

    assert {namespace: told(labelled, namespace) for namespace in ("team", "kube-system")} == {
        "team": (["labels", "tolerations"], ["tolerations"]),
        "kube-system": (["labels"], ["tolerations"]),
    }
    assert [told(daemon_set(), namespace)[0] for namespace in ("team", "kube-system")] == [["tolerations"], []]


def test_mutating_policies() -> None:
    """They change nothing in system namespaces."""
    ruleset = _rules(_CHANGE, tolerations={"action": "off"})

    found = [mutate(request(pod(), namespace=name), ruleset, _FACTS).operations for name in ("team", "kube-system")]

    assert found == [({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},), ()]
