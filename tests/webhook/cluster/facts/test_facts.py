from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta, timezone
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import MUTATING, NAMESPACES, NODES, RESOURCE_GROUP, FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE, until
from support.service.servers import leader

from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.engine.facts import Namespace, NamespaceKey, Node, Taint
from policies.engine.interruption import FactUnavailable, Missing
from policies.topology.way import FlavorsKey, Form, JobKey, Support, constraints, scheduling
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.facts.facts import (
    AT_ONCE,
    LONGEST_KEPT,
    MOST_KEPT,
    NAMESPACE_SECONDS,
    REVIEW_SECONDS,
    REVIEWS_PATH,
    AccessReviews,
    ClusterFacts,
    NamespaceReads,
    review,
)
from webhook.cluster.facts.scheduling import SchedulingSupport, flavors, job, probed, published
from webhook.cluster.replicas.checks import SchedulingProbe
from webhook.configuration.settings import Settings

CONTROL_PLANE = {"ns.coreweave.cloud/org": "control-plane"}


@asynccontextmanager
async def following(
    api: Connection, times: Times, *, watch_nodes: bool = False, watch_topologies: bool = False
) -> AsyncIterator[ClusterFacts]:
    """Facts, from their first lists on."""
    facts = ClusterFacts(api, watch_nodes=watch_nodes, watch_topologies=watch_topologies, clock=times.clock)
    await facts.start()
    try:
        await until(lambda: not facts.unsynced())
        yield facts
    finally:
        await facts.stop()


async def test_a_miss_is_read(server: FakeApi, api: Connection, times: Times) -> None:
    """A Namespace that the watch does not know is asked for once, and the next look finds it."""
    server.put(NAMESPACES, named("team", {"a": "b"}, spec={"finalizers": ["kubernetes"]}))
    facts = ClusterFacts(api, watch_nodes=False, clock=times.clock)  # not started: as good as a watch that is late

    for look in (facts.known.namespace_labels, facts.known.namespace):
        with pytest.raises(Missing):
            look("team")
    for name in ("team", "none"):
        await facts.read(NamespaceKey(name), PATIENCE)
    await facts.stop()

    missing = {"kubernetes.io/metadata.name": "none"}
    assert [facts.known.namespace_labels(name) for name in ("team", "none")] == [{"a": "b"}, missing]
    metadata = {"name": "team", "labels": {"a": "b"}, "resourceVersion": str(server.version)}
    spec = {"finalizers": ["kubernetes"]}
    assert facts.known.namespace("team") == {"metadata": metadata, "spec": spec, "status": {}}
    assert facts.known.namespace("none") == {"metadata": {"name": "none", "labels": missing}}


async def test_the_watch_knows_better_than_a_read(server: FakeApi, api: Connection, times: Times) -> None:
    """What was read once, even that a Namespace does not exist, gives way to what the watch says."""
    server.put(NAMESPACES, named("other"))

    async with following(api, times) as facts:
        await server.watched(NAMESPACES)
        await facts.read(NamespaceKey("team"), PATIENCE)
        server.put(NAMESPACES, named("team", {"a": "b"}))
        await until(lambda: facts.known.namespace_labels("team") == {"a": "b"})


async def test_control_plane_namespaces(server: FakeApi, api: Connection, times: Times) -> None:
    """Those are the Namespaces with exactly that label, sorted, and they change and go with the cluster."""
    for name, labels in (("b", CONTROL_PLANE), ("a", CONTROL_PLANE), ("c", {"ns.coreweave.cloud/org": "org-1"})):
        server.put(NAMESPACES, named(name, labels))

    async with following(api, times) as facts:
        assert facts.control_plane_namespaces() == ("a", "b")
        await server.watched(NAMESPACES)
        server.put(NAMESPACES, named("b", {}))
        server.delete(NAMESPACES, "c")
        await until(lambda: "c" not in facts.namespaces.by_key)
        assert (facts.control_plane_namespaces(), facts.known.namespace_labels("b")) == (("a",), {})
        with pytest.raises(Missing) as caught:
            facts.known.namespace_labels("c")
        assert caught.value.key == NamespaceKey("c")


