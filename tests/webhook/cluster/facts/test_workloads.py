"""Workloads of a cluster: which of them name a topology, and which is at the top of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import FakeApi, Json, named, status
from support.patience import PATIENCE, until

from policies.engine.facts import References
from policies.engine.request import Owner
from policies.objects.workload import BUILT_IN, table
from webhook.audit.finding import Owners
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError
from webhook.cluster.facts.workloads import PAGE_SIZE, SHARE, WORKLOADS, owner_reader, search

PODS, JOBS, CRON_JOBS = "/api/v1/pods", "/apis/batch/v1/jobs", "/apis/batch/v1/cronjobs"
MPI_JOBS, RUNTIMES = "/apis/kubeflow.org/v2beta1/mpijobs", "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
KINDS = (("", "Pod"), ("batch", "Job"), ("batch", "CronJob"), ("kubeflow.org", "MPIJob"))
TOPOLOGY = "kai.scheduler/topology"


@pytest.fixture(autouse=True)
def installed(server: FakeApi) -> None:
    """An API server with Pods, Jobs, CronJobs and, in its second version, MPIJobs; all of them empty."""
    server.install("", {"v1": {"pods": "Pod", "services": "Service"}})
    server.install("batch", {"v1": {"jobs": "Job", "cronjobs": "CronJob"}})
    server.install("kubeflow.org", {"v1": {"notebooks": "Notebook"}, "v2beta1": {"mpijobs": "MPIJob"}})


def workload(name: str, topology: str | None = "fabric", *, namespace: str = "team", **more: Any) -> Json:
    """An object that names a topology, with more in its metadata."""
    found = named(name, namespace=namespace, spec={"suspend": True})
    found["metadata"] |= {"annotations": {"example.org/a": "b"} | ({TOPOLOGY: topology} if topology else {}), **more}
    return found


def _pod(name: str, **spec: str) -> Json:
    return workload(name) | {"spec": spec}


def _owner(**more: Any) -> Json:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Thing", "name": "a", "uid": "1", **more}]}


async def test_all_kinds(server: FakeApi, api: Connection) -> None:
    """Workloads of all installed kinds that name the topology are found, by kind, Namespace and name, in order."""
    server.install("trainer.kubeflow.org", {"v1alpha1": {"clustertrainingruntimes": "ClusterTrainingRuntime"}})
    server.put(JOBS, workload("train", namespace="b"))
    server.put(JOBS, workload("train", namespace="a"))
    server.put(CRON_JOBS, workload("nightly"))
    server.put(MPI_JOBS, workload("ring", " fabric "))
    server.put(RUNTIMES, workload("torch", namespace=""))
    server.put(PODS, _pod("bare"))

    found = (
        "ClusterTrainingRuntime torch",
        "CronJob team/nightly",
        "Job a/train",
        "Job b/train",
        "MPIJob team/ring",
        "Pod team/bare",
    )
    assert await search(api, WORKLOADS, "fabric", PATIENCE) == References(found)
    assert await search(api, WORKLOADS, "", PATIENCE) == References()


async def test_owned_pods_that_are_pending(server: FakeApi, api: Connection) -> None:
    """Annotations of a template alone are seen on Pods that have no Node yet; what is named is their root, once."""
    server.put(JOBS, workload("train"))
    server.put(JOBS, workload("of-a-workflow", **_owner(controller=True)))
    for number, root in enumerate(("train", "train", "of-a-workflow", "annotated-in-its-template")):
        controller = _owner(apiVersion="batch/v1", kind="Job", name=root, controller=True)
        server.put(PODS, _pod(f"x{number}") | {"metadata": workload(f"x{number}", **controller)["metadata"]})

    found = await search(api, KINDS, "fabric", PATIENCE)

    assert found == References(("Job team/annotated-in-its-template", "Job team/train"))


async def test_who_does_not_count(server: FakeApi, api: Connection) -> None:
    """Workloads that need not be scheduled by the topology any more, or by their owner's annotation, are left out."""
    items: list[tuple[str, Json]] = [
        (JOBS, workload("another-topology", "other")),
        (JOBS, workload("none", None)),
        (JOBS, named("no-annotations")),
        (JOBS, workload("annotations-are-null", annotations=None)),
        (JOBS, workload("owned-by-a-controller", **_owner(controller=True))),
        (JOBS, workload("being-deleted", deletionTimestamp="2026-03-01T00:00:00Z")),
        (PODS, _pod("has-its-node", nodeName="gpu-1")),
        (JOBS, workload("y", **_owner())),
        (PODS, workload("z", ownerReferences=None)),
    ]
    for path, item in items:
        server.put(path, item)

    assert await search(api, KINDS, "fabric", PATIENCE) == References(("Job team/y", "Pod team/z"))


