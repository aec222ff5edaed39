"""Gangs start whole in one domain, or wait and hold nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from support.gangs.world import BACKEND, HOST, NOW, RACK, World, required

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.placement import GATE, PLACEMENT
from policies.topology.placer.placer import Notice, Placed, Subject
from policies.topology.topology import BUILT_IN, Catalog, Topology, level

Json = dict[str, Any]


def cluster(*racks: str, nodes: int = 4) -> World:
    """Racks of Nodes with 8 GPUs, and a placer."""
    world = World()
    world.racks(*racks, nodes=nodes)
    return world


def reasons(world: World) -> dict[str, str]:
    """Who waits, and why."""
    return {one.about.name: one.reason for one in world.look().queue}


def racks_of(world: World, gang: str) -> list[str]:
    """The racks of a gang's Pods, by index."""
    return [world.nodes[node]["metadata"]["labels"][RACK] if node else "" for node in world.nodes_of(gang)]


def job_set(world: World, name: str, *jobs: tuple[str, int, Json], only: str = "") -> None:
    """A JobSet with the Pods of its jobs, or of one of them. jobs: name, Pods, template."""
    replicated = [
        {"name": job, "template": {"spec": {"parallelism": pods, "completions": pods, "template": template}}}
        for job, pods, template in jobs
    ]
    world.root("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": replicated})
    for job, pods, template in jobs:
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": job}
        for index in range(0 if only not in ("", job) else pods):
            world.pod(f"{job}-{index}", ("batch/v1", "Job", f"{name}-{job}-0"), template, labels)


def replica_set(world: World, number: int, replicas: int, template: Json, *pods: str) -> None:
    """A ReplicaSet of the Deployment `web` with its Pods."""
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    spec = {"replicas": replicas, "template": template}
    world.root("apps/v1", "ReplicaSet", f"web-{number}", spec, ownerReferences=[scaled])
    for pod in pods:
        world.pod(pod, ("apps/v1", "ReplicaSet", f"web-{number}"), template, {"pod-template-hash": str(number)})


def further(world: World, annotations: Mapping[str, str], gpus: int = 8, **spec: Any) -> None:
    """Let the Job `train` have a third Pod."""
    world.job("train", 3, annotations, gpus=gpus, exist=0)
    labels = {"batch.kubernetes.io/job-completion-index": "2"}
    world.pod("train-2", ("batch/v1", "Job", "train"), world.template(annotations, gpus), labels, **spec)


def start(world: World, name: str, pods: int, annotations: Mapping[str, str], **more: Any) -> None:
    """Let the placer look at a Job that came."""
    world.job(name, pods, annotations, **more)
    world.look()


def test_a_gang_starts_whole_in_the_tightest_domain() -> None:
    """All Pods are opened at once, into the rack with the least room that holds them."""
    world = cluster("f/1/1", "f/1/2")
    world.node("f-1-2-4", {f"{BACKEND}fabric": "f", f"{BACKEND}superpod": "1", RACK: "2"})
    world.job("train", 3, required("rack"))
    world.now += 5
    look = world.look()
    about = Subject("batch/v1", "Job", "team", "train", "Job-train")
    assert look.placed == (Placed(about, "3 Pods with 24 GPUs in fabric=f,superpod=1,rack=1.", 5.0, "rack", 3),)
    assert racks_of(world, "train") == ["1"] * 3
    assert (look.queue, look.notices, look.wake) == ((), (), world.now + 60)
    again = world.look()
    assert (again.openings, again.wake) == ((), inf)


