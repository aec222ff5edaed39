"""How much of an object is decoded: what rules read and no more, and never so little that a decision changes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from support.builders import Json, at, daemon_set, merged, owner, pod, pod_spec, resource
from support.service.reviews import RESERVED, TODAY, body
from support.service.servers import default_rules
from support.templates import written

from policies import selectors as selectors_rule
from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, StaticFacts
from policies.engine.request import MIRROR_ANNOTATION, AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, RuleSet
from policies.labels import places_of
from policies.objects.fieldpath import Location, Pattern, Wildcard, parse, render
from policies.objects.workload import BUILT_IN, PATCHES, Workload, table, workload
from policies.podspec import READS as ACCELERATOR_READS
from policies.topology import schemes
from policies.topology.gang import Gang
from webhook.http.review import Decoder

_OBJECT: Json = {
    "metadata": {"name": "trainer"},
    "data": {"a": "b"},
    "spec": {
        "x": 1,
        "tolerations": [{"key": "a"}],
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}],
        "roles": {"worker": {"template": {"spec": {}}, "replicas": 2}, "chief": {"replicas": 1}},
    },
}


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        (["data"], {"data": {"a": "b"}}),
        (["spec.tolerations"], {"spec": {"tolerations": [{"key": "a"}]}}),
        (["status.phase", "spec.y.z"], {"spec": {}}),
        (["spec.containers[*].resources"], {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}}),
        (
            ["spec.roles.*.template", "spec.x"],
            {"spec": {"x": 1, "roles": {"worker": {"template": {"spec": {}}}, "chief": {}}}},
        ),
        (["spec.x", "spec"], {"spec": _OBJECT["spec"]}),
        (["spec.roles.*.replicas", "spec.roles.worker.template"], {"spec": {"roles": _OBJECT["spec"]["roles"]}}),
        (["spec.containers[*].name", "spec.containers.a"], {"spec": {"containers": _OBJECT["spec"]["containers"]}}),
        ([], {}),
    ],
)
def test_the_paths_that_are_decoded_are_those_that_were_asked_for(paths: list[str], kept: Json) -> None:
    """A decoder keeps what its paths name, whole where paths cross, and what is of use of metadata in any case."""
    skipped = {"managedFields": [{"manager": "kubectl"}], "resourceVersion": "7", "generation": 1}
    sent = {**_OBJECT, "metadata": {**skipped, **_OBJECT["metadata"]}}

    decoded = Decoder(paths).decode(body(sent, sent))

    assert decoded.object == decoded.old_object == {"metadata": {"name": "trainer"}, **kept}


@pytest.mark.parametrize(
    ("spec", "is_whole"),
    [
        # Where a path has a list, an expression may mean a map as well.
        pytest.param({"containers": None}, False, id="null-for-a-list"),
        pytest.param({"containers": {"a": "b", "c": {"resources": [1]}}}, False, id="a-map-for-a-list"),
        pytest.param(None, True, id="a-parent-that-is-null"),
        pytest.param({"containers": "x"}, True, id="a-list-that-is-a-text"),
        pytest.param({"containers": [{"resources": {}}, None, "x"]}, True, id="items-of-other-types"),
        pytest.param({"roles": []}, True, id="a-map-that-is-a-list"),
        pytest.param({"roles": {"a": None, "b": 1}}, True, id="values-of-other-types"),
    ],
)
def test_what_is_not_shaped_as_the_paths_say_is_handed_over(spec: Any, *, is_whole: bool) -> None:
    """Rules see all of what is odd, where nothing else would do in the whole object, the old one too."""
    decoder = Decoder(["spec.containers[*].resources", "spec.roles.*.template"])
    sent = {"metadata": {"name": "a", "managedFields": []}, "spec": spec, "status": 1}

    decoded = decoder.decode(body(sent, _OBJECT))

    assert decoded.object == (sent if is_whole else {"metadata": {"name": "a"}, "spec": spec})
    assert (decoded.old_object == _OBJECT) is is_whole


_TRAIN = {"group": "example.org", "kind": "Train", "templates": ["pods.*.template"], "nodeLabels": ["labels"]}
_RULES = default_rules(sunk={"daemonSets": "inject"}, workloads=[_TRAIN])
_TABLE = table((*BUILT_IN, workload("example.org", "Train", ["pods.*.template"], node_labels=["labels"])))
_FACTS = StaticFacts(
    TODAY,
    cluster_nodes=(Node("n", {"pool": "sunk", "sunk.coreweave.com/x": "y"}),),
    claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})},
)


def _decoded(
    obj: Json, rules: RuleSet = _RULES, group: str | None = None, **fields: Any
) -> tuple[AdmissionRequest, AdmissionRequest]:
    """The request as it is decoded for the rules, and the same one with whole objects."""
    whole = {**obj, "status": {"phase": "x"}}
    part = Decoder(rules.reads("validate", group)).decode(body(whole, **fields))
    assert part.object
    assert "status" not in part.object
    return part, replace(part, object=whole, old_object=fields.get("old"))


_PLACES = [
    pytest.param(row.group, row.kind, render(place.pattern), id=f"{row.kind}.{row.group}-{render(place.pattern)}")
    for row in _TABLE.values()
    for place in places_of((row.group, row.kind), row)
]


@pytest.mark.parametrize(("group", "kind", "path"), _PLACES)
def test_a_label_at_any_place_is_decoded(group: str, kind: str, path: str) -> None:
    """A reserved label is refused from what is decoded, at every place that a controller copies labels from."""
    place = path.replace("[*]", "[0]").replace(".*", ".any")
    part, whole = _decoded(resource(f"{group}/v1" if group else "v1", kind, at(place, RESERVED)))

    answer = validate(part, _RULES, _FACTS, "labels")

    assert [violation.path for decision in answer.decisions for violation in decision.violations] == [place]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, "labels"))


_INIT = [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
_CLAIM = [{"name": "a", "resourceClaimName": "gpu"}]
_EXISTS = [{"operator": "Exists"}]
_MIRROR = {"annotations": {MIRROR_ANNOTATION: "x"}}
_KUBELET = {"username": "system:node:n", "groups": ["system:nodes"]}
_OTHER = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["other"]}]}]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _OTHER}}
_LEFT, _PATCHED = {"tolerations": "admit"}, {"tolerations": "patch"}
_SUNK, _ELSEWHERE = {**_LEFT, "sunk": "patch"}, {**_PATCHED, "sunk": "admit"}


@pytest.mark.parametrize(
    ("obj", "verdicts"),
    [
        pytest.param(pod(), _PATCHED, id="cpu-pod"),
        pytest.param(pod({"nvidia.com/gpu": 1}), _LEFT, id="gpu-pod"),
        pytest.param(pod(initContainers=_INIT), _LEFT, id="gpu-init-container"),
        pytest.param(pod(resourceClaims=_CLAIM), _LEFT, id="gpu-claim"),
        pytest.param(pod(tolerations=_EXISTS), _LEFT, id="tolerating-pod"),
        pytest.param(pod(metadata=_MIRROR), _LEFT, id="mirror-pod"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), _LEFT, id="pod-being-deleted"),
        pytest.param(daemon_set(), {**_PATCHED, "sunk": "patch"}, id="cpu-daemonset"),
        pytest.param(daemon_set({"amd.com/gpu": "1"}), _SUNK, id="gpu-daemonset"),
        pytest.param(daemon_set(initContainers=_INIT), _SUNK, id="gpu-init-container-in-a-daemonset"),
        pytest.param(daemon_set(resourceClaims=_CLAIM), _SUNK, id="gpu-claim-in-a-daemonset"),
        pytest.param(daemon_set(tolerations=_EXISTS), {**_LEFT, "sunk": "admit"}, id="tolerating-daemonset"),
        pytest.param(daemon_set(nodeSelector={"pool": "other"}), _ELSEWHERE, id="daemonset-elsewhere"),
        pytest.param(daemon_set(affinity=_AFFINITY), _ELSEWHERE, id="daemonset-elsewhere-by-affinity"),
        pytest.param(daemon_set(metadata=owner()), {**_LEFT, "sunk": "admit"}, id="owned-daemonset"),
    ],
)
def test_what_a_mutation_depends_on_is_decoded(obj: Json, verdicts: dict[str, str]) -> None:
    """Every field that decides about tolerations is there, so that the patch is the one for the whole object."""
    part, whole = _decoded(obj)

    answer = mutate(part, _RULES, _FACTS)

    assert {decision.rule: decision.verdict for decision in answer.decisions} == {"topology": "admit", **verdicts}
    assert asdict(answer) == asdict(mutate(whole, _RULES, _FACTS))
    assert asdict(validate(part, _RULES, _FACTS)) == asdict(validate(whole, _RULES, _FACTS))


_TAINTED = {"spec": {"taints": [{"key": "is_gpu", "effect": "PreferNoSchedule"}]}}
_FINALIZED = {"spec": {"finalizers": ["kubernetes"]}}
_THEIRS = {"ns.coreweave.cloud/org": "control-plane"}
_TWICE = {"spec": {"levels": [{"nodeLabel": "example.org/rack"}, {"nodeLabel": "example.org/rack"}]}}
_TOPOLOGIES = {"group": "kai.scheduler", "version": "v1alpha1", "resource": "topologies"}


@pytest.mark.parametrize(
    ("obj", "fields", "group", "verdict"),
    [
        pytest.param(
            pod(labels=RESERVED, metadata=_MIRROR, nodeName="n"), {"userInfo": _KUBELET}, "labels", "admit", id="mirror"
        ),
        pytest.param(
            pod(labels=RESERVED, metadata=_MIRROR, nodeName="other"),
            {"userInfo": _KUBELET},
            "labels",
            "deny",
            id="others-mirror",
        ),
        pytest.param(resource("v1", "Node"), {"old": resource("v1", "Node", _TAINTED)}, "guard", "warn", id="taint"),
        pytest.param(
            resource("v1", "Namespace", labels=_THEIRS),
            {"old": resource("v1", "Namespace", _FINALIZED, labels=_THEIRS)},
            "guard",
            "warn",
            id="finalizer",
        ),
        pytest.param(
            resource("kai.scheduler/v1alpha1", "Topology", _TWICE),
            {"resource": _TOPOLOGIES, "namespace": ""},
            "topologies",
            "deny",
            id="level",
        ),
    ],
)
def test_what_a_verdict_depends_on_is_decoded(obj: Json, fields: Json, group: str, verdict: str) -> None:
    """What the rules for labels, taints, finalizers and levels go by is there."""
    part, whole = _decoded(obj, **fields)

    answer = validate(part, _RULES, _FACTS, group)

    assert [decision.verdict for decision in answer.decisions] == [verdict]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, group))


def test_every_path_that_rules_read_is_tried() -> None:
    """The tables above leave out no path that a rule says it reads, but for those which have tables of their own."""
    tried = {str(param.values[2]) for param in _PLACES}
    pods = {f"{pod_}spec.{path}" for pod_ in ("", "spec.template.") for path in ("tolerations", *ACCELERATOR_READS)}
    daemon_sets = {"spec.template.spec.affinity", "spec.template.spec.nodeSelector"}

    others = {"spec.nodeName", "spec.finalizers", "spec.taints", "spec.levels", "spec.topologyName"}

    reads = frozenset().union(*(rule.reads for rule in _RULES.rules if rule.name not in ("topology", "selectors")))
    assert reads <= tried | pods | daemon_sets | others


_TRAIN_OF_JOBS: Json = {"group": "example.org", "kind": "Train", "templates": ["job.pods.*.template"], "jobs": ["job"]}
_POOLS = [
    {"name": pool, "levels": [f"example.org/{pool}"], "pool": {"matchLabels": {f"{owner}/node-pool": pool}}}
    for pool, owner in (("a", "kai.scheduler"), ("b", "runai"))
]
_PLACING = default_rules(topology={"topologies": _POOLS}, workloads=[_TRAIN_OF_JOBS])
_CLAIMED = StaticFacts(TODAY, claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})})
_ROWS = [
    row
    for row in table((*BUILT_IN, workload("example.org", "Train", ["job.pods.*.template"], jobs=["job"]))).values()
    if row.makes_pods
]
_GROUP = POLICY_GROUPS["Ignore"]
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_GPU: Json = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


def _rack(name: str) -> Json:
    return {"metadata": {"annotations": {_TOPOLOGY: "coreweave", _REQUIRED: f"rack={name}"}}}


_IN_RACK = {"matchExpressions": [{"key": "node.coreweave.cloud/rack", "operator": "In", "values": ["r1"]}]}
_IN_A_RACK = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_IN_RACK]}}}
# What makes a difference in a template of a workload in rack r1, by its path.
_MATTERS: dict[str, Json] = {
    "metadata.annotations": _rack("r2"),
    "metadata.labels": {"metadata": {"labels": {"kai.scheduler/queue": "team"}}},
    "spec.affinity": {"spec": {"affinity": _IN_A_RACK}},
    "spec.nodeSelector": {"spec": {"nodeSelector": {"kai.scheduler/node-pool": "a", "runai/node-pool": "b"}}},
    "spec.schedulerName": {"spec": {"schedulerName": "kai-scheduler"}},
}
# What makes a template one that is placed beside another one.
_ACCELERATED: dict[str, Json] = {
    "spec.containers[*].resources": {"spec": {"containers": [{"name": "main", **_GPU}]}},
    "spec.initContainers[*].resources": {"spec": {"initContainers": [{"name": "first", **_GPU}]}},
    "spec.resourceClaims": {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}},
}


def _at(pattern: Pattern, index: int = 0) -> Location:
    """A place of a pattern."""
    wildcards: dict[Any, str | int] = {Wildcard.ITEMS: index, Wildcard.VALUES: "ab"[index]}
    return tuple(wildcards.get(step, str(step)) for step in pattern)


def _put(value: Any, location: Location, part: Json) -> Any:
    """A value with a part merged into what stands at a location; items before it are empty."""
    if not location:
        return merged(value, part)
    step, rest = location[0], location[1:]
    if isinstance(step, int):
        items = [*value, *({} for _ in range(step + 1 - len(value)))] if value else [{} for _ in range(step + 1)]
        return [_put(item, rest, part) if index == step else item for index, item in enumerate(items)]
    return {**value, step: _put(value.get(step, {}), rest, part)}


def _cases() -> Iterator[tuple[str, Json, Json]]:
    """Two objects of a kind that differ at a path, of which the rule says different things."""
    for row in _ROWS:
        kind = resource(f"{row.group}/v1" if row.group else "v1", row.kind, _rack("r1"))
        for pattern in row.templates:
            one = _put(kind, _at(pattern), written(row, {"spec": pod_spec({"nvidia.com/gpu": 8})}))
            for path, part in _MATTERS.items():
                yield (_within(row, pattern, path), _put(one, _at(pattern), written(row, part)), one)
            beside = _beside(row, pattern)
            if beside:
                two = _put(kind, _at(pattern), written(row, {"spec": pod_spec()}))
                both = _put(two, beside, written(row, {"spec": pod_spec({"amd.com/gpu": 1})}))
                for path, part in _ACCELERATED.items():
                    yield (_within(row, pattern, path), _put(both, _at(pattern), written(row, part)), both)
        for job in row.jobs:
            one = _put(kind, _at(row.templates[0]), {"spec": pod_spec({"nvidia.com/gpu": 8})})
            yield (_below(job, "metadata.annotations"), _put(one, _at(job), _rack("r3")), one)


def _below(pattern: Pattern, path: str) -> str:
    return f"{render(pattern)}.{path}".lstrip(".")


def _within(row: Workload, pattern: Pattern, path: str) -> str:
    """The path of what stands at a path in a template as Kubernetes writes one."""
    return render((*pattern, *row.shape.place(parse(path))))


def _beside(row: Workload, pattern: Pattern) -> Location | None:
    """The place of another template of the same object; None where there is no other one."""
    if not all(isinstance(step, str) for step in pattern):
        return _at(pattern, 1)
    return next((_at(other) for other in row.templates if other != pattern), None)


def _answers(asked: AdmissionRequest) -> list[Json]:
    mutated = mutate(asked, _PLACING, _CLAIMED, "pods" if asked.kind.kind == "Pod" else "workloads")
    return [asdict(mutated), asdict(validate(asked, _PLACING, _CLAIMED, _GROUP))]


@pytest.mark.parametrize(
    ("obj", "other"), [pytest.param(obj, other, id=f"{obj['kind']}-{path}") for path, obj, other in _cases()]
)
def test_what_a_placement_depends_on_is_decoded(obj: Json, other: Json) -> None:
    """Every path that decides about a placement is there in objects of every kind, and does decide."""
    part, whole = _decoded(obj, _PLACING, _GROUP)

    assert _answers(part) == _answers(whole) != _answers(replace(whole, object=other))


_JOB = resource("batch/v1", "Job", {"spec": {"template": {"spec": pod_spec({"nvidia.com/gpu": 8})}}})
_REQUIRED_RACK = {"metadata": {"annotations": {_TOPOLOGY: "coreweave", _REQUIRED: "rack"}}}
_Gangs = Callable[[AdmissionRequest], list[Gang]]


@pytest.fixture
def gangs(monkeypatch: pytest.MonkeyPatch) -> _Gangs:
    """The gangs of a request for which room is looked for. Each has room."""
    seen: list[Gang] = []
    monkeypatch.setattr("policies.topology.choice.shortfall", lambda _, gang: seen.append(gang))

    def of(asked: AdmissionRequest) -> list[Gang]:
        seen.clear()
        # Rules keep what they know for as long as the Nodes are the same tuple.
        nodes = (Node("n1", {"node.coreweave.cloud/rack": "r1"}, (), (("nvidia.com/gpu", 8000),)),)
        validate(asked, _PLACING, replace(_CLAIMED, cluster_nodes=nodes), _GROUP)
        return [*seen]

    return of


@pytest.mark.parametrize("spec", [{"parallelism": 2}, {"completions": 1}], ids=["parallelism", "completions"])
def test_how_many_pods_a_job_has_is_decoded(spec: Json, gangs: _Gangs) -> None:
    """The size of a Job's gang is that of the whole object."""
    three: Json = merged(_JOB, _REQUIRED_RACK, {"spec": {"parallelism": 3, "completions": 3}})
    part, whole = _decoded(merged(three, {"spec": spec}), _PLACING, _GROUP)

    assert gangs(part) == gangs(whole) != gangs(replace(whole, object=three))


