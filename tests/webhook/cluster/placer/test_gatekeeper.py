"""Gates are opened by the process that leads, once, by what is followed; people are told; others look who leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from support.api.fakeapi import NODES, FakeApi, named, status
from support.api.podapi import EVENTS, JOBS, PODS, PodApi
from support.api.times import Times
from support.gangs.world import World, moment, required
from support.patience import until

from policies.topology.gang import GangKey
from policies.topology.placer.opening import Opening
from webhook.cluster.api.client import Connection
from webhook.cluster.api.objects import Metadata, Object, name_of
from webhook.cluster.placer.gatekeeper import Entries, Follower, Gatekeeper
from webhook.cluster.placer.gates import PlacerLookout
from webhook.cluster.watches.reflector import cancelled
from webhook.metrics import Metrics

SERVER = PodApi


@pytest.fixture
def world(times: Times) -> World:
    """Two racks of two Nodes. Whoever pauses waits until he is woken."""
    times.patience = 0
    made = World()
    made.now = times.date.timestamp()
    made.racks("f/1/1", "f/1/2", nodes=2)
    return made


class _Site:
    """A process with a placer. leads: whether it holds the Lease; to be set by `lead`. missing: facts yet to come."""

    def __init__(self, api: Connection, server: PodApi, world: World, times: Times) -> None:
        self.server, self.world, self.times = server, world, times
        self.missing: list[str] = []
        self.measures = Metrics("place")
        self.follower = Follower(api, world.options, world.catalog, lambda: self.missing, times.clock)
        self.gatekeeper = Gatekeeper(api, self.follower, lambda: self.leads, self.measures.placing, times.clock)
        self.leads = False

    def lead(self) -> None:
        self.gatekeeper.began()
        self.leads = True
        self.follower.changed.set()

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and look again."""
        self.times.pass_by(seconds)
        self.follower.changed.set()

    def opening(self) -> Opening:
        """What a look decides, which nobody has carried out yet."""
        self.follower.refresh()
        (opening,) = self.follower.placer.look(self.times.date.timestamp()).openings
        return opening

    @property
    def shows_queue(self) -> bool:
        """Whether the metrics show who waits."""
        return "gangs_waiting{" in self.measures.expose().decode()

    def outcomes(self) -> dict[str, float]:
        lines = self.measures.expose().decode().splitlines()
        shown = [line for line in lines if line.startswith("cks_admission_pods_opened_total{")]
        return {line.partition('outcome="')[2].partition('"')[0]: float(line.split()[-1]) for line in shown}


@asynccontextmanager
async def running(site: _Site, *, leads: bool = True) -> AsyncIterator[_Site]:
    """Run during the block, with the objects of the world, from when these are known."""
    site.server.load(site.world)
    await site.follower.start()
    task = asyncio.create_task(site.gatekeeper.run())
    await until(lambda: site.follower.unsynced() == site.missing)
    if leads:
        site.lead()
    try:
        yield site
    finally:
        await cancelled([task])
        await site.gatekeeper.stop()
        await site.follower.stop()


@pytest.fixture
def site(api: Connection, server: PodApi, world: World, times: Times) -> _Site:
    """A process that has listed nothing yet."""
    return _Site(api, server, world, times)


async def test_only_the_leader_opens(server: PodApi, world: World, site: _Site) -> None:
    """A process without the Lease knows the same, and does nothing; nor does it show who waits."""
    world.job("train", 2, required("rack"))
    async with running(site, leads=False):
        site.pass_by(1)
        await asyncio.sleep(0.05)
        assert (server.patches, site.shows_queue) == ({}, False)
        site.lead()
        await until(lambda: all(server.racks().values()))


async def test_a_new_leader_finishes_what_it_has_not_seen(server: PodApi, world: World, site: _Site) -> None:
    """It lists anew: a watch that died unnoticed does not show that half of a gang was opened by the one before."""
    world.job("train", 2, required("rack"))
    async with running(site, leads=False):
        await server.watched(PODS)
        server.deafen(PODS)
        other = World()
        other.now = world.now
        other.racks("f/1/2", nodes=2)
        other.roots, other.pods = world.roots, dict(world.pods)
        other.restarted()
        first, _ = other.look(bind=False).openings
        server._patched(first.name, first.patch)
        site.lead()
        await until(lambda: all(server.racks().values()))

    assert server.racks() == {"train-0": "2", "train-1": "2"}
    assert [query.get("resourceVersion") for query in server.lists(PODS)] == [None, None]


