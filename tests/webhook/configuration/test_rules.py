"""From the settings to the rules in force, and to those about topologies."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json, at, daemon_set, deployment, pod, request, resource
from support.service.reviews import RESERVED, TODAY
from support.service.servers import default_rules

from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, References, StaticFacts, Taint
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.request import AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, FailurePolicy, Hook, PolicyException, Rule
from policies.objects.workload import workload
from policies.podspec import Accelerators
from policies.topology.template import Default, Options, Permission, Schedulers
from policies.topology.topology import BUILT_IN, Level, Topology
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError

_FACTS = StaticFacts(TODAY, {"gold": {"tier": "gold"}, "lead": {"tier": "lead"}})


def _rule(name: str, **settings: Any) -> Rule:
    (found,) = (rule for rule in default_rules(**settings).rules if rule.name == name)
    return found


def _verdicts(asked: AdmissionRequest, **settings: Any) -> Json:
    """Each rule's verdict at /validate."""
    return {
        decision.rule: decision.verdict for decision in validate(asked, default_rules(**settings), _FACTS).decisions
    }


_ALL = ["labels", "guard", "topology", "topology-objects", "tolerations", "sunk", "selectors"]


def _lines(rule: Rule) -> Iterator[str]:
    """A rule with its action, then each hook without its expressions, then what the hook is asked about."""
    yield f"{rule.name} {rule.action}"
    for hook in rule.hooks:
        conditions = (condition.name for condition in hook.conditions)
        yield " ".join((" ", hook.phase, hook.group, hook.scope, hook.failure_policy, *conditions))
        for one in hook.resources:
            operations, groups, versions = map(",".join, (one.operations, one.groups, one.versions))
            yield " ".join((f"    {operations} {groups}/{versions}", *one.resources))


def test_the_default_rules() -> None:
    """Their actions, order and hooks are those in rules.txt: the guard of labels fails closed, all else fails open."""
    recorded = Path(__file__).with_name("rules.txt").read_text(encoding="utf-8")

    assert [line for rule in default_rules().rules for line in _lines(rule)] == recorded.splitlines()


@pytest.mark.parametrize(
    ("settings", "off"),
    [
        pytest.param({"labels": {"action": "off"}}, {"labels"}, id="labels"),
        pytest.param({"guard": {"namespaces": "off", "taints": False}}, {"guard"}, id="guard"),
        pytest.param({"guard": {"taints": "off"}}, set(), id="a-part-of-the-guard"),
        pytest.param({"tolerations": {"action": "off"}}, {"tolerations"}, id="tolerations"),
        pytest.param({"sunk": {"action": "off"}}, {"sunk"}, id="sunk"),
        pytest.param({"sunk": {"daemonSets": "off"}}, {"sunk"}, id="sunk-by-its-mode"),
        pytest.param({"topology": {"action": "off"}}, {"topology", "topology-objects"}, id="topology-and-its-objects"),
        pytest.param({"topology": {"deletion": "off"}}, set(), id="deletion-of-topologies"),
        pytest.param(
            {name: {"action": "off"} for name in ("tolerations", "sunk", "topology", "selectors")},
            {"topology", "topology-objects", "tolerations", "sunk", "selectors"},
            id="all-of-a-group",
        ),
    ],
)
def test_a_rule_that_is_off_is_not_there(settings: Json, off: set[str]) -> None:
    """An action of off takes a rule out, and its group with the last rule of it."""
    found = default_rules(**settings)
    left = [name for name in _ALL if name not in off]
    groups = {name: {name} for name in ("labels", "guard")} | {"topology-objects": {"topologies"}}

    assert [rule.name for rule in found.rules] == left
    assert found.groups("validate") == set().union(*(groups.get(name, {"policies-ignore"}) for name in left))


@pytest.mark.parametrize(
    ("name", "mode", "phases"),
    [
        ("tolerations", "inject", {"mutate", "validate"}),
        ("tolerations", "warn", {"validate"}),
        ("tolerations", "off", set()),
        ("sunk", "inject", {"mutate", "validate"}),
        ("sunk", "warn", {"validate"}),
    ],
)
def test_the_mode_for_daemonsets_decides_where_they_are_asked_about(name: str, mode: str, phases: set[str]) -> None:
    """DaemonSets are asked about only in the phases in which their mode does something."""
    hooks = _rule(name, **{name: {"daemonSets": mode}}).hooks

    assert {hook.phase for hook in hooks if "daemonsets" in hook.resources[0].resources} == phases