async def test_nodes(server: FakeApi, api: Connection, times: Times) -> None:
    """Nodes are known by their labels and taints, and a write that changes neither is no change."""
    server.put(NAMESPACES, named("team"))
    taints = [{"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}, {"key": "lock", "effect": "NoExecute"}]
    server.put(NODES, named("gpu", {"zone": "a"}, spec={"taints": taints}))
    server.put(NODES, named("plain", spec={"podCIDR": "10.0.0.0/24"}))

    async with following(api, times, watch_nodes=True) as facts:
        before = facts.known.nodes()
        assert before == (
            Node("gpu", {"zone": "a"}, (Taint("is_gpu", "PreferNoSchedule", "true"), Taint("lock", "NoExecute"))),
            Node("plain", {}),
        )
        assert server.lists(NODES) == [{"limit": "100"}]

        await server.watched(NODES)
        server.put(NODES, named("plain", status={"phase": "Running"}))
        server.delete(NODES, "gpu")
        await until(lambda: facts.known.nodes() == (Node("plain", {}),))
        assert len(before) == 2


async def test_claims_and_classes(server: FakeApi, api: Connection, times: Times) -> None:
    """Device classes are found by claim or by template; one that is not known asks for none."""
    server.put(NAMESPACES, named("team"))
    server.install_devices()
    spec = {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}}
    base = f"{RESOURCE_GROUP}/v1"
    server.put(f"{base}/resourceclaims", named("x", namespace="team", spec=spec))
    server.put(f"{base}/resourceclaimtemplates", named("y", namespace="team", spec={"spec": spec}))
    server.put(f"{base}/deviceclasses", named("gpu", spec={"extendedResourceName": "example.com/gpu"}))

    async with following(api, times) as facts:
        asked = [("team", "x", ""), ("team", "", "y"), ("team", "", "x"), ("team", "y", ""), ("other", "x", "")]
        assert [set(facts.known.claim_classes(*which)) for which in asked] == [{"gpu"}, {"gpu"}, set(), set(), set()]
        assert facts.known.extended_resources() == {"gpu": "example.com/gpu"}


async def test_what_no_rule_needs_is_not_watched(server: FakeApi, api: Connection, times: Times) -> None:
    """Where no rule needs Nodes or topologies, the API server is not asked for them."""
    server.put(NAMESPACES, named("team"))

    async with following(api, times) as facts:
        assert (facts.known.nodes(), facts.known.topologies()) == ((), ())

    assert {seen.path for seen in server.seen} == {NAMESPACES, RESOURCE_GROUP}


async def test_reasons_until_everything_is_there(server: FakeApi, api: Connection, times: Times) -> None:
    """Readiness names what is missing and why; when it is there, a later failure is a problem but no reason."""
    server.put(NAMESPACES, named("team"))
    server.put(NODES, named("gpu"))
    server.fail(NODES, 403, status(403, "you may not"))
    server.install("kai.scheduler", {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
    server.put("/apis/kai.scheduler/v1alpha1/topologies", named("none", spec={"levels": []}))
    facts = ClusterFacts(api, watch_nodes=True, watch_topologies=True, clock=times.clock)
    times.patience = 0
    groups = ("Topology of kai.scheduler", "Topology of kueue.x-k8s.io", "ClusterTopologyBinding of grove.io")
    assert facts.unsynced() == [
        *(f"{kind}: first list not done: waiting for the API server" for kind in ("namespaces", "nodes")),
        *(
            f"{group}: not known yet whether it is served: waiting for the API server"
            for group in ("resource.k8s.io", *groups)
        ),
    ]

    await facts.start()
    await until(lambda: len(facts.unsynced()) == 1 and len(facts.problems()) == 2)
    words = f"the API server refused GET {NODES} at {server.url} (403: you may not)"
    unusable = "KAI Topology none: spec.levels: a topology needs levels, farthest first, found none"
    assert facts.unsynced() == [f"nodes: first list not done: {words}"]
    assert facts.problems() == [f"nodes: {words}", unusable]

    times.wake()
    await server.watched(NODES)
    assert (facts.unsynced(), facts.problems()) == ([], [unusable])

    await server.watched(NAMESPACES)
    server.fail(NAMESPACES, 500, "oops", times=9)
    server.cut(NAMESPACES)
    await until(lambda: len(facts.problems()) == 2)
    assert (facts.unsynced(), facts.known.namespace_labels("team")) == ([], {})
    await facts.stop()


async def test_stopping_leaves_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """After the end no task runs on, also where the API server does not answer; the end may be called at any time."""
    server.put(NAMESPACES, named("team"))
    server.install_devices()
    devices = ("resourceclaims", "resourceclaimtemplates", "deviceclasses")
    for kind in devices:
        server.put(f"{RESOURCE_GROUP}/v1/{kind}", named("x", namespace="team"))
    server.install("kai.scheduler", {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
    topologies = {"Topology of kai.scheduler", "Topology of kueue.x-k8s.io", "topologies.kai.scheduler"}
    names = {"namespaces", RESOURCE_GROUP.rpartition("/")[2], "NamespaceReads", *devices, *topologies}
    await ClusterFacts(api, watch_nodes=True).stop()
    async with following(api, times, watch_topologies=True) as facts:
        server.held = asyncio.Event()
        reading = asyncio.create_task(facts.read(NamespaceKey("slow"), PATIENCE))
        await until(lambda: {task.get_name() for task in asyncio.all_tasks()} >= names)
    await facts.stop()

    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint(names)
    with pytest.raises(FactUnavailable, match="shutting down"):
        await reading
    server.held.set()


@pytest.mark.parametrize(("hours", "today"), [(0, date(2026, 3, 1)), (-5, date(2026, 3, 2))])
def test_today_is_the_date_in_utc(api: Connection, times: Times, hours: int, today: date) -> None:
    """The date is that of UTC, wherever the clock stands."""
    times.date = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=hours)))

    assert ClusterFacts(api, watch_nodes=False, clock=times.clock).known.today() == today


async def test_priorities(server: FakeApi, api: Connection, times: Times) -> None:
    """PriorityClasses are known by name, the default one also without a name."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    server.put(NAMESPACES, named("team"))
    server.put(path, named("high", value=1000))
    server.put(path, named("usual", value=10, globalDefault=True))
    facts = ClusterFacts(api, watch_nodes=False, watch_priorities=True, clock=times.clock)
    before = facts.known.priorities()
    await facts.start()
    await until(facts.known.priorities)
    await facts.stop()

    assert (before, facts.known.priorities()) == (None, {"high": 1000, "usual": 10, "": 10})


@pytest.fixture
async def reads(api: Connection, times: Times) -> AsyncIterator[NamespaceReads]:
    """Reads from the small API server."""
    made = NamespaceReads(api, times.clock)
    yield made
    await made.stop()


def absent(name: str) -> Namespace:
    """What is made of a name that no Namespace has."""
    labels = {"kubernetes.io/metadata.name": name}
    return Namespace(labels, msgspec.json.encode({"metadata": {"name": name, "labels": labels}}))


def labels(reads: NamespaceReads) -> Mapping[str, str] | None:
    """The labels of the Namespace, if it was read."""
    found = reads.get("team")
    return None if found is None else found.labels


async def test_one_that_does_not_exist(server: FakeApi, reads: NamespaceReads, times: Times) -> None:
    """A Namespace that does not exist has name and name label for some seconds, and is seen when it is made later."""
    await reads.read("team", PATIENCE)
    server.put(NAMESPACES, named("team", {"a": "b"}))
    times.pass_by(NAMESPACE_SECONDS - 0.1)
    assert reads.get("team") == absent("team")
    times.pass_by(0.1)
    assert reads.get("team") is None

    await reads.read("team", PATIENCE)
    assert labels(reads) == {"a": "b"}


async def test_old_answers_are_forgotten(reads: NamespaceReads, times: Times) -> None:
    """Asking for many Namespaces does not fill the memory: what has expired goes with the next read."""
    for number in range(10):
        await reads.read(f"none-{number}", PATIENCE)
        times.pass_by(1)

    assert list(reads._kept) == [f"none-{number}" for number in range(5, 10)]


async def test_one_deadline_is_not_another_s(server: FakeApi, reads: NamespaceReads) -> None:
    """A caller whose time is up, or who is gone, does not take the answer from the others."""
    server.put(NAMESPACES, named("team", {"a": "b"}))
    server.held = asyncio.Event()
    gone, patient = (asyncio.create_task(reads.read("team", PATIENCE)) for _ in range(2))
    await until(lambda: server.seen)

    gone.cancel()
    with pytest.raises(FactUnavailable) as caught:
        await reads.read("team", 0.01)
    server.held.set()
    await patient

    assert str(caught.value) == (f"namespace team could not be read: the API server at {server.url} took over 0.0 s")
    assert (labels(reads), len(server.seen)) == ({"a": "b"}, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "../nodes", "a/b", "A", "a?x=1", "a" * 64, "team\n", "-a", "ä"])
async def test_names_that_are_none(server: FakeApi, reads: NamespaceReads, name: str) -> None:
    """What cannot be a Namespace's name does not exist, and the API server is not asked for another path."""
    await reads.read(name, PATIENCE)

    assert (reads.get(name), server.seen) == (absent(name), [])


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        pytest.param(403, status(403, "you may not"), "refused GET {where} (403: you may not)", id="refused"),
        pytest.param(500, "oops", "refused GET {where} (500: oops)", id="broken"),
        pytest.param(200, "<html>", "answer to GET {path} is not a Namespace: JSON is malformed", id="not JSON"),
    ],
)
async def test_a_failure_is_a_fact_unavailable(
    server: FakeApi, reads: NamespaceReads, code: int, body: Any, reason: str
) -> None:
    """Where the API server fails, the text says which fact is missing and why, and the next read asks again."""
    path = f"{NAMESPACES}/team"
    server.put(NAMESPACES, named("team", {"a": "b"}))
    server.fail(path, code, body)

    with pytest.raises(FactUnavailable) as caught:
        await reads.read("team", PATIENCE)

    assert str(caught.value).startswith("namespace team could not be read: the ")
    assert reason.format(path=path, where=f"{path} at {server.url}") in str(caught.value)
    await reads.read("team", PATIENCE)
    assert labels(reads) == {"a": "b"}


