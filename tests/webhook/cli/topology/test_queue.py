"""`cks-admission topology queue` and `cks-admission topology release` with a small cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from click.testing import Result
from support.api.fakeapi import status
from support.api.podapi import JOBS, PODS, PodApi
from support.gangs.world import World, required
from support.service.commands import run
from support.service.installation import write_kubeconfig

from policies.topology.placement import GATE


@pytest.fixture
async def server() -> AsyncIterator[PodApi]:
    """An API server with Pods, and a kubeconfig for it."""
    async with PodApi() as running:
        write_kubeconfig(running.url)
        yield running


@pytest.fixture
def world() -> World:
    """Two racks of two Nodes, and a gang of each kind that waits; the Pods came 130 seconds ago."""
    made = World()
    made.now = time.time() - 130
    made.racks("f/1/1", "f/1/2", nodes=2)
    made.job("fits", 2, required("rack"))
    made.job("large", 3, required("rack"))
    made.job("late", 2, required("superpod"), exist=1)
    return made


async def asked(*arguments: str) -> Result:
    """A run of a verb with the cluster."""
    return await asyncio.to_thread(run, "topology", *arguments, "--kubeconfig", "kube.config")


async def test_the_queue(server: PodApi, world: World) -> None:
    """What only waits for the placer comes first; the others are in the order in which they are tried."""
    server.load(world)

    result = await asked("queue")

    assert (result.stderr, result.exit_code) == ("", 0)
    lines = [line.replace("131s", "130s") for line in result.stdout.splitlines()]
    assert lines == [
        "GANG            LEVEL     PODS  WAITS",
        "Job team/fits   rack         2     2m",
        (
            "  It fits now: 2 Pods with 16 GPUs in fabric=f,superpod=1,rack=1. If it stays here, no placer works: "
            "cks-admission doctor says what is wrong."
        ),
        "Job team/large  rack         3     2m",
        (
            "  No rack can hold 3 Pods with 24 GPUs, even if nothing else ran: the largest, "
            "fabric=f,superpod=1,rack=1, holds 2 Pods. Require a level above rack, or ask for less."
        ),
        "Job team/late   superpod   1/2     2m",
        "  1 of 2 Pods exist.",
    ]
    assert server.patches == {}


async def test_the_queue_for_programs(server: PodApi, world: World) -> None:
    """The same as JSON, with who is before it."""
    server.load(world)

    fits, large, late = json.loads((await asked("queue", "-o", "json")).stdout)

    assert abs(large.pop("since") - world.now) < 2
    message = "2 Pods with 16 GPUs in fabric=f,superpod=1,rack=1."
    assert (fits["gang"]["name"], fits["position"], fits["fits"]) == ("fits", 0, message)
    assert {key: value for key, value in large.items() if key != "reason"} == {
        "gang": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team", "name": "large"},
        "position": 1,
        "behind": "",
        "level": "rack",
        "required": True,
        "pods": 3,
        "existing": 3,
        "keptFree": "",
        "overdue": False,
    }
    assert (late["position"], late["behind"], late["existing"], late["pods"]) == (2, "large", 1, 2)


async def test_nobody_waits(server: PodApi) -> None:
    """An empty queue is said in words, and is an empty list for programs."""
    world = World()
    world.racks("f/1/1")
    world.pod("plain", None, world.template({}))
    server.load(world)

    result = await asked("queue")
    assert (result.stderr, result.stdout) == ("", "no gang waits\n")
    assert (await asked("queue", "-o", "json")).stdout.strip() == "[]"


async def test_the_queue_without_a_right(server: PodApi, world: World) -> None:
    """Workloads that may not be read are named, and the rest is shown."""
    server.load(world)
    server.fail(JOBS, 403, status(403, "jobs is forbidden"), times=9)

    result = await asked("queue")

    assert "jobs is forbidden" in result.stderr
    assert "Job team/fits" in result.stdout


async def test_release_opens_our_gates_only(server: PodApi, world: World) -> None:
    """Each Pod behind our gate loses it, and nothing else changes; other gates stay, wherever ours is among them."""
    other = {"name": "example.org/quota"}
    world.job("quota", 1, required("rack"), schedulingGates=[other, {"name": GATE}])
    world.pod("plain", None, world.template({}), schedulingGates=[other])
    server.load(world)
    names = ("plain", "quota-0", "fits-0")
    before = [json.loads(json.dumps(server.pod(name))) for name in names]

    result = await asked("release", "--yes")

    *opened, last = result.stdout.splitlines()
    pods = ["fits-0", "fits-1", "large-0", "large-1", "large-2", "late-0", "quota-0"]
    assert (sorted(opened), last) == ([f"team/{name}" for name in pods], "7 gates opened")
    assert (result.stderr, result.exit_code) == ("", 0)
    for name, expected, gates in zip(names, before, ([other], [other], []), strict=True):
        pod = server.pod(name)
        assert pod is not None
        expected["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"]
        expected["spec"]["schedulingGates"] = gates
        assert pod == expected


async def test_release_of_pods_that_go(server: PodApi, world: World) -> None:
    """A Pod that changes meanwhile is left alone; a refusal ends the run with the API server's words."""
    server.load(world)
    server.refused = (409, "the object has been modified")
    assert (await asked("release", "--yes")).stdout == "0 gates opened\n"
    server.refused = (403, 'pods "fits-0" is forbidden')

    result = await asked("release", "--yes")

    assert result.exit_code == 3
    assert 'pods "fits-0" is forbidden' in result.stderr


async def test_release_in_one_namespace(server: PodApi, world: World) -> None:
    """Only its Pods are listed and opened."""
    server.load(world)

    result = await asked("release", "--yes", "--namespace", "elsewhere")

    assert (result.stdout, server.patches, server.lists(PODS)) == ("0 gates opened\n", {}, [])
