"""Lists and watches at a real API server: few connections, missing rights, a connection that dies, a restart."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.processors import TimeStamper
from structlog.testing import capture_logs

from cluster import toolchain
from cluster.apicalls import Caller
from cluster.cable import Cable
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from cluster.sidebyside import Json, until
from policies.admissionpolicy.evaluation.inputs import ParametersKey
from policies.admissionpolicy.model import ParamKind
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.client import Connection, connect
from webhook.cluster.api.errors import Clock
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.watches.cluster import STALE_SECONDS, WatchAges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

TEAM = "team"
_MAPS = ParamKind(api_version="v1", kind="ConfigMap")
_PROCESSES = 20
_PATIENCE = 1800.0


@pytest.fixture(scope="module")
def own() -> Iterator[ControlPlane]:
    """Run a control plane whose API server may be restarted, with a Namespace."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as running:
        running.namespace(TEAM)
        yield running


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Connection]:
    """A connection as the service has it."""
    api = await connect(str(kubeconfig), in_cluster=False)
    try:
        yield api
    finally:
        await api.close()


@asynccontextmanager
async def following(api: Connection, clock: Clock | None = None) -> AsyncIterator[ClusterFacts]:
    """The facts of a process."""
    facts = ClusterFacts(api, watch_nodes=True, clock=clock)
    await facts.start()
    try:
        yield facts
    finally:
        await facts.stop()


def key(namespace: str, name: str) -> ParametersKey:
    """A reference to a ConfigMap."""
    return ParametersKey(kind=_MAPS, namespace=namespace, name=name)


def data(facts: ClusterFacts, reference: ParametersKey) -> list[Any]:
    """The data of the ConfigMaps of a reference."""
    return [item["data"] for item in facts.parameters.known(reference).objects]


def connections(api: Connection) -> int:
    """How many connections are open."""
    return sum(each.fileno() >= 0 for each in api._sockets)


@pytest.mark.parametrize("count", [150, 1000])
async def test_many_references_need_few_connections(
    control_plane: ControlPlane, namespace: str, caller: Caller, count: int
) -> None:
    """However many objects policies name, one watch brings them, and reads of Leases are answered beside it."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(10):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"limit-{number}"}, "data": {"a": "1"}}
        caller.make(maps, body)
    keys = [key(namespace if n < 10 else f"tenant-{n}", f"limit-{n}") for n in range(count)]
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    caller.make(leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "turn"}})
    lease = Call("GET", f"{leases}/turn")

    async with connected(control_plane.kubeconfig("admin")) as api, following(api) as facts:
        await facts.parameters.follow(keys)

        async def known() -> bool:
            await fetch(api, lease)
            return not facts.parameters.unsynced() and not facts.unsynced()

        await until(known)
        followed = len(facts.reflectors())
        reads = [fetch(api, lease) for _ in range(50)]
        caller.send("PUT", f"{maps}/limit-3", {"metadata": {"name": "limit-3"}, "data": {"a": "2"}})
        assert all(await asyncio.gather(*reads))

        async def changed() -> bool:
            return data(facts, keys[3]) == [{"a": "2"}]

        await until(changed)
        shown = [data(facts, reference) for reference in keys]

        async def quiet() -> bool:  # devices and Nodes have watches of their own; reads leave connections behind
            return connections(api) <= followed + 50

        await until(quiet)
        print(
            f"{count} references: {followed} watches, {connections(api)} connections, 50 of them for concurrent reads"
        )

    assert shown == [[{"a": "2" if n == 3 else "1"}] if n < 10 else [] for n in range(count)]
    kinds = [reflector.resource.name for reflector in facts.reflectors() if reflector.resource.kind]
    assert kinds == ["every ConfigMap"]


async def test_rights_in_namespaces_alone(control_plane: ControlPlane, namespace: str, caller: Caller) -> None:
    """Up to four namespaces need no ClusterRole: each has a watch, by the right that its Role grants."""
    account = control_plane.service_account(namespace, "narrow")
    spaces = ["default", "kube-public", "kube-system", namespace]
    control_plane.objects.apply("---".join(_RIGHTS % {"namespace": space, "account": namespace} for space in spaces))
    for space in spaces:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": namespace}, "data": {"in": space}}
        caller.make(f"/api/v1/namespaces/{space}/configmaps", body)
    keys = [key(space, name) for space in spaces for name in (namespace, "none")]
    try:
        async with connected(account) as api:
            facts = ClusterFacts(api, watch_nodes=False)
            await facts.parameters.follow(keys)

            async def known() -> bool:
                return not facts.parameters.unsynced() and not facts.parameters.problems()

            await until(known)
            shown = [data(facts, reference) for reference in keys]
            names = [reflector.resource.name for reflector in facts.parameters.reflectors()]
            await facts.stop()
    finally:
        for space in spaces:
            caller.send("DELETE", f"/api/v1/namespaces/{space}/configmaps/{namespace}")

    assert names == sorted(f"every ConfigMap in namespace {space}" for space in spaces)
    assert shown == [found for space in spaces for found in ([{"in": space}], [])]


_RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow, namespace: %(namespace)s}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: narrow-of-%(account)s, namespace: %(namespace)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: narrow}
subjects: [{kind: ServiceAccount, name: narrow, namespace: %(account)s}]
"""


