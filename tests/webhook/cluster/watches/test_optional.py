"""Device claims, and topologies of schedulers, in a cluster that may or may not have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import RESOURCE_GROUP, FakeApi, Json, named, status
from support.api.times import Times
from support.patience import until

from policies.objects.workload import plural
from policies.topology.objects import GROVE, KAI, KUEUE
from policies.topology.topology import Topology, level
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.optional import LOOK_AGAIN_SECONDS, VERSIONS, Devices, Topologies
from webhook.cluster.watches.reflector import cancelled

KAI_PATH = "/apis/kai.scheduler/v1alpha1/topologies"
KUEUE_PATH = "/apis/kueue.x-k8s.io/v1beta1/topologies"
ZONE, RACK, HOSTNAME = "topology.kubernetes.io/zone", "example.org/rack", "kubernetes.io/hostname"
TOPOLOGY, QUEUE = {"topologies": "Topology"}, {"clusterqueues": "ClusterQueue"}


@pytest.fixture
def topologies(api: Connection, times: Times) -> Topologies:
    """Those of the small API server; whoever pauses waits until he is woken."""
    times.patience = 0
    return Topologies(api, {group: VERSIONS[group] for group in (KAI, KUEUE)}, times.clock)


@asynccontextmanager
async def running(topologies: Topologies) -> AsyncIterator[None]:
    """Follow during the block; at its end, be cancelled."""
    tasks = [asyncio.create_task(group.run()) for group in topologies.parts]
    try:
        yield
    finally:
        await cancelled(tasks)
        assert all(task.cancelled() for task in tasks)


def _install(server: FakeApi, group: str, *versions: str) -> None:
    server.install(group, dict.fromkeys(versions, TOPOLOGY), namespaced=False)


def _topology(name: str, *keys: str) -> Json:
    return named(name, spec={"levels": [{"nodeLabel": key} for key in keys]})


def known(name: str, source: str, *keys: str) -> Topology:
    """What is made of one."""
    return Topology(name, tuple(map(level, keys)), source=source, in_cluster=True, objects=(source.partition(" ")[0],))


async def test_both_schedulers(server: FakeApi, topologies: Topologies) -> None:
    """The objects of KAI and of Kueue are known by what they say, sorted by name, KAI's first where names are equal."""
    _install(server, KAI, "v1alpha1")
    _install(server, KUEUE, "v1beta1")
    aliased = named("b", spec={"levels": [{"nodeLabel": RACK, "alias": "rack"}, {"nodeLabel": HOSTNAME}]})
    server.put(KUEUE_PATH, _topology("a", ZONE, HOSTNAME))
    server.put(KUEUE_PATH, _topology("b", RACK))
    server.put(KAI_PATH, _topology("c", ZONE))
    server.put(KAI_PATH, aliased)

    assert not topologies.known
    async with running(topologies):
        await until(lambda: not topologies.unsynced())

        assert topologies.known == (
            known("a", "Kueue Topology a", ZONE, HOSTNAME),
            replace(known("b", "KAI Topology b"), levels=(level(RACK, "rack"), level(HOSTNAME))),
            known("b", "Kueue Topology b", RACK),
            known("c", "KAI Topology c", ZONE),
        )
        assert topologies.problems() == []


@pytest.mark.parametrize("kind", ["ClusterTopologyBinding", "ClusterTopology"])
async def test_grove(server: FakeApi, api: Connection, times: Times, kind: str) -> None:
    """Its topologies are known under either of their names, by domains and keys; KAI knows what Grove makes of them."""
    times.patience = 0
    topologies = Topologies(api, {GROVE: VERSIONS[GROVE]}, times.clock)
    resource = plural(kind)
    server.install(GROVE, {"v1alpha1": {resource: kind}}, namespaced=False)
    levels = [{"domain": "rack", "key": RACK}]
    server.put(f"/apis/grove.io/v1alpha1/{resource}", named("a", spec={"levels": levels}))

    async with running(topologies):
        await until(lambda: not topologies.unsynced())

        assert topologies.known == (
            Topology("a", (level(RACK, "rack"),), source=f"Grove {kind} a", objects=("Grove",)),
        )


async def test_the_same_until_something_changes(server: FakeApi, topologies: Topologies, times: Times) -> None:
    """Neither a write that changes no level nor another list makes a new tuple, and an old one never changes."""
    _install(server, KAI, "v1alpha1")
    _install(server, KUEUE, "v1beta1")
    server.put(KAI_PATH, _topology("a", ZONE))

    async with running(topologies):
        await server.watched(KAI_PATH)
        await server.watched(KUEUE_PATH)
        before = topologies.known

        labelled = _topology("a", ZONE)
        labelled["metadata"]["labels"] = {"team": "x"}
        server.put(KAI_PATH, labelled)
        server.expired = "event"
        server.end(KAI_PATH)
        await times.awake(lambda: len(server.watches(KAI_PATH)) == 3)
        assert (len(server.lists(KAI_PATH)), topologies.known is before) == (2, True)

        server.put(KUEUE_PATH, _topology("a", ZONE))
        await until(lambda: topologies.known is not before)
        assert before == (known("a", "KAI Topology a", ZONE),)


