"""The rule: which objects it changes, when, and what it says of others, and of levels for other schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from support.builders import FACTS, TODAY, WORKLOADS, Json, NamespacesToAsk, at, merged, pod_spec, request, resource

from policies.engine import patch
from policies.engine.facts import Node, StaticFacts
from policies.engine.interruption import Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.violation import Violation
from policies.objects.fieldpath import lookup
from policies.objects.workload import table, workload
from policies.topology.objects import read
from policies.topology.rule import TopologyPlacement
from policies.topology.schemes import Judge, is_mentioned, mentions
from policies.topology.template import Default, Options
from policies.topology.topology import BUILT_IN, Catalog
from policies.topology.way import Keeper

_TOPOLOGY, _GATE = "kai.scheduler/topology", "cks-admission.dev/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_CATALOG = Catalog(BUILT_IN)
_RULE = TopologyPlacement(_CATALOG, Options(WORKLOADS))
_GPU = {"nvidia.com/gpu": 8}

# Per kind a template's path, and when its metadata may change: the contract's table.
_KINDS = {
    "v1 Pod": ("", "no"),
    "v1 PodTemplate": ("template", "yes"),
    "v1 ReplicationController": ("spec.template", "yes"),
    "apps/v1 Deployment": ("spec.template", "yes"),
    "apps/v1 ReplicaSet": ("spec.template", "yes"),
    "apps/v1 StatefulSet": ("spec.template", "yes"),
    "apps/v1 DaemonSet": ("spec.template", "yes"),
    "argoproj.io/v1alpha1 Rollout": ("spec.template", "yes"),
    "batch/v1 Job": ("spec.template", "suspended"),
    "batch/v1 CronJob": ("spec.jobTemplate.spec.template", "yes"),
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": ("spec.leaderWorkerTemplate.workerTemplate", "yes"),
    "jobset.x-k8s.io/v1alpha2 JobSet": ("spec.replicatedJobs[0].template.spec.template", "no"),
    "kubeflow.org/v2beta1 MPIJob": ("spec.mpiReplicaSpecs.Worker.template", "no"),
    **{
        f"kubeflow.org/v1 {kind}Job": (f"spec.{field}ReplicaSpecs.Worker.template", "no")
        for kind, field in {
            "PyTorch": "pytorch",
            "TF": "tf",
            "XGBoost": "xgb",
            "Paddle": "paddle",
            "JAX": "jax",
        }.items()
    },
    **{
        f"trainer.kubeflow.org/v1alpha1 {kind}": ("spec.template.spec.replicatedJobs[0].template.spec.template", "no")
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    },
    "kubeflow.org/v1 Notebook": ("spec.template", "no"),
    "serving.knative.dev/v1 Service": ("spec.template", "never"),
    "serving.knative.dev/v1 Configuration": ("spec.template", "never"),
    "ray.io/v1 RayCluster": ("spec.workerGroupSpecs[0].template", "no"),
    "ray.io/v1 RayJob": ("spec.rayClusterSpec.workerGroupSpecs[0].template", "no"),
    "ray.io/v1 RayService": ("spec.rayClusterConfig.workerGroupSpecs[0].template", "no"),
    "batch.volcano.sh/v1alpha1 Job": ("spec.tasks[0].template", "no"),
    "sunk.coreweave.com/v1alpha1 NodeSet": ("spec.template", "yes"),
}
_OF_SEVERAL_PODS = {
    kind
    for kind in _KINDS
    if kind.partition("/")[0]
    in (
        *("batch.volcano.sh", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io", "sunk.coreweave.com"),
        *("trainer.kubeflow.org", "kubeflow.org"),
    )
} - {"kubeflow.org/v1 Notebook"}


def _object(kind: str, annotations: Mapping[str, Any] | None = None, *, suspend: bool = False, **fields: Any) -> Json:
    """An object with one template; the fields are those of its Pods' spec."""
    api_version, _, name = kind.partition(" ")
    parts: list[Json] = [{"spec": {"suspend": True}}] if suspend else []
    parts += [] if annotations is None else [{"metadata": {"annotations": dict(annotations)}}]
    return resource(api_version, name, *parts, at(_inside(kind, "spec"), pod_spec(_GPU, **fields)))


