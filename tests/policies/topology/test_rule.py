"""The rule: which objects it changes, when, and what it says of those that it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from support.builders import FACTS, TODAY, WORKLOADS, Json, NamespacesToAsk, at, merged, pod_spec, request, resource
from support.choices import Chooser

from policies.engine.facts import Node, StaticFacts
from policies.engine.lookup import Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.violation import Violation
from policies.objects import patch
from policies.objects.fieldpath import lookup, render
from policies.objects.workload import table, workload
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Default, Options
from policies.topology.document import read
from policies.topology.rule import TopologyPlacement, reads
from policies.topology.schemes.fields import PLACES
from policies.topology.way.assignment import NO_PLAN

_TOPOLOGY, _RECORD = "kai.scheduler/topology", "cks-admission.dev/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_CATALOG = Catalog(BUILT_IN)
_RULE = TopologyPlacement(_CATALOG, Options(WORKLOADS))
_GPU = {"nvidia.com/gpu": 8}

# Per kind a template's path, and when its affinity may change: the contract's table.
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
    "kubeflow.org/v1 PyTorchJob": ("spec.pytorchReplicaSpecs.Worker.template", "no"),
    "kubeflow.org/v1 TFJob": ("spec.tfReplicaSpecs.Worker.template", "no"),
    "kubeflow.org/v1 XGBoostJob": ("spec.xgbReplicaSpecs.Worker.template", "no"),
    "kubeflow.org/v1 PaddleJob": ("spec.paddleReplicaSpecs.Worker.template", "no"),
    "kubeflow.org/v1 JAXJob": ("spec.jaxReplicaSpecs.Worker.template", "no"),
    "trainer.kubeflow.org/v1alpha1 TrainingRuntime": (
        "spec.template.spec.replicatedJobs[0].template.spec.template",
        "no",
    ),
    "trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime": (
        "spec.template.spec.replicatedJobs[0].template.spec.template",
        "no",
    ),
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
_ON_EACH_NODE = {"sunk.coreweave.com/v1alpha1 NodeSet"}
_FOR_MANY = {f"trainer.kubeflow.org/v1alpha1 {name}TrainingRuntime" for name in ("", "Cluster")}
_BY_REPLICA = {"leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"}


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


def _in_zone(value: str) -> Json:
    required = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [required]}}}


def _changed(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE, facts: StaticFacts = FACTS) -> Json:
    sent = deepcopy((obj, old))
    result = patch.apply(obj, rule.mutate(request(obj, old=old), facts).operations)
    assert (obj, old) == sent
    return result


def _record(obj: Json) -> Json:
    return dict(json.loads(obj["metadata"]["annotations"][_RECORD]))


def _affinity(kind: str, obj: Json) -> Any:
    path = _KINDS[kind][0].replace("[0]", ".0")
    steps: list[str | int] = [int(step) if step == "0" else step for step in path.split(".") if step]
    return lookup(obj, (*steps, "spec", "affinity"))


def _refusals(obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE) -> list[Violation]:
    return [each for each in rule.validate(request(obj, old=old), FACTS) if each.verdict != "warn"]


def _warnings(
    obj: Json, old: Json | None = None, rule: TopologyPlacement = _RULE, facts: StaticFacts = FACTS
) -> list[str]:
    return [each.warning for each in rule.validate(request(obj, old=old), facts) if each.verdict == "warn"]


@pytest.mark.parametrize("kind", _KINDS)
def test_creation(kind: str) -> None:
    """An object of any kind is placed when it is created, unless its kind never is."""
    obj = _object(kind, _zone("z"))

    changed = _changed(obj)

    assert _affinity(kind, changed) == (None if _KINDS[kind][1] == "never" else _in_zone("z"))
    assert (_RECORD in changed["metadata"]["annotations"]) is (_KINDS[kind][1] != "never")
    assert _refusals(changed) == []


@pytest.mark.parametrize("suspended", [False, True], ids=["running", "suspended"])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_placement_that_changes(kind: str, suspended: bool) -> None:  # noqa: FBT001
    """Where the affinity may change it does; elsewhere the template stays as it is, and the change is refused."""
    old = _changed(_object(kind, _zone("z"), suspend=suspended))
    obj = merged(old, {"metadata": {"annotations": _zone("y")}})
    may = _KINDS[kind][1] == "yes" or (kind == "batch/v1 Job" and suspended)

    changed = _changed(obj, old)

    if may:
        # Whatever ControllerRevisions may bring back is remembered; nothing else differs from what is created so.
        remembered, [noted] = _record(old)[path := _KINDS[kind][0]], _record(changed).values()
        assert noted.pop("earlier", [remembered]) == [remembered]
        fresh = _changed(_object(kind, _zone("y"), suspend=suspended))
        assert (_affinity(kind, changed), {path: noted}) == (_affinity(kind, fresh), _record(fresh))
    else:
        assert changed == obj
    name = kind.rpartition(" ")[2]
    fixed = Violation(
        "topology",
        f"metadata.annotations[{_REQUIRED}]",
        '"zone=y"',
        'was "zone=z" before.',
        f"The placement of a {name} is fixed when it is created.",
        f"Delete the {name} and create it again.",
    )
    assert _refusals(changed, old) == ([] if may or _KINDS[kind][1] == "never" else [fixed])


@pytest.mark.parametrize("kind", _KINDS)
def test_what_leaves_the_placement_alone(kind: str) -> None:
    """Whatever else changes, the object stays as it is, though its topology means something else by now."""
    old = _changed(_object(kind, _zone("z"), suspend=True))
    obj = merged(old, {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}})
    other = TopologyPlacement(
        Catalog([read({"name": "kubernetes", "levels": ["example.org/zone"]}, "a file")]), Options(WORKLOADS)
    )

    assert _changed(obj, old) == obj
    assert _changed(obj, old, other) == obj


@pytest.mark.parametrize("kind", [kind for kind, (_, may) in _KINDS.items() if may != "never"])
def test_a_placement_that_was_never_applied(kind: str) -> None:
    """An update that does not touch it gets a warning, and no patch."""
    old = _object(kind, _zone("z"))
    obj = merged(old, {"metadata": {"labels": {"a": "b"}}})

    assert _changed(obj, old) == obj
    where = f" ({_KINDS[kind][0]})" if _KINDS[kind][0] else ""
    assert _warnings(obj, old) == [
        f'required "zone=z" is not in the node affinity: the Pods may run anywhere; create it again{where}'
    ]


@pytest.mark.parametrize("kind", _KINDS)
def test_owned_objects(kind: str) -> None:
    """What a controller owns is not translated and not judged; a Pod is, by its own annotations."""
    obj = _object(kind, {_TOPOLOGY: "kubernetes", _REQUIRED: "zone=z", _PREFERRED: "nowhere"})
    owned = merged(obj, {"metadata": {"ownerReferences": [{"kind": "X", "name": "x", "controller": True}]}})
    shared = merged(obj, {"metadata": {"ownerReferences": [{"kind": "X", "name": "x", "controller": False}]}})

    assert _changed(owned) == owned
    assert [bool(_refusals(each)) for each in (owned, shared)] == [kind == "v1 Pod", True]


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
        assert _RULE.explain(asked, FACTS) == ((), NO_PLAN)


def test_kinds_of_ones_own() -> None:
    """A configured kind is placed like the others, and on updates only where that is configured."""
    rows = [workload("example.org", "Train", ["spec.pod"], affinity="always"), workload("example.org", "Bus", ["pod"])]
    rule = TopologyPlacement(_CATALOG, Options(table(rows)))
    train, bus = (
        resource("example.org/v1", kind, at(path, pod_spec()), annotations=_zone("z"))
        for kind, path in (("Train", "spec.pod.spec"), ("Bus", "pod.spec"))
    )

    for obj, path in ((train, ("spec", "pod")), (bus, ("pod",))):
        assert lookup(_changed(obj, rule=rule), (*path, "spec", "affinity")) == _in_zone("z")
    moved = [merged(_changed(each, rule=rule), {"metadata": {"annotations": _zone("y")}}) for each in (train, bus)]
    assert lookup(
        _changed(moved[0], _changed(train, rule=rule), rule), ("spec", "pod", "spec", "affinity")
    ) == _in_zone("y")
    assert _changed(moved[1], _changed(bus, rule=rule), rule) == moved[1]


def test_scheduler_and_affinity_of_an_update() -> None:
    """A new scheduler or another affinity makes the rule look again, as an annotation does."""
    kind = "apps/v1 Deployment"
    old = _changed(_object(kind, _zone("z")))
    kai = merged(old, at("spec.template.spec", {"schedulerName": "kai-scheduler"}))
    queued = merged(old, {"metadata": {"labels": {"runai/queue": "a"}}})
    own = _object(kind, {**_zone("z"), _RECORD: old["metadata"]["annotations"][_RECORD]}, affinity=_in_zone("y"))

    assert _affinity(kind, _changed(kai, old)) is None
    assert _affinity(kind, _changed(queued, old)) is None
    assert _affinity(kind, _changed(old, kai)) == _in_zone("z")
    (term,) = _affinity(kind, _changed(own, old))["nodeAffinity"].popitem()[1]["nodeSelectorTerms"]
    assert [each["values"] for each in term["matchExpressions"]] == [["y"], ["z"]]


def test_annotations_that_were_wrong_before() -> None:
    """An update that leaves them as they are only gets a warning; one that touches them is refused."""
    old = _object("apps/v1 Deployment", {_TOPOLOGY: "kubernetes", _REQUIRED: "rack"})
    same = merged(old, {"metadata": {"labels": {"a": "b"}}})
    other = merged(old, {"metadata": {"annotations": {_REQUIRED: "spine"}}})

    assert (_refusals(same, old), len(_refusals(other, old))) == ([], 1)
    assert _warnings(same, old) == [
        (f'metadata.annotations[{_REQUIRED}]: "rack" is no level of topology "kubernetes".')
    ]


def test_templates_that_an_update_brings() -> None:
    """They are placed where the affinity may change; elsewhere that would be too late, and they are warned of."""
    lws, ray = "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", "ray.io/v1 RayCluster"
    old = {**_object(lws, _zone("z")), "spec": {"leaderWorkerTemplate": {}}}
    head = {**_object(ray, _zone("z")), "spec": at("headGroupSpec.template.spec", pod_spec())}
    placed = _changed(head)
    more = merged(placed, at(_inside(ray, "spec"), pod_spec()))

    assert _affinity(lws, _changed(_object(lws, _zone("z")), old)) == _in_zone("z")
    assert (_changed(more, placed), _refusals(more, placed)) == (more, [])
    assert _warnings(more, placed) == [
        (
            'required "zone=z" is not in the node affinity: '
            "the Pods may run anywhere; create it again (spec.workerGroupSpecs[0].template)"
        )
    ]


def test_other_affinity_stays() -> None:
    """When the placement goes, only the node affinity goes that was made for it."""
    kind = "apps/v1 Deployment"
    pods: Json = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    old = _changed(_object(kind, _zone("z"), affinity=pods))
    record = {_RECORD: old["metadata"]["annotations"][_RECORD]}
    obj = merged(_object(kind, record), at("spec.template.spec.affinity", _affinity(kind, old)))

    assert _affinity(kind, old) == {**pods, **_in_zone("z")}
    assert _changed(obj, old) == _object(kind, {}, affinity=pods)


def test_what_comes_of_each_template() -> None:
    """For those who ask: what is read off each template, and what its affinity becomes."""
    templates = {"leaderTemplate": {"spec": pod_spec()}, "workerTemplate": {"spec": pod_spec(_GPU)}}
    obj = resource(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"spec": {"leaderWorkerTemplate": templates}},
        annotations=_zone("z"),
    )

    found = _RULE.explain(request(obj), FACTS)

    assert [(reading.template.path, reading.obstacle, made.affinity) for reading, made in found.translations] == [
        (
            "spec.leaderWorkerTemplate.leaderTemplate",
            "it requests no accelerator, as other templates of the workload do",
            None,
        ),
        ("spec.leaderWorkerTemplate.workerTemplate", "", _in_zone("z")),
    ]


def test_keys_that_look_like_the_annotations() -> None:
    """A misspelt annotation and a label are warned of where they are new, on the object and on its template."""
    labels, misspelt = {f"{_TOPOLOGY}-preferred-placement": "rack"}, {f"{_TOPOLOGY}.required": "rack"}
    old = resource("apps/v1", "Deployment", at("spec.template.spec", pod_spec()))
    new = merged(old, {"metadata": {"annotations": misspelt}}, at("spec.template.metadata.labels", labels))
    lines = [
        f'annotation "{_TOPOLOGY}.required" places nothing: write the annotation {_TOPOLOGY}-required-placement',
        f'label "{_TOPOLOGY}-preferred-placement" places nothing: write the annotation {_TOPOLOGY}-preferred-placement',
    ]

    assert [violation.warning for violation in _RULE.validate(request(new), FACTS)] == lines
    assert [violation.warning for violation in _RULE.validate(request(new, old=old), FACTS)] == lines
    assert list(_RULE.validate(request(new, old=new), FACTS)) == []


def test_a_missing_translation() -> None:
    """A required placement that is not in a new object is warned of, or refused where that is configured."""
    obj = _object("v1 Pod", _zone("z"))
    strict = TopologyPlacement(_CATALOG, Options(WORKLOADS, unapplied="deny"))

    assert (_refusals(obj), _warnings(obj)) == (
        [],
        ['required "zone=z" is not in the node affinity: the Pods may run anywhere; create it again'],
    )
    assert _refusals(obj, rule=strict) == [
        Violation(
            "topology",
            "spec.affinity",
            "nothing",
            'for the required "zone=z", so its Pods may run anywhere.',
            "A required placement is not in the node affinity.",
            "Create the object again, or add the node affinity yourself.",
        )
    ]
    assert _refusals(merged(obj, {"metadata": {"labels": {"a": "b"}}}), obj, strict) == []
    assert _refusals(_object("v1 Pod", _zone("z"), affinity=_in_zone("z")), rule=strict) == []


def test_a_preferred_placement_that_has_no_effect() -> None:
    """It is refused, or warned of and left out where that is configured."""
    obj = _object("v1 Pod", _zone("z", **{_PREFERRED: "region"}))
    lenient = TopologyPlacement(_CATALOG, Options(WORKLOADS, not_more_specific="warn"))

    assert (_changed(obj), len(_refusals(obj))) == (obj, 1)
    changed = _changed(obj, rule=lenient)
    assert _affinity("v1 Pod", changed) == _in_zone("z")
    assert (_refusals(changed, rule=lenient), _warnings(changed, rule=lenient)) == (
        [],
        [(f'metadata.annotations[{_PREFERRED}]: "region" is farther than the required "zone".')],
    )


@pytest.mark.parametrize(("key", "value"), [(_TOPOLOGY, 1), (_REQUIRED, None), (_PREFERRED, ["rack"])])
def test_annotations_that_are_no_text(key: str, value: Any) -> None:
    """In a template of a custom resource an annotation may be anything; it is refused at its place."""
    kind = "jobset.x-k8s.io/v1alpha2 JobSet"
    obj = merged(_object(kind, _zone("z")), {})
    lookup(obj, ("spec", "replicatedJobs", 0, "template", "spec", "template"))["metadata"] = {
        "annotations": {key: value}
    }
    path = f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{key}]"

    assert _changed(obj) == obj
    assert [(each.path, each.problem, each.remedy) for each in _refusals(obj)] == [
        (path, "is no string.", "Quote the value.")
    ]


def _scheduled(annotations: Mapping[str, str], **metadata: Any) -> Json:
    return merged(_object("batch/v1 Job", annotations, schedulerName="kai-scheduler"), {"metadata": metadata})


def test_a_scheduler_that_reads_the_annotations() -> None:
    """Short names are written out, once, and not by updates that are about something else."""
    obj = _scheduled({_TOPOLOGY: "coreweave", _REQUIRED: "superpod", _PREFERRED: "ib.coreweave.cloud/leafgroup"})

    changed = _changed(obj)

    names = ("backend.coreweave.cloud/superpod", "backend.coreweave.cloud/leafgroup")
    expected = {_TOPOLOGY: "coreweave", _REQUIRED: names[0], _PREFERRED: names[1]}
    assert changed == merged(obj, {"metadata": {"annotations": expected}})
    assert (_changed(changed), _changed(changed, changed)) == (changed, changed)
    assert (_refusals(changed), _warnings(changed)) == ([], [])
    later = merged(obj, {"metadata": {"labels": {"a": "b"}}})
    assert _changed(later, later) == later


def test_one_annotation_for_several_templates() -> None:
    """It is written out once, where it stands."""
    specs = {name: {"template": {"spec": pod_spec(_GPU, schedulerName="kai-scheduler")}} for name in ("a", "b")}
    obj = resource(
        "kubeflow.org/v2beta1",
        "MPIJob",
        {"spec": {"mpiReplicaSpecs": specs}},
        annotations={_TOPOLOGY: "coreweave", _REQUIRED: "rack"},
    )

    assert _RULE.mutate(request(obj), FACTS).operations == (
        {
            "op": "add",
            "path": "/metadata/annotations/kai.scheduler~1topology-required-placement",
            "value": "node.coreweave.cloud/rack",
        },
    )


_DEFAULT = TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("kubernetes")))
_ZONE = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["1"]}]}
_NEAR = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": _ZONE}]}}


@pytest.mark.parametrize("kind", _KINDS)
def test_the_default_of_the_configuration(kind: str) -> None:
    """Distributed workloads without annotations prefer the lowest level above a Node; others are left alone."""
    obj = _object(kind)

    changed = _changed(obj, rule=_DEFAULT, facts=Chooser().facts)

    is_near = kind in _OF_SEVERAL_PODS - _ON_EACH_NODE - _BY_REPLICA - _FOR_MANY
    assert (_affinity(kind, changed) or {}).get("nodeAffinity") == (_NEAR["nodeAffinity"] if is_near else None)
    assert (kind in _BY_REPLICA) == ("topology-preferred-placement" in str(changed.get("spec")))
    assert list(_DEFAULT.validate(request(changed), FACTS)) == []
    assert _changed(changed, rule=_DEFAULT, facts=Chooser().facts) == changed
    assert _changed(obj) == obj


@pytest.mark.parametrize(
    ("spec", "is_distributed"),
    [
        pytest.param({}, False, id="one-pod"),
        pytest.param({"parallelism": 1, "completions": 1}, False, id="one-pod-in-words"),
        pytest.param({"parallelism": 2}, True, id="parallel"),
        pytest.param({"completions": 2}, True, id="several"),
        pytest.param({"completions": None}, False, id="null"),
    ],
)
def test_jobs_of_several_pods(spec: Json, is_distributed: bool) -> None:  # noqa: FBT001
    """A Job is distributed if it has more than one Pod."""
    changed = _changed(merged(_object("batch/v1 Job"), {"spec": spec}), rule=_DEFAULT, facts=Chooser().facts)

    assert _affinity("batch/v1 Job", changed) == (_NEAR if is_distributed else None)


def test_annotations_come_before_the_default() -> None:
    """A workload that says something is not told more; a placement without a topology is one of the default's."""
    kind = "jobset.x-k8s.io/v1alpha2 JobSet"

    assert _affinity(kind, _changed(_object(kind, _zone("z")), rule=_DEFAULT)) == _in_zone("z")
    assert _affinity(kind, _changed(_object(kind, {_REQUIRED: "zone=z"}), rule=_DEFAULT)) == _in_zone("z")
    assert _affinity("v1 Pod", _changed(_object("v1 Pod", {_REQUIRED: "zone=z"}), rule=_DEFAULT)) == _in_zone("z")