async def test_a_kind_that_comes_and_goes(server: FakeApi, topologies: Topologies, times: Times) -> None:
    """A scheduler that is installed, removed and installed again is noticed each time, one beside the other."""
    _install(server, KUEUE, "v1beta1")
    server.put(KUEUE_PATH, _topology("k", ZONE))
    of_kueue = known("k", "Kueue Topology k", ZONE)
    both = (known("a", "KAI Topology a", RACK), of_kueue)

    async with running(topologies):
        await until(lambda: topologies.known == (of_kueue,))
        for _ in range(2):
            _install(server, KAI, "v1alpha1")
            server.put(KAI_PATH, _topology("a", RACK))
            await times.awake(lambda: topologies.known == both)
            await server.watched(KAI_PATH)

            server.uninstall(KAI)
            # A watch that was cancelled ends a moment before its reflector, and what that says, is forgotten.
            await times.awake(lambda: len(topologies.reflectors()) == 1 and not topologies.problems())
            assert (topologies.known, topologies.unsynced()) == ((of_kueue,), [])


async def test_nothing_is_asked_while_watches_work(server: FakeApi, topologies: Topologies, times: Times) -> None:
    """As long as both kinds are followed the API server is not asked again whether it has them."""
    _install(server, KAI, "v1alpha1")
    _install(server, KUEUE, "v1beta1")

    async with running(topologies):
        await server.watched(KAI_PATH)
        await server.watched(KUEUE_PATH)
        await until(lambda: len(times.pauses) == 2)
        asked = len(server.seen)
        await times.awake(lambda: len(times.pauses) >= 8)

        assert len(server.seen) == asked


@pytest.mark.parametrize(
    ("served", "chosen"),
    [
        pytest.param({"v1beta1": TOPOLOGY, "v1beta2": TOPOLOGY}, "v1beta2", id="the newest, not the preferred one"),
        pytest.param({"v1": TOPOLOGY, "v1alpha1": TOPOLOGY}, "v1alpha1", id="the newest of those that are known"),
        pytest.param({"v1beta1": QUEUE, "v1alpha1": {**QUEUE, **TOPOLOGY}}, "v1alpha1", id="the one with the kind"),
        pytest.param({"v1": TOPOLOGY}, None, id="none that is known"),
    ],
)
async def test_the_version(
    server: FakeApi, topologies: Topologies, times: Times, served: dict[str, dict[str, str]], chosen: str | None
) -> None:
    """Objects are read in the newest version that is served, is known here and has the kind."""
    server.install(KUEUE, served, namespaced=False)

    async with running(topologies):
        await until(lambda: len(times.pauses) == 2 and not topologies.unsynced())

    listed = {seen.path for seen in server.seen if seen.path.endswith("/topologies")}
    assert listed == ({f"/apis/{KUEUE}/{chosen}/topologies"} if chosen else set())


async def test_a_version_that_is_no_longer_served(server: FakeApi, topologies: Topologies, times: Times) -> None:
    """When the cluster is upgraded, what was known stays known until the new version has been listed."""
    _install(server, KUEUE, "v1beta1")
    server.put(KUEUE_PATH, _topology("a", ZONE))
    seen: list[tuple[Topology, ...]] = []

    async with running(topologies):
        await server.watched(KUEUE_PATH)
        server.fail(KUEUE_PATH, 404, "404 page not found", times=99)
        _install(server, KUEUE, "v1beta2")
        server.put(KUEUE_PATH.replace("v1beta1", "v1beta2"), _topology("a", RACK))
        server.end(KUEUE_PATH)

        def changed() -> bool:
            seen.append(topologies.known)
            return topologies.known == (known("a", "Kueue Topology a", RACK),)

        await times.awake(changed)
        assert () not in seen
        assert topologies.problems() == []


async def test_an_object_that_cannot_be_read(server: FakeApi, topologies: Topologies) -> None:
    """It is logged and told as a problem; it blocks nothing, the others are known, and it is when it is mended."""
    _install(server, KAI, "v1alpha1")
    odd = named("odd", spec={"levels": [{"label": RACK}]})
    server.put(KAI_PATH, odd)
    server.put(KAI_PATH, _topology("fine", ZONE))
    fine = known("fine", "KAI Topology fine", ZONE)

    with capture_logs() as logs:
        async with running(topologies):
            await server.watched(KAI_PATH)
            await until(lambda: not topologies.unsynced())
            before = topologies.known, topologies.problems()
            server.put(KAI_PATH, _topology("odd", RACK))
            await until(lambda: not topologies.problems())
            assert [each.name for each in topologies.known] == ["fine", "odd"]
            server.put(KAI_PATH, odd)
            await until(topologies.problems)
            assert (topologies.known, topologies.problems()) == before

    reason = "spec.levels[0].nodeLabel: a level is the key of a node label, such as example.org/rack; found null"
    assert before == ((fine,), [f"KAI Topology odd: {reason}"])
    event = {"event": "could not read a topology", "log_level": "warning", "topology": "KAI Topology odd"}
    assert [each for each in logs if each["event"] == event["event"]] == [{**event, "reason": reason}] * 2