def _inside(kind: str, *names: str) -> str:
    return ".".join(part for part in (_KINDS[kind][0], *names) if part)


def _zone(value: str = "", **more: str) -> dict[str, str]:
    return {_TOPOLOGY: "kubernetes", _REQUIRED: f"zone={value}" if value else "zone", **more}


def _changed(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE) -> Json:
    sent = deepcopy((obj, old))
    result = patch.apply(obj, rule.mutate(request(obj, old=old), FACTS).operations)
    assert (obj, old) == sent
    return result


def _carried(kind: str, obj: Json) -> dict[str, Any] | None:
    """The annotations of the placement in an object's template, or None; the gate in the place of those of a Pod."""
    path = _KINDS[kind][0].replace("[0]", ".0")
    steps: list[str | int] = [int(step) if step == "0" else step for step in path.split(".") if step]
    if not steps:
        gates = obj["spec"].get("schedulingGates")
        return None if gates is None else {key: obj["metadata"]["annotations"][key] for key in (_TOPOLOGY, _REQUIRED)}
    found = lookup(obj, (*steps, "metadata", "annotations"))
    return dict(found) if isinstance(found, dict) else None


def _refusals(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE) -> list[Violation]:
    return [each for each in rule.validate(request(obj, old=old), FACTS) if each.verdict != "warn"]


def _warnings(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE) -> list[str]:
    return [each.warning for each in rule.validate(request(obj, old=old), FACTS) if each.verdict == "warn"]


@pytest.mark.parametrize("suspended", [False, True], ids=["running", "suspended"])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_placement_that_changes(kind: str, suspended: bool) -> None:  # noqa: FBT001
    """Where a template may change it does; elsewhere it stays byte for byte, and the change is refused."""
    old = _changed(_object(kind, _zone("z"), suspend=suspended))
    obj = merged(old, {"metadata": {"annotations": _zone("y")}})
    may = _KINDS[kind][1] == "yes" or (kind == "batch/v1 Job" and suspended)

    changed = _changed(obj, old)

    assert changed == (_changed(_object(kind, _zone("y"), suspend=suspended)) if may else obj)
    name = kind.rpartition(" ")[2]
    fixed = Violation(
        "topology",
        f"metadata.annotations[{_REQUIRED}]",
        '"zone=y"',
        'was "zone=z" before.',
        f"The placement of a {name} is fixed when it is created.",
        f"Delete the {name} and create it again.",
    )
    assert _refusals(changed, old) == ([] if may else [fixed])


@pytest.mark.parametrize("kind", _KINDS)
def test_what_leaves_the_placement_alone(kind: str) -> None:
    """Whatever else changes, the object stays as it is, whether its placement was applied or not."""
    plain = _object(kind, _zone("z"), suspend=True)
    other = TopologyPlacement(
        Catalog([read({"name": "kubernetes", "levels": ["example.org/zone"]}, "a file")]), Options(WORKLOADS)
    )
    for old in (_changed(plain), plain):
        obj = merged(old, {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}})
        assert _changed(obj, old) == _changed(obj, old, other) == obj
        assert _refusals(obj, old) == []


@pytest.mark.parametrize("kind", _KINDS)
def test_owned_objects(kind: str) -> None:
    """What a controller of the table owns is left to it; a Pod, and what an unknown one creates, is not."""
    obj = _object(kind, {_TOPOLOGY: "kubernetes", _REQUIRED: "zone=z", _PREFERRED: "nowhere"})
    deployment, unknown = (
        merged(obj, {"metadata": {"ownerReferences": [{"apiVersion": version, "kind": owner, "controller": True}]}})
        for version, owner in (("apps/v1", "Deployment"), ("example.org/v1", "Workflow"))
    )

    assert _changed(deployment) == deployment
    assert [bool(_refusals(each)) for each in (deployment, unknown)] == [kind == "v1 Pod", True]
    later = merged(unknown, {"metadata": {"annotations": {_PREFERRED: "elsewhere"}}})
    assert bool(_refusals(later, unknown)) is (kind == "v1 Pod")