# What decides beside the placement where the Pods of a template fit, by its path.
_DEMANDED: dict[str, Json] = {
    "spec.hostNetwork": {"spec": {"hostNetwork": True}},
    "spec.nodeName": {"spec": {"nodeName": "n1"}},
    "spec.overhead": {"spec": {"overhead": {"cpu": "1"}}},
    "spec.preemptionPolicy": {"spec": {"preemptionPolicy": "Never"}},
    "spec.priority": {"spec": {"priority": 7}},
    "spec.priorityClassName": {"spec": {"priorityClassName": "system-node-critical"}},
    "spec.resources": {"spec": {"resources": {"requests": {"cpu": "9"}}}},
    "spec.schedulingGates": {"spec": {"schedulingGates": [{"name": "example.org/quota"}]}},
    "spec.schedulingGroup": {"spec": {"schedulingGroup": {"podGroupName": "a"}}},
    "spec.tolerations": {"spec": {"tolerations": [{"operator": "Exists"}]}},
    "spec.containers[*].ports": {"spec": {"containers": [{"name": "main", "ports": [{"hostPort": 80}], **_GPU}]}},
    "spec.initContainers[*].ports": {"spec": {"initContainers": [{"name": "first", "ports": [{"hostPort": 80}]}]}},
    "spec.initContainers[*].restartPolicy": {
        "spec": {"initContainers": [{"name": "first", "restartPolicy": "Always", **_GPU}]}
    },
}
_COUNTS = (
    *("completions", "groupName", "maxReplicas", "minReplicas", "name", "numOfHosts"),
    *("parallelism", "replicas", "size", "suspend"),
)


