"""From the settings to the rules in force."""

from datetime import date
from typing import Any

import pytest
from support.builders import Json, daemon_set, deployment, pod, request, resource
from support.service.reviews import RESERVED, TODAY

from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Hook, PolicyException, Rule
from policies.engine.ruleset import RuleSet
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError

_FACTS = StaticFacts(TODAY, {"gold": {"tier": "gold"}, "lead": {"tier": "lead"}})


def _rules(**settings: Any) -> RuleSet:
    return rules.build(Settings.model_validate(settings))


def _rule(name: str, **settings: Any) -> Rule:
    (found,) = (rule for rule in _rules(**settings).rules if rule.name == name)
    return found


def _verdicts(asked: AdmissionRequest, **settings: Any) -> Json:
    """Each rule's verdict at /validate."""
    return {decision.rule: decision.verdict for decision in validate(asked, _rules(**settings), _FACTS).decisions}


def _hook(hook: Hook) -> tuple[Any, ...]:
    """A hook without its expressions."""
    resources = [(rule.operations, rule.groups, rule.resources, rule.versions) for rule in hook.resources]
    conditions = [condition.name for condition in hook.conditions]
    return hook.phase, hook.group, resources, hook.failure_policy, conditions, hook.scope


_WRITES = ("CREATE", "UPDATE")
_EVERYTHING = [(_WRITES, ("*",), ("*/*",), ("*",))]
_PODS = [(("CREATE",), ("",), ("pods",), ("v1",))]
_DAEMON_SETS = [(_WRITES, ("apps",), ("daemonsets",), ("v1",))]
_GUARD = ["reserved-label-changes", "requester-is-not-exempt"]
_LACKING = ["lacks-cpu-toleration", "no-mirror-pod", "requests-no-accelerator"]


