"""The ledger: promises are read back from records that are true, and end as Pods are bound or time passes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import FACTS, WORKLOADS
from support.ledgers import (
    CONTAINERS,
    LWS,
    RACK,
    START,
    at,
    counts,
    job,
    leader,
    ledger,
    placed,
    pod,
    ray_cluster,
    ray_job,
    replicas,
    workload,
)

from policies.objects.workload import workload as workload_row
from policies.topology.affinity import RECORD
from policies.topology.gang.demand import Cluster, member
from policies.topology.gang.gang import Gang, GangKey, Member
from policies.topology.gang.ledger import MOST_OF_ONE, Ledger
from policies.topology.gang.promise import Promise
from policies.topology.gang.size import MOST_DETAILS

_JOBSET = "jobset.sigs.k8s.io/"


def _member(path: str, count: int, template: dict[str, Any]) -> Member:
    demand = member(template, path, count, Cluster(FACTS))
    assert isinstance(demand, Member)
    return demand


def test_a_new_job() -> None:
    """A Job that was placed is promised room for all of its Pods, in its domain and for a minute."""
    template, _ = placed("spec.template")
    expected = Promise(GangKey("ns", "batch", "Job", "a"), RACK, (_member("spec.template", 4, template),), START + 60)

    assert ledger(job()).promises(START) == [expected]


def test_the_priority_of_a_promise() -> None:
    """What is promised has the priority of its class, by which others may preempt it or not."""
    made = Ledger(WORKLOADS, Cluster(replace(FACTS, classes={"high": 7})))
    obj = job()
    obj["spec"]["template"]["spec"]["priorityClassName"] = "high"
    made.put(obj)

    assert [demand.priority for promise in made.promises(START) for demand in promise.members] == [7]


@pytest.mark.parametrize(("bound", "left"), [(0, 0), (1, 3)])
def test_a_gang_that_has_a_part_keeps_its_promise(bound: int, left: int) -> None:
    """A promise ends in time, but not that of a gang of which some Pods hold their Nodes and others wait for theirs."""
    made = ledger(job())
    for number in range(4):
        made.put_pod(pod(f"a-{number}", node="n" if number < bound else ""))

    assert sum(member.count for promise in made.promises(START + 1e6) for member in promise.members) == left


def test_bound_pods_are_not_promised() -> None:
    """What is bound is no longer promised, and with the last Pod the promise is gone."""
    made = ledger(job())
    seen = [counts(made)]
    for number in range(4):
        made.put_pod(pod(f"a-{number}", node=""))
        made.put_pod(pod(f"a-{number}"))
        seen.append(counts(made))

    assert seen == [{"spec.template": left} for left in (4, 3, 2, 1)] + [{}]


def test_a_pod_that_is_replaced() -> None:
    """A Pod that failed or was deleted is promised its room again, as long as one may come for it."""
    made = ledger(job(), *(pod(f"a-{number}", created=500) for number in range(4)))
    made.put_pod(pod("a-0", created=500, status={"phase": "Failed"}))
    made.remove_pod(pod("a-1"))

    assert [counts(made, after) for after in (501, 559, 561)] == [{"spec.template": 2}, {"spec.template": 2}, {}]


def test_pods_that_nobody_creates() -> None:
    """Pods that wait for a Node hold their room for ten minutes, those that a quota keeps from existing for one."""
    made = ledger(job(), pod("a-0", node=""))

    assert [counts(made, after).get("spec.template", 0) for after in (59, 61, 599, 601)] == [4, 1, 1, 0]


def test_a_status_from_the_future() -> None:
    """A start that a tenant wrote into the status of a workload, years ahead, promises nothing."""
    assert ledger(job(status={"startTime": "9999-01-01T00:00:00Z"})).promises(START) == []


def test_a_crowd_of_promises_in_one_namespace() -> None:
    """Of too many promises the last to end count; those of other namespaces are not affected."""
    crowd = [job(f"j-{number:03}", metadata={"creationTimestamp": at(number)}) for number in range(MOST_OF_ONE + 2)]
    made = ledger(*crowd, job(metadata={"namespace": "other"}))

    seen = [(promise.key.namespace, promise.key.name) for promise in made.promises(START)]
    names = [f"j-{number:03}" for number in range(2, MOST_OF_ONE + 2)]
    assert seen == [*(("ns", name) for name in names), ("other", "a")]


def test_a_workload_that_is_too_large_for_a_choice() -> None:
    """A forged record of one promises nothing, as its promise would cost every choice as much as the workload's own."""
    template, annotations = placed("spec.template")
    terms = [{"key": f"k{number}", "operator": "Exists"} for number in range(MOST_DETAILS)]
    affinity = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    affinity["nodeSelectorTerms"][0]["matchExpressions"] += terms

    assert ledger(workload("batch/v1/Job", "a", {"template": template}, annotations)).promises(START) == []