def _counted() -> Iterator[str]:
    """The paths beside and above templates that may say how many Pods there are."""
    for row in _ROWS:
        for pattern in row.templates:
            for depth in range(1, len(pattern)):
                if isinstance(pattern[depth], str):
                    yield from (f"{render(pattern[:depth])}.{field}" for field in _COUNTS)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.kind}.{row.group}") for row in _ROWS])
@pytest.mark.parametrize("path", _DEMANDED)
def test_what_a_gang_asks_for_is_decoded(row: Workload, path: str, gangs: _Gangs) -> None:
    """The gangs of objects of every kind are the same as for the whole object, numbers of Pods included."""
    obj = resource(f"{row.group}/v1" if row.group else "v1", row.kind, _REQUIRED_RACK)
    template = merged({"spec": pod_spec({"nvidia.com/gpu": 8})}, _DEMANDED[path])
    for pattern in row.templates:
        obj = _put(obj, _at(pattern), written(row, template))
        for depth in range(1, len(pattern)):
            if isinstance(pattern[depth], str):
                obj = _put(obj, _at(pattern[:depth]), {"replicas": 2, "parallelism": 3, "completions": 4, "size": 5})

    part, whole = _decoded(obj, _PLACING, _GROUP)
    assert gangs(part) == gangs(whole)