def test_what_is_written_into_a_pod() -> None:
    """The gate goes, the domain with its ancestors is required, the packed Node is preferred, one sentence is added."""
    world = cluster("f/1/1", nodes=2)
    world.job("train", 1, required("superpod"))
    uid = world.pods["train-0"]["metadata"]["uid"]
    (opening,) = world.look(bind=False).openings

    def inside(**labels: str) -> Json:
        keys = {"rack": RACK, "host": HOST}
        expressions = [
            {"key": keys.get(name, f"{BACKEND}{name}"), "operator": "In", "values": [value]}
            for name, value in labels.items()
        ]
        return {"matchExpressions": expressions}

    need = {"nodeSelectorTerms": [inside(fabric="f", superpod="1")]}
    wishes = [inside(fabric="f", superpod="1", rack="1"), inside(host="f-1-1-0")]
    node = {
        "requiredDuringSchedulingIgnoredDuringExecution": need,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": wish} for wish in wishes],
    }
    rack = "fabric=f,superpod=1,rack=1"
    sentence = f"1 Pod with 8 GPUs in fabric=f,superpod=1; packed on f-1-1-0, next to its neighbours in {rack}"
    assert opening.patch == [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": node}},
        {"op": "add", "path": "/metadata/annotations/cks-admission.dev~1placement", "value": sentence},
    ]
    assert world.pods["train-0"]["metadata"]["annotations"][PLACEMENT] == sentence


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    """It waits with the reason, others pass it, and it starts in whichever domain gets free first."""
    world = cluster("f/1/1", "f/1/2")
    start(world, "a", 3, required("rack"))
    start(world, "b", 3, required("rack"))
    world.job("large", 4, required("rack"))
    world.now += 1
    world.job("small", 1, required("rack"))
    assert reasons(world) == {
        "large": "No rack has room for 4 Pods with 32 GPUs now: the best, fabric=f,superpod=1,rack=1, has room for "
        "1 Pod and 8 of 32 GPUs free."
    }
    assert racks_of(world, "small") == ["1"]
    world.finish("b-0", "b-1", "b-2")
    assert reasons(world) == {}
    assert racks_of(world, "large") == ["2"] * 4


def test_incomplete_gangs_wait() -> None:
    """A gang is opened when all of its Pods exist and no other gate is left on any of them."""
    world = cluster("f/1/1")
    world.job("train", 4, required("rack"), exist=3)
    assert reasons(world) == {"train": "3 of 4 Pods exist."}
    template = world.roots["Job", "train"]["spec"]["template"]
    gates = [{"name": "example.org/quota"}, {"name": GATE}]
    world.pod("train-3", ("batch/v1", "Job", "train"), template, schedulingGates=gates)
    assert reasons(world) == {"train": "1 of its Pods wait behind other gates, too: example.org/quota."}
    world.put({**world.pods["train-3"], "spec": {**template["spec"], "schedulingGates": [{"name": GATE}]}})
    world.look()
    assert racks_of(world, "train") == ["1"] * 4


def test_ranks_share_racks() -> None:
    """Neighbours in rank are in the same sub-domain: of 16 Pods over two racks 0 to 7 share one, the rest the other."""
    world = cluster("f/1/2", "f/1/10", "f/1/3", nodes=8)
    start(world, "other", 1, required("rack", preferred="hostname"))
    world.job("train", 16, required("superpod"))
    look = world.look()
    assert racks_of(world, "train") == ["3"] * 8 + ["10"] * 8
    assert look.placed[0].message == (
        "16 Pods with 128 GPUs in fabric=f,superpod=1: 8 in fabric=f,superpod=1,rack=3, "
        "8 in fabric=f,superpod=1,rack=10."
    )


def test_what_an_opening_comes_to() -> None:
    """What was not carried out counts as gated, takes no room and is tried again; a late event closes no gate."""
    world = cluster("f/1/1", nodes=2)
    world.job("train", 2, required("rack"))
    look = world.placer.look(world.now)
    for pod in world.pods.values():
        world.put(pod)
    assert world.placer.look(world.now).openings == ()
    for opening in look.openings:
        world.placer.failed(opening)
    assert len(world.look().openings) == 2


def test_further_pods_go_near_the_others() -> None:
    """One that is preferred in the rack of the others goes there, though another rack would have less to spare."""
    world = cluster("f1/1/b", nodes=4)
    world.racks("f1/1/c", nodes=1)
    start(world, "train", 2, required("superpod", preferred="rack"))
    further(world, required("superpod", preferred="rack"))
    world.look()

    assert {node.rpartition("-")[0] for node in world.nodes_of("train")} == {"f1-1-b"}