def test_pods_that_are_left_alone() -> None:
    """Mirror Pods, objects that are being deleted, subresources and DELETE are nobody's to change."""
    pod = _object("v1 Pod", {_REQUIRED: "nowhere", "kubernetes.io/config.mirror": "x"})
    gone = merged(
        _object("v1 Pod", {_REQUIRED: "nowhere"}), {"metadata": {"deletionTimestamp": "2026-03-01T00:00:00Z"}}
    )
    deployment = _object("apps/v1 Deployment", _zone("z"))

    for asked in (
        request(pod),
        request(gone),
        request(gone, old=gone),
        request(deployment, sub_resource="scale", old=deployment),
        request(deployment, sub_resource="status", old=deployment),
        request(None, old=deployment),
        request(resource("example.org/v1", "Train", annotations=_zone("z"))),
    ):
        assert _RULE.mutate(asked, FACTS).operations == ()
        assert list(_RULE.validate(asked, FACTS)) == []
        assert _RULE.explain(asked, FACTS) == ()


def test_kinds_of_ones_own() -> None:
    """A configured kind is placed like the others, and on updates only where that is configured."""
    rows = [workload("example.org", "Train", ["spec.pod"], changes="always"), workload("example.org", "Bus", ["pod"])]
    rule = TopologyPlacement(_CATALOG, Options(table(rows)))
    train, bus = (
        resource("example.org/v1", kind, at(path, pod_spec()), annotations=_zone("z"))
        for kind, path in (("Train", "spec.pod.spec"), ("Bus", "pod.spec"))
    )

    for obj, path in ((train, ("spec", "pod")), (bus, ("pod",))):
        assert lookup(_changed(obj, rule=rule), (*path, "metadata", "annotations")) == _zone("z")
    moved = [merged(_changed(each, rule=rule), {"metadata": {"annotations": _zone("y")}}) for each in (train, bus)]
    changed = _changed(moved[0], _changed(train, rule=rule), rule)
    assert lookup(changed, ("spec", "pod", "metadata", "annotations")) == _zone("y")
    assert _changed(moved[1], _changed(bus, rule=rule), rule) == moved[1]


def test_what_comes_of_each_template() -> None:
    """For those who ask: who keeps the Pods of each template together, or why nobody does."""
    templates = {"leaderTemplate": {"spec": pod_spec()}, "workerTemplate": {"spec": pod_spec(_GPU)}}
    obj = resource(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"spec": {"leaderWorkerTemplate": templates}},
        annotations=_zone("z"),
    )

    assert [(one.template.path, one.keeper) for one in _RULE.explain(request(obj), FACTS)] == [
        (
            "spec.leaderWorkerTemplate.leaderTemplate",
            Keeper(reason="it requests no accelerator, as other templates of the workload do"),
        ),
        ("spec.leaderWorkerTemplate.workerTemplate", Keeper("gate", may_mark=True)),
    ]


def test_what_was_not_applied() -> None:
    """A Pod without its gate, and a template without its annotations, is warned of, or refused where configured."""
    pod, job = _object("v1 Pod", _zone("z")), _object("batch/v1 Job", _zone("z"))
    strict = TopologyPlacement(_CATALOG, Options(WORKLOADS, unapplied="deny"))
    summary = "The placement is not applied, so the Pods may run anywhere."

    assert [_refusals(pod), _refusals(job)] == [[], []]
    assert [_warnings(pod), _warnings(job)] == [
        [
            (
                f'spec.schedulingGates: lacks {_GATE} for the required "zone=z". '
                "Create the Pod again; if it happens again, another webhook removes the gate."
            )
        ],
        [
            (
                'spec.template.metadata.annotations: lack what keeps the required "zone=z". '
                "Create the object again, or write the annotations into the template yourself."
            )
        ],
    ]
    assert [[each.summary for each in _refusals(obj, rule=strict)] for obj in (pod, job)] == [[summary], [summary]]
    assert _refusals(merged(pod, {"metadata": {"labels": {"a": "b"}}}), pod, strict) == []
    assert [_refusals(_changed(obj), rule=strict) for obj in (pod, job)] == [[], []]


