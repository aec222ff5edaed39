"""What no outage may stop, from the settings to the entries and the rules."""

from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import Json, daemon_set, deployment, pod, request
from support.policies.policydocuments import policy
from support.service.reviews import RESERVED, TODAY

from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.schema import built_in
from policies.engine.engine import mutate, validate
from policies.engine.facts import Facts, StaticFacts
from policies.engine.interruption import FactUnavailable
from policies.engine.request import AdmissionRequest
from policies.engine.rule import RuleSet
from policies.engine.violation import Violation
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered
from webhook.sources import policyfiles

pytestmark = pytest.mark.usefixtures("no_packs")

_FACTS = StaticFacts(TODAY)
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
_TIMEOUTS = {"timeoutSeconds": 5, "openTimeoutSeconds": 3, "essentialTimeoutSeconds": 1}
_REGISTERED = Settings.model_validate({"registration": {"url": "https://x", **_TIMEOUTS}})
_REFUSING: Json = {rule: {"action": "deny"} for rule in ("tolerations", "sunk", "topology")}
_NO_OTHERS: Json = {rule: {"action": "off"} for rule in ("tolerations", "sunk", "topology", "selectors")}
_OWN = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cks-admission"]}
_OTHERS = {**_OWN, "values": ["kube-system", "kube-public", "kube-node-lease"]}
_SYSTEM = {**_OTHERS, "operator": "In"}


def _policy(name: str, resources: str, fail: str = "Fail") -> str:
    rule = f'{{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: {resources}}}'
    return policy(name, "false", "Never.", fail=fail, rule=rule)


def _rules(*texts: str, **settings: Any) -> RuleSet:
    chosen = Settings.model_validate(settings)
    files = policyfiles.read([("policies.yaml", "\n".join(texts))])
    return rules.build(chosen, (), rules.of_policies(chosen, files))


def _webhooks(ruleset: RuleSet) -> dict[str, Json]:
    """The entries, by path and first part of the name."""
    found = registered(_REGISTERED, b"", ruleset)
    webhooks = [webhook for configuration in found for webhook in configuration["webhooks"]]
    return {
        f"{webhook['clientConfig']['url'].removeprefix('https://x')} {webhook['name'].partition('.')[0]}": webhook
        for webhook in webhooks
    }


def _entries(ruleset: RuleSet) -> dict[str, tuple[str, list[Json], list[str]]]:
    """Of each entry the failure policy with the time-out, what it asks of Namespaces, and the names of conditions."""
    return {
        path: (
            f"{webhook['failurePolicy']} {webhook['timeoutSeconds']}",
            webhook.get("namespaceSelector", {}).get("matchExpressions", []),
            [condition["name"] for condition in webhook.get("matchConditions", [])],
        )
        for path, webhook in _webhooks(ruleset).items()
    }


def _denied(asked: AdmissionRequest, ruleset: RuleSet) -> list[str]:
    """The rules that refuse a request at /validate."""
    return [decision.rule for decision in validate(asked, ruleset, _FACTS).decisions if decision.denies]


_CONTROL_PLANE = {"key": "ns.coreweave.cloud/org", "operator": "NotIn", "values": ["control-plane"]}
_THEIRS = {**_CONTROL_PLANE, "operator": "In"}
_JOINED, _EXEMPT = ["is-concerned"], ["requester-is-not-exempt"]


def test_entries_of_the_default_rules() -> None:
    """Only the guard fails closed, and it alone is asked with conditions of its own about what is essential."""
    assert _entries(_rules()) == {
        "/mutate/workloads workloads": ("Ignore 3", [_OWN], _JOINED),
        "/mutate/pods pods": ("Ignore 3", [_OWN], []),
        "/validate/labels labels": ("Fail 5", [_OWN, _CONTROL_PLANE], _JOINED),
        "/validate/labels cluster-labels": ("Fail 5", [], _JOINED),
        "/validate/guard cluster-guard": ("Ignore 3", [], _JOINED),
        "/validate/guard guard": ("Ignore 3", [_OWN, _THEIRS], _EXEMPT),
        "/validate/policies-ignore policies-ignore": ("Ignore 3", [_OWN], _JOINED),
        "/validate/topologies cluster-topologies": ("Ignore 3", [], []),
    }