def test_further_pods_have_a_node_to_themselves_where_each_needs_one() -> None:
    """One that may not share a Node with the others waits for another Node, though theirs have GPUs left."""
    index = {"key": "batch.kubernetes.io/job-completion-index", "operator": "Exists"}
    term = {"labelSelector": {"matchExpressions": [index]}, "topologyKey": HOST}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world = cluster("f1/1/b", nodes=2)
    start(world, "train", 2, required("rack"), gpus=1, affinity=apart)
    further(world, required("rack"), 1, affinity=apart)

    assert world.look().openings == ()


def test_further_pods_follow_their_gang() -> None:
    """A Pod that replaces another one goes to the domain of those that run, or waits for room there."""
    world = cluster("f/1/1", "f/1/2", nodes=3)
    start(world, "train", 3, required("rack"))
    start(world, "other", 1, required("rack"))
    world.delete("train-2")
    template = world.roots["Job", "train"]["spec"]["template"]
    world.node("f-1-1-2", world.nodes["f-1-1-2"]["metadata"]["labels"], gpus=4)
    world.pod("train-2", ("batch/v1", "Job", "train"), template)
    look = world.look()
    about = Subject("batch/v1", "Job", "team", "train", "Job-train")
    assert [one.reason for one in look.queue] == ["Fabric=f,superpod=1,rack=1 cannot hold its Pods any more."]
    assert look.notices == (
        Notice(
            about,
            "DomainLost",
            "1 Pod cannot start: fabric=f,superpod=1,rack=1, where its other Pods run, has no Nodes any more that hold "
            "all of them. Bring its Nodes back, or delete the workload and create it again.",
        ),
    )
    world.delete("train-0", "train-1")
    world.pod("train-0", ("batch/v1", "Job", "train"), template)
    world.pod("train-1", ("batch/v1", "Job", "train"), template)
    world.finish("other-0")
    world.look()
    assert racks_of(world, "train") == ["2"] * 3


def test_a_large_gang_gets_its_turn() -> None:
    """A gang that has waited for longer than the patience starts, although small ones keep coming."""
    world = World(patience=100)
    world.racks("f/1/1", "f/1/2")
    for name in "abcdefgh":
        start(world, name, 1, required("rack", preferred="hostname"))
    start(world, "large", 4, required("rack"))
    world.now += 101
    for old, new in zip("abcdefgh", "ijklmnop", strict=True):
        world.finish(f"{old}-0")
        world.job(new, 1, required("rack", preferred="hostname"))
        look = world.look()
        if look.placed and look.placed[0].about.name == "large":
            break
        (large,) = [one for one in look.queue if one.about.name == "large"]
        assert large.kept == "fabric=f,superpod=1,rack=1"
    assert racks_of(world, "large") == ["1"] * 4


def test_priority_comes_before_age() -> None:
    """Of two gangs that wait the one of higher priority starts first; Pods of lower priority make room for it."""
    world = cluster("f/1/1")
    start(world, "low", 4, required("rack"), priorityClassName="low", priority=-100)
    world.job("middle", 4, required("rack"), priority=-100)
    world.now += 1
    world.job("high", 4, required("rack"), priorityClassName="high", priority=100)
    look = world.look(bind=False)
    assert [one.about.name for one in look.placed] == ["high"]
    assert [one.about.name for one in look.queue] == ["middle"]


def test_preferred_alone_never_waits() -> None:
    """It goes to the nearest level that has room, and is opened without a domain where none has."""
    world = cluster("f/1/1", "f/1/2", "f/2/1", nodes=2)
    start(world, "near", 3, required("", preferred="rack"))
    assert {node[:3] for node in world.nodes_of("near")} == {"f-1"}
    assert world.needs("near-0") == []
    world.job("apart", 4, required("", preferred="rack"))
    (placed,) = world.look().placed
    assert placed.message == "4 Pods with 32 GPUs wherever there is room: no rack holds them together now."