def test_a_default_for_some_namespaces() -> None:
    """Only where their labels say so; they are looked up for objects that it could be for, and for no others."""
    selector = LabelSelector((SelectorRequirement("team", "In", ("a",)),))
    rule = TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("kubernetes", "zone", selector)))
    job_set = _object("jobset.x-k8s.io/v1alpha2 JobSet")
    ours, theirs = (
        StaticFacts(TODAY, namespaces={"default": {"team": team}}, chooser=Chooser()) for team in ("a", "b")
    )

    assert [len(rule.mutate(request(job_set), facts).operations) for facts in (ours, theirs)] == [3, 0]
    with pytest.raises(Missing):
        rule.mutate(request(job_set), NamespacesToAsk(TODAY))
    assert rule.mutate(request(_object("v1 Pod")), NamespacesToAsk(TODAY)).operations == ()


def test_a_default_that_cannot_be_used() -> None:
    """Nobody is refused for it; it is warned of."""
    rule = TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("nowhere")))
    obj = _object("jobset.x-k8s.io/v1alpha2 JobSet")

    assert (_changed(obj, rule=rule), _refusals(obj, rule=rule)) == (obj, [])
    assert _warnings(obj, rule=rule) == [
        'topology.default of the configuration: "nowhere" is no topology that is known.'
    ]