_ESSENTIAL = {
    "/validate/policies policies": ("Fail 5", [_OWN, _OTHERS], ["not-essential"]),
    "/validate/policies system-policies": ("Ignore 1", [_OWN, _SYSTEM], []),
    "/validate/policies essential-policies": ("Ignore 1", [_OWN, _OTHERS], ["essential"]),
}


@pytest.mark.parametrize(
    ("texts", "settings", "expected"),
    [
        pytest.param([_policy("all", "['*/*']"), _policy("pods", "[pods]")], {}, _ESSENTIAL, id="one-for-all"),
        pytest.param(
            [_policy("workloads", "[deployments]"), _policy("open", "['nodes/status']", "Ignore"), _CHANGE],
            {},
            {
                "/mutate/policies policies": ("Fail 5", [_OWN, _OTHERS], []),
                "/mutate/policies system-policies": ("Ignore 1", [_OWN, _SYSTEM], []),
                "/validate/policies policies": ("Fail 5", [_OWN, _OTHERS], []),
                "/validate/policies system-policies": ("Ignore 1", [_OWN, _SYSTEM], []),
                "/validate/policies-ignore policies-ignore": ("Ignore 1", [_OWN], []),
            },
            id="entries-apart",
        ),
        pytest.param(
            [_policy("open", "[deployments]", "Ignore")],
            {},
            {"/validate/policies-ignore policies-ignore": ("Ignore 3", [_OWN], [])},
            id="nothing-essential",
        ),
        pytest.param(
            [_policy("pools", "[pools]")],
            {"safety": {"resources": ["pools.example.org"]}},
            _ESSENTIAL,
            id="own-resource",
        ),
        pytest.param(
            [],
            _REFUSING,
            {
                "/validate/policies policies": ("Fail 5", [_OWN, _OTHERS], _JOINED),
                "/validate/policies system-policies": ("Ignore 1", [_OWN, _SYSTEM], _JOINED),
                "/validate/policies-ignore policies-ignore": ("Ignore 3", [_OWN], _JOINED),
            },
            id="built-in-rules",
        ),
        pytest.param(
            [_policy("reviews", "[tokenreviews]")],
            {},
            {path: entry for path, entry in _ESSENTIAL.items() if "essential-" not in path},
            id="what-no-policy-sees",
        ),
    ],
)
def test_entries_of_policies(texts: list[str], settings: Json, expected: Json) -> None:
    """What fails closed is told of the same writes in two or three parts, of system Namespaces by one that is open."""
    found = _entries(_rules(*texts, **{**(_NO_OTHERS if texts else {}), **settings}))

    assert {path: entry for path, entry in found.items() if "policies" in path} == expected


def test_what_the_essential_part_is_asked_about() -> None:
    """It covers only what policies match of essential writes, and its condition names only these."""
    webhooks = _webhooks(_rules(_policy("some", "[nodes, pods, leases, deployments]")))
    essential = webhooks["/validate/policies essential-policies"]
    system = webhooks["/validate/policies system-policies"]

    told = [(rule["apiGroups"], rule["resources"], rule["operations"], rule["scope"]) for rule in essential["rules"]]
    everything = ["CREATE", "UPDATE", "DELETE", "CONNECT"]
    assert told == [
        (["coordination.k8s.io"], ["leases"], everything, "*"),
        ([""], ["nodes"], ["CREATE", "UPDATE", "DELETE"], "*"),
        ([""], ["pods"], ["DELETE"], "*"),
    ]
    assert {rule["scope"] for rule in system["rules"]} == {"Namespaced"}
    expression = essential["matchConditions"][0]["expression"]
    assert webhooks["/validate/policies policies"]["matchConditions"][0]["expression"] == f"!{expression}"
    assert "ciliumnodes" not in expression


