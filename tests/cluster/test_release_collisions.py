"""Gangs that come at once, to two replicas that do not know yet what the other has answered."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from cluster import gangs, manifests, placements
from cluster.apicalls import Caller
from cluster.load import NAMESPACE
from cluster.polling import NotYet
from cluster.topologynodes import BACKEND, RACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.release import Release

GANGS, APART, ASKERS = 50, 6, 12
NODES = 2  # of a rack, and Pods of a gang: two gangs that get the same rack collide
HERE = {"example.org/nodes": "collisions"}
TAINT = {"key": "example.org/nodes", "value": "collisions", "effect": "NoSchedule"}
ON_THEM: dict[str, Any] = {"nodeSelector": HERE, "tolerations": [{"key": "example.org/nodes", "operator": "Exists"}]}


@pytest.fixture
def cluster(installed: Release) -> Iterator[ControlPlane]:
    """A rack for each gang, and replicas that know that all of them are free."""
    control_plane = installed.control_plane
    names = [f"collision-{number}" for number in range((GANGS + APART) * NODES)]
    for number, name in enumerate(names):
        labels = {RACK: f"k{number // NODES}", f"{BACKEND}/fabric": "k", f"{BACKEND}/superpod": "1", **HERE}
        control_plane.objects.create(manifests.node(name, labels, [TAINT], {"nvidia.com/gpu": 8}))
    everything = gangs.job(NAMESPACE, "asked", "domain", pods=len(names), level="superpod", **ON_THEM)
    free = f"({8 * len(names)} of {8 * len(names)} GPUs free)"

    def known() -> bool:
        with ThreadPoolExecutor(ASKERS) as pool:  # at once, so that every replica is asked
            answers = list(pool.map(lambda _: create(control_plane, everything, query="?dryRun=All"), range(ASKERS)))
        if not all(free in " ".join(answer.warnings) for answer in answers):
            raise NotYet(str([answer.warnings for answer in answers]))
        return True

    control_plane.wait_for("the replicas to know the racks", known)
    yield control_plane
    control_plane.objects.delete_all("jobs", "pods", namespace=NAMESPACE)
    control_plane.objects.delete("node", *names)


def create(control_plane: ControlPlane, job: Manifest, query: str = "") -> Answer:
    """Create a Job over a connection of its own."""
    with Caller(control_plane) as caller:
        answer = caller.send("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs{query}", job, user="alice")
    assert answer.code == HTTPStatus.CREATED, answer
    return answer


def rack(control_plane: ControlPlane, name: str) -> str:
    """Create a gang, and return the rack that it got; nothing where none was chosen."""
    answer = create(control_plane, gangs.job(NAMESPACE, name, "domain", pods=NODES, **ON_THEM))
    record = json.loads(answer.body["metadata"]["annotations"].get(placements.RECORD, "{}"))
    address = record.get("spec.template", {}).get("domain", [])
    return str(address[-1]["values"][0]) if address else ""


def collisions(racks: Sequence[str]) -> int:
    """How many gangs got a rack that another one had got already."""
    return sum(count - 1 for count in Counter(racks).values())


def test_gangs_apart_do_not_collide_and_those_at_once_seldom(
    pytestconfig: pytest.Config, installed: Release, cluster: ControlPlane
) -> None:
    """Gangs that come over a second apart get different racks. Of fifty at once those that share one are printed."""
    # A replica that is held up admits a gang without a choice, which collides with none.
    numbers = itertools.count()
    apart = []
    for _ in range(APART):
        apart.append(cluster.wait_for("a choice", lambda: rack(cluster, f"apart-{next(numbers)}")))
        time.sleep(1.1)
    with ThreadPoolExecutor(GANGS) as pool:
        answers = list(pool.map(lambda number: rack(cluster, f"at-once-{number}"), range(GANGS)))
    at_once = [chosen for chosen in answers if chosen]

    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        found = collisions(at_once)
        replicas = len(installed.kubelet.ready())
        told = f"{found}, without a choice: {GANGS - len(at_once)}"
        print(f"\n  collisions of {GANGS} gangs at once, with {replicas} replicas: {told}", file=sys.stderr)
    assert at_once
    assert (collisions(apart), collisions([*apart, *at_once]) - found) == (0, 0)