async def test_reasons_until_everything_is_there(server: FakeApi, topologies: Topologies, times: Times) -> None:
    """Before the first answers readiness has a reason for each group, and the cause where one is known."""
    _install(server, KAI, "v1alpha1")
    server.put(KAI_PATH, _topology("a", ZONE))
    server.fail(f"/apis/{KAI}", 200, "<html>")
    assert topologies.unsynced() == [
        f"Topology of {group}: not known yet whether it is served: waiting for the API server" for group in (KAI, KUEUE)
    ]

    async with running(topologies):
        await until(lambda: topologies.problems() and len(topologies.unsynced()) == 1)
        (reason,) = topologies.unsynced()
        words = f"the answer to GET /apis/{KAI} cannot be read: JSON is malformed: "
        assert reason.startswith(f"Topology of {KAI}: not known yet whether it is served: {words}")

        times.wake()
        await until(lambda: not topologies.unsynced())
        assert topologies.problems() == []
        assert [each.name for each in topologies.known] == ["a"]


async def test_a_missing_right(server: FakeApi, topologies: Topologies) -> None:
    """Where the service may not look at topologies, readiness says so, and which right is to be granted."""
    _install(server, KAI, "v1alpha1")
    server.fail(KAI_PATH, 403, status(403, "you may not"), times=9)

    async with running(topologies):
        await until(lambda: topologies.problems() and len(topologies.unsynced()) == 1)

        reason = (
            f"the API server refused GET {KAI_PATH} at {server.url} (403: you may not); "
            f"a ClusterRole must allow the service's account to list and watch topologies of {KAI}"
        )
        assert topologies.unsynced() == [f"topologies.{KAI}: first list not done: {reason}"]
        assert topologies.problems() == [f"topologies.{KAI}: {reason}"]


async def test_what_is_installed_later_is_no_reason_to_wait(
    server: FakeApi, topologies: Topologies, times: Times
) -> None:
    """A cluster without the kinds is asked again some seconds later, also for one that may not be looked at then."""
    async with running(topologies):
        await until(lambda: len(times.pauses) == 2)
        assert (topologies.known, topologies.unsynced(), topologies.problems()) == ((), [], [])
        assert times.pauses == [LOOK_AGAIN_SECONDS] * 2
        _install(server, KAI, "v1alpha1")
        server.fail(KAI_PATH, 403, status(403, "you may not"), times=9)
        await times.awake(topologies.problems)

        assert topologies.unsynced() == []


@pytest.mark.parametrize(
    ("version", "requests", "classes"),
    [
        ("v1", [{"name": "a", "exactly": {"deviceClassName": "gpu"}}], {"gpu"}),
        (
            "v1beta2",
            [{"name": "a", "firstAvailable": [{"deviceClassName": "gpu"}, {"deviceClassName": "mig"}]}],
            {"gpu", "mig"},
        ),
        ("v1beta1", [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "nic"}], {"gpu", "nic"}),
    ],
)
async def test_follows_each_version(
    server: FakeApi, api: Connection, times: Times, version: str, requests: list[Json], classes: set[str]
) -> None:
    """Claims, templates and classes are known in the shape of each version; not a claim that asks for no class."""
    server.install_devices(version)
    spec = {"devices": {"requests": requests}}
    base = f"{RESOURCE_GROUP}/{version}"
    server.put(f"{base}/resourceclaims", named("claim", namespace="team", spec=spec))
    server.put(f"{base}/resourceclaimtemplates", named("template", namespace="team", spec={"spec": spec}))
    server.put(f"{base}/deviceclasses", named("gpu", spec={"extendedResourceName": "example.com/gpu"}))
    server.put(f"{base}/deviceclasses", named("nic", spec={}))
    nothings: list[Json] = [
        {},
        {"devices": None},
        {"devices": {"requests": None}},
        {"devices": {"requests": [{"exactly": None, "firstAvailable": None}]}},
        {"devices": {"requests": [{"exactly": {"deviceClassName": ""}}]}},
    ]
    for number, nothing in enumerate(nothings):
        server.put(f"{base}/resourceclaims", named(f"claim-{number}", namespace="team", spec=nothing))
    devices = Devices(api, times.clock)
    task = asyncio.create_task(devices.run())
    await until(lambda: not devices.unsynced())
    await cancelled([task])

    assert devices.claims.by_key == {("team", "claim"): classes}
    assert devices.templates.by_key == {("team", "template"): classes}
    assert devices.extended.by_key == {"gpu": "example.com/gpu"}