def test_success_is_not_promised_again() -> None:
    """A Pod that has succeeded gets no successor unless more completions are due."""
    done = [pod(f"a-{number}", status={"phase": "Succeeded"}) for number in range(3)]
    queue, told = job(spec={"parallelism": 2, "completions": 4}), job(status={"succeeded": 3})

    assert counts(ledger(job(), *done)) == counts(ledger(queue, *done)) == {"spec.template": 1}
    assert counts(ledger(told)) == counts(ledger(told, *done)) == {"spec.template": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"suspend": True}},
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        {"metadata": {"deletionTimestamp": "now"}},
    ],
    ids=["suspended", "complete", "failed", "deleted"],
)
def test_no_more_pods(more: dict[str, Any]) -> None:
    """A workload that gets no Pods is promised nothing, also if it was promised something before."""
    assert counts(ledger(job(), job(**more))) == {}


def test_resume() -> None:
    """The time of a resumed Job begins anew."""
    resumed = {"conditions": [{"type": "Suspended", "status": "False", "lastTransitionTime": at(5000)}]}

    assert [counts(ledger(job(status=resumed)), after) for after in (5001, 5601)] == [{"spec.template": 4}, {}]


def test_removal() -> None:
    """A workload that was deleted is promised nothing, and a Pod that was deleted is not bound."""
    removed, unbound = ledger(job("a"), job("b")), ledger(job(), pod("a-0"), pod("a-1"))
    removed.remove(job("a"))
    unbound.remove({**pod("a-0"), "apiVersion": "v1", "kind": "Pod"})

    assert removed.promises(START) == ledger(job("b")).promises(START)
    assert counts(unbound) == {"spec.template": 3}


@pytest.mark.parametrize(
    "forge",
    [
        lambda obj: obj["spec"]["template"]["spec"].pop("affinity"),
        lambda obj: obj["metadata"].update(annotations=placed("spec.template", "13")[1]),
        lambda obj: obj["metadata"].update(annotations={RECORD: '{"spec.template":{"domain":[[0,["rack"],["12"]]]}}'}),
        lambda obj: obj["metadata"].update(annotations={RECORD: "{"}),
        lambda obj: obj["metadata"].update(annotations=placed("spec.other")[1]),
    ],
    ids=["terms removed", "another rack", "no address", "broken", "another path"],
)
def test_forged_records(forge: Any) -> None:
    """A record that the template's terms do not bear out promises nothing."""
    obj = job()
    forge(obj)

    assert counts(ledger(obj)) == {}


def test_roles() -> None:
    """Pods take from the share of their own template."""
    template, annotations = placed("spec.replicatedJobs[1].template.spec.template")
    jobs = [
        {"name": "driver", "template": {"spec": {"template": {"spec": {"containers": CONTAINERS}}}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template}}},
    ]
    labels = {f"{_JOBSET}jobset-name": "s"}
    made = ledger(
        workload("jobset.x-k8s.io/v1alpha2/JobSet", "s", {"replicatedJobs": jobs}, annotations),
        pod("s-d", "batch/v1/Job/s-d", metadata={"labels": {**labels, f"{_JOBSET}replicatedjob-name": "driver"}}),
        pod("s-w", "batch/v1/Job/s-w", metadata={"labels": {**labels, f"{_JOBSET}replicatedjob-name": "workers"}}),
    )

    assert counts(made) == {"spec.replicatedJobs[1].template.spec.template": 3}


def test_what_stands_between() -> None:
    """Pods of a RayCluster that a RayJob made take from what the RayJob is promised, whichever is seen first."""
    whole, cluster, path = ray_job(), ray_cluster(), "spec.rayClusterSpec.workerGroupSpecs[0].template"
    worker = pod("w", "ray.io/v1/RayCluster/r-x", metadata={"labels": {"ray.io/cluster": "r-x", "ray.io/group": "g"}})

    assert [counts(ledger(*seen)) for seen in ((whole, cluster, worker), (worker, cluster, whole))] == [{path: 2}] * 2


def test_roles_that_are_not_known() -> None:
    """Pods of a kind of the configuration take from its templates in turn, whatever their own labels say."""
    first, annotations = placed("spec.workers[0].template")
    second, more = placed("spec.workers[1].template")
    both = {RECORD: annotations[RECORD][:-1] + "," + more[RECORD][1:]}
    spec = {"workers": [{"replicas": 2, "template": first}, {"replicas": 2, "template": second}]}
    kinds = {**WORKLOADS, ("example.org", "Run"): workload_row("example.org", "Run", ["spec.workers[*].template"])}
    made = Ledger(kinds, Cluster(FACTS))
    made.put(workload("example.org/v1/Run", "r", spec, both))
    for number in range(3):
        made.put_pod(pod(f"r-{number}", "example.org/v1/Run/r"))

    assert counts(made) == {"spec.workers[1].template": 1}