async def test_a_failure_that_nobody_waits_for(server: FakeApi, reads: NamespaceReads) -> None:
    """A read that fails after its callers have gone is not reported as an error of the program."""
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reports.append(context))
    server.fail(f"{NAMESPACES}/team", 500, "oops")

    with pytest.raises(FactUnavailable, match="took over"):
        await reads.read("team", 0)
    await until(lambda: not reads._running)
    gc.collect()

    assert (len(server.seen), reports) == (1, [])


async def test_a_check_that_cannot_be_asked_is_errored(server: FakeApi, api: Connection) -> None:
    """A failure is an answer with an error, which the expression sees by errored(), and never an allowance."""
    server.groups[REVIEWS_PATH] = {"kind": "Status"}
    server.fail(REVIEWS_PATH, 403, status(403, "no"))
    answers = [await review(api, _of("alice"), PATIENCE) for _ in range(2)]
    server.groups.clear()
    server.held = asyncio.Event()
    answers.append(await review(api, _of("alice"), 0.05))

    refused, other, late = (answer.error or "" for answer in answers)
    assert not any(answer.allowed for answer in answers)
    assert refused == f"the API server refused POST {REVIEWS_PATH} at {server.url} (403: no)"
    assert other.startswith(f"the answer to POST {REVIEWS_PATH} is not a SubjectAccessReview: ")
    assert late == "the API server did not answer within 0.1 s"