async def test_what_is_asked(server: FakeApi, api: Connection) -> None:
    """Kinds are looked for in the versions of their group, and only metadata is listed, of Pods where unbound."""
    rows = [*KINDS, ("batch", "Gone"), ("ray.io", "RayJob"), ("ray.io", "RayCluster")]

    assert await search(api, rows, "fabric", PATIENCE) == References()

    assert {each.path: each.query for each in server.seen if each.query} == {
        PODS: {"limit": "500", "fieldSelector": "spec.nodeName="},
        **{path: {"limit": "500"} for path in (JOBS, CRON_JOBS, MPI_JOBS)},
    }
    metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    assert {each.headers["Accept"] for each in server.seen if each.query} == {metadata}
    groups = ["batch", "batch/v1", "kubeflow.org", "kubeflow.org/v1", "kubeflow.org/v2beta1", "ray.io"]
    documents = sorted(each.path for each in server.seen if not each.query)
    assert documents == ["/api/v1", *(f"/apis/{group}" for group in groups)]


async def test_a_kind_in_several_versions(server: FakeApi, api: Connection) -> None:
    """A kind that is served in several versions is listed in the one that the API server prefers."""
    server.install("batch", {"v1": {"jobs": "Job"}, "v1beta1": {"jobs": "Job", "cronjobs": "CronJob"}})

    assert await search(api, KINDS, "fabric", PATIENCE) == References()

    listed = {each.path for each in server.seen if each.query} - {PODS, MPI_JOBS}
    assert listed == {JOBS, "/apis/batch/v1beta1/cronjobs"}


@pytest.mark.parametrize(
    ("path", "code", "body", "incomplete"),
    [
        pytest.param(JOBS, 403, status(403, "you may not"), "Job (forbidden)", id="a forbidden kind"),
        pytest.param(JOBS, 500, "oops", "Job (HTTP 500)", id="a list that fails"),
        pytest.param(JOBS, 200, "<html>", "Job (failed)", id="no list"),
        pytest.param(JOBS, 200, {"metadata": {}, "items": [{"metadata": 1}]}, "Job (failed)", id="no objects"),
        pytest.param(JOBS, 404, status(404, "gone"), "", id="a kind that has just gone"),
        pytest.param("/apis/batch", 503, "not now", "CronJob, Job (HTTP 503)", id="a group that cannot be looked up"),
        pytest.param("/apis/batch/v1", 403, "no", "CronJob, Job (forbidden)", id="a version that cannot be looked up"),
    ],
)
async def test_what_cannot_be_looked_at(
    server: FakeApi, api: Connection, path: str, code: int, body: Any, incomplete: str
) -> None:
    """Where a kind cannot be listed the others are, the answer says which and why, and the log has all of it."""
    server.put(MPI_JOBS, workload("ring"))
    server.fail(path, code, body, times=9)

    with capture_logs() as logs:
        found = await search(api, KINDS, "fabric", PATIENCE)

    assert found == References(("MPIJob team/ring",), incomplete)
    kinds = ["Job"] if path == JOBS else ["Job", "CronJob"]
    assert [(each["event"], each["log_level"], each["kinds"]) for each in logs] == (
        [("could not list workloads", "warning", kinds)] if incomplete else []
    )


async def test_a_list_that_breaks_off(server: FakeApi, api: Connection) -> None:
    """What the first pages had counts, and the answer says that there may be more."""
    server.put(JOBS, workload("first"))
    for number in range(PAGE_SIZE):
        server.put(JOBS, workload(f"job-{number}", None))
    server.fail(JOBS, 410, status(410, "expired"), query={"continue": "500"})

    assert await search(api, KINDS, "fabric", PATIENCE) == References(("Job team/first",), "Job (HTTP 410)")


async def test_several_reasons(server: FakeApi, api: Connection) -> None:
    """Reasons are told one after the other, each with the first of its kinds and the number of the others."""
    for path in (PODS, JOBS, CRON_JOBS):
        server.fail(path, 403, status(403, "you may not"))
    server.fail(MPI_JOBS, 500, "oops")
    server.install("ray.io", {"v1": {"rayjobs": "RayJob"}})
    server.fail("/apis/ray.io/v1/rayjobs", 403, status(403, "you may not"))

    found = await search(api, [*KINDS, ("ray.io", "RayJob")], "fabric", PATIENCE)

    assert found == References((), "MPIJob (HTTP 500); CronJob, Job, Pod, RayJob (forbidden)")