def test_namespaces_themselves() -> None:
    """The part for system Namespaces is asked about these, which no selector of Namespaced objects would choose."""
    *others, last = _webhooks(_rules(_policy("all", "['*/*']")))["/validate/policies system-policies"]["rules"]

    assert {rule["scope"] for rule in others} == {"Namespaced"}
    assert (last["apiGroups"], last["resources"], last["scope"]) == ([""], ["namespaces/*"], "Cluster")


def test_namespaces_of_operators_and_of_the_control_plane() -> None:
    """The settings add Namespaces, and so does the reserved label; the service's own stays what it is."""
    settings = Settings.model_validate({"safety": {"namespaces": ["calico-system", "cks-admission"]}})

    assert rules.build(settings, ["cloud"]).safety.namespaces == (
        *("kube-system", "kube-public", "kube-node-lease", "calico-system", "cloud"),
    )


_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
_KUBE_SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
_GROUPS = ("system:nodes", "system:authenticated")


@pytest.mark.parametrize(
    ("asked", "denied"),
    [
        pytest.param(request(pod(), namespace="team"), ["all"], id="elsewhere"),
        pytest.param(request(deployment(), namespace="kube-system"), ["all"], id="derived-for-templates"),
        pytest.param(request(pod(), namespace="cks-admission"), [], id="the-services-own"),
        pytest.param(request(_KUBE_SYSTEM), ["all"], id="the-namespace-itself"),
        pytest.param(request(_NODE, user="system:node:n", groups=_GROUPS), ["all"], id="node-by-its-kubelet"),
        pytest.param(request(_NODE), ["all"], id="node-by-alice"),
    ],
)
def test_what_policies_judge(asked: AdmissionRequest, denied: list[str]) -> None:
    """While the service lives, policies judge what is essential like all else, but not the service's own objects."""
    assert _denied(asked, _rules(_policy("all", "['*/*']"))) == denied


def test_built_in_rules() -> None:
    """They refuse and change in system Namespaces as everywhere."""
    ruleset = _rules(**_REFUSING)

    for namespace in ("team", "kube-system"):
        asked = request(pod(labels=RESERVED), namespace=namespace)
        changed = [one.rule for one in mutate(asked, ruleset, _FACTS).decisions if one.verdict == "patch"]
        assert (_denied(asked, ruleset), changed) == (["labels", "tolerations"], ["tolerations"])
        assert _denied(request(daemon_set(), namespace=namespace), ruleset) == ["tolerations"]


def test_mutating_policies() -> None:
    """They change objects in system Namespaces, and nothing of the service's own."""
    ruleset = _rules(_CHANGE, tolerations={"action": "off"})
    schema = built_in(kind_of(pod()))
    assert schema is not None
    sent = received(pod(), schema)  # as the API server sends it

    found = {
        name: mutate(request(sent, namespace=name), ruleset, _FACTS).operations
        for name in ("team", "kube-system", "cks-admission")
    }

    change = ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)
    assert found == {"team": change, "kube-system": change, "cks-admission": ()}


def test_what_cannot_be_judged() -> None:
    """A rule that fails lets essential writes pass, and refuses others; the guard refuses both."""

    def failing(_request: AdmissionRequest, _facts: Facts) -> list[Violation]:
        raise FactUnavailable("no answer")

    ruleset = _rules(_policy("all", "['*/*']"))
    broken = RuleSet([replace(rule, validate=failing) for rule in ruleset.rules], safety=ruleset.safety)

    assert _denied(request(_NODE), broken) == ["labels", "all"]
    assert _denied(request(_NODE, user="system:node:n", groups=_GROUPS), broken) == ["labels"]