def test_the_packed_node_is_required_where_the_order_matters() -> None:
    """Small Pods and a large one that only fit by their packing get their Nodes; Pods that are alike need not."""
    world = cluster("f/1/1", nodes=2)
    large, small = (world.template(required("rack"), gpus) for gpus in (8, 1))
    job_set(world, "mixed", ("large", 1, large), ("small", 8, small))
    world.look()
    fabric = {f"{BACKEND}fabric": ["f"], f"{BACKEND}superpod": ["1"], RACK: ["1"]}
    assert world.needs("large-0") == [{**fabric, HOST: ["f-1-1-0"]}]
    assert {tuple(world.needs(f"small-{n}")[0][HOST]) for n in range(8)} == {("f-1-1-1",)}


def test_pods_that_are_not_bound_yet_are_waited_for() -> None:
    """A gang that fits only if others are bound where they were packed waits the moment until they are."""
    world = cluster("f/1/1", nodes=2)
    world.job("small", 4, required("rack"), gpus=2)
    world.look(bind=False)
    world.job("large", 1, required("rack"))
    look = world.look(bind=False)
    assert [one.reason for one in look.queue] == [
        "1 Pod with 8 GPUs wait until Pods that start in the same rack are bound."
    ]
    assert look.wake == world.now + 1
    for index in range(4):
        world.bind(f"small-{index}", "f-1-1-0")
    world.look()
    assert world.nodes_of("large") == ["f-1-1-1"]


def test_levels_inside_each_other() -> None:
    """A narrower gang of a workload is inside the domain of the wider one, and they start together."""
    world = cluster("f/1/1", "f/1/2", "f/2/1", nodes=2)
    jobs = [(name, 2, world.template(required(level_))) for name, level_ in (("wide", "superpod"), ("narrow", "rack"))]
    job_set(world, "both", *jobs, only="wide")
    assert reasons(world) == {"both": "It starts together with others of its workload: 0 of 2 Pods exist."}
    job_set(world, "both", *jobs)
    world.look()
    assert {node[:3] for node in (*world.nodes_of("wide"), *world.nodes_of("narrow"))} == {"f-1"}
    assert len(set(racks_of(world, "narrow"))) == 1