async def test_no_answer(server: FakeApi, api: Connection) -> None:
    """Where the API server cannot be reached nothing was looked at."""
    await server.__aexit__()

    assert await search(api, KINDS, "fabric", PATIENCE) == References((), "CronJob, Job, MPIJob, Pod (no answer)")


@pytest.mark.parametrize(
    ("slow", "found"),
    [
        pytest.param(JOBS, References(("CronJob team/nightly",), "Job (no time left)"), id="a slow list"),
        pytest.param("/apis/batch", References((), "CronJob, Job (no time left)"), id="a slow group"),
    ],
)
async def test_the_time_is_up(server: FakeApi, api: Connection, slow: str, found: References) -> None:
    """What is not done in time is told, what was found by then counts, and a part of the time is left over."""
    server.put(CRON_JOBS, workload("nightly"))
    server.put(JOBS, workload("train"))
    server.slow = {slow}
    loop = asyncio.get_running_loop()
    began = loop.time()
    searching = asyncio.create_task(search(api, KINDS, "fabric", 5.0))
    await until(lambda: server.seen)
    # Alarms of a loop that is late ring in their order all the same. The search has set its own by now.
    in_time = loop.create_future()
    loop.call_later(5.0 * SHARE, lambda: in_time.set_result(searching.done() or searching.cancelling() > 0))

    assert await searching == found

    assert loop.time() - began >= 5.0 * SHARE
    assert await in_time
    assert [task for task in asyncio.all_tasks() if "_Search" in repr(task)] == []


def test_the_kinds() -> None:
    """Of the built-in table all kinds are looked at that Pods are made of."""
    left_out = {("apps", "ControllerRevision"), ("compute.coreweave.com", "NodePool")}
    left_out |= {("resource.k8s.io", "ResourceClaimTemplate"), ("trainer.kubeflow.org", "TrainJob")}

    assert {*WORKLOADS} == {row.group_kind for row in BUILT_IN} - left_out


_TABLE = table(row for row in BUILT_IN if row.makes_pods)
_JOBS, _SETS = "/apis/batch/v1/namespaces/team/jobs", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
_JOB = Owner("batch/v1", "Job", "train-0", "j")
_SET = Owner("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "s")
_TRAIN = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "t")


def _object(owner: Owner, above: Owner | None = None) -> Json:
    found = named(owner.name, namespace="team")
    found["metadata"]["uid"] = owner.uid
    if above is not None:
        reference = {"apiVersion": above.api_version, "kind": above.kind, "name": above.name, "uid": above.uid}
        found["metadata"]["ownerReferences"] = [{**reference, "uid": "x"}, {**reference, "controller": True}]
    return found


async def test_the_top_is_found_by_metadata_alone(server: FakeApi, api: Connection) -> None:
    """Each owner is read once, by its name and without its content, up to a kind that is not known."""
    server.put(_JOBS, _object(_JOB, _SET))
    server.put(_SETS, _object(_SET, _TRAIN))
    owners = Owners(owner_reader(api, _TABLE))

    assert [await owners.top("team", owner) for owner in (_JOB, _JOB, _SET, _TRAIN)] == [_TRAIN] * 4
    assert [(seen.method, seen.path, seen.query["fieldSelector"]) for seen in server.seen] == [
        ("GET", _JOBS, "metadata.name=train-0"),
        ("GET", _SETS, "metadata.name=train"),
    ]
    assert all("PartialObjectMetadataList" in seen.headers["Accept"] for seen in server.seen)


async def test_who_is_gone_or_owned_by_nobody_is_the_top(server: FakeApi, api: Connection) -> None:
    """An object of the same name and another uid is not the owner."""
    server.put(_JOBS, _object(Owner("batch/v1", "Job", "train-0", "younger"), _SET))

    assert await Owners(owner_reader(api, _TABLE)).top("team", _JOB) == _JOB


async def test_a_missing_right_is_an_error(server: FakeApi, api: Connection) -> None:
    """It is not taken for an owner that nobody owns."""
    server.fail(_JOBS, 403, status(403, "may not list jobs"))

    with pytest.raises(ApiError, match="may not list jobs"):
        await Owners(owner_reader(api, _TABLE)).top("team", _JOB)
