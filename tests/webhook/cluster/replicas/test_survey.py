"""The look at the Nodes: flaws are counted, and a ConfigMap holds what topologies have, for policies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.api.fakeapi import Failure, FakeApi, status
from support.api.times import Times
from support.patience import until
from support.service.nodefiles import node, place
from support.service.servers import leader

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.checks import NodeSurvey
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

_NODES, _MAPS = "/api/v1/nodes", "/api/v1/namespaces/cks-admission/configmaps"


class _Look:
    """The look with its surroundings."""

    def __init__(self, api: Connection, times: Times, facts: str = "topologies") -> None:
        self.metrics = Metrics()
        self.settings = Settings.model_validate({"cluster": {"inCluster": True}, "topology": {"facts": facts}})
        self.survey = NodeSurvey(leader(api, lambda: self.settings, self.metrics, times.clock))

    def usable(self) -> int:
        """The GPUs that Pods can get, as far as the watch has told."""
        machines = self.survey.machines
        return sum(machine.total for machine in machines if machine.is_open)

    @property
    def flawed(self) -> dict[str, float]:
        """The metric."""
        samples = next(iter(self.metrics.placing.flawed.collect())).samples
        return {sample.labels["kind"]: sample.value for sample in samples}


def _put(server: FakeApi, name: str, superpod: str, **more: Any) -> None:
    server.put(_NODES, node(name, place(superpod, "1"), **more))


def _writes(server: FakeApi) -> list[tuple[str, Any]]:
    """The methods and data of the writes that were sent."""
    return [(seen.method, json.loads(seen.body)["data"]) for seen in server.seen if seen.method in ("POST", "PUT")]


async def test_flaws_are_counted_and_facts_written_once(server: FakeApi, api: Connection, times: Times) -> None:
    """The first look writes the ConfigMap, and another one of the same Nodes writes nothing."""
    _put(server, "g1", "1")
    server.put(_NODES, node("g2", {key: value for key, value in place("1", "1").items() if "superpod" not in key}))
    look = _Look(api, times)

    await look.survey.look()
    await look.survey.look()

    ((method, data),) = _writes(server)
    assert (method, data["coreweave.gpus"], data["coreweave.superpod.gpus"]) == ("POST", "16", "8")
    assert data["coreweave.superpod"] == "region=east,zone=east-1,fabric=f1,superpod=1 nodes=1 gpus=8 usable=8"
    assert look.flawed == {"slow": 0, "miswired": 0, "split": 0, "incomplete": 1, "mixed": 0}


async def test_a_change_is_written(server: FakeApi, api: Connection, times: Times) -> None:
    """A Node that takes no Pods any more has no usable GPUs, and what somebody wrote into the ConfigMap goes."""
    _put(server, "g1", "1")
    look = _Look(api, times)
    await look.survey.look()
    _put(server, "g1", "1", cordoned=True)
    await until(lambda: look.usable() == 0)
    (server.get(_MAPS, "topologies") or {})["data"]["forged"] = "1"

    await look.survey.look()

    (_, before), (method, after) = _writes(server)
    assert (before["coreweave.usable"], method, after["coreweave.usable"]) == ("8", "PUT", "0")
    assert before.keys() == after.keys()


async def test_what_cannot_be_written_is_named(server: FakeApi, api: Connection, times: Times) -> None:
    """A ConfigMap that the service did not make stays, and which right is missing is said: both with what to do."""
    _put(server, "g1", "1")
    server.failures.append(Failure(_MAPS, 403, status(403, "no"), -1, method="POST"))
    with pytest.raises(ClusterError) as refused:
        await _Look(api, times).survey.look()
    server.put(_MAPS, {"metadata": {"name": "topologies"}, "data": {"mine": "yes"}})
    with pytest.raises(ClusterError) as foreign:
        await _Look(api, times).survey.look()

    needed = "; a Role in namespace cks-admission must allow to create configmaps, and to get and update topologies"
    told = "ConfigMap cks-admission/topologies is somebody else's; delete it, or set topology.facts to another name"
    assert str(refused.value).endswith(needed)
    assert (str(foreign.value), [method for method, _ in _writes(server)]) == (told, ["POST"])


async def test_without_a_name_nothing_is_written(server: FakeApi, api: Connection, times: Times) -> None:
    """By default there is no ConfigMap; flaws are counted all the same."""
    _put(server, "g1", "1")
    look = _Look(api, times, facts="")

    await look.survey.look()

    assert (_writes(server), sum(look.flawed.values())) == ([], 0)
