"""Promises, whatever happens to workloads and Pods: none is counted twice, and no record promises more than it may."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import WORKLOADS
from support.ledgers import LWS, START, counts, job, leader, ledger, placed, pod, ray_cluster, ray_job, replicas

from policies.engine.match import SelectorRequirement
from policies.topology.affinity import RECORD, RecordEntry, with_terms, write_record
from policies.topology.gang.address import Step
from policies.topology.gang.evidence import is_true
from policies.topology.term import Term, meets

Json = dict[str, Any]

_NAMES = st.sampled_from(["a", "b"])
_OWNERS = st.sampled_from(["a", "b", ""])
_NODES = st.sampled_from(["", "n"])
_PHASES = st.sampled_from([{}, {"phase": "Running"}, {"phase": "Failed"}, {"phase": "Succeeded"}])


@st.composite
def _pods(draw: st.DrawFn, owners: st.SearchStrategy[str] = _OWNERS) -> Json:
    """A Pod of a Job or of nothing, placed by itself or not."""
    name, owner = f"p-{draw(st.integers(0, 5))}", draw(owners)
    template, annotations = placed("") if draw(st.booleans()) else ({"spec": {}}, {})
    return pod(
        *(name, f"batch/v1/Job/{owner}" if owner else ""),
        node=draw(_NODES),
        created=draw(st.integers(0, 3)) * 100,
        metadata={"annotations": annotations},
        spec=template["spec"],
        status=draw(_PHASES),
    )


@st.composite
def _jobs(draw: st.DrawFn) -> Json:
    more: Json = draw(st.sampled_from([{}, {}, {"spec": {"suspend": True}}]))
    made = job(draw(_NAMES), draw(st.integers(0, 4)), **more)
    if draw(st.booleans()):
        made["metadata"]["annotations"] = {}
    return made


@st.composite
def _replicated(draw: st.DrawFn) -> Json:
    """A LeaderWorkerSet, or a leader or worker of it; a RayJob, its RayCluster, or a worker of that."""
    index, node = draw(st.integers(0, 1)), draw(_NODES)
    member = {"labels": {f"{LWS}name": "l", f"{LWS}group-index": str(index)}}
    group = {"labels": {"ray.io/cluster": "r-x", "ray.io/group": "g"}}
    makers = (
        lambda: replicas(draw(st.integers(1, 3)), leads=draw(st.booleans())),
        lambda: leader(index, node),
        lambda: pod(f"l-{index}-1", f"apps/v1/StatefulSet/l-{index}", node=node, metadata=member),
        ray_job,
        ray_cluster,
        lambda: pod(f"w-{index}", "ray.io/v1/RayCluster/r-x", node=node, metadata=group),
    )
    made: Json = draw(st.sampled_from(makers))()
    return made


_EVENTS = st.lists(st.tuples(st.booleans(), _jobs() | _pods() | _replicated()), max_size=14)


def _name(obj: Json) -> tuple[str, str]:
    return obj.get("kind", "Pod"), obj["metadata"]["name"]


@given(events=_EVENTS, data=st.data())
def test_the_order_of_events_does_not_matter(events: list[tuple[bool, Json]], data: st.DataObject) -> None:
    """After any history, the promises are those of the objects that there are, seen in any order."""
    made = ledger()
    present: dict[tuple[str, str], Json] = {}
    for stays, obj in events:
        if stays:
            present[_name(obj)] = obj
            (made.put if "kind" in obj else made.put_pod)(obj)
        else:
            present.pop(_name(obj), None)
            (made.remove if "kind" in obj else made.remove_pod)(obj)
        made.promises(START)
    again = ledger(*data.draw(st.permutations(list(present.values()))))

    assert made.promises(START) == again.promises(START)


@given(
    pods=st.lists(_pods(st.just("a")), max_size=6, unique_by=lambda pod: pod["metadata"]["name"]),
    size=st.integers(1, 6),
)
def test_what_is_promised_and_bound_is_the_demand(pods: list[Json], size: int) -> None:
    """A Job's Pods that are bound, have succeeded or are promised are as many as it has, and each counts once."""
    phases = [one["status"].get("phase") for one in pods]
    taken = sum(
        phase == "Succeeded" or (one["spec"]["nodeName"] == "n" and phase != "Failed")
        for one, phase in zip(pods, phases, strict=True)
    )

    assert counts(ledger(*pods, job("a", size))) == ({"spec.template": size - taken} if taken < size else {})