def leader_worker_set(world: World, placement: Mapping[str, str] = required("rack"), size: int = 4) -> Json:
    """A LeaderWorkerSet of groups of some Pods; returns the template of its Pods."""
    template = world.template(placement)
    group = {"size": size, "workerTemplate": template}
    spec = {"replicas": 2, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": group}
    world.root("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", spec)
    return template


def group_pod(world: World, template: Json, index: int, group: int = 0) -> None:
    """A Pod of one of the LeaderWorkerSet's groups."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "serve",
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/worker-index": str(index),
    }
    name = f"serve-{group}-{index}" if index else f"serve-{group}"
    world.pod(name, ("apps/v1", "StatefulSet", f"serve-{group}" if index else "serve"), template, labels)


def test_stages_keep_room_for_those_to_come() -> None:
    """A leader starts where its workers have room, which is kept until ten minutes after it is Ready."""
    world = cluster("f/1/1", "f/1/2", nodes=4)
    start(world, "other", 1, required("rack"))
    template = leader_worker_set(world)
    group_pod(world, template, 0)
    world.look()
    assert world.pods["serve-0"]["spec"]["nodeName"].startswith("f-1-2")
    world.job("greedy", 3, required("rack"))
    world.job("late", 1, required("rack"))
    assert set(reasons(world)) == {"late"}
    assert racks_of(world, "greedy") == ["1"] * 3
    world.now += 100
    leader = world.pods["serve-0"]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:01:40Z"}
    world.put({**leader, "status": {"phase": "Running", "conditions": [ready]}})
    assert world.look().wake == NOW + 100 + 600
    for index in (1, 2, 3):
        group_pod(world, template, index)
    world.look()
    assert {world.pods[f"serve-0-{index}"]["spec"]["nodeName"][:5] for index in (1, 2, 3)} == {"f-1-2"}


def test_workers_of_one_group_leave_the_room_that_another_ones_need() -> None:
    """Workers that only prefer their leader's rack have to be on their Nodes while room is kept in another rack."""
    world = cluster("f/1/1", "f/1/2", nodes=3)
    template = leader_worker_set(world, required("superpod", preferred="rack"), size=3)
    for group in (0, 1):
        group_pod(world, template, 0, group)
        world.look()
    for index in (1, 2):
        group_pod(world, template, index)
    world.look(bind=False)
    assert [world.placer.pods["team", f"serve-0-{index}"].fixed for index in (1, 2)] == [True, True]


def test_an_ordered_stateful_set_opens_one_by_one() -> None:
    """The first Pod goes where all replicas have room; the next ones are opened as they come."""
    world = cluster("f/1/1", "f/1/2", nodes=3)
    start(world, "other", 1, required("rack"))
    template = world.template(required("rack"))
    world.root("apps/v1", "StatefulSet", "db", {"replicas": 3, "template": template})
    for index in range(3):
        world.pod(f"db-{index}", ("apps/v1", "StatefulSet", "db"), template)
        world.look()
    assert racks_of(world, "db") == ["2"] * 3


def test_a_roll_out_moves_to_a_domain_with_room_for_all() -> None:
    """A new ReplicaSet starts at its own size, where all the Deployment's replicas fit once the old ones left."""
    world = cluster("f/1/1", "f/1/2", nodes=4)
    template = world.template(required("rack"))
    world.root("apps/v1", "Deployment", "web", {"replicas": 4, "template": template})
    replica_set(world, 1, 4, template, *(f"old-{index}" for index in range(4)))
    world.look()
    start(world, "other", 3, required("rack"))
    assert (racks_of(world, "old"), racks_of(world, "other")) == (["1"] * 4, ["2"] * 3)
    # One place is free in rack 2, but all four replicas will only fit into rack 1.
    replica_set(world, 2, 1, template, "new-0")
    assert list(reasons(world)) == ["web-2"]
    world.delete("old-3")
    world.look()
    assert racks_of(world, "new") == ["1"]


def test_a_stuck_pod_is_told_of() -> None:
    """A Pod that was opened and is not bound after a minute keeps its room, and its Event names cause and remedy."""
    world = cluster("f/1/1", nodes=1)
    world.job("train", 1, required("rack"))
    world.look(bind=False)
    pod = world.pods["train-0"]
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    why = {"type": "PodScheduled", "status": "False", "message": words}
    world.put({**pod, "status": {"phase": "Pending", "conditions": [why]}})
    world.now += 61
    world.job("next", 1, required("rack"))
    look = world.look()
    about = Subject("v1", "Pod", "team", "train-0", pod["metadata"]["uid"])
    assert look.notices == (
        Notice(
            about,
            "Stuck",
            f"Pod train-0 was opened 60 s ago or more and is not bound: {words} Delete the Pod: its controller makes "
            "another one, and the placer chooses a place for it.",
        ),
    )
    assert [one.about.name for one in look.queue] == ["next"]


def test_a_pod_outside_of_its_domain_is_told_of() -> None:
    """Where somebody else binds a Pod past the placer, an Event says so."""
    world = cluster("f/1/1", "f/1/2", nodes=3)
    world.job("train", 3, required("rack"))
    world.look(bind=False)
    for index, node in enumerate(("f-1-1-0", "f-1-1-1", "f-1-2-0")):
        world.bind(f"train-{index}", node)
    (notice,) = world.look().notices
    assert (notice.reason, notice.message) == (
        "OutsideDomain",
        (
            "Pod train-2 was bound to Node f-1-2-0, outside of the domain of the others. Something else than the "
            "placer opened or bound it; delete it to have it placed with them."
        ),
    )


def test_kinds_that_nobody_knows() -> None:
    """Of an unknown controller the Pods that exist are the gang once none came for the settle time."""
    world = cluster("f/1/1")
    template = world.template(required("rack"))
    for index in range(2):
        world.pod(f"odd-{index}", ("example.org/v1", "Thing", "odd"), template)
    look = world.look()
    assert (look.queue[0].reason, look.wake) == (
        "2 Pods exist, and it is not known yet whether more come.",
        world.now + 2,
    )
    world.now += 2
    world.look()
    assert racks_of(world, "odd") == ["1"] * 2


def test_pools_keep_gangs_apart() -> None:
    """A topology that is for some Nodes places nothing on others."""
    pool = LabelSelector((SelectorRequirement("gpu", "In", ("h100",)),))
    world = World([Topology("h100", (level(RACK), level(HOST)), pool=pool)])
    world.node("a", {RACK: "1", "gpu": "a100"})
    world.node("b", {RACK: "2", "gpu": "h100"})
    start(world, "train", 1, required("rack", "h100"))
    assert world.nodes_of("train") == ["b"]
    assert world.needs("train-0") == [{RACK: ["2"], "gpu": ["h100"]}]


def test_nvlink_spans_leaves() -> None:
    """An NVLink domain over two leaves holds a gang; the level is contained in none of the network's."""
    assert "topograph-nvlink" in {one.name for one in BUILT_IN}
    world = World()
    for number in range(4):
        labels = {
            "network.topology.nvidia.com/spine": "s",
            "network.topology.nvidia.com/leaf": f"l{number // 2}",
            "nvidia.com/gpu.clique": "12345678-1234-1234-1234-123456789012.7",
        }
        world.node(f"n{number}", labels, gpus=4)
    start(world, "train", 4, required("gpu.clique", "topograph-nvlink"), gpus=4)
    assert sorted(world.nodes_of("train")) == ["n0", "n1", "n2", "n3"]
    assert world.needs("train-0") == [{"nvidia.com/gpu.clique": ["12345678-1234-1234-1234-123456789012.7"]}]


def test_one_pod_a_node() -> None:
    """Pods that take a port of the Node are placed one on each Node."""
    world = cluster("f/1/1", nodes=2)
    template = world.template(required("rack"), gpus=1)
    template["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    world.root("batch/v1", "Job", "train", {"parallelism": 3, "completions": 3, "template": template})
    for index in range(3):
        world.pod(f"train-{index}", ("batch/v1", "Job", "train"), template)
    assert reasons(world) == {
        "train": "No rack can hold 3 Pods with 3 GPUs, even if nothing else ran: the largest, "
        "fabric=f,superpod=1,rack=1, holds 2 Pods. Require a level above rack, or ask for less."
    }


def test_named_domains() -> None:
    """A gang gets the domain that it names, and of those the preferred one, one near it, or any other."""
    world = cluster("f/1/1", nodes=3)
    world.racks("f/1/2", nodes=4)
    world.racks("f/2/3", nodes=2)
    world.racks("g/2/1")
    start(world, "named", 2, required("fabric=g,superpod=2"))
    assert {node[0] for node in world.nodes_of("named")} == {"g"}
    for name in "abcd":
        start(world, name, 2, required("fabric=f", preferred="superpod=1,rack=2"))
    assert [racks_of(world, name) for name in "abcd"] == [["2"] * 2, ["2"] * 2, ["1"] * 2, ["3"] * 2]


def test_all_that_wait_for_the_same_pods_are_tried_again() -> None:
    """Gangs that are alike and wait until others are bound start both, also where nothing gets free by that."""
    world = cluster("f/1/1", nodes=3)
    world.job("small", 4, required("rack"), gpus=2)
    world.look(bind=False)
    world.job("first", 1, required("rack"))
    world.job("second", 1, required("rack"))
    assert {one.about.name for one in world.look(bind=False).queue} >= {"second"}
    for index in range(4):
        world.bind(f"small-{index}", world.wishes(f"small-{index}")[-1])
    world.now += 1
    world.look()
    assert "" not in (*world.nodes_of("first"), *world.nodes_of("second"))


def test_what_a_roll_out_needs_is_its_own() -> None:
    """A Deployment that has no room for all its replicas keeps no Job from starting that asks for the same Pod."""
    world = cluster("f/1/1", nodes=2)
    template = world.template(required("rack"))
    world.root("apps/v1", "Deployment", "web", {"replicas": 3, "template": template})
    replica_set(world, 1, 1, template, "web-1-0")
    world.job("train", 1, required("rack"))
    assert list(reasons(world)) == ["web-1"]
    assert racks_of(world, "train") == ["1"]


def test_a_malformed_workload_stops_no_other() -> None:
    """A workload with a malformed field does not keep others from starting."""
    world = cluster("f/1/1", "f/1/2")
    template = world.template(required("rack"))
    cliques = [{"name": "a", "annotations": required("rack"), "spec": {"podSpec": template["spec"]}}]
    broken = {"cliques": cliques, "podCliqueScalingGroups": [{"cliqueNames": 5}]}
    world.root("grove.io/v1alpha1", "PodCliqueSet", "bad", {"template": broken})
    labels = {
        "grove.io/podclique": "bad-0-a",
        "app.kubernetes.io/part-of": "bad",
        "grove.io/podcliqueset-replica-index": "0",
    }
    world.pod("bad-0-a-x", ("grove.io/v1alpha1", "PodClique", "bad-0-a"), template, labels)
    world.job("train", 3, required("rack"))
    reasons(world)
    assert racks_of(world, "train") == ["1"] * 3


def test_a_failure_opens_no_part_of_a_gang() -> None:
    """A gang one of whose Pods cannot be read waits as a whole, holds nothing, and is tried again."""
    world = cluster("f/1/1")
    world.job("bad", 2, required("rack"))
    world.now += 1
    world.job("good", 4, required("rack"))
    broken = world.placer.pods["team", "bad-1"]
    metadata = broken.content.pop("metadata")
    look = world.look()
    assert [(one.about.name, one.reason.partition(": ")[0]) for one in look.queue] == [("bad", "It cannot be judged")]
    assert racks_of(world, "good") == ["1"] * 4
    assert all(world.placer.pods["team", f"bad-{number}"].is_gated for number in range(2))
    broken.content["metadata"] = metadata
    world.finish(*(f"good-{number}" for number in range(4)))
    assert racks_of(world, "bad") == ["", ""]
    assert len(world.look().openings) == 2


def test_a_gate_that_somebody_else_opened_meanwhile() -> None:
    """An opening that fails because the gate is gone is not taken back: the Pod counts as opened."""
    world = cluster("f/1/1")
    world.job("train", 1, required("rack"))
    (opening,) = world.placer.look(world.now).openings
    pod = world.pods["train-0"]
    world.put({**pod, "spec": {**pod["spec"], "schedulingGates": []}})
    world.placer.failed(opening)
    assert not world.placer.pods["team", "train-0"].is_gated
    assert world.placer.look(world.now).openings == ()


def test_a_topology_that_changed_is_tried_again() -> None:
    """A gang that did not fit is placed once its topology says something else, though no room was freed."""
    world = cluster("f/1/1", "f/1/2")
    pool = LabelSelector((SelectorRequirement("gpu", "In", ("h100",)),))
    narrow = Topology("own", (level("backend.coreweave.cloud/superpod"), level(RACK)), pool=pool)
    world.placer.put_catalog(Catalog((narrow,)))
    world.job("train", 3, required("rack", "own"))
    assert list(reasons(world)) == ["train"]
    world.placer.put_catalog(Catalog(()))
    assert reasons(world)["train"].startswith('Topology "own" is not known')
    world.placer.put_catalog(Catalog((replace(narrow, pool=None),)))
    assert reasons(world) == {}
    assert racks_of(world, "train") == ["1"] * 3


def test_a_further_pod_that_cannot_be_placed_says_why() -> None:
    """A Pod whose affinity matches no Node is named, also where others of its gang run."""
    world = cluster("f/1/1")
    world.job("train", 2, required("rack"), exist=1)
    world.roots["Job", "train"]["spec"] |= {"parallelism": 1, "completions": 1}
    world.placer.put_root(world.roots["Job", "train"])
    world.look()
    nothing: Any = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
    world.pod("train-1", ("batch/v1", "Job", "train"), world.template(required("rack")), affinity=nothing)
    assert reasons(world) == {
        "train": "Pod train-1 cannot be placed: it cannot be read: its nodeAffinity matches no Node."
    }