_DEFAULT = TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("kubernetes")))
_NEAR = {_TOPOLOGY: "kubernetes", _PREFERRED: "zone"}


@pytest.mark.parametrize("kind", _KINDS)
def test_the_default_of_the_configuration(kind: str) -> None:
    """Templates of distributed workloads without annotations prefer the lowest level above a Node; others do not."""
    obj = _object(kind)

    changed = _changed(obj, rule=_DEFAULT)

    assert _carried(kind, changed) == (_NEAR if kind in _OF_SEVERAL_PODS else None)
    assert list(_DEFAULT.validate(request(changed), FACTS)) == []
    assert _changed(changed, rule=_DEFAULT) == changed
    assert _changed(changed, changed, rule=_DEFAULT) == changed
    assert _changed(obj) == obj


def test_jobs_of_several_pods() -> None:
    """A Job is distributed if it has more than one Pod."""
    specs: list[Json] = [
        *({}, {"parallelism": 1, "completions": 1}, {"completions": None}),
        *({"parallelism": 2}, {"completions": 2}),
    ]
    jobs = [_changed(merged(_object("batch/v1 Job"), {"spec": spec}), rule=_DEFAULT) for spec in specs]

    assert [_carried("batch/v1 Job", job) for job in jobs] == [None, None, None, _NEAR, _NEAR]


def test_a_default_for_some_namespaces() -> None:
    """Only where their labels say so; they are looked up for objects that it could be for, and for no others."""
    selector = LabelSelector((SelectorRequirement("team", "In", ("a",)),))
    rule = TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("kubernetes", "zone", selector)))
    job_set = _object("jobset.x-k8s.io/v1alpha2 JobSet")
    ours, theirs = (StaticFacts(TODAY, namespaces={"default": {"team": team}}) for team in ("a", "b"))

    assert [len(rule.mutate(request(job_set), facts).operations) for facts in (ours, theirs)] == [1, 0]
    with pytest.raises(Missing):
        rule.mutate(request(job_set), NamespacesToAsk(TODAY))
    assert rule.mutate(request(_object("v1 Pod")), NamespacesToAsk(TODAY)).operations == ()


@pytest.mark.parametrize("preferred", ["lowest", "zone"])
def test_a_default_refuses_nothing(preferred: str) -> None:
    """A workload that was there before the default was configured is updated as ever."""
    rule = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, default=Default("kubernetes", preferred)))
    running = merged(_object("batch/v1 Job"), {"spec": {"parallelism": 4}})
    labelled = merged(running, {"metadata": {"labels": {"a": "b"}}})

    assert (_changed(labelled, running, rule), _refusals(labelled, running, rule)) == (labelled, [])
    assert _warnings(labelled, running, rule) == []


_RACK, _SUPERPOD = "node.coreweave.cloud/rack", "backend.coreweave.cloud/superpod"
_OF_KUEUE = "kueue.x-k8s.io/podset-required-topology"
_NODES = tuple(Node(f"n{n}", {_RACK: str(n), _SUPERPOD: "1", "kubernetes.io/hostname": f"n{n}"}) for n in (1, 2))
_KUEUE = read(
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "racks"},
     "spec": {"levels": [{"nodeLabel": _RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}},
    "Kueue Topology racks", in_cluster=True,
)  # fmt: skip
_QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}


def _queued(level: str = "rak", **metadata: Any) -> Json:
    template = at("spec.template.metadata.annotations", {_OF_KUEUE: level})
    return resource("batch/v1", "Job", template, name="train", **{**_QUEUED, **metadata})