@pytest.mark.parametrize(("action", "policy"), [("deny", "Fail"), ("warn", "Ignore"), ("audit", "Ignore")])
@pytest.mark.parametrize("name", ["labels", "tolerations", "sunk"])
def test_an_action_decides_what_violation_and_outage_lead_to(name: str, action: str, policy: str) -> None:
    """A rule that refuses fails closed, one that only tells fails open; a mutation fails open in any case."""
    settings = {name: {"action": action}, "sunk": {"daemonSets": "inject", "action": action}}
    hooks = _rule(name, **settings).hooks

    assert {hook.failure_policy for hook in hooks if hook.phase == "validate"} == {policy}
    assert {hook.failure_policy for hook in hooks if hook.phase == "mutate"} <= {"Ignore"}
    if name == "labels":
        assert _verdicts(request(pod(labels=RESERVED)), **settings)["labels"] == action


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


_KEY = "x.coreweave.com/y"


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        pytest.param(pod(labels={_KEY: "a"}), "admit", id="kind-of-the-core"),
        pytest.param(resource("compute.coreweave.com/v1", "NodePool", labels={_KEY: "a"}), "admit", id="grouped"),
        pytest.param(pod(labels={_KEY: "b"}), "deny", id="another-value"),
        pytest.param(resource("v1", "ConfigMap", labels={_KEY: "a"}), "deny", id="another-kind"),
        pytest.param(pod(labels={"qos.coreweave.cloud/interruptable": "true"}), "deny", id="a-shipped-one"),
    ],
)
def test_label_exceptions_come_from_the_settings(obj: Json, verdict: str) -> None:
    """A list of exceptions replaces the shipped one, with kinds of groups and values as given."""
    free = {"key": _KEY, "kinds": ["NodePool.compute.coreweave.com", "Pod"], "values": ["a"]}

    assert _verdicts(request(obj), labels={"exceptions": [free]})["labels"] == verdict


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
        answer = mutate(request(pod(limits)), default_rules(**settings), _FACTS)
        assert bool(answer.operations) is patched


def test_sunk_takes_its_nodes_and_hash_from_the_settings() -> None:
    """Node selector and reserved hash of the configuration decide which tolerations a DaemonSet lacks."""
    settings = {
        "sunk": {"daemonSets": "inject", "nodeSelector": {"pool": "s"}},
        "organization": {"reservedHash": "h4sh"},
    }
    facts = StaticFacts(TODAY, cluster_nodes=(Node("n", {"pool": "s"}, (Taint("x", "NoSchedule"),)),))

    answer = mutate(
        request(daemon_set(tolerations=[])), default_rules(tolerations={"action": "off"}, **settings), facts
    )

    assert [operation["value"] for operation in answer.operations] == [
        {"key": "sunk.coreweave.com/lock", "operator": "Equal", "value": "true"},
        {"key": "is_cpu_compute", "operator": "Exists"},
        {"key": "is_gpu", "operator": "Exists"},
        {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "h4sh"},
    ]


def test_workloads_of_the_configuration_are_guarded() -> None:
    """Kinds that the configuration adds are looked into at the paths that it gives."""
    row = {"group": "example.org", "kind": "Train", "templates": ["spec.pods[*].template"]}
    train = resource("example.org/v1", "Train", at("spec.pods[1].template.metadata.labels", RESERVED))

    answer = validate(request(train), default_rules(workloads=[row]), _FACTS)

    assert [violation.path for violation in answer.decisions[0].violations] == ["spec.pods[1].template.metadata.labels"]
    assert _verdicts(request(train)) == {"labels": "admit"}