async def test_a_replica_that_is_cut_off_for_an_hour(own: ControlPlane, tmp_path: Path) -> None:
    """It keeps its facts, says that they are old, is unready after a while, and catches up when it is back.

    The hour is one of its clock. Meanwhile the API server is restarted, and answers 410 to versions from before.
    """
    passed = 0.0
    clock = Clock(monotonic=lambda: time.monotonic() + passed, sleep=lambda seconds: asyncio.sleep(min(seconds, 0.1)))
    maps = f"/api/v1/namespaces/{TEAM}/configmaps"
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limit"}, "data": {"a": "1"}}
    with Caller(own) as caller:
        caller.make(maps, body)
    reference = key(TEAM, "limit")
    async with AsyncExitStack() as stack:
        cable = Cable(own)
        kubeconfig = await cable.plugged(tmp_path / "kubeconfig", stack)
        api = await stack.enter_async_context(connected(kubeconfig))
        facts = await stack.enter_async_context(following(api, clock))
        await facts.parameters.follow([reference])
        ages = WatchAges([facts], _PATIENCE, clock)

        async def known() -> bool:
            return not facts.unsynced() and data(facts, reference) == [{"a": "1"}]

        await until(known)
        assert (ages.problems(), ages.unready()) == ([], [])

        cable.cut = True
        cable.sever()

        async def away() -> bool:
            return len(facts.problems()) >= len(facts.reflectors()) - 1 and bool(facts.parameters.problems())

        await until(away)
        passed += STALE_SECONDS + 1
        early = [line.partition(":")[0] for line in ages.problems()], ages.unready()
        passed += 3600
        late = ages.unready()
        own.restart_api_server()  # not in a thread, with which it would end
        with Caller(own) as caller:
            caller.send("PUT", f"{maps}/limit", {**body, "data": {"a": "2"}})
        old = data(facts, reference)
        with capture_logs() as logs:
            cable.cut = False

            async def back() -> bool:
                return data(facts, reference) == [{"a": "2"}] and not ages.problems() and not facts.problems()

            await until(back)

        assert (early, old) == ((["cut off"], []), [{"a": "1"}])
        assert re.fullmatch(
            r"cut off: nothing was heard from the API server for 39\d\d s; facts about the cluster are that old, "
            r"longer than cluster.cutOffSeconds \(1800\)",
            "\n".join(late),
        )
        assert ages.unready() == []
        expired = {log["resource"] for log in logs if log["event"] == "watch failed" and log["status"] == 410}
        listed = {log["resource"] for log in logs if log["event"] == "listed"}
        assert {"namespaces", "nodes", str(reference)} <= expired <= listed


async def test_a_restart_with_many_processes(own: ControlPlane) -> None:
    """Twenty processes return to an API server that restarts, at different moments, and its cache has their lists."""
    name = "after"
    async with AsyncExitStack() as stack:
        processes = []
        for _ in range(_PROCESSES):
            api = await stack.enter_async_context(connected(own.kubeconfig("admin")))
            processes.append(await stack.enter_async_context(following(api)))

        async def known() -> bool:
            return not any(facts.unsynced() for facts in processes)

        await until(known)
        with capture_logs([TimeStamper()]) as logs:
            own.restart_api_server()  # not in a thread, with which it would end
            await asyncio.to_thread(own.namespace, name)

            async def seen() -> bool:
                return all(name in facts.namespaces.by_key for facts in processes)

            await until(seen)

            async def well() -> bool:
                return not any(facts.problems() for facts in processes)

            await until(well)
        with Caller(own) as caller:
            metrics = str(caller.send("GET", "/metrics", accept="text/plain").body["message"])

    moments = [log["timestamp"] for log in logs if (log["event"], log.get("resource")) == ("listed", "namespaces")]
    counts = re.findall(r'apiserver_storage_list_total\{group="",resource="namespaces"[^}]*\} (\d+)', metrics)
    stored = sum(map(int, counts))
    print(f"{len(moments)} lists of Namespaces in {max(moments) - min(moments):.1f} s, {stored} from etcd")
    assert len(moments) >= _PROCESSES
    assert max(moments) - min(moments) > 0.5
    assert stored < _PROCESSES