async def test_a_patch_without_an_answer_is_looked_up(server: PodApi, world: World, site: _Site) -> None:
    """Whether it was carried out is read from the API server before anything else is decided about the gang."""
    world.job("train", 2, required("rack"))
    server.unanswered = {"train-0"}
    async with running(site):
        await until(lambda: server.events("Placed"))

    assert (server.racks(), server.patches) == ({"train-0": "1", "train-1": "1"}, {"train-0": 1, "train-1": 1})
    assert site.outcomes() == {"opened": 2}


async def test_a_pod_that_changed_is_no_failure(server: PodApi, world: World, site: _Site) -> None:
    """A Pod that is gone when it is to be opened is counted as such, and the others are opened."""
    world.job("train", 1, required("rack"))
    async with running(site, leads=False):
        opening = site.opening()
        server.delete(PODS, "train-0", "team")
        site.leads = True
        assert await site.gatekeeper.open(opening, site.gatekeeper.term) == ""

    assert site.outcomes() == {"gone": 1}


async def test_nothing_is_sent_by_who_led_before(server: PodApi, world: World, site: _Site) -> None:
    """What was decided while the Lease was held is not carried out once it was lost, even if it is held again."""
    world.job("train", 1, required("rack"))
    async with running(site, leads=False):
        opening, term = site.opening(), site.gatekeeper.term
        site.leads = True
        site.gatekeeper.began()
        await site.gatekeeper.open(opening, term)
        assert server.patches == {}
        assert site.follower.placer.pods["team", "train-0"].is_gated