def test_ordered_pods() -> None:
    """The next Pods of a StatefulSet are promised their room while one starts, for an hour at most."""
    template, annotations = placed("spec.template")
    spec = {"replicas": 3, "podManagementPolicy": "OrderedReady", "template": template}
    slow = workload("apps/v1/StatefulSet", "a", spec, annotations)
    first = pod("a-0", "apps/v1/StatefulSet/a", spec=template["spec"])
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(3000)}]}
    starting, started = ledger(slow, first), ledger(slow, {**first, "status": ready})

    assert [counts(starting, after) for after in (3599, 3601)] == [{"spec.template": 2}, {}]
    assert [counts(started, after) for after in (3599, 3601)] == [{"spec.template": 2}, {}]


def test_a_new_place() -> None:
    """Pods where a Deployment was placed before take nothing from what it is promised where it is placed now."""
    owner, labels = "apps/v1/ReplicaSet/d-1", {"pod-template-hash": "1"}
    (here, annotations), (there, _) = placed("spec.template"), placed("spec.template", "13")
    old, new = (
        pod(name, owner, metadata={"labels": labels}, spec=template["spec"])
        for name, template in (("old", there), ("new", here))
    )
    deployment = workload("apps/v1/Deployment", "d", {"replicas": 2, "template": here}, annotations)

    assert counts(ledger(deployment, old)) == {"spec.template": 2}
    assert counts(ledger(deployment, old, new)) == {"spec.template": 1}

    old["spec"] = {"nodeName": "n"}  # only a part of it is told
    assert counts(ledger(deployment, old)) == {"spec.template": 1}


@pytest.mark.parametrize(("leads", "paths"), [(True, {"leader": 1, "worker": 3}), (False, {"worker": 4})])
def test_replicas(leads: bool, paths: dict[str, int]) -> None:  # noqa: FBT001
    """Each replica of a LeaderWorkerSet is promised its whole size where its leader was placed."""
    labels = {f"{LWS}name": "l", f"{LWS}group-index": "1"}
    worker = pod("l-1-1", "apps/v1/StatefulSet/l-1", metadata={"labels": labels})
    made = ledger(replicas(4, leads=leads), leader(1))
    seen = [made.promises(START)]
    made.put_pod(leader(1, node="n"))
    made.put_pod(worker)
    seen.append(made.promises(START))
    key = GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "l", "1")
    left = [
        [
            (
                promise.key,
                promise.address,
                {d.path.rpartition(".")[2].removesuffix("Template"): d.count for d in promise.members},
            )
            for promise in promises
        ]
        for promises in seen
    ]

    assert left == [[(key, RACK, paths)], [(key, RACK, {"worker": 2})]]


def test_replica_of_an_unknown_set() -> None:
    """A leader is promised room for itself alone, as anybody can write the size of a replica on a Pod."""
    assert counts(ledger(leader(1))) == {"": 1}


def test_wholereplicas() -> None:
    """At the creation of a leader, its gang gets the workers that the LeaderWorkerSet says."""
    key = GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "l", "1")
    first = Member("", 4, (("pods", 1),))
    gang = Gang(key, "t", (), (first,), 0)
    plain = {"spec": {"containers": CONTAINERS}}
    workers = _member("spec.leaderWorkerTemplate.workerTemplate", 3, plain)

    assert ledger(replicas(4, leads=True)).whole(gang) == replace(gang, members=(replace(first, count=1), workers))
    assert ledger(replicas(4, leads=False)).whole(gang) == ledger().whole(gang) == gang

    worker = replace(gang, members=(replace(first, count=1),))
    assert ledger(replicas(4, leads=True)).whole(worker) == worker


def test_home() -> None:
    """A replica's domain is known for as long as there is its leader, also when nothing is promised any more."""
    key = GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "l", "1")
    made = ledger(replicas(1, leads=True), leader(1, node="n"))

    assert (made.home(key), made.home(replace(key, part="2")), made.promises(START)) == (RACK, (), [])


def test_pods_with_their_own_record() -> None:
    """A Pod that was placed by itself is promised its room until it is bound; if its workload has it, nothing more."""
    template, annotations = placed("")
    alone, of_a_job = (
        pod(name, controller, node="", metadata={"annotations": annotations}, spec=template["spec"])
        for name, controller in (("p", ""), ("a-0", "batch/v1/Job/a"))
    )

    assert counts(ledger(alone)) == {"": 1}
    assert counts(ledger(alone, pod("p", ""))) == {}
    assert counts(ledger(of_a_job)) == {"": 1}
    assert counts(ledger(of_a_job, job())) == {"spec.template": 4}


def test_patterns_have_no_pods() -> None:
    """A CronJob is promised nothing: its Pods come at their time."""
    template, annotations = placed("spec.jobTemplate.spec.template")
    spec = {"jobTemplate": {"spec": {"template": template}}}

    assert counts(ledger(workload("batch/v1/CronJob", "c", spec, annotations))) == {}
