"""The ages of watches, as the real process shows them, and what becomes of readiness."""

from __future__ import annotations

import re
import time
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from structlog.testing import capture_logs
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named
from support.patience import until
from support.service.installation import kubeconfig
from support.service.processes import Service
from support.service.servers import default_rules

from policies.engine.facts import StaticFacts
from policies.kubernetes.release import NEWEST
from webhook import serve
from webhook.cluster.api.client import connect
from webhook.cluster.api.errors import Clock
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.watches.cluster import Followed, ServedRelease
from webhook.configuration.settings import Settings
from webhook.http.decision import Served, ServingState
from webhook.metrics import Metrics

_AGE = re.compile(r'^cks_admission_watch_age_seconds\{resource="(.+)"\} (.+)$', re.MULTILINE)


async def test_the_process_shows_the_ages_of_its_watches(tmp_path: Path) -> None:
    """Each kind that is followed has its age among the metrics, and a service that hears its API server is ready."""
    async with FakeApi() as api:
        api.put(NAMESPACES, named("team", {}))
        api.put(NODES, named("n1", {}))
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(api.url)), encoding="utf-8")
        cluster, policies = {"kubeconfig": str(tmp_path / "kubeconfig")}, {"native": False, "configMaps": False}
        sections: dict[str, Any] = {"cluster": cluster, "policies": policies, "place": {"apart": True}}
        async with Service(tmp_path, **sections) as service:
            await service.port()
            measured = (await service.ask("/metrics")).text
            ready = await service.ask("/readyz")

    ages = {resource: float(age) for resource, age in _AGE.findall(measured)}
    assert ages.keys() == {"namespaces", "nodes"}
    assert all(0 <= age < 300 for age in ages.values())
    assert (ready.status, ready.text.partition("\n")[0]) == (200, "ok")
    beside = f'cks_admission_kubernetes_info{{proven="true",release="{NEWEST.name}",version="v{NEWEST.proven}"}} 1.0'
    assert beside in measured


async def test_a_replica_that_was_cut_off_is_not_ready(tmp_path: Path) -> None:
    """An hour without a word is a reason not to be ready, a note, a metric and a line of the log."""
    an_hour_ago = Clock(monotonic=lambda: time.monotonic() - 3600)
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig("http://127.0.0.1:1")), encoding="utf-8")
    api = await connect(str(file), in_cluster=False)
    followed = Followed(ClusterFacts(api, watch_nodes=True, clock=an_hour_ago), ServedRelease(api), None, None)
    state, measures = ServingState(Served(default_rules(), StaticFacts(date.min))), Metrics()
    others = {"placement": None, "replica": None, "webhooks": None}
    parts: Any = SimpleNamespace(cluster=followed, measures=measures, settings=Settings(), **others)
    with capture_logs() as logs:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(api.close)
            serve._watch_ages(stack, parts, state)
            await until(lambda: logs)
            unready, notes, measured = state.unready(), state.notes(), measures.expose().decode()

    heard = "watches: cut off: nothing was heard from the API server for 3600 s; facts about the cluster are that old"
    assert (unready, notes) == ([f"{heard}, longer than cluster.cutOffSeconds (1800)"], [heard])
    assert {resource for resource, age in _AGE.findall(measured) if float(age) >= 3600} == {"namespaces", "nodes"}
    assert [(entry["event"], entry["reasons"]) for entry in logs] == [
        ("watches are stale", [heard.removeprefix("watches: ")])
    ]
