"""What the cluster does about topology constraints: asked by a dry run, handed on in the webhook configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import MUTATING, FakeApi, named, status
from support.service.servers import leader

from policies.engine.interruption import FactUnavailable
from policies.topology.way import FlavorsKey, Form, JobKey, Support, constraints, scheduling
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.facts.scheduling import SchedulingSupport, flavors, job, probed, published
from webhook.cluster.replicas.checks import SchedulingProbe
from webhook.configuration.settings import Settings

_GROUP = "scheduling.k8s.io"
_JOBS = "/apis/batch/v1/namespaces/ours/jobs"
_KEPT = {"schedulingConstraints": constraints("kubernetes.io/hostname")}
_PATIENCE = 10.0


def _serve(server: FakeApi, version: str, group: dict[str, Any] | None, job: dict[str, Any] | None = None) -> str:
    """A version of PodGroups, and what the API server keeps of a spec."""
    server.install(_GROUP, {version: {"podgroups": "PodGroup"}})
    at = f"/apis/{_GROUP}/{version}/namespaces/ours/podgroups"
    for path, spec in ((at, group), (_JOBS, job)):
        if spec is not None:
            server.groups[path] = {"spec": spec}
    return at


@pytest.mark.parametrize(
    ("version", "group", "job", "form", "reason"),
    [
        ("v1alpha2", _KEPT, None, "PodGroup", ""),
        ("v1alpha2", {}, None, "", "the API server drops the constraints of PodGroups: turn on the feature gates"),
        ("v1beta1", _KEPT, {"scheduling": scheduling("kubernetes.io/hostname")}, "Job", ""),
        ("v1alpha3", _KEPT, {}, "", "the API server drops spec.scheduling of Jobs: turn on the feature gates"),
        ("v1", None, None, "", "the API server serves no PodGroups of scheduling.k8s.io: turn on the feature gates"),
    ],
    ids=["1.36", "1.36 with gates off", "1.37", "1.37 without Jobs", "none served"],
)
async def test_a_dry_run_shows_what_is_kept(
    server: FakeApi, api: Connection, version: str, group: Any, job: Any, form: Form, reason: str
) -> None:
    """The constraint that comes back tells the form; a field that was dropped in silence tells what is missing."""
    _serve(server, version, group, job)

    support = await probed(api, "ours")

    assert support.form == form
    assert support.reason.startswith(reason)
    assert bool(support.reason) is not bool(form)
    assert {seen.query.get("dryRun") for seen in server.seen if seen.method == "POST"} <= {"All"}


async def test_a_right_that_is_missing_is_an_error(server: FakeApi, api: Connection) -> None:
    """Who may not ask is told so in the API server's words, and has no support."""
    path = _serve(server, "v1alpha2", None)
    server.fail(path, 403, status(403, "no"), times=2)
    watch = SchedulingSupport(lambda: probed(api, "ours"), Clock())

    with pytest.raises(ClusterError, match=r"403: no"):
        await probed(api, "ours")
    await watch.look()
    assert "403: no" in watch.problems()[0]


async def test_manage_hands_its_answer_to_replicas(server: FakeApi, api: Connection) -> None:
    """What a dry run of manage shows is written into the webhook configuration, where replicas read it."""
    _serve(server, "v1alpha2", _KEPT)
    server.put(MUTATING, named("cks"))
    cluster, registration = {"namespace": "ours"}, {"name": "cks"}
    settings = Settings.model_validate({"cluster": cluster, "registration": registration})
    before = await published(api, "cks")

    await SchedulingProbe(leader(api, lambda: settings)).look()

    assert (before, await published(api, "cks")) == (
        Support(reason="manage has not found out yet"),
        Support("PodGroup"),
    )
    configuration = named("cks")
    configuration["metadata"]["annotations"] = {"cks-admission.dev/workload-scheduling": "{"}
    server.put(MUTATING, configuration)
    with pytest.raises(ClusterError, match="cannot be read"):
        await published(api, "cks")


async def test_a_change_is_logged_once() -> None:
    """The log tells when support comes, and when it goes with the reason; the same answer again is no news."""
    answers = [Support(reason="off"), Support(reason="off"), Support("Job"), Support("Job")]
    watch = SchedulingSupport(lambda: _given(answers), Clock())
    idle = SchedulingSupport(None, Clock())

    with capture_logs() as lines:
        for _ in range(4):
            await watch.look()
        await idle.look()

    assert [(line["log_level"], line["constraints"], line["reason"]) for line in lines] == [
        ("warning", "", "off"),
        ("info", "Job", ""),
    ]
    assert (watch.current, watch.problems(), idle.problems()) == (Support("Job"), [], [])


async def _given(answers: list[Support]) -> Support:
    return answers.pop(0)


async def test_the_job_of_a_pod_group(server: FakeApi, api: Connection) -> None:
    """The Job with the uid; empty if it is gone or another one by now; a failure says why."""
    path, key = "/apis/batch/v1/namespaces/team/jobs", JobKey("team", "train", "u1")
    found = {"metadata": {"name": "train", "uid": "u1"}, "spec": {"parallelism": 2}}
    server.groups[path] = {"metadata": {}, "items": [found]}

    assert await job(api, key, _PATIENCE) == found
    assert await job(api, JobKey("team", "train", "u2"), _PATIENCE) == {}
    assert server.seen[0].query == {"fieldSelector": "metadata.name=train", "limit": "500"}
    server.fail(path, 403, status(403, "no"))
    failed = await job(api, key, _PATIENCE)
    assert isinstance(failed, FactUnavailable)
    assert str(failed).startswith("Job team/train is not known yet, and the API server refused GET")


async def test_the_topologies_of_flavors(server: FakeApi, api: Connection) -> None:
    """The names that ResourceFlavors give; none without Kueue; nothing is known where they cannot be read."""
    without = await flavors(api, FlavorsKey(), _PATIENCE)
    server.install("kueue.x-k8s.io", {"v1beta2": {"resourceflavors": "ResourceFlavor"}}, namespaced=False)
    path = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
    for name, spec in (("a", {"topologyName": "coreweave"}), ("b", {})):
        server.put(path, named(name, spec=spec))

    assert without == frozenset()
    assert await flavors(api, FlavorsKey(), _PATIENCE) == frozenset({"coreweave"})
    server.fail(path, 403, json.dumps(status(403, "no")))
    assert await flavors(api, FlavorsKey(), _PATIENCE) is None