@pytest.fixture
def reviews(server: FakeApi, api: Connection, times: Times) -> AccessReviews:
    """Reviews that are kept, of an API server that allows everything."""
    server.groups[REVIEWS_PATH] = {"status": {"allowed": True}}
    return AccessReviews(api, times.clock)


def _of(name: str, verb: str = "get") -> Check:
    return Check(user=User(name), verb=verb, resource="pods", namespace="team")


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_is_kept_for_seconds(
    server: FakeApi, reviews: AccessReviews, times: Times, *, allowed: bool
) -> None:
    """The same check is asked once in ten seconds; afterwards a right that was taken or given counts."""
    server.groups[REVIEWS_PATH] = {"status": {"allowed": allowed}}
    first = await reviews.review(_of("alice"), PATIENCE)
    server.groups[REVIEWS_PATH] = {"status": {"allowed": not allowed}}
    times.pass_by(REVIEW_SECONDS - 0.1)
    kept = await reviews.review(_of("alice"), PATIENCE)
    times.pass_by(0.1)
    anew = await reviews.review(_of("alice"), PATIENCE)

    assert [answer.allowed for answer in (first, kept, anew)] == [allowed, allowed, not allowed]
    assert len(server.seen) == 2


async def test_other_attributes_are_another_check(server: FakeApi, reviews: AccessReviews) -> None:
    """An answer is for exactly the same user with the same groups and extra fields, verb and object."""
    users = [User("alice"), User("bob"), User("alice", groups=("dev",)), User("alice", uid="1")]
    users += [User("alice", extra=(("a", ("b",)),))]
    checks = [Check(user=user, verb="get", resource="pods", namespace="team") for user in users]
    checks += [_of("alice", "list"), Check(user=users[0], verb="get", resource="pods", namespace="other")]
    for check in checks * 2:
        await reviews.review(check, PATIENCE)

    assert len(server.seen) == len(checks)


