"""What the topology rule reads in objects of each kind is decoded: its answer is the one for the whole object."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from support.builders import Json, merged, pod_spec, resource
from support.service.reviews import TODAY, body
from support.service.servers import default_rules
from support.templates import written

from policies import selectors as selectors_rule
from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, StaticFacts
from policies.engine.request import AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, RuleSet
from policies.objects.fieldpath import Location, Pattern, Wildcard, parse, render
from policies.objects.workload import BUILT_IN as TABLE
from policies.objects.workload import PATCHES, Workload, table, workload
from policies.topology import schemes
from policies.topology.gang import Gang
from webhook.http.review import Decoder

_TRAIN: Json = {"group": "example.org", "kind": "Train", "templates": ["job.pods.*.template"], "jobs": ["job"]}
_POOLS = [
    {"name": pool, "levels": [f"example.org/{pool}"], "pool": {"matchLabels": {f"{owner}/node-pool": pool}}}
    for pool, owner in (("a", "kai.scheduler"), ("b", "runai"))
]
_RULES = default_rules(topology={"topologies": _POOLS}, workloads=[_TRAIN])
_FACTS = StaticFacts(TODAY, claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})})
_ROWS = [
    row
    for row in table((*TABLE, workload("example.org", "Train", ["job.pods.*.template"], jobs=["job"]))).values()
    if row.makes_pods
]
_GROUP = POLICY_GROUPS["Ignore"]
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_GPU: Json = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


def _rack(name: str) -> Json:
    return {"metadata": {"annotations": {_TOPOLOGY: "coreweave", _REQUIRED: f"rack={name}"}}}


_IN_RACK = {"matchExpressions": [{"key": "node.coreweave.cloud/rack", "operator": "In", "values": ["r1"]}]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_IN_RACK]}}}
# What makes a difference in a template of a workload in rack r1, by its path.
_MATTERS: dict[str, Json] = {
    "metadata.annotations": _rack("r2"),
    "metadata.labels": {"metadata": {"labels": {"kai.scheduler/queue": "team"}}},
    "spec.affinity": {"spec": {"affinity": _AFFINITY}},
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
        rest: Json = {"status": {"phase": "x"}, **_rack("r1")}
        kind = resource(f"{row.group}/v1" if row.group else "v1", row.kind, rest)
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


def _decoded(ruleset: RuleSet, obj: Json, old: Json | None = None) -> tuple[AdmissionRequest, AdmissionRequest]:
    """The request as it is decoded for the rule, and the same one with whole objects."""
    part = Decoder(ruleset.reads("validate", _GROUP)).decode(body(obj, old))
    assert part.object
    assert "status" not in part.object
    return part, replace(part, object=obj, old_object=old)


def _answers(ruleset: RuleSet, asked: AdmissionRequest) -> list[Json]:
    mutated = mutate(asked, ruleset, _FACTS, "pods" if asked.kind.kind == "Pod" else "workloads")
    return [asdict(mutated), asdict(validate(asked, ruleset, _FACTS, _GROUP))]


@pytest.mark.parametrize(
    ("obj", "other"), [pytest.param(obj, other, id=f"{obj['kind']}-{path}") for path, obj, other in _cases()]
)
def test_what_a_placement_depends_on_is_decoded(obj: Json, other: Json) -> None:
    """Every path that decides about a placement is there in objects of every kind, and does decide."""
    part, whole = _decoded(_RULES, obj)
    without = replace(whole, object=other)

    assert _answers(_RULES, part) == _answers(_RULES, whole)
    assert _answers(_RULES, whole) != _answers(_RULES, without)


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
        validate(asked, _RULES, replace(_FACTS, cluster_nodes=nodes), _GROUP)
        return [*seen]

    return of


@pytest.mark.parametrize("spec", [{"parallelism": 2}, {"completions": 1}], ids=["parallelism", "completions"])
def test_how_many_pods_a_job_has_is_decoded(spec: Json, gangs: _Gangs) -> None:
    """The size of a Job's gang is that of the whole object."""
    three: Json = merged(_JOB, _REQUIRED_RACK, {"status": {}, "spec": {"parallelism": 3, "completions": 3}})
    part, whole = _decoded(_RULES, merged(three, {"spec": spec}))

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
    status: Json = {"status": {"phase": "x"}}
    obj = resource(f"{row.group}/v1" if row.group else "v1", row.kind, {**status, **_REQUIRED_RACK})
    template = merged({"spec": pod_spec({"nvidia.com/gpu": 8})}, _DEMANDED[path])
    for pattern in row.templates:
        obj = _put(obj, _at(pattern), written(row, template))
        for depth in range(1, len(pattern)):
            if isinstance(pattern[depth], str):
                obj = _put(obj, _at(pattern[:depth]), {"replicas": 2, "parallelism": 3, "completions": 4, "size": 5})

    part, whole = _decoded(_RULES, obj)
    assert gangs(part) == gangs(whole)


def test_what_lets_a_job_be_changed_is_decoded() -> None:
    """Whether a Job was suspended decides whether a changed placement can have an effect."""
    new = merged(_JOB, _rack("r1"), {"status": {}})
    suspended, running = ({**_JOB, "spec": {**_JOB["spec"], "suspend": is_so}} for is_so in (True, False))
    part, whole = _decoded(_RULES, new, suspended)

    assert _answers(_RULES, part) == _answers(_RULES, whole)
    assert _answers(_RULES, whole) != _answers(_RULES, replace(whole, old_object=running))


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
    selecting = selectors_rule.reads([*_ROWS, *(row for row in TABLE if row.group_kind in PATCHES)])

    assert _RULES.reads("validate", _GROUP) == {
        *(path for path, *_ in _cases()),
        *(alone | jobs | demanded | whole | selecting),
        *_counted(),
    }