# What is made of pod templates, by group; the second list is what is never changed.
_TEMPLATED = {
    "": (["podtemplates", "replicationcontrollers"], []),
    "apps": (["deployments", "replicasets", "daemonsets", "statefulsets"], []),
    "argoproj.io": (["rollouts"], []),
    "batch": (["jobs", "cronjobs"], []),
    "batch.volcano.sh": (["jobs"], []),
    "grove.io": (["podcliquesets"], []),
    "jobset.x-k8s.io": (["jobsets"], []),
    "kubeflow.org": (
        ["mpijobs", "pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "notebooks"],
        [],
    ),
    "leaderworkerset.x-k8s.io": (["leaderworkersets"], []),
    "ray.io": (["rayclusters", "rayjobs", "rayservices"], []),
    "serving.knative.dev": ([], ["configurations", "services"]),
    "slinky.slurm.net": (["nodesets"], []),
    "sunk.coreweave.com": (["nodesets"], []),
    "trainer.kubeflow.org": (["trainingruntimes", "clustertrainingruntimes"], ["trainjobs"]),
}
_WRITTEN_PODS = [(_WRITES, ("",), ("pods",), ("*",))]
_CHANGED: list[Any] = [(_WRITES, (group,), tuple(names), ("*",)) for group, (names, _) in _TEMPLATED.items() if names]
_JUDGED: list[Any] = [(_WRITES, (group,), (*names, *others), ("*",)) for group, (names, others) in _TEMPLATED.items()]
_WORKLOADS = [*_JUDGED]
_JUDGED += [
    (_WRITES, ("scheduling.run.ai",), ("podgroups",), ("*",)),
    (_WRITES, ("apps.nvidia.com",), ("nimservices",), ("*",)),
    (_WRITES, ("nvidia.com",), ("dynamographdeployments",), ("*",)),
    (_WRITES, ("serving.kserve.io",), ("inferenceservices",), ("*",)),
]
_ALL_WRITES = (*_WRITES, "DELETE")
_TOPOLOGIES = [
    *((_ALL_WRITES, (group,), ("topologies",), ("*",)) for group in ("kai.scheduler", "kueue.x-k8s.io")),
    (_ALL_WRITES, ("grove.io",), ("clustertopologybindings", "clustertopologies"), ("*",)),
    (("UPDATE", "DELETE"), ("kueue.x-k8s.io",), ("resourceflavors",), ("*",)),
]
_ALL = ["labels", "guard", "topology", "topology-objects", "tolerations", "sunk", "selectors"]
_MENTIONED, _SELECTING = ["topology-is-mentioned"], ["selectors-are-concerned"]
_GUARDED: list[Any] = [
    (("UPDATE", "DELETE"), ("",), ("namespaces", "namespaces/finalize"), ("v1",)),
    (("UPDATE",), ("",), ("nodes",), ("v1",)),
]
_CREATED: list[Any] = [
    (("CREATE",), (group,), (*([] if group else ["pods"]), *names, *others), ("*",))
    for group, (names, others) in _TEMPLATED.items()
]
_TAKING = ["takes-away", "requester-is-not-exempt"]


def test_the_default_rules() -> None:
    """Six rules, in this order, each with its hooks: the guard fails closed, all else fails open."""
    found = {rule.name: (rule.action, [_hook(hook) for hook in rule.hooks]) for rule in _rules().rules}

    assert list(found) == _ALL
    assert found == {
        "labels": (
            "deny",
            [
                ("validate", "labels", _EVERYTHING, "Fail", _GUARD, "Namespaced"),
                ("validate", "labels", _EVERYTHING, "Fail", _GUARD, "Cluster"),
            ],
        ),
        "guard": (
            "warn",
            [
                ("validate", "guard", _GUARDED, "Ignore", _TAKING, "Cluster"),
                ("validate", "guard", _CREATED, "Ignore", _TAKING[1:], "Namespaced"),
            ],
        ),
        "topology": (
            "deny",
            [
                ("mutate", "pods", _PODS, "Ignore", _MENTIONED, "*"),
                ("mutate", "workloads", _CHANGED, "Ignore", _MENTIONED, "*"),
                ("validate", "policies-ignore", _WRITTEN_PODS, "Ignore", _MENTIONED, "*"),
                ("validate", "policies-ignore", _JUDGED, "Ignore", _MENTIONED, "*"),
            ],
        ),
        "topology-objects": ("deny", [("validate", "topologies", _TOPOLOGIES, "Ignore", [], "Cluster")]),
        "tolerations": (
            "warn",
            [
                ("mutate", "pods", _PODS, "Ignore", [], "*"),
                ("validate", "policies-ignore", _PODS, "Ignore", _LACKING, "*"),
                ("mutate", "workloads", _DAEMON_SETS, "Ignore", [], "*"),
                ("validate", "policies-ignore", _DAEMON_SETS, "Ignore", [], "*"),
            ],
        ),
        "sunk": ("warn", [("validate", "policies-ignore", _DAEMON_SETS, "Ignore", [], "*")]),
        "selectors": (
            "warn",
            [
                ("validate", "policies-ignore", _PODS, "Ignore", _SELECTING, "*"),
                ("validate", "policies-ignore", _WORKLOADS, "Ignore", _SELECTING, "*"),
            ],
        ),
    }


@pytest.mark.parametrize(
    ("settings", "off"),
    [
        pytest.param({}, set(), id="none"),
        pytest.param({"labels": {"action": "off"}}, {"labels"}, id="labels"),
        pytest.param({"guard": {"namespaces": "off", "taints": False}}, {"guard"}, id="guard"),
        pytest.param({"guard": {"taints": "off"}}, set(), id="a-part-of-the-guard"),
        pytest.param({"tolerations": {"action": "off"}}, {"tolerations"}, id="tolerations"),
        pytest.param({"sunk": {"action": "off"}}, {"sunk"}, id="sunk"),
        pytest.param({"sunk": {"daemonSets": "off"}}, {"sunk"}, id="sunk-by-its-mode"),
        pytest.param({"topology": {"action": "off"}}, {"topology", "topology-objects"}, id="topology-and-its-objects"),
        pytest.param({"topology": {"deletion": "off"}}, set(), id="deletion-of-topologies"),
        pytest.param(
            {name: {"action": "off"} for name in ("labels", "tolerations", "sunk", "topology", "selectors")}
            | {"guard": {"namespaces": "off", "taints": "off"}},
            {*_ALL},
            id="all",
        ),
    ],
)
def test_a_rule_that_is_off_is_not_there(settings: Json, off: set[str]) -> None:
    """An action of off takes a rule out, and out of every path with it."""
    found = _rules(**settings)
    left = [name for name in _ALL if name not in off]

    assert [rule.name for rule in found.rules] == left
    assert found.groups("validate") == {
        group
        for group, owners in {
            "labels": {"labels"},
            "guard": {"guard"},
            "topologies": {"topology-objects"},
            "policies-ignore": {"topology", "tolerations", "sunk", "selectors"},
        }.items()
        if owners & set(left)
    }


@pytest.mark.parametrize(
    ("settings", "phases"),
    [
        pytest.param({"tolerations": {"daemonSets": "inject"}}, {"mutate", "validate"}, id="inject"),
        pytest.param({"tolerations": {"daemonSets": "warn"}}, {"validate"}, id="warn"),
        pytest.param({"tolerations": {"daemonSets": "off"}}, set(), id="off"),
    ],
)
def test_the_mode_for_daemonsets_decides_where_they_are_asked_about(settings: Json, phases: set[str]) -> None:
    """DaemonSets are asked about only in the phases in which their mode does something."""
    hooks = _rule("tolerations", **settings).hooks

    assert {hook.phase for hook in hooks if "daemonsets" in hook.resources[0].resources} == phases


@pytest.mark.parametrize(("mode", "phases"), [("inject", {"mutate", "validate"}), ("warn", {"validate"})])
def test_the_mode_for_sunk_decides_where_it_is_asked(mode: str, phases: set[str]) -> None:
    """The rule for SUNK changes objects only where it is set to."""
    assert {hook.phase for hook in _rule("sunk", sunk={"daemonSets": mode}).hooks} == phases


@pytest.mark.parametrize("action", ["deny", "warn", "audit"])
def test_an_action_decides_what_a_violation_leads_to(action: str) -> None:
    """The same violation is refused, warned of or only written down."""
    assert _verdicts(request(pod(labels=RESERVED)), labels={"action": action})["labels"] == action


@pytest.mark.parametrize(("action", "policy"), [("deny", "Fail"), ("warn", "Ignore"), ("audit", "Ignore")])
@pytest.mark.parametrize("name", ["labels", "tolerations", "sunk"])
def test_an_action_decides_what_an_outage_leads_to(name: str, action: str, policy: str) -> None:
    """A rule that refuses fails closed, one that only tells fails open; a mutation fails open in any case."""
    hooks = _rule(name, **{name: {"action": action}, "sunk": {"daemonSets": "inject", "action": action}}).hooks

    assert {hook.failure_policy for hook in hooks if hook.phase == "validate"} == {policy}
    assert {hook.failure_policy for hook in hooks if hook.phase == "mutate"} <= {"Ignore"}


def test_a_namespace_selector_limits_a_rule() -> None:
    """A rule is for the Namespaces that its selector names, and for cluster-scoped objects in any case."""
    selector = {
        "matchLabels": {"tier": "gold"},
        "matchExpressions": [
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "NotIn", "values": ["x"]},
        ],
    }
    settings = {"labels": {"namespaceSelector": selector}}

    assert _rule("labels", **settings).namespaces == LabelSelector(
        (
            SelectorRequirement("tier", "In", ("gold",)),
            SelectorRequirement("old", "DoesNotExist"),
            SelectorRequirement("tier", "NotIn", ("x",)),
        )
    )
    for namespace, verdict in (("gold", "deny"), ("lead", "admit")):
        assert _verdicts(request(pod(labels=RESERVED), namespace=namespace), **settings)["labels"] == verdict
    assert _verdicts(request(resource("v1", "Node", labels=RESERVED)), **settings) == {"labels": "deny"}