async def test_an_error_is_not_kept(server: FakeApi, reviews: AccessReviews) -> None:
    """After a failure the next check is asked again."""
    server.fail(REVIEWS_PATH, 500, "oops")
    failed = await reviews.review(_of("alice"), PATIENCE)
    answer = await reviews.review(_of("alice"), PATIENCE)

    assert (failed.error is None, answer) == (False, CheckAnswer(allowed=True))


async def test_memory_is_bounded(server: FakeApi, reviews: AccessReviews) -> None:
    """Of too many answers those go that were used least recently, and an endless attribute is never kept."""
    endless = _of("e" * LONGEST_KEPT)
    for check in (endless, endless, _of("first"), _of("second")):
        await reviews.review(check, PATIENCE)
    asked = len(server.seen)
    for number in range(MOST_KEPT - 1):
        await reviews.review(_of("first"), PATIENCE)  # used again and again
        await reviews.review(_of(f"user-{number}"), PATIENCE)
    await reviews.review(_of("first"), PATIENCE)

    assert (asked, len(server.seen)) == (4, 4 + MOST_KEPT - 1)
    assert len(reviews._kept) == MOST_KEPT
    await reviews.review(_of("second"), PATIENCE)
    assert len(server.seen) == 4 + MOST_KEPT


async def test_concurrent_questions_are_one(server: FakeApi, reviews: AccessReviews) -> None:
    """Many reviews that need the same check ask once, and whoever has less time does not spoil it for the others."""
    del server.groups[REVIEWS_PATH]  # answered as a single object then, which waits
    server.held = asyncio.Event()
    hurried = asyncio.create_task(reviews.review(_of("alice"), 0.01))
    others = [asyncio.create_task(reviews.review(_of("alice"), PATIENCE)) for _ in range(200)]
    early = await hurried
    server.held.set()
    answers = await asyncio.gather(*others)

    assert early.error == "the API server did not answer within 0.0 s"
    assert len(server.seen) == 1
    assert len(set(answers)) == 1


async def test_slow_answers_leave_room(server: FakeApi, api: Connection, reviews: AccessReviews) -> None:
    """However many checks wait for an API server that does not answer them, another request is answered."""
    server.slow.add(REVIEWS_PATH)
    server.put(NAMESPACES, named("one"))
    waiting = [asyncio.create_task(reviews.review(_of(f"user-{number}"), PATIENCE)) for number in range(300)]
    await until(lambda: len(server.seen) == AT_ONCE)

    async with asyncio.timeout(PATIENCE):
        assert await fetch(api, Call("GET", f"{NAMESPACES}/one"))

    await reviews.stop()
    answers = await asyncio.gather(*waiting)
    assert set(answers) == {CheckAnswer(allowed=False, error="the service is shutting down")}


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
    watch = SchedulingSupport(AsyncMock(side_effect=answers), Clock())
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
