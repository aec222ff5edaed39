"""Whole gangs, placed by the real process from the inventory of a small API server's cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named
from support.builders import Json
from support.patience import PATIENCE
from support.service.installation import kubeconfig
from support.service.processes import Service
from support.service.reviews import answer_of, body
from support.service.wire import connected

PODS, RACK = "/api/v1/pods", "example.org/rack"
_TOPOLOGY = {"name": "racks", "levels": [RACK, "kubernetes.io/hostname"]}
_STATUS = {
    "allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "8"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


_MEASURED = ("cks_admission_inventory_objects", "cks_admission_placements_total{")


def job(name: str) -> Json:
    """A Job of 8 Pods with a GPU each, in one rack."""
    annotations = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": "rack"}
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    template = {"spec": {"containers": containers, "restartPolicy": "Never"}}
    spec = {"parallelism": 8, "completions": 8, "template": template}
    metadata = {"name": name, "namespace": "team", "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def told_about(service: Service, port: int, name: str) -> str:
    """What people are told when they create a Job."""
    async with connected(port, service.context()) as wire:
        answer = answer_of((await wire.call(body(job(name)), "/mutate")).body)
    (warning,) = answer["warnings"]
    return str(warning)


async def test_gangs_get_domains(tmp_path: Path) -> None:
    """The first gang gets a rack, the next one, before any watch shows the first, another; a third is too much."""
    async with FakeApi() as api:
        api.put(NAMESPACES, named("team", {}))
        for rack in ("r1", "r2"):
            api.put(NODES, named(f"node-{rack}", {RACK: rack, "kubernetes.io/hostname": rack}, status=_STATUS))
        api.put("/apis/scheduling.k8s.io/v1/priorityclasses", named("usual", value=1))
        api.put(PODS, named("b", namespace="team", spec={}))
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(api.url)), encoding="utf-8")
        sections: dict[str, Json] = {
            "cluster": {"kubeconfig": str(tmp_path / "kubeconfig")},
            "policies": {"native": False, "configMaps": False},
            "topology": {"topologies": [_TOPOLOGY]},
        }
        async with Service(tmp_path, **sections) as service:
            port = await service.port()
            async with asyncio.timeout(PATIENCE):
                while (await service.ask("/readyz")).text != "ok\n":
                    pass
            told = [await told_about(service, port, name) for name in ("a", "b", "c")]
            measured = (await service.ask("/metrics")).text

    assert [text.partition(" (")[0].partition(";")[0] for text in told[:2]] == [
        'required "rack": 8 Pods with 8 GPUs in rack=r1',
        'required "rack": 8 Pods with 8 GPUs in rack=r2',
    ]
    assert sorted(line for line in measured.splitlines() if line.startswith(_MEASURED)) == [
        'cks_admission_inventory_objects{kind="node"} 2.0',
        'cks_admission_inventory_objects{kind="pod"} 0.0',
        'cks_admission_inventory_objects{kind="promise"} 2.0',
        'cks_admission_placements_total{outcome="fits"} 2.0',
        'cks_admission_placements_total{outcome="full"} 1.0',
    ]
