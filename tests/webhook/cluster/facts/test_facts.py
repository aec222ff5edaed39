from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta, timezone

import pytest
from support.api.fakeapi import NAMESPACES, NODES, RESOURCE_GROUP, FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.engine.facts import NamespaceKey, Node, Taint
from policies.engine.interruption import FactUnavailable, Missing
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.facts import ClusterFacts

CONTROL_PLANE = {"ns.coreweave.cloud/org": "control-plane"}


@asynccontextmanager
async def following(
    api: Connection, times: Times, *, watch_nodes: bool = False, watch_topologies: bool = False
) -> AsyncIterator[ClusterFacts]:
    """Facts, from their first lists on."""
    facts = ClusterFacts(api, watch_nodes=watch_nodes, watch_topologies=watch_topologies, clock=times.clock)
    await facts.start()
    try:
        await until(lambda: not facts.unsynced())
        yield facts
    finally:
        await facts.stop()


async def test_a_miss_is_read(server: FakeApi, api: Connection, times: Times) -> None:
    """A Namespace that the watch does not know is asked for once, and the next look finds it."""
    server.put(NAMESPACES, named("team", {"a": "b"}))
    facts = ClusterFacts(api, watch_nodes=False, clock=times.clock)  # not started: as good as a watch that is late

    for look in (facts.known.namespace_labels, facts.known.namespace):
        with pytest.raises(Missing):
            look("team")
    for name in ("team", "none"):
        await facts.read(NamespaceKey(name), PATIENCE)
    await facts.stop()

    missing = {"kubernetes.io/metadata.name": "none"}
    assert [facts.known.namespace_labels(name) for name in ("team", "none")] == [{"a": "b"}, missing]
    assert facts.known.namespace("team")["metadata"]["labels"] == {"a": "b"}
    assert facts.known.namespace("none") == {"metadata": {"name": "none", "labels": missing}}


async def test_the_watch_knows_better_than_a_read(server: FakeApi, api: Connection, times: Times) -> None:
    """What was read once, even that a Namespace does not exist, gives way to what the watch says."""
    server.put(NAMESPACES, named("other"))

    async with following(api, times) as facts:
        await server.watched(NAMESPACES)
        await facts.read(NamespaceKey("team"), PATIENCE)
        server.put(NAMESPACES, named("team", {"a": "b"}))
        await until(lambda: facts.known.namespace_labels("team") == {"a": "b"})


async def test_control_plane_namespaces(server: FakeApi, api: Connection, times: Times) -> None:
    """Those are the Namespaces with exactly that label, sorted, and they change and go with the cluster."""
    for name, labels in (("b", CONTROL_PLANE), ("a", CONTROL_PLANE), ("c", {"ns.coreweave.cloud/org": "org-1"})):
        server.put(NAMESPACES, named(name, labels))

    async with following(api, times) as facts:
        assert facts.control_plane_namespaces() == ("a", "b")
        await server.watched(NAMESPACES)
        server.put(NAMESPACES, named("b", {}))
        server.delete(NAMESPACES, "c")
        await until(lambda: "c" not in facts.namespaces.by_key)
        assert (facts.control_plane_namespaces(), facts.known.namespace_labels("b")) == (("a",), {})
        with pytest.raises(Missing) as caught:
            facts.known.namespace_labels("c")
        assert caught.value.key == NamespaceKey("c")