def test_what_lets_a_job_be_changed_is_decoded() -> None:
    """Whether a Job was suspended decides whether a changed placement can have an effect."""
    suspended, running = ({**_JOB, "spec": {**_JOB["spec"], "suspend": is_so}} for is_so in (True, False))
    part, whole = _decoded(merged(_JOB, _rack("r1")), _PLACING, _GROUP, old=suspended)

    assert _answers(part) == _answers(whole) != _answers(replace(whole, old_object=running))


def test_every_path_that_the_rule_reads_is_tried() -> None:
    """The tests above leave out no path that the rule reads, but accelerators where a kind has one template only."""
    jobs = {"spec.suspend", "spec.selector", "spec.mlPolicy", "spec.completionMode", "spec.scheduling"}
    jobs |= {"spec.schedulingConstraints", "spec.activeDeadlineSeconds", "spec.runPolicy"}
    jobs |= {_below(job, "spec.activeDeadlineSeconds") for row in _ROWS for job in row.jobs}
    templates = [(row, pattern) for row in _ROWS for pattern in row.templates]
    demanded = {_within(row, pattern, path) for row, pattern in templates for path in _DEMANDED}
    lone = [(row, pattern) for row, pattern in templates if _beside(row, pattern) is None]
    alone = {_within(row, pattern, path) for row, pattern in lone for path in _ACCELERATED}
    # What other schedulers read, which is read whole, and the containers that stand beside a template.
    whole = {*schemes.READS, *(render(place) for row in _ROWS for _, place in row.containers)}
    selecting = selectors_rule.reads([*_ROWS, *(row for row in BUILT_IN if row.group_kind in PATCHES)])

    assert _PLACING.reads("validate", _GROUP) == {
        *(path for path, *_ in _cases()),
        *(alone | jobs | demanded | whole | selecting),
        *_counted(),
    }