_VALUES = st.lists(st.sampled_from("123"), min_size=1, max_size=2, unique=True).map(tuple)
_REQUIREMENTS = st.builds(
    SelectorRequirement, st.sampled_from(["rack", "ib", "pod"]), st.sampled_from(["In", "NotIn"]), _VALUES
)
_TERMS = st.lists(st.lists(_REQUIREMENTS, min_size=1, max_size=2).map(tuple), max_size=2)
_KEYS = st.lists(st.sampled_from(["rack", "ib", "pod"]), min_size=1, max_size=2, unique=True).map(tuple)
_STEPS = st.lists(st.builds(Step, st.integers(0, 2), _KEYS, _VALUES), min_size=1, max_size=2).map(tuple)
_FIELDS = (
    *("name", "namespace", "labels", "annotations", "ownerReferences", "controller", "kind", "apiVersion", "uid"),
    *("template", "spec", "replicas", "parallelism", "completions", "replicatedJobs", "workerGroupSpecs", "tasks"),
    *("conditions", "type", "status", "phase", "state", "nodeName", "affinity", "nodeAffinity", "containers"),
    *("mpiReplicaSpecs", "Worker", "rayClusterSpec", "leaderWorkerTemplate", "workerTemplate", "size", RECORD),
    *("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index", "startTime", "suspend"),
)
_LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from("123") for key in ("rack", "ib", "pod")})


@st.composite
def _records(draw: st.DrawFn) -> tuple[list[Term], RecordEntry]:
    """A template's terms, and a record of which about half are true."""
    written = draw(_TERMS)
    _, entry = with_terms(None, draw(st.just(written) | _TERMS), [])
    inside = [requirement for term in written for requirement in term if requirement.operator == "In"]
    keys, values = {r.key for r in inside}, {value for r in inside for value in r.values}
    near = (Step(0, tuple(sorted(keys)), tuple(sorted(values))),)
    return written, replace(entry, domain=draw(st.just(near) | _STEPS))


@given(record=_records(), nodes=st.lists(_LABELS, max_size=8))
def test_a_true_record_names_where_the_pods_go(
    record: tuple[list[Term], RecordEntry], nodes: list[dict[str, str]]
) -> None:
    """If a record counts, no Node outside of its domain meets the template's terms, whoever wrote it."""
    written, entry = record
    affinity, _ = with_terms(None, written, [])
    outside = [
        node
        for node in nodes
        if not all(any(node.get(key) in step.values for key in step.keys) for step in entry.domain)
    ]

    if is_true(entry, affinity):
        assert written
        assert [node for node in outside if meets(node, written)] == []


@given(text=st.text(max_size=30) | st.binary(max_size=30).map(repr), size=st.integers(0, 5))
def test_no_text_promises_anything(text: str, size: int) -> None:
    """A record that nobody wrote by the rules promises nothing and breaks nothing."""
    obj = job("a", size)
    obj["metadata"]["annotations"] = {RECORD: text}

    assert counts(ledger(obj)) == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["", "a", "0", "True"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4),
    max_leaves=20,
)


@given(parts=st.lists(st.tuples(st.sampled_from(sorted(WORKLOADS)), _JSON, _JSON, _JSON), min_size=1, max_size=4))
def test_nothing_breaks_the_ledger(parts: list[tuple[tuple[str, str], Any, Any, Any]]) -> None:
    """Whatever objects say, the ledger takes them in, forgets them, and has no promise left."""
    made = ledger()
    objects = [
        {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}
        for (group, kind), metadata, spec, status in parts
    ]
    for obj in objects:
        made.put(obj)
        made.put_pod(obj)
    made.promises(START)
    for obj in objects:
        made.remove(obj)
        made.remove_pod(obj)

    assert made.promises(0.0) == []


@given(size=st.integers(1, 5), claimed=st.integers(1, 10**9))
def test_a_record_states_no_amount(size: int, claimed: int) -> None:
    """A record promises the Pods that its template makes and no others, as it holds no number that counts."""
    obj = job("a", size)
    entry = msgspec.json.decode(obj["metadata"]["annotations"][RECORD], type=dict[str, RecordEntry])["spec.template"]
    step = replace(entry.domain[0], tier=claimed)
    obj["metadata"]["annotations"] = {RECORD: write_record({"spec.template": replace(entry, domain=(step,))})[0]}

    assert counts(ledger(obj)) == {"spec.template": size}