async def test_nodes(server: FakeApi, api: Connection, times: Times) -> None:
    """Nodes are known by their labels and taints, and a write that changes neither is no change."""
    server.put(NAMESPACES, named("team"))
    taints = [{"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}, {"key": "lock", "effect": "NoExecute"}]
    server.put(NODES, named("gpu", {"zone": "a"}, spec={"taints": taints}))
    server.put(NODES, named("plain", spec={"podCIDR": "10.0.0.0/24"}))

    async with following(api, times, watch_nodes=True) as facts:
        before = facts.known.nodes()
        assert before == (
            Node("gpu", {"zone": "a"}, (Taint("is_gpu", "PreferNoSchedule", "true"), Taint("lock", "NoExecute"))),
            Node("plain", {}),
        )
        assert server.lists(NODES) == [{"limit": "100"}]

        await server.watched(NODES)
        server.put(NODES, named("plain", status={"phase": "Running"}))
        server.delete(NODES, "gpu")
        await until(lambda: facts.known.nodes() == (Node("plain", {}),))
        assert len(before) == 2


async def test_claims_and_classes(server: FakeApi, api: Connection, times: Times) -> None:
    """Device classes are found by claim or by template; one that is not known asks for none."""
    server.put(NAMESPACES, named("team"))
    server.install_devices()
    spec = {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}}
    base = f"{RESOURCE_GROUP}/v1"
    server.put(f"{base}/resourceclaims", named("x", namespace="team", spec=spec))
    server.put(f"{base}/resourceclaimtemplates", named("y", namespace="team", spec={"spec": spec}))
    server.put(f"{base}/deviceclasses", named("gpu", spec={"extendedResourceName": "example.com/gpu"}))

    async with following(api, times) as facts:
        asked = [("team", "x", ""), ("team", "", "y"), ("team", "", "x"), ("team", "y", ""), ("other", "x", "")]
        assert [set(facts.known.claim_classes(*which)) for which in asked] == [{"gpu"}, {"gpu"}, set(), set(), set()]
        assert facts.known.extended_resources() == {"gpu": "example.com/gpu"}


async def test_what_no_rule_needs_is_not_watched(server: FakeApi, api: Connection, times: Times) -> None:
    """Where no rule needs Nodes or topologies, the API server is not asked for them."""
    server.put(NAMESPACES, named("team"))

    async with following(api, times) as facts:
        assert (facts.known.nodes(), facts.known.topologies()) == ((), ())

    assert {seen.path for seen in server.seen} == {NAMESPACES, RESOURCE_GROUP}


async def test_reasons_until_everything_is_there(server: FakeApi, api: Connection, times: Times) -> None:
    """Readiness names what is missing and why; when it is there, a later failure is a problem but no reason."""
    server.put(NAMESPACES, named("team"))
    server.put(NODES, named("gpu"))
    server.fail(NODES, 403, status(403, "you may not"))
    server.install("kai.scheduler", {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
    server.put("/apis/kai.scheduler/v1alpha1/topologies", named("none", spec={"levels": []}))
    facts = ClusterFacts(api, watch_nodes=True, watch_topologies=True, clock=times.clock)
    times.patience = 0
    groups = ("Topology of kai.scheduler", "Topology of kueue.x-k8s.io", "ClusterTopologyBinding of grove.io")
    assert facts.unsynced() == [
        *(f"{kind}: first list not done: waiting for the API server" for kind in ("namespaces", "nodes")),
        *(
            f"{group}: not known yet whether it is served: waiting for the API server"
            for group in ("resource.k8s.io", *groups)
        ),
    ]

    await facts.start()
    await until(lambda: len(facts.unsynced()) == 1 and len(facts.problems()) == 2)
    words = f"the API server refused GET {NODES} at {server.url} (403: you may not)"
    unusable = "KAI Topology none: spec.levels: a topology needs levels, farthest first, found none"
    assert facts.unsynced() == [f"nodes: first list not done: {words}"]
    assert facts.problems() == [f"nodes: {words}", unusable]

    times.wake()
    await server.watched(NODES)
    assert (facts.unsynced(), facts.problems()) == ([], [unusable])

    await server.watched(NAMESPACES)
    server.fail(NAMESPACES, 500, "oops", times=9)
    server.cut(NAMESPACES)
    await until(lambda: len(facts.problems()) == 2)
    assert (facts.unsynced(), facts.known.namespace_labels("team")) == ([], {})
    await facts.stop()


async def test_stopping_leaves_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """After the end no task runs on, also where the API server does not answer; the end may be called at any time."""
    server.put(NAMESPACES, named("team"))
    server.install_devices()
    devices = ("resourceclaims", "resourceclaimtemplates", "deviceclasses")
    for kind in devices:
        server.put(f"{RESOURCE_GROUP}/v1/{kind}", named("x", namespace="team"))
    server.install("kai.scheduler", {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
    topologies = {"Topology of kai.scheduler", "Topology of kueue.x-k8s.io", "topologies.kai.scheduler"}
    names = {"namespaces", RESOURCE_GROUP.rpartition("/")[2], "NamespaceReads", *devices, *topologies}
    await ClusterFacts(api, watch_nodes=True).stop()
    async with following(api, times, watch_topologies=True) as facts:
        server.held = asyncio.Event()
        reading = asyncio.create_task(facts.read(NamespaceKey("slow"), PATIENCE))
        await until(lambda: {task.get_name() for task in asyncio.all_tasks()} >= names)
    await facts.stop()

    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint(names)
    with pytest.raises(FactUnavailable, match="shutting down"):
        await reading
    server.held.set()


@pytest.mark.parametrize(("hours", "today"), [(0, date(2026, 3, 1)), (-5, date(2026, 3, 2))])
def test_today_is_the_date_in_utc(api: Connection, times: Times, hours: int, today: date) -> None:
    """The date is that of UTC, wherever the clock stands."""
    times.date = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=hours)))

    assert ClusterFacts(api, watch_nodes=False, clock=times.clock).known.today() == today


async def test_priorities(server: FakeApi, api: Connection, times: Times) -> None:
    """PriorityClasses are known by name, the default one also without a name."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    server.put(NAMESPACES, named("team"))
    server.put(path, named("high", value=1000))
    server.put(path, named("usual", value=10, globalDefault=True))
    facts = ClusterFacts(api, watch_nodes=False, watch_priorities=True, clock=times.clock)
    before = facts.known.priorities()
    await facts.start()
    await until(facts.known.priorities)
    await facts.stop()

    assert (before, facts.known.priorities()) == (None, {"high": 1000, "usual": 10, "": 10})
