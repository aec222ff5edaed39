"""`cks-admission topology` with a cluster: what is read of it, once, and what it does without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from support.api.fakeapi import NODES, FakeApi, Json, status
from support.service.commands import run
from support.service.installation import write_kubeconfig
from support.service.nodefiles import HELD, SMALL, asks, job, write

_PODS = "/api/v1/pods"
_KAI = "/apis/kai.scheduler/v1alpha1/topologies"
_KUEUE = "/apis/kueue.x-k8s.io/{}/topologies"
_KUBERNETES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname")


def _topology(name: str, *keys: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """A small API server with Nodes and Pods, and a kubeconfig for it."""
    async with FakeApi() as running:
        for path, items in ((NODES, SMALL), (_PODS, HELD)):
            for item in items:
                running.put(path, {key: value for key, value in item.items() if key not in ("kind", "apiVersion")})
        write_kubeconfig(running.url)
        yield running


async def _run(*arguments: str) -> Result:
    return await asyncio.to_thread(run, "topology", *arguments, "--kubeconfig", "kube.config")


async def test_the_tree_of_a_cluster_is_that_of_its_objects_in_a_file(server: FakeApi) -> None:
    """Nodes and bound Pods are listed once, and give what kubectl's output gives; without Pods none are read."""
    result = await _run("tree")

    expected = run("topology", "tree", "-f", write(Path("all.json"), *SMALL, *HELD)).stdout
    assert (result.stdout, result.stderr, result.exit_code) == (expected, "", 0)
    pods = [{"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed", "limit": "500"}]
    assert (server.lists(NODES), server.lists(_PODS)) == ([{"limit": "100"}], pods)
    assert (await _run("show", "coreweave")).stdout.splitlines()[-1] == "Nodes: 6"
    assert server.lists(_PODS) == pods


async def test_the_clusters_topologies_are_listed(server: FakeApi) -> None:
    """KAI's and Kueue's are there, those of Kueue in the newest version that is served; one that is known is merged."""
    server.put(_KAI, _topology("halls", "example.org/hall", "kubernetes.io/hostname"))
    server.put(_KUEUE.format("v1beta1"), _topology("kubernetes", *_KUBERNETES))
    server.put(_KUEUE.format("v1alpha1"), _topology("old", "example.org/old"))

    result = await _run("list", "-o", "yaml")

    assert (result.stderr, result.exit_code) == ("", 0)
    keys = ("name", "source", "levels")
    assert [tuple(map(each.get, keys)) for each in yaml.safe_load(result.stdout) if each["inCluster"]] == [
        ("kubernetes", "built in; Kueue Topology kubernetes", ["region", "zone", "hostname"]),
        ("halls", "KAI Topology halls", ["hall", "hostname"]),
    ]
    assert server.lists(NODES) == []


async def test_clashes_and_what_cannot_be_used_are_told(server: FakeApi) -> None:
    """What is doubtful about the cluster's topologies is on stderr, and the others are listed."""
    server.put(_KAI, _topology("aws", "example.org/hall"))
    server.put(_KAI, _topology("broken"))

    result = await _run("list")

    layers = ", ".join(f"topology.k8s.aws/network-node-layer-{tier}" for tier in (1, 2, 3))
    levels = f"topology.kubernetes.io/zone, {layers}, kubernetes.io/hostname"
    assert result.stderr == (
        "KAI Topology broken cannot be used: spec.levels: a topology needs levels, farthest first, found none\n"
        f'topology "aws" is defined twice, with different levels: built in ({levels}); and '
        "KAI Topology aws (example.org/hall). Keep one.\n"
    )
    assert (len(result.stdout.splitlines()), result.exit_code) == (17, 0)


async def test_who_may_not_list_topologies_gets_the_rest(server: FakeApi) -> None:
    """A right that is missing is told, and the tree is drawn by what is known."""
    server.fail(_KAI, 403, status(403, "topologies is forbidden"))

    result = await _run("tree", "--level", "zone")

    refusal = f"the API server refused GET {_KAI} at {server.url} (403: topologies is forbidden)"
    assert (result.stderr, result.exit_code) == (f"KAI's topologies are not known: {refusal}\n", 0)
    assert result.stdout.splitlines()[1].split()[:5] == ["topology", "coreweave", "6", "14", "40"]


async def test_a_cluster_that_refuses_is_a_failure(server: FakeApi) -> None:
    """What is needed and cannot be read is exit code 3, in the API server's words."""
    server.fail(_PODS, 403, status(403, "pods is forbidden"))

    result = await _run("tree")

    error = f"Error: the API server refused GET {_PODS} at {server.url} (403: pods is forbidden)\n"
    assert (result.stdout, result.stderr, result.exit_code) == ("", error, 3)


async def test_nodes_of_a_file_come_before_those_of_the_cluster(server: FakeApi) -> None:
    """With --nodes the cluster is asked for its topologies only."""
    server.put(_KAI, _topology("halls", "example.org/hall"))

    result = await _run("show", "halls", "--nodes", write(Path("nodes.json"), *SMALL[:2]))

    assert (result.stdout.splitlines()[-1], result.exit_code) == ("Nodes: 2", 0)
    assert server.lists(NODES) == []


async def test_a_placement_is_explained_by_the_cluster(server: FakeApi) -> None:
    """A scheduler that reads the annotations knows a topology that is an object: there is nothing to warn of."""
    server.put(_KAI, _topology("kubernetes", *_KUBERNETES))
    metadata = {"name": "p", "annotations": asks("kubernetes", "zone")}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    result = await _run("explain", "-f", write(Path("p.json"), pod))

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.splitlines()[4:] == [
        (
            "    Topology kubernetes (built in; KAI Topology kubernetes), farthest first: region, "
            "zone [required zone], hostname."
        ),
        "    Nothing is done: its scheduler reads the annotations itself (schedulerName kai-scheduler).",
        "    By their labels 6 of 6 Nodes may take the Pods.",
    ]


def _job(name: str, pods: int = 1) -> Json:
    made = job(asks(required="superpod"), pods, name)
    made["metadata"]["namespace"] = "default"
    return made


async def test_gangs_are_placed_by_the_cluster(server: FakeApi) -> None:
    """Nodes, Pods and workloads are read once, and what Pods hold is not free."""
    server.install("batch", {"v1": {"jobs": "Job", "cronjobs": "CronJob"}})
    other = _job("other")
    server.put("/apis/batch/v1/jobs", {"metadata": other["metadata"], "spec": other["spec"]})

    result = await _run("place", "-f", write(Path("job.json"), _job("train"), _job("more", 3)), "-o", "json")

    told = [(one["name"], one["way"], one["starts"]) for one in json.loads(result.stdout)]
    assert (told, result.stderr) == ([("train", "gate", True), ("more", "gate", False)], "")
    assert server.lists("/apis/batch/v1/jobs") == [{"limit": "100"}]


async def test_who_may_not_list_workloads_gets_the_rest(server: FakeApi) -> None:
    """A kind that may not be listed is told, and the gang is placed by what is known."""
    server.install("batch", {"v1": {"jobs": "Job"}})
    server.fail("/apis/batch/v1/jobs", 403, status(403, "jobs is forbidden"))

    result = await _run("place", "-f", write(Path("job.json"), _job("train")), "-o", "json")

    assert (json.loads(result.stdout)[0]["starts"], result.exit_code) == (True, 0)
    assert result.stderr == (
        "how many Pods a Job starts is not known: the API server refused GET /apis/batch/v1/jobs "
        f"at {server.url} (403: jobs is forbidden)\n"
    )
