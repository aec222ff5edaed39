"""Faults of the API server as the service watches it: cut off, compacted, restarted."""

from __future__ import annotations

import json
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from cluster.apicalls import Caller
from cluster.cable import Cable
from cluster.controlplane import ControlPlane
from cluster.polling import NotYet, wait_for
from cluster.service import NAMESPACE

from faults import documents
from faults.calls import Background, calling
from faults.clocks import Clock
from faults.documents import GUARD, Json
from faults.process import Process
from faults.site import Site
from faults.table import Result

_PROCESSES = 20
_CHANGES = 50
_HOUR = 3600.0
_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_MAP = "fault-policies"


def cut_off(site: Site) -> Result:
    """A replica is cut off from the API server for an hour, which its clocks are put forward by.

    It goes on judging what it is asked, p99 under 1 s, says that it is cut off, is not ready, and is ready again once
    it is back.
    """
    directory = site.directory()
    clock = Clock(directory)
    with Background() as wires:
        cable, kubeconfig = _plugged(site, directory, wires)
        settings: Json = {"environment": clock.environment, "cluster": site.cluster(kubeconfig)}
        with Process(directory, **settings) as process, Background() as background:
            process.wait_until_ready()
            calls = background.enter(calling(process, GUARD, 50))
            cable.cut = True
            cable.sever()
            clock.shift(_HOUR, _HOUR)
            wait_for("the replica not to be ready", lambda: "cut off" in _unready(process))
            said = _unready(process)
            time.sleep(5)  # it is asked meanwhile
            cable.cut = False
            back = time.monotonic()
            process.wait_until_ready()
            healthy = time.monotonic() - back
            logged = {event["event"] for event in process.entries()}
    reason = next((line for line in said.splitlines() if "cut off" in line), "")
    return Result(
        seen=f"/readyz: {reason.removeprefix('- ')}; answers p99 {calls.p99 * 1e3:.0f} ms",
        lost=calls.summary,
        healthy=healthy,
        slow=calls.slow("guard"),
        promises={
            "no call lost or misjudged": calls.flawless,
            "it says for how long": "longer than cluster.cutOffSeconds" in reason,
            "a log line names the failed watches": "watch failed" in logged,
        },
    )


def gone(site: Site) -> Result:
    """While a replica is cut off, policies change and etcd is compacted; the restarted API server answers 410 Gone.

    The replica judges by what it knew, p99 under 1 s, lists anew when it is back, and then judges by the changed
    policies.
    """
    directory, control_plane = site.directory(), site.control_plane
    with Background() as wires, Caller(control_plane) as caller:
        _apply(caller, 1000)
        cable, kubeconfig = _plugged(site, directory, wires)
        with Process(directory, cluster=site.cluster(kubeconfig)) as process, Background() as background:
            process.wait_until_ready()
            wait_for("the policy", lambda: process.refuses(documents.sized(5000)))
            calls = background.enter(calling(process, (*GUARD, documents.sized(5000)), 50))
            cable.cut = True
            cable.sever()
            wait_for("the first failure", lambda: process.events("watch failed"))
            for number in range(_CHANGES):
                _apply(caller, 1000 + number)
            _apply(caller, 100)
            _compact(control_plane)
            control_plane.restart_api_server()
            cable.cut = False
            back = time.monotonic()
            wait_for("the changed policy", lambda: process.refuses(documents.sized(500)))
            healthy = time.monotonic() - back
            control_plane.objects.delete("configmap", _MAP, namespace=NAMESPACE)
            expired = sum(event.get("status") == 410 for event in process.events("watch failed"))
    return Result(
        seen=f"{expired} watches were answered 410 and listed anew; answers p99 {calls.p99 * 1e3:.0f} ms",
        lost=calls.summary,
        healthy=healthy,
        slow=calls.slow("guard"),
        promises={"410 was met": expired > 0, "no call lost or misjudged": calls.flawless},
    )


def restarted_api_server(site: Site) -> Result:
    """Etcd is compacted and the API server restarts, which twenty processes watch.

    The guard answers meanwhile, p99 under 1 s, all watches are back by themselves, and the API server answers them from
    its cache.
    """
    control_plane = site.control_plane
    with ExitStack() as stack, Background() as background:
        # Without an inventory, since the account may not list what it is made of.
        settings: Json = {"cluster": site.cluster(), "topology": {"inventory": False}}
        processes = [stack.enter_context(Process(site.directory(), **settings)) for _ in range(_PROCESSES)]
        for each in processes:
            each.wait_until_ready()
        process, *_ = processes
        calls = background.enter(calling(process, GUARD, 50))
        began = time.monotonic()
        _compact(control_plane)
        control_plane.restart_api_server()
        up = time.monotonic()
        wait_for("every watch to work", lambda: all(map(_well, processes)))
        healthy = time.monotonic() - up
        died = [each for each in processes if each.child.poll() is not None]
        with Caller(control_plane) as caller:
            metrics = str(caller.send("GET", "/metrics", accept="text/plain").body["message"])
    stored = sum(
        int(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith('apiserver_storage_list_total{group="",resource="namespaces"')
    )
    return Result(
        seen=f"the API server was away for {up - began:.1f} s; answers p99 {calls.p99 * 1e3:.0f} ms; of the lists of "
        f"Namespaces {stored} came from etcd",
        lost=calls.summary,
        healthy=healthy,
        slow=calls.slow("guard"),
        promises={
            "no call lost or misjudged": calls.flawless,
            "lists come from the cache": stored < _PROCESSES,
            "no process died": not died,
        },
    )


def _well(process: Process) -> bool:
    """Whether a process is ready and has no watch that does not work."""
    said = process.readiness()
    if not said.startswith("ok") or "cluster:" in said:
        raise NotYet(said)
    return True


def _plugged(site: Site, directory: Path, background: Background) -> tuple[Cable, Path]:
    """A cable of the service's account to the API server, and a kubeconfig that leads through it."""
    cable = Cable(site.control_plane, site.account)
    return cable, background.run(cable.plugged(directory / "cable.kubeconfig", background.stack))


def _unready(process: Process) -> str:
    """What /readyz says while it is not ready; empty else."""
    said = process.readiness()
    return "" if said.startswith("ok") else said


def _apply(caller: Caller, most: int) -> None:
    """Write the ConfigMap of policies with a policy that refuses what is larger."""
    metadata = {"name": _MAP, "namespace": NAMESPACE, "labels": {"cks-admission.dev/policies": "true"}}
    data = {"limit.yaml": documents.text(documents.limit("limit", most))}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    content_type = "application/apply-patch+yaml"
    answer = caller.send("PATCH", f"{_MAPS}/{_MAP}?fieldManager=faults&force=true", body, content_type=content_type)
    assert answer.code in (200, 201), answer


def _compact(control_plane: ControlPlane) -> None:
    """Let etcd forget all versions but the last."""
    (urls,) = (part for part in control_plane.component("etcd").command if part.startswith("--listen-client-urls="))
    url = urls.partition("=")[2]
    revision = _etcd(url, "range", {"key": "Lw=="})["header"]["revision"]
    _etcd(url, "compaction", {"revision": revision, "physical": True})


def _etcd(url: str, what: str, body: Json) -> Json:
    """An answer of etcd's gateway for JSON, on plain HTTP."""
    request = urllib.request.Request(f"{url}/v3/kv/{what}", json.dumps(body).encode())  # noqa: S310 - http, as above
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        found: Json = json.loads(answer.read())
        return found