def test_an_exception_from_no_rule() -> None:
    """A name in an exception that no rule has is told, with the names that there are; one of a rule that is off not."""
    exception = {"rules": ["sunk", "topology-objects", "label"], "reason": "x", "until": date(2026, 1, 1)}
    off = {"sunk": {"action": "off"}, "topology": {"action": "off"}}
    settings = Settings.model_validate({**off, "exceptions": [exception]})

    assert [rule.name for rule in rules.build(settings).rules] == ["labels", "guard", "tolerations", "selectors"]
    assert rules.unknown_names(settings) == [f"exceptions: there is no rule 'label'; known are {', '.join(_ALL)}"]


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
    assert default_rules(exceptions=[fields]).exceptions == (
        PolicyException("exceptions[0]", **expected, object_selector=selector),
    )
    off = {**{rule: {"action": "off"} for rule in ("topology", "selectors")}, "guard": {"namespaces": "off"}}
    for until, verdict in ((TODAY, "excepted"), (date(2026, 2, 28), "deny")):
        exceptions = [{**fields, "until": until}]
        assert _verdicts(asked, exceptions=exceptions, **off) == {"labels": verdict}


_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_NO_RACK: Json = {"annotations": {_TOPOLOGY: "coreweave", _REQUIRED: "rak"}}
_HALLS: Json = {"name": "halls", "levels": ["example.org/site", {"nodeLabel": "example.org/hall", "alias": "room"}]}
_SITE, _HALL = (
    Level("example.org/site", ("example.org/site",)),
    Level("example.org/hall", ("example.org/hall",), "room"),
)
_FILE = """\
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: halls}
spec:
  levels:
  - nodeLabel: example.org/site
  - nodeLabel: example.org/hall
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are in a directory of their own."""
    monkeypatch.chdir(tmp_path)
    Path("halls.yaml").write_text(_FILE, encoding="utf-8")


def _settings(*, workloads: Any = (), **topology: Any) -> Settings:
    return Settings.model_validate({"topology": topology, "workloads": workloads, "selectors": {"action": "off"}})


def _about_topologies(name: str = "topology", **settings: Any) -> Rule:
    (found,) = (rule for rule in rules.build(_settings(**settings)).rules if rule.name == name)
    return found


def _hooks(rule: Rule) -> dict[str, Hook]:
    return {hook.phase: hook for hook in rule.hooks}


def test_the_topologies_that_there_are() -> None:
    """Those of the configuration come first, then those of files, then the built-in ones, each with all it has."""
    requirement = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    own = {**_HALLS, "name": "own", "nodeRequirement": requirement, "pool": {"matchLabels": {"pool": "x"}}}

    found = rules.topologies(_settings(topologies=[own, {**_HALLS, "name": "plain"}], files=["halls.yaml"]))

    assert list(found.by_name.values()) == [
        Topology(
            "own",
            (_SITE, _HALL),
            requirement=LabelSelector((SelectorRequirement("a", "In", ("b",)), SelectorRequirement("c", "Exists"))),
            pool=LabelSelector((SelectorRequirement("pool", "In", ("x",)),)),
            source="topology.topologies[0] of the configuration",
        ),
        Topology("plain", (_SITE, _HALL), source="topology.topologies[1] of the configuration"),
        Topology(
            "halls", (_SITE, Level("example.org/hall", ("example.org/hall",))), source="halls.yaml:1", objects=("KAI",)
        ),
        *BUILT_IN,
    ]
    assert found.clashes == ()


def test_a_topology_that_is_defined_twice_alike_is_one() -> None:
    """The same levels in the configuration and in a file are one topology, which knows both places."""
    found = rules.topologies(_settings(topologies=[_HALLS], files=["halls.yaml"]))

    assert found.find("halls") == Topology(
        "halls", (_SITE, _HALL), source="topology.topologies[0] of the configuration; halls.yaml:1", objects=("KAI",)
    )