@pytest.mark.parametrize("code", [403, 422, 500], ids=str)
async def test_a_refusal_is_said_and_not_repeated_at_once(
    server: PodApi, world: World, site: _Site, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is told that the gang is placed, but why it waits; the pauses between attempts grow."""
    world.job("train", 2, required("rack"))
    server.refused = (code, "policy says no")
    async with running(site):
        await until(lambda: server.patches.total() == 2)
        site.pass_by(0.5)
        await asyncio.sleep(0.05)
        assert server.patches.total() == 2
        for _ in range(20):
            site.pass_by(1)
            await asyncio.sleep(0.02)
        attempts = server.patches.total()
        await until(lambda: server.events("Waiting"))
        server.refused = None
        site.pass_by(60)
        await until(lambda: server.events("Placed"))

    assert 2 < attempts <= 12
    (said,) = server.events("Waiting")
    assert said.startswith("The API server refuses to open the gate of Pod train-0: ")
    assert "policy says no" in said
    assert len(server.events("Placed")) == 1
    assert capsys.readouterr().out.count("could not open the gate of a Pod") == 1


async def test_events_delay_nothing(server: PodApi, world: World, site: _Site) -> None:
    """However many there are, few are written at a time; the openings do not wait for them."""
    world.racks(*(f"f/2/{number}" for number in range(30, 40)), nodes=1)
    for number in range(10):
        world.job(f"train{number}", 1, required("rack"))
    server.slow.add(EVENTS)
    async with running(site):
        await until(lambda: server.patches.total() == 10)
        await until(lambda: sum(seen.path == EVENTS for seen in server.seen) >= 2)
        await asyncio.sleep(0.05)
        assert sum(seen.path == EVENTS for seen in server.seen) == 2


async def test_who_waits_is_told_why_and_again(server: PodApi, world: World, site: _Site) -> None:
    """After some seconds, something new at most once a minute, and the same before Kubernetes forgets the Event."""
    world.job("train", 3, required("rack"))
    last = world.pods.pop("train-2")

    async def later(seconds: float, said: int) -> None:
        site.times.pass_by(seconds)
        server.bookmark()
        await until(lambda: not site.follower.unsynced())
        site.follower.changed.set()
        await asyncio.sleep(0.05)
        await until(lambda: len(server.events("Waiting")) >= said)
        assert len(server.events("Waiting")) == said

    async with running(site):
        await until(lambda: site.shows_queue)
        await later(1, said=0)
        await later(5, said=1)
        server.put(PODS, last)
        await later(10, said=1)
        await later(60, said=2)
        await later(1000, said=2)
        await later(2000, said=3)

    first, second, third = server.events("Waiting")
    assert (first, second == third) == ("2 of 3 Pods exist.", True)
    assert second.startswith("No rack can hold 3 Pods with 24 GPUs, even if nothing else ran: the largest, ")


async def test_missing_pods_are_explained_by_their_controller(server: PodApi, world: World, site: _Site) -> None:
    """The newest Event FailedCreate ends the sentence, whatever the order in which the API server lists them."""
    world.job("train", 3, required("rack"), exist=2)
    for name, said, at in (("b", "quota of today", 20), ("c", "quota of yesterday", 10)):
        event = named(name, namespace="team", message=said, reason="FailedCreate", lastTimestamp=moment(world.now + at))
        server.put(EVENTS, event)
    async with running(site):
        site.pass_by(30)
        await until(lambda: server.events("Waiting"))

    query = {"fieldSelector": "involvedObject.uid=Job-train,reason=FailedCreate", "limit": "500"}
    assert server.lists(EVENTS)[0] == query
    assert server.events("Waiting") == ["2 of 3 Pods exist. FailedCreate: quota of today"]


async def test_stale_knowledge_opens_nothing(server: PodApi, site: _Site) -> None:
    """A process that does not know how the cluster is now chooses no domain, and says so."""
    async with running(site):
        await server.watched(PODS)
        server.deafen(PODS)
        site.times.pass_by(400)
        assert [reason.partition(" for ")[0] for reason in site.follower.unsynced()] == [
            "nodes: not known to be up to date",
            "pods: not known to be up to date",
        ]


async def test_who_may_not_open_does_not_spin(world: World, site: _Site) -> None:
    """A process that has lost the Lease, or knows too little, looks about once a second whether that is so still."""
    world.job("train", 3, required("rack"))
    async with running(site):
        await until(lambda: site.shows_queue)
        site.leads = False
        site.follower.changed.set()
        await until(lambda: not site.shows_queue)
        looks = 0

        def leading() -> bool:
            nonlocal looks
            looks += 1
            return False

        site.gatekeeper._leading = leading
        site.times.pass_by(100)
        await asyncio.sleep(0.3)
        assert looks <= 4


async def test_nothing_is_opened_before_the_facts_are_there(server: PodApi, world: World, site: _Site) -> None:
    """Without the topologies and device classes of the cluster it is not known where Pods fit."""
    world.job("train", 1, required("rack"))
    site.missing = ["topologies.kai.scheduler: first list not done"]
    async with running(site):
        site.follower.changed.set()
        await asyncio.sleep(0.05)
        assert server.patches == {}
        site.missing = []
        site.follower.changed.set()
        await until(lambda: all(server.racks().values()))


JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


@pytest.fixture
async def follower(api: Connection, server: PodApi, times: Times) -> AsyncIterator[Follower]:
    """It is to follow a rack of two Nodes, a Job with two Pods that have a placement, and a plain Pod."""
    times.patience = 0
    world = World()
    world.racks("f/1/1", nodes=2)
    world.job("train", 2, required("rack"))
    world.pod("plain", None, world.template({}), nodeName="f-1-1-0")
    server.load(world)
    made = Follower(api, world.options, world.catalog, clock=times.clock)
    yield made
    await made.stop()


async def test_everything_is_put(server: FakeApi, follower: Follower) -> None:
    """Nodes, all Pods but failed ones, and roots arrive page by page; what changes later is noticed."""
    await follower.start()
    await until(lambda: not follower.unsynced())
    assert follower.placer.sizes() == {"node": 2, "pod": 1, "gang": 1}
    assert follower.placer.root(GangKey("team", "batch", "Job", "train")) is not None
    follower.changed.clear()
    server.delete(PODS, "train-0", "team")
    await until(follower.changed.is_set)
    await until(lambda: ("team", "train-0") not in follower.placer.pods)

    query = {"fieldSelector": "status.phase!=Failed", "limit": "100"}
    assert (server.lists(PODS), server.lists(NODES)) == ([query], [{"limit": "100"}])


async def test_only_what_has_a_placement_is_decoded_whole(server: FakeApi, follower: Follower) -> None:
    """Of other Pods only the room that they take is known, and of other workloads nothing."""
    plain = World().root("batch/v1", "Job", "other", {"template": {}})
    server.put(JOBS, plain)
    await follower.start()
    await until(lambda: not follower.unsynced())

    assert {name for _, name in follower.placer.pods} == {"train-0", "train-1"}
    assert follower.placer.root(GangKey("team", "batch", "Job", "other")) is None


async def test_kinds_come_and_go(server: FakeApi, follower: Follower, times: Times) -> None:
    """A kind that is installed later is followed then; what is known of it goes when it is gone."""
    key = GangKey("team", "jobset.x-k8s.io", "JobSet", "wide")
    world = World()
    spec = {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": world.template(required("rack"))}}}]}
    await follower.start()
    await until(lambda: not follower.unsynced())
    server.install("jobset.x-k8s.io", {"v1alpha2": {"jobsets": "JobSet"}})
    await times.awake(lambda: server.watches(JOBSETS))
    server.put(JOBSETS, world.root("jobset.x-k8s.io/v1alpha2", "JobSet", "wide", spec))
    await until(lambda: follower.placer.root(key))
    assert "jobsets.jobset.x-k8s.io" in {one.resource.name for one in follower.reflectors()}
    server.uninstall("jobset.x-k8s.io")
    await times.awake(lambda: follower.placer.root(key) is None and not follower.problems())


def test_a_list_that_breaks_off_removes_nothing() -> None:
    """What was known stays, also through the next list, which is whole."""
    names: set[str] = set()
    entries = Entries(name_of, lambda item: names.add(item.metadata.name), names.discard)
    for page, is_whole in (("ab", True), ("c", False), ("a", False)):
        entries.begin()
        entries.page([Object(Metadata(name)) for name in page])
        if is_whole:
            entries.complete()

    assert names == {"a", "b", "c"}
    entries.complete()
    assert names == {"a"}


LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks/leases"
REMEDY = (
    ": gangs with a placement wait; look at the Pods of the placer, or open all gates by `cks-admission topology "
    "release`"
)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"holderIdentity": "placer-1", "renewTime": 0}, ""),
        ({"holderIdentity": "placer-1", "renewTime": -40}, ""),
        ({"holderIdentity": "placer-1", "renewTime": -50}, "placer-1 has not renewed the Lease cks/placer for 50 s"),
        ({"holderIdentity": "", "renewTime": 0}, "nobody holds the Lease cks/placer"),
        ({}, "nobody holds the Lease cks/placer"),
        (None, "there is no Lease cks/placer"),
    ],
    ids=["fresh", "late", "stale", "given-up", "empty", "none"],
)
async def test_who_holds_the_lease(
    server: FakeApi, api: Connection, times: Times, spec: dict[str, Any] | None, said: str
) -> None:
    """A holder that renews the Lease is a placer; else it is said that gangs wait, with the remedy."""
    if spec is not None:
        if "renewTime" in spec:
            at = times.date + timedelta(seconds=spec["renewTime"])
            spec = {**spec, "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        server.put(LEASES, named("placer", spec=spec))

    assert await PlacerLookout(api, "cks", "placer", times.clock).look() == (said and said + REMEDY)


async def test_what_cannot_be_found_out_is_no_reason(server: FakeApi, api: Connection, times: Times) -> None:
    """A missing right or an API server in trouble says nothing about the placer."""
    server.fail(f"{LEASES}/placer", 403, status(403, "leases is forbidden"))

    assert await PlacerLookout(api, "cks", "placer", times.clock).look() == ""