def test_label_exceptions_come_from_the_settings() -> None:
    """A list of exceptions replaces the shipped one, with kinds of groups and values as given."""
    free = {"key": "x.coreweave.com/y", "kinds": ["NodePool.compute.coreweave.com", "Pod"], "values": ["a"]}
    settings = {"labels": {"exceptions": [free]}}
    nodes = "compute.coreweave.com/v1"

    assert _verdicts(request(pod(labels={"x.coreweave.com/y": "a"})), **settings)["labels"] == "admit"
    assert _verdicts(request(pod(labels={"x.coreweave.com/y": "b"})), **settings)["labels"] == "deny"
    assert (
        _verdicts(request(resource(nodes, "NodePool", labels={"x.coreweave.com/y": "a"})), **settings)["labels"]
        == "admit"
    )
    assert (
        _verdicts(request(resource("v1", "ConfigMap", labels={"x.coreweave.com/y": "a"})), **settings)["labels"]
        == "deny"
    )
    shipped = request(pod(labels={"qos.coreweave.cloud/interruptable": "true"}))
    assert (_verdicts(shipped)["labels"], _verdicts(shipped, **settings)["labels"]) == ("admit", "deny")


@pytest.mark.parametrize(("value", "verdict"), [("a1b2c3", "admit"), ("control-plane", "deny"), ("other", "deny")])
def test_the_organization_may_mark_its_namespaces(value: str, verdict: str) -> None:
    """With the organization's id configured, users may set ns.coreweave.cloud/org to it, and to nothing else."""
    namespace = resource("v1", "Namespace", labels={"ns.coreweave.cloud/org": value})

    assert _verdicts(request(namespace), organization={"id": "a1b2c3"}) == {"labels": verdict}
    assert _verdicts(request(namespace)) == {"labels": "deny"}