def _said(asked: Any, facts: StaticFacts) -> list[str]:
    violations = _RULE.validate(asked, facts)
    assert all(violation.verdict == "warn" for violation in violations)
    return [violation.summary for violation in violations]


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        pytest.param(request(_queued()), True, id="creation"),
        pytest.param(request(_queued(), old=_queued("rack")), True, id="change"),
        pytest.param(request(_queued(), old=_queued()), False, id="as-before"),
        pytest.param(request(_queued(), sub_resource="status"), False, id="subresource"),
        pytest.param(request(_queued(deletionTimestamp="2026-01-01T00:00:00Z")), False, id="being-deleted"),
        pytest.param(
            request(_queued(ownerReferences=[{"kind": "X", "controller": True}])), False, id="of-a-controller"
        ),
    ],
)
def test_when_something_is_said(asked: Any, *, is_told: bool) -> None:
    """People are told of what they change, and controllers of nothing."""
    facts = StaticFacts(TODAY, cluster_nodes=_NODES)

    assert bool(_said(asked, facts)) is is_told


def test_levels_of_kueue_are_those_of_its_topologies() -> None:
    """A label that Nodes carry is no level for Kueue, unless a Topology object of its own has it."""
    facts = StaticFacts(TODAY, cluster_nodes=_NODES, cluster_topologies=(_KUEUE,))
    where = f"spec.template.metadata.annotations[{_OF_KUEUE}]"

    assert _said(request(_queued(_RACK)), facts) == []
    assert _said(request(_queued(_SUPERPOD)), facts) == [
        f'{where}: "{_SUPERPOD}" is no level of a Topology of Kueue. Levels are {_RACK}, kubernetes.io/hostname.'
    ]


def test_a_topology_in_the_cluster_that_grove_knows() -> None:
    """A PodCliqueSet names a domain of a ClusterTopologyBinding; its key alone is none."""
    binding: Json = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "h100"}}
    binding["spec"] = {"levels": [{"domain": "rack", "key": _RACK}]}
    facts = StaticFacts(TODAY, cluster_topologies=(read(binding, "Grove", in_cluster=True),))
    said = {}
    for name, domain in (("h100", "rack"), ("h100", _RACK), ("coreweave", "zone")):
        constraint = at("spec.template.topologyConstraint", {"topologyName": name, "packDomain": domain})
        said[domain] = _said(request(resource("grove.io/v1alpha1", "PodCliqueSet", constraint)), facts)

    where = "spec.template.topologyConstraint.packDomain"
    assert said == {
        "rack": [],
        _RACK: [f'{where}: "{_RACK}" is no level of topology "h100". Did you mean rack?'],
        "zone": [f'{where}: "zone" is a level of "coreweave", which is no topology. Known are h100.'],
    }


def test_few_of_many_are_told() -> None:
    """An answer has room for so many; an object of a thousand wrong levels costs no more."""
    cliques = [{"name": f"c{n}", "topologyConstraint": {"packDomain": "x"}, "spec": {}} for n in range(1000)]

    obj = resource("grove.io/v1alpha1", "PodCliqueSet", at("spec.template.cliques", cliques))

    assert len(_said(request(obj), FACTS)) == 24


@pytest.mark.parametrize(
    ("annotations", "meaning"),
    [
        ({_OF_KUEUE: _RACK}, "Kueue keeps all Pods in one rack, or lets them wait"),
        ({"kueue.x-k8s.io/podset-preferred-topology": _RACK}, "Kueue packs the Pods into one rack if there is room"),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, "Kueue admits its Pods once there is room"),
    ],
)
def test_what_a_level_comes_to(annotations: Json, meaning: str) -> None:
    """A sentence says who does what, and in how many domains the Nodes are."""
    row = WORKLOADS["batch", "Job"]
    obj = resource("batch/v1", "Job", at("spec.template.metadata.annotations", annotations), at("metadata", _QUEUED))
    judge = Judge(Catalog(BUILT_IN), _NODES)

    (mention,) = mentions(obj, row.group_kind, row)

    told = judge.meaning(mention)
    assert (judge.problem(mention), told.startswith(meaning), is_mentioned(row, obj)) == ("", True, True)
    assert told.endswith("Nodes are in 2 of them: 1, 2") is (mention.sort != "unconstrained")
