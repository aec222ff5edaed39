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
from support.service.nodefiles import HELD, SMALL, write

_PODS = "/api/v1/pods"
_KAI = "/apis/kai.scheduler/v1alpha1/topologies"
_KUEUE = "/apis/kueue.x-k8s.io/{}/topologies"


def _topology(name: str, *keys: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    """A small API server with Nodes and Pods, and a kubeconfig for it."""
    monkeypatch.chdir(tmp_path)
    async with FakeApi() as running:
        for path, items in ((NODES, SMALL), (_PODS, HELD)):
            for item in items:
                running.put(path, {key: value for key, value in item.items() if key not in ("kind", "apiVersion")})
        _write_kubeconfig(running.url)
        yield running


def _write_kubeconfig(url: str) -> None:
    config = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "my-token"}}],
    }
    Path("kube.config").write_text(yaml.safe_dump(config), encoding="utf-8")


async def _run(*arguments: str) -> Result:
    return await asyncio.to_thread(run, "topology", *arguments, "--kubeconfig", "kube.config")


async def test_the_tree_of_a_cluster_is_that_of_its_objects_in_a_file(server: FakeApi) -> None:
    """Nodes and bound Pods are listed once, and give what kubectl's output gives."""
    write(Path("all.json"), *SMALL, *HELD)

    result = await _run("tree")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout == run("topology", "tree", "-f", "all.json").stdout
    assert server.lists(NODES) == [{"limit": "100"}]
    assert server.lists(_PODS) == [{"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed", "limit": "500"}]


async def test_show_reads_no_pods(server: FakeApi) -> None:
    """What is not shown is not read."""
    result = await _run("show", "coreweave")

    assert (result.stdout.splitlines()[-1], result.exit_code) == ("Nodes: 6", 0)
    assert server.lists(_PODS) == []


async def test_the_clusters_topologies_are_listed(server: FakeApi) -> None:
    """KAI's and Kueue's are there, those of Kueue in the newest version that is served; one that is known is merged."""
    server.put(_KAI, _topology("halls", "example.org/hall", "kubernetes.io/hostname"))
    server.put(_KUEUE.format("v1beta1"), _topology("kubernetes", *_KUBERNETES))
    server.put(_KUEUE.format("v1alpha1"), _topology("old", "example.org/old"))

    result = await _run("list", "-o", "yaml")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert [each for each in yaml.safe_load(result.stdout) if each["inCluster"]] == [
        {
            "name": "kubernetes",
            "source": "built in; Kueue Topology kubernetes",
            "inCluster": True,
            "levels": ["region", "zone", "hostname"],
        },
        {"name": "halls", "source": "KAI Topology halls", "inCluster": True, "levels": ["hall", "hostname"]},
    ]
    assert server.lists(NODES) == []


def _placed() -> str:
    """A file with a Pod for KAI's scheduler, by its name."""
    annotations = {"kai.scheduler/topology": "kubernetes", "kai.scheduler/topology-required-placement": "zone"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c"}]},
    }
    return write(Path("p.json"), pod)


_KUBERNETES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname")


async def test_clashes_and_what_cannot_be_used_are_told(server: FakeApi) -> None:
    """What is doubtful about the cluster's topologies is on stderr, and the others are listed."""
    server.put(_KAI, _topology("aws", "example.org/hall"))
    server.put(_KAI, _topology("broken"))

    result = await _run("list")

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "KAI Topology broken cannot be used: spec.levels: a topology needs levels, farthest first, found none",
        (
            'topology "aws" is defined twice, with different levels: built in (topology.kubernetes.io/zone, '
            "topology.k8s.aws/network-node-layer-1, topology.k8s.aws/network-node-layer-2, "
            "topology.k8s.aws/network-node-layer-3, kubernetes.io/hostname); and KAI Topology aws (example.org/hall). "
            "Keep one."
        ),
    ]
    assert len(result.stdout.splitlines()) == 17


async def test_who_may_not_list_topologies_gets_the_rest(server: FakeApi) -> None:
    """A right that is missing is told, and the tree is drawn by what is known."""
    server.fail(_KAI, 403, status(403, "topologies is forbidden"))

    result = await _run("tree", "--level", "zone")

    assert result.exit_code == 0
    assert result.stderr == (
        f"KAI's topologies are not known: the API server refused GET {_KAI} at {server.url} "
        "(403: topologies is forbidden)\n"
    )
    assert result.stdout.splitlines()[1].split()[:5] == ["topology", "coreweave", "6", "14", "40"]


async def test_a_cluster_that_refuses_is_a_failure(server: FakeApi) -> None:
    """What is needed and cannot be read is exit code 3, in the API server's words."""
    server.fail(_PODS, 403, status(403, "pods is forbidden"))

    result = await _run("tree")

    assert (result.stdout, result.stderr, result.exit_code) == (
        "",
        f"Error: the API server refused GET {_PODS} at {server.url} (403: pods is forbidden)\n",
        3,
    )


async def test_nodes_of_a_file_come_before_those_of_the_cluster(server: FakeApi) -> None:
    """With --nodes the cluster is asked for its topologies only."""
    server.put(_KAI, _topology("halls", "example.org/hall"))
    write(Path("nodes.json"), *SMALL[:2])

    result = await _run("show", "halls", "--nodes", "nodes.json")

    assert (result.stdout.splitlines()[-1], result.exit_code) == ("Nodes: 2", 0)
    assert server.lists(NODES) == []


async def test_a_placement_is_explained_by_the_cluster(server: FakeApi) -> None:
    """A scheduler that reads the annotations knows a topology that is an object: there is nothing to warn of."""
    server.put(_KAI, _topology("kubernetes", *_KUBERNETES))
    result = await _run("explain", "-f", _placed())

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
    """A Job of Pods that take a Node each, all in one superpod."""
    annotations = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": "superpod"}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"parallelism": pods, "template": {"spec": {"containers": [container]}}},
    }


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