def test_topologies_of_the_cluster() -> None:
    """They are known beside the others; one that differs from a shipped one does not count, and that is warned of."""
    halls = read({"name": "halls", "levels": ["example.org/hall"]}, "KAI Topology halls", in_cluster=True)
    other = read({"name": "kubernetes", "levels": ["example.org/hall"]}, "KAI Topology kubernetes", in_cluster=True)
    facts = StaticFacts(TODAY, cluster_topologies=(halls, other))
    in_hall = _object("v1 Pod", {_TOPOLOGY: "halls", _REQUIRED: "hall=1"})
    in_zone = _object("v1 Pod", _zone("z"), affinity=_in_zone("z"))

    (affinity, _) = _RULE.mutate(request(in_hall), facts).operations
    assert json.dumps(affinity).count("example.org/hall") == 1
    assert [each.summary for each in _RULE.validate(request(in_hall), FACTS)] == ["The topology is not known."]
    assert _warnings(in_zone, facts=facts) == [
        'topology "kubernetes" has two definitions that differ: built in counts, KAI Topology kubernetes does not'
    ]


def test_an_empty_pool() -> None:
    """A topology for a pool without Nodes is warned of where the Nodes are known."""
    pool = LabelSelector((SelectorRequirement("pool", "In", ("a",)),))
    halls = read({"name": "halls", "levels": ["example.org/hall"]}, "a file")
    pooled = type(halls)(halls.name, halls.levels, pool=pool)
    rule = TopologyPlacement(Catalog([pooled]), Options(WORKLOADS))
    obj = _object("v1 Pod", {_TOPOLOGY: "halls", _PREFERRED: "hall"})
    inside, outside = (
        StaticFacts(TODAY, cluster_nodes=(Node("n", {"pool": name, "example.org/hall": "1"}),)) for name in "ab"
    )

    assert [_warnings(obj, rule=rule, facts=facts) for facts in (inside, outside, FACTS)] == [
        [],
        ['topology "halls": its node pool has no Nodes now'],
        [],
    ]