@pytest.mark.parametrize(
    ("user", "groups", "verdict"),
    [
        ("op-1", (), "admit"),
        ("alice", ("ops",), "admit"),
        ("system:serviceaccount:tools:deployer", (), "admit"),
        ("system:kube-scheduler", (), "admit"),
        ("alice", ("system:masters",), "admit"),
        ("system:serviceaccount:kube-system:job-controller", (), "admit"),
        ("alice", ("dev",), "deny"),
        ("system:serviceaccount:tools:other", (), "deny"),
    ],
)
def test_exempt_requesters_are_added_to_the_cluster_s_own(user: str, groups: tuple[str, ...], verdict: str) -> None:
    """Those of the configuration are left alone beside the built-in ones."""
    exempt = {"users": ["op-*"], "groups": ["ops"], "serviceAccounts": ["tools/deploy*"]}
    asked = request(pod(labels=RESERVED), user=user, groups=groups)

    assert _verdicts(asked, labels={"exempt": exempt})["labels"] == verdict


def test_control_plane_namespaces_are_told_to_the_api_server() -> None:
    """Those of the configuration and of the cluster are in the conditions, once each, in one order."""
    settings = Settings.model_validate({"labels": {"exempt": {"controlPlaneNamespaces": ["b", "a"]}}})
    hooks = rules.build(settings, ("d", "c", "a")).rules[0].hooks

    for hook in hooks:
        for name in "abcd":
            assert hook.conditions[1].expression.count(f"system:serviceaccount:{name}:.*") == 1
    assert rules.build(settings, ("a", "c", "d")).rules[0].hooks == hooks


def test_accelerators_come_from_the_settings() -> None:
    """What makes a Pod a GPU Pod is configurable."""
    settings = {"tolerations": {"accelerators": {"resources": ["example.org/npu-*"], "deviceClasses": []}}}

    for limits, patched in (({"example.org/npu-2": 1}, False), ({"nvidia.com/gpu": 1}, True)):
        answer = mutate(request(pod(limits)), _rules(**settings), _FACTS)
        assert bool(answer.operations) is patched


