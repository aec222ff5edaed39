"""From the settings to the rules about topologies: which there are, what is asked about, what it leads to."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json, deployment, request, resource
from support.service.reviews import TODAY

from policies.engine.engine import validate
from policies.engine.facts import References, StaticFacts
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import POLICY_GROUPS, FailurePolicy, Hook, Rule
from policies.objects.workload import workload
from policies.podspec import Accelerators
from policies.topology.template import Default, Options, Permission, Schedulers
from policies.topology.topology import BUILT_IN, Level, Topology
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError

_FACTS = StaticFacts(TODAY, {"gold": {"tier": "gold"}})
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


def _rule(name: str = "topology", **settings: Any) -> Rule:
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
    hooks = _hooks(_rule(workloads=_KINDS))
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
    hooks = _hooks(_rule(**settings))
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
    assert [hook.failure_policy for hook in _rule("topology-objects", **settings).hooks] == [policy]


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
    for hook in _rule(default=default).hooks:
        assert [condition.name for condition in hook.conditions] == conditions


def test_kinds_that_nobody_reads_annotations_of_are_asked_about() -> None:
    """A warning needs to be asked for; a kind that the configuration names is asked about as such."""
    kinds = {rule.resources for rule in _hooks(_rule())["validate"].resources if rule.groups == ("apps.nvidia.com",)}

    assert kinds == {("nimservices",)}
    row = {"group": "apps.nvidia.com", "kind": "NIMService", "templates": ["spec.template"]}
    hooks = _hooks(_rule(workloads=[row]))
    assert sum("nimservices" in rule.resources for rule in hooks["validate"].resources) == 1


@pytest.mark.parametrize(
    "preferred", ["lowest", "", "rack", "node.coreweave.cloud/rack", "superpod=3", "superpod in (3, 4)"]
)
def test_a_default_level_may_be_written_as_in_an_annotation(preferred: str) -> None:
    """Each form of a placement is one for the default; of a topology of the cluster nothing is known beforehand."""
    for topology in ("coreweave", "of-the-cluster"):
        assert _rule(default={"topology": topology, "preferred": preferred}).name == "topology"