def test_what_is_warned_of_is_on_one_line() -> None:
    """Placements of long names and deep templates still make one line each."""
    domains = ",".join(f"{level}={'1' * 60}" for level in ("fabric", "superpod", "leafgroup", "rack"))
    kind = "trainer.kubeflow.org/v1alpha1 TrainingRuntime"
    facts = StaticFacts(TODAY, cluster_nodes=(Node("n", {}),))

    found = _warnings(_object(kind, {_TOPOLOGY: "coreweave", _REQUIRED: domains}), facts=facts)

    assert [each for each in found if "\n" in each] == []
    assert len(found) == 2


def test_pools_of_an_update() -> None:
    """What an update brings is refused, what was there before is only warned of."""
    pools = {
        name: LabelSelector((SelectorRequirement("compute.coreweave.com/node-pool", "In", (name,)),)) for name in "ab"
    }
    rule = TopologyPlacement(
        Catalog(type(BUILT_IN[0])(f"in-{name}", BUILT_IN[-1].levels, pool=pool) for name, pool in pools.items()),
        Options(WORKLOADS),
    )
    kind = "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"

    def _pools(leader: str, worker: str) -> Json:
        specs = {
            f"{role}Template": {"spec": pod_spec(nodeSelector={"compute.coreweave.com/node-pool": name})}
            for role, name in (("leader", leader), ("worker", worker))
        }
        annotations = {_TOPOLOGY: "in-a", _PREFERRED: "zone"}
        return {**_object(kind, annotations), "spec": {"leaderWorkerTemplate": specs}}

    both, one = _pools("a", "b"), _pools("a", "a")
    assert [len(_refusals(new, old, rule)) for new, old in ((both, None), (both, one), (both, both), (one, both))] == [
        *(1, 1, 0, 0),
    ]