def test_sunk_takes_its_nodes_and_hash_from_the_settings() -> None:
    """Node selector and reserved hash of the configuration decide which tolerations a DaemonSet lacks."""
    settings = {
        "sunk": {"daemonSets": "inject", "nodeSelector": {"pool": "s"}},
        "organization": {"reservedHash": "h4sh"},
    }
    facts = StaticFacts(TODAY, cluster_nodes=(Node("n", {"pool": "s"}, (Taint("x", "NoSchedule"),)),))

    answer = mutate(request(daemon_set(tolerations=[])), _rules(tolerations={"action": "off"}, **settings), facts)

    assert [operation["value"] for operation in answer.operations] == [
        {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "true"},
        {"key": "is_cpu_compute", "operator": "Exists"},
        {"key": "is_gpu", "operator": "Exists"},
        {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "h4sh"},
    ]


def test_workloads_of_the_configuration_are_guarded() -> None:
    """Kinds that the configuration adds are looked into at the paths that it gives."""
    row = {
        "group": "example.org",
        "kind": "Train",
        "templates": ["spec.pods[*].template"],
        "nodeLabels": ["spec.labels"],
    }
    train = resource(
        "example.org/v1", "Train", {"spec": {"pods": [{}, {"template": {"metadata": {"labels": RESERVED}}}]}}
    )

    answer = validate(request(train), _rules(workloads=[row]), _FACTS)

    assert [violation.path for violation in answer.decisions[0].violations] == ["spec.pods[1].template.metadata.labels"]
    assert _verdicts(request(train)) == {"labels": "admit"}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        pytest.param(
            {"workloads": [{"group": "apps", "kind": "Deployment"}]},
            "workloads: Deployment of group 'apps' is in the table of workloads twice",
            id="a-built-in-kind",
        ),
        pytest.param(
            {"workloads": [{"group": "", "kind": "X"}, {"group": "", "kind": "X"}]},
            "workloads: X of group 'core' is in the table of workloads twice",
            id="a-kind-twice",
        ),
    ],
)
def test_settings_that_contradict_the_rules_are_refused(settings: Json, error: str) -> None:
    """A workload that is there already is a mistake of the configuration."""
    with pytest.raises(SettingsError) as caught:
        _rules(**settings)

    assert str(caught.value) == error


def test_an_exception_from_no_rule() -> None:
    """A name in an exception that no rule has is told, with the names that there are."""
    settings = Settings.model_validate(
        {"exceptions": [{"rules": ["labels", "label"], "reason": "x", "until": date(2026, 1, 1)}]}
    )

    assert rules.unknown_names(settings) == [f"exceptions: there is no rule 'label'; known are {', '.join(_ALL)}"]


def test_an_exception_from_a_rule_that_is_off_is_none_the_worse() -> None:
    """Turning a rule off does not make the exceptions from it mistakes."""
    exception = {"rules": ["sunk", "topology-objects"], "reason": "x", "until": date(2026, 1, 1)}
    settings = Settings.model_validate(
        {"sunk": {"action": "off"}, "topology": {"action": "off"}, "exceptions": [exception]}
    )

    assert [rule.name for rule in rules.build(settings).rules] == ["labels", "guard", "tolerations", "selectors"]
    assert rules.unknown_names(settings) == []


def test_exceptions_are_handed_over_whole() -> None:
    """Every field of an exception reaches the rules, and it holds to the end of its last day."""
    fields: Json = {
        "rules": ("labels",),
        "reason": "moving house",
        "until": TODAY,
        "namespaces": ("default",),
        "kinds": ("Deployment.apps",),
        "names": ("train*",),
        "users": ("alice",),
        "groups": ("system:*",),
        "objectSelector": {"matchLabels": {"app": "train"}},
    }
    asked = request(deployment(labels={**RESERVED, "app": "train"}))

    selector = LabelSelector((SelectorRequirement("app", "In", ("train",)),))
    expected = {name: value for name, value in fields.items() if name != "objectSelector"}
    assert _rules(exceptions=[fields]).exceptions == (
        PolicyException("exceptions[0]", **expected, object_selector=selector),
    )
    off = {**{rule: {"action": "off"} for rule in ("topology", "selectors")}, "guard": {"namespaces": "off"}}
    for until, verdict in ((TODAY, "excepted"), (date(2026, 2, 28), "deny")):
        exceptions = [{**fields, "until": until}]
        assert _verdicts(asked, exceptions=exceptions, **off) == {"labels": verdict}