_CONTRADICTIONS: dict[str, Json] = yaml.safe_load(
    Path(__file__).with_name("contradictions.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", _CONTRADICTIONS)
def test_settings_that_contradict_each_other(case: str) -> None:
    """Each clash is named with both places, and each mistake in files as it is, on a line."""
    row = _CONTRADICTIONS[case]

    with pytest.raises(SettingsError) as caught:
        rules.build(Settings.model_validate(row["settings"]))

    assert str(caught.value).splitlines() == row["errors"]


def test_every_setting_reaches_the_rule() -> None:
    """What the rule knows of its options is what the configuration says."""
    settings = Settings.model_validate(
        {
            "topology": {
                "preferredNotMoreSpecific": "warn",
                "unapplied": "deny",
                "autoscaling": "off",
                "placement": [{"topologies": ["aws*"], "ways": ["gate"]}],
                "workloadScheduling": "on",
                "topographPrefixes": ["example.org/"],
                "default": {
                    "topology": "halls",
                    "preferred": "room",
                    "namespaceSelector": {"matchLabels": {"tier": "gold"}},
                },
                "poolKeys": ["example.org/pool"],
                "schedulers": {"reading": ["gang-*"], "labels": ["example.org/queue"], "ignoring": ["slurm-*"]},
            },
            "tolerations": {"accelerators": {"resources": ["example.org/npu"], "deviceClasses": ["npu.example.org"]}},
        }
    )
    found = rules.topology_options(settings, clustered=False)

    assert found == Options(
        found.workloads,
        Schedulers(("gang-*",), ("example.org/queue",), ("slurm-*",)),
        Accelerators(("example.org/npu",), ("npu.example.org",)),
        Default("halls", "room", LabelSelector((SelectorRequirement("tier", "In", ("gold",)),))),
        "warn",
        "deny",
        ("example.org/pool",),
        (Permission(("aws*",), ways=("gate",)),),
        "off",
        schedules=True,
        topograph=("example.org/",),
        clustered=False,
    )
    defaults = rules.topology_options(Settings())
    assert defaults == Options(defaults.workloads)


def test_pod_groups_are_asked_about_where_kubernetes_may_place() -> None:
    """With workloadScheduling on, new PodGroups are asked about, and only then."""
    on = Settings.model_validate({"topology": {"workloadScheduling": True}})
    resources = (ResourceRule(("CREATE",), ("scheduling.k8s.io",), ("podgroups",), ("*",)),)

    def asked(settings: Settings) -> list[tuple[str, object]]:
        rule = next(rule for rule in rules.build(settings).rules if rule.name == "topology")
        return [(hook.phase, hook.resources) for hook in rule.hooks if hook.group == "gangs"]

    assert (asked(on), asked(Settings())) == ([("mutate", resources)], [])
    assert rules.topology_options(on).schedules


_KINDS = [
    {"group": "example.org", "kind": "Train", "templates": ["spec.pods[*].template"], "changes": "always"},
    {"group": "example.org", "kind": "Policy", "templates": ["spec.template"], "changes": "suspended"},
    {"group": "example.org", "kind": "Gateway", "templates": ["spec.template"], "jobs": ["spec.job"]},
    {"group": "example.com", "kind": "Index", "templates": ["spec.template"], "changes": "never"},
    {"group": "example.com", "kind": "Labelled", "nodeLabels": ["spec.labels"]},
]


def test_configured_workloads_are_among_those_of_the_rule() -> None:
    """Kinds of the configuration count with when their templates may change; those without pod templates do not."""
    built_in = rules.topology_options(Settings()).workloads
    found = rules.topology_options(Settings.model_validate({"workloads": _KINDS})).workloads

    assert {key: row for key, row in found.items() if key not in built_in} == {
        ("example.org", "Train"): workload("example.org", "Train", ["spec.pods[*].template"], changes="always"),
        ("example.org", "Policy"): workload("example.org", "Policy", ["spec.template"], changes="suspended"),
        ("example.org", "Gateway"): workload(
            "example.org", "Gateway", ["spec.template"], jobs=["spec.job"], changes="create"
        ),
        ("example.com", "Index"): workload("example.com", "Index", ["spec.template"], changes="never"),
    }
    assert {("compute.coreweave.com", "NodePool"), ("apps", "ControllerRevision")}.isdisjoint(found)


def test_configured_workloads_are_asked_about() -> None:
    """The API server is asked about their resources: on changes only where their templates may be written at all."""
    hooks = _hooks(_about_topologies(workloads=_KINDS))
    writes = ("CREATE", "UPDATE")
    org = ResourceRule(writes, ("example.org",), ("trains", "policies", "gateways"))

    assert [rule for rule in hooks["mutate"].resources if "example" in rule.groups[0]] == [org]
    assert [rule for rule in hooks["validate"].resources if "example" in rule.groups[0]] == [
        org,
        ResourceRule(writes, ("example.com",), ("indexes",)),
    ]
    for hook in hooks.values():
        assert "['example.org/Train']" in hook.conditions[0].expression


@pytest.mark.parametrize("action", ["deny", "warn", "audit"])
@pytest.mark.parametrize("unapplied", ["deny", "warn"])
def test_an_action_decides_what_a_wrong_placement_leads_to(action: str, unapplied: str) -> None:
    """The same placement is refused, warned of or only written down; the rule fails closed where it refuses all."""
    policy: FailurePolicy = "Fail" if (action, unapplied) == ("deny", "deny") else "Ignore"
    settings = {"action": action, "unapplied": unapplied}
    asked = request(deployment(metadata=_NO_RACK))

    answer = validate(asked, rules.build(_settings(**settings)), _FACTS, POLICY_GROUPS[policy])

    assert {decision.rule: decision.verdict for decision in answer.decisions} == {"topology": action}
    hooks = _hooks(_about_topologies(**settings))
    assert (hooks["mutate"].failure_policy, hooks["validate"].failure_policy) == ("Ignore", policy)


@pytest.mark.parametrize(
    ("action", "deletion", "verdict", "policy"),
    [
        ("deny", "deny", "deny", "Fail"),
        ("deny", "warn", "warn", "Ignore"),
        ("deny", "audit", "audit", "Ignore"),
        ("warn", "deny", "warn", "Ignore"),
        ("deny", "off", "", "Ignore"),
    ],
)
def test_what_a_deletion_leads_to(action: str, deletion: str, verdict: str, policy: str) -> None:
    """Deleting a topology that workloads name is refused, warned of or only written down, and fails accordingly."""
    settings = {"action": action, "deletion": deletion}
    asked = request(
        old=resource("kueue.x-k8s.io/v1beta1", "Topology", name="halls"), resource="topologies", namespace=""
    )
    facts = StaticFacts(TODAY, naming={"halls": References(("Job default/train",))})

    answer = validate(asked, rules.build(_settings(**settings)), facts)

    assert [(one.rule, one.verdict) for one in answer.decisions] == [("topology-objects", verdict)] * bool(verdict)
    assert [hook.failure_policy for hook in _about_topologies("topology-objects", **settings).hooks] == [policy]


@pytest.mark.parametrize(
    ("default", "conditions"),
    [
        pytest.param({}, ["topology-is-mentioned"], id="none"),
        pytest.param({"preferred": "rack"}, ["topology-is-mentioned"], id="a-level-of-no-topology"),
        pytest.param({"topology": "coreweave", "preferred": ""}, ["topology-is-mentioned"], id="a-topology-alone"),
        pytest.param({"topology": "coreweave"}, [], id="the-lowest-level"),
        pytest.param({"topology": "coreweave", "preferred": "rack"}, [], id="a-level"),
    ],
)
def test_a_default_placement_is_asked_about_everywhere(default: Json, conditions: list[str]) -> None:
    """Where workloads without annotations are placed as well, no match condition may hide them."""
    for hook in _about_topologies(default=default).hooks:
        assert [condition.name for condition in hook.conditions] == conditions


def test_kinds_that_nobody_reads_annotations_of_are_asked_about() -> None:
    """A warning needs to be asked for; a kind that the configuration names is asked about as such."""
    kinds = {
        rule.resources
        for rule in _hooks(_about_topologies())["validate"].resources
        if rule.groups == ("apps.nvidia.com",)
    }

    assert kinds == {("nimservices",)}
    row = {"group": "apps.nvidia.com", "kind": "NIMService", "templates": ["spec.template"]}
    hooks = _hooks(_about_topologies(workloads=[row]))
    assert sum("nimservices" in rule.resources for rule in hooks["validate"].resources) == 1


@pytest.mark.parametrize(
    "preferred", ["lowest", "", "rack", "node.coreweave.cloud/rack", "superpod=3", "superpod in (3, 4)"]
)
def test_a_default_level_may_be_written_as_in_an_annotation(preferred: str) -> None:
    """Each form of a placement is one for the default; of a topology of the cluster nothing is known beforehand."""
    for topology in ("coreweave", "of-the-cluster"):
        assert _about_topologies(default={"topology": topology, "preferred": preferred}).name == "topology"