def test_what_is_read() -> None:
    """The paths cover annotations of every holder, placement, demand, the numbers of Pods, and others' constraints."""
    rows = [WORKLOADS["batch", "CronJob"], WORKLOADS["", "Pod"]]
    names = (
        *("affinity", "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority", "priorityClassName"),
        *("resourceClaims", "resources", "schedulerName", "schedulingGroup", "tolerations"),
        *("containers[*].resources", "initContainers[*].resources", "initContainers[*].restartPolicy"),
    )
    pod = ("metadata.annotations", "metadata.labels", *(f"spec.{name}" for name in names))
    counts = (
        *("completions", "groupName", "maxReplicas", "minReplicas", "name", "numOfHosts"),
        *("parallelism", "replicas", "size", "suspend"),
    )

    assert reads(rows) == {
        *("spec.completionMode", "spec.mlPolicy", "spec.scheduling", "spec.selector", "spec.suspend"),
        "spec.jobTemplate.metadata.annotations",
        *pod,
        *(f"spec.jobTemplate.spec.template.{path}" for path in pod),
        *(f"{holder}.{name}" for holder in ("spec", "spec.jobTemplate", "spec.jobTemplate.spec") for name in counts),
        *("spec.annotations", "spec.podTemplateOverrides", "spec.runtimePatches"),
        *(render(place) for places in PLACES.values() for place in places),
    }
