"""What `manage` finds out about the scheduling of workloads is written where replicas read it."""

from __future__ import annotations

from support.api.fakeapi import MUTATING, FakeApi, named
from support.service.servers import leader

from policies.topology.workload import Support, constraints
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.scheduling import published
from webhook.cluster.replicas.checks import SchedulingProbe
from webhook.configuration.settings import Settings

_SETTINGS = Settings.model_validate(
    {"topology": {"workloadScheduling": "on"}, "cluster": {"namespace": "ours"}, "registration": {"name": "cks"}}
)


async def test_the_answer_of_a_dry_run_is_written(server: FakeApi, api: Connection) -> None:
    """A dry run in the service's own namespace, whose answer replicas find in the webhook configuration."""
    server.install("scheduling.k8s.io", {"v1alpha2": {"podgroups": "PodGroup"}})
    at = "/apis/scheduling.k8s.io/v1alpha2/namespaces/ours/podgroups"
    server.groups[at] = {"spec": {"schedulingConstraints": constraints("kubernetes.io/hostname")}}
    server.put(MUTATING, named("cks"))

    await SchedulingProbe(leader(api, lambda: _SETTINGS)).look()

    assert await published(api, "cks") == Support("PodGroup")
