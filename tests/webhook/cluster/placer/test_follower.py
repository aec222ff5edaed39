"""The follower brings what is in a cluster into the placer, object by object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.api.fakeapi import NODES, FakeApi, status
from support.api.podapi import JOBS, PODS, PodApi
from support.api.times import Times
from support.gangs.world import World, required
from support.patience import until

from policies.topology.gang import GangKey
from webhook.cluster.api.client import Connection
from webhook.cluster.api.objects import Metadata, Object, name_of
from webhook.cluster.placer.gatekeeper import Entries, Follower

SERVER = PodApi
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


@pytest.fixture
def follower(api: Connection, server: PodApi, times: Times) -> Follower:
    """It follows a rack of two Nodes, a Job with two Pods that have a placement, and a plain Pod."""
    times.patience = 0
    world = World()
    world.racks("f/1/1", nodes=2)
    world.job("train", 2, required("rack"))
    world.pod("plain", None, world.template({}), nodeName="f-1-1-0")
    server.load(world)
    return Follower(api, world.options, world.catalog, clock=times.clock)


@asynccontextmanager
async def followed(follower: Follower) -> AsyncIterator[None]:
    """Follow during the block."""
    await follower.start()
    try:
        yield
    finally:
        await follower.stop()


async def test_everything_is_put(server: FakeApi, follower: Follower) -> None:
    """Nodes, all Pods but failed ones, and roots arrive page by page; what changes later is noticed."""
    async with followed(follower):
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
    async with followed(follower):
        await until(lambda: not follower.unsynced())

        assert {name for _, name in follower.placer.pods} == {"train-0", "train-1"}
        assert follower.placer.root(GangKey("team", "batch", "Job", "other")) is None


async def test_a_list_is_made_anew(server: PodApi, follower: Follower) -> None:
    """Until the Pods have arrived again, nothing is known for sure; they come from storage, not from a cache."""
    async with followed(follower):
        await until(lambda: not follower.unsynced())
        await server.watched(PODS)
        server.deafen(PODS)
        server.delete(PODS, "train-1", "team")
        await follower.list_anew()
        assert follower.unsynced() == ["pods: first list not done: waiting for the API server"]
        await until(lambda: not follower.unsynced())
        assert {name for _, name in follower.placer.pods} == {"train-0"}

    assert all("resourceVersion" not in query for query in server.lists(PODS))


async def test_a_kind_that_may_not_be_read_is_named(server: FakeApi, follower: Follower) -> None:
    """The right that is missing is a problem that is named, and the others are known all the same."""
    server.fail(JOBS, 403, status(403, "jobs is forbidden"), times=99)
    async with followed(follower):
        await until(lambda: "forbidden" in "".join(follower.problems()))
        await until(lambda: not follower.unsynced())
        (problem,) = follower.problems()

    assert problem.startswith("jobs.batch: the API server refused ")
    assert problem.endswith("; a ClusterRole must allow the service's account to list and watch jobs of batch")


async def test_kinds_come_and_go(server: FakeApi, follower: Follower, times: Times) -> None:
    """A kind that is installed later is followed then; what is known of it goes when it is gone."""
    key = GangKey("team", "jobset.x-k8s.io", "JobSet", "wide")
    world = World()
    spec = {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": world.template(required("rack"))}}}]}
    async with followed(follower):
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
