"""Gangs behind their gate on a real control plane: they wait whole, hold nothing, start whole, and it is said why."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml
from support.service.commands import run

from cluster import jsonlog, workloads, yards
from cluster.apicalls import Caller
from cluster.polling import NotYet, answers
from cluster.service import COMMAND
from cluster.workspace import free_ports
from policies.topology.placement import GATE, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service
    from cluster.yards import Yard

OTHER = "example.org/other"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def two(control_plane: ControlPlane, service: Service, namespace: str) -> Iterator[Yard]:
    """Two racks of two Nodes."""
    del service
    with yards.standing(control_plane, namespace, {"a": 2, "b": 2}) as yard:
        yield yard


def patch(yard: Yard, path: str, *operations: Manifest) -> None:
    """Change an object as a user does."""
    with Caller(yard.control_plane) as caller:
        answer = caller.send("PATCH", path.format(yard.namespace), operations, content_type=JSON_PATCH)  # type: ignore[arg-type]
    assert answer.code == 200, answer


def ungate(yard: Yard, pod: Manifest, gate: str) -> None:
    """Remove a gate from a Pod, as whoever has put it there does."""
    at = [each["name"] for each in pod["spec"]["schedulingGates"]].index(gate)
    path = f"/api/v1/namespaces/{{}}/pods/{pod['metadata']['name']}"
    patch(yard, path, {"op": "remove", "path": f"/spec/schedulingGates/{at}"})


def test_gang_waits_whole_and_starts_where_room_comes_first(two: Yard) -> None:
    """It holds nothing, its Event says why, and it starts in the rack that gets free first."""
    two.occupy("a")
    two.occupy("b", leaving=1)
    two.control_plane.objects.create(two.job(), user="alice")
    two.gated(2)
    said = two.event("Waiting")
    queue = run("topology", "queue", "--kubeconfig", str(two.control_plane.kubeconfig("admin")), "-o", "json")

    two.free("b")
    two.await_racks({"b": 2})

    best = f"rack=b-{two.name}"
    assert said.startswith("No rack has room for 2 Pods with 16 GPUs now: the best, "), said
    assert said.endswith(f"{best}, has room for 1 Pod and 8 of 16 GPUs free."), said
    assert queue.exit_code == 0, queue.output
    (waiting,) = json.loads(queue.stdout)
    told = {key: waiting[key] for key in ("position", "level", "required", "pods", "existing", "reason")}
    assert waiting["gang"]["name"] == "main"
    assert told == {"position": 1, "level": "rack", "required": True, "pods": 2, "existing": 2, "reason": said}
    assert two.event("Placed").startswith("2 Pods with 16 GPUs in "), two.event("Placed")
    assert {PLACEMENT in pod["metadata"]["annotations"] for pod in two.pods()} == {True}


def test_release_opens_all_gates(two: Yard) -> None:
    """Who wants no placer any more opens the gates; the Pods go wherever there is room, and nobody waits."""
    two.occupy("a", "b", leaving=1)
    admin = str(two.control_plane.kubeconfig("admin"))
    two.control_plane.objects.create(two.job(), user="alice")
    two.gated(2)

    done = run("topology", "release", "--kubeconfig", admin, "-n", two.namespace, "--yes")

    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "2 gates opened"), done.output
    two.await_racks({"a": 1, "b": 1})
    assert run("topology", "queue", "--kubeconfig", admin).stdout == "no gang waits\n"


class Rollout(NamedTuple):
    """What becomes of a workload of four Pods whose image changes. nodes: of each rack. said: why the new Pods wait."""

    kind: str
    spec: Mapping[str, Any]
    nodes: int
    said: str = ""


def surge(by: int | str, unavailable: int = 0) -> Mapping[str, Any]:
    """Return the strategy of a Deployment."""
    return {"strategy": {"rollingUpdate": {"maxSurge": by, "maxUnavailable": unavailable}}}


ROLLOUTS = {
    "Deployment, maxSurge 25%": Rollout("Deployment", surge("25%"), 5),
    "Deployment, maxSurge 1": Rollout("Deployment", surge(1), 5),
    "Deployment, maxSurge 0": Rollout("Deployment", surge(0, 1), 4),
    "Deployment, no room to surge": Rollout("Deployment", surge(1), 4, "No rack has room for"),
    "StatefulSet, OrderedReady": Rollout("StatefulSet", {}, 4),
    "StatefulSet, Parallel": Rollout("StatefulSet", {"podManagementPolicy": "Parallel"}, 4),
}


@pytest.mark.parametrize("name", ROLLOUTS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def test_roll_out_ends_or_says_why_not(
    control_plane: ControlPlane, service: Service, namespace: str, name: str
) -> None:
    """The new Pods are in one rack in the end; where the rack has no room for one more they wait, with an Event."""
    del service
    rollout, pods = ROLLOUTS[name], 4
    with yards.standing(control_plane, namespace, {"a": rollout.nodes}) as yard:
        spec = {"replicas": pods, "template": yard.template(), **rollout.spec}
        spec |= {"serviceName": "main"} if rollout.kind == "StatefulSet" else {}
        made = workloads.apps(rollout.kind, namespace, **spec)
        control_plane.objects.create(made, user="alice")
        yard.await_racks({"a": pods})
        control_plane.kubectl("set", "image", f"{rollout.kind}/main", "-n", namespace, "main=example.test/main:2")

        if rollout.said:
            waiting = _new_pods(yard)
            owner = waiting["metadata"]["ownerReferences"][0]["name"]
            assert rollout.said in yard.event("Waiting", name=owner)
            return

        control_plane.wait_until(
            "the roll-out to end",
            lambda: Counter(pod["spec"]["containers"][0]["image"] for pod in yard.pods() if _is_bound(pod)),
            lambda images: images == {"example.test/main:2": pods},
        )
        yard.await_racks({"a": pods})


def _is_bound(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _new_pods(yard: Yard) -> Manifest:
    """Wait for a Pod behind a gate, and return it."""

    def gated() -> list[Manifest]:
        return [pod for pod in yard.pods() if pod["spec"].get("schedulingGates")]

    return yard.control_plane.wait_for("a Pod behind a gate", gated)[0]


# Whatever comes between, the gang starts whole in the end, or an Event says what it waits for.


def test_quota(two: Yard) -> None:
    """Two gangs of two Pods where the quota allows two Pods: whoever gets one of each waits, and says what refused."""
    hard = {"hard": {"requests.nvidia.com/gpu": "16"}}
    two.control_plane.objects.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": workloads.metadata("q", two.namespace), "spec": hard}
    )
    for name in ("first", "second"):
        two.control_plane.objects.create(two.job(name), user="alice")

    def decided() -> str:
        """The gang that has not all of its Pods."""
        short = [name for name in ("first", "second") if len(two.pods(name)) < 2]
        if len(two.pods("first")) + len(two.pods("second")) != 2:
            raise NotYet("Pods are missing")
        return short[-1]

    short = two.control_plane.wait_for("the quota to be used up", decided)
    if two.pods(short):
        assert "exceeded quota" in two.event("Waiting", "1 of 2 Pods exist. FailedCreate", short)
        assert not two.racks(short)
    other = {"first": "second", "second": "first"}[short]
    two.control_plane.objects.delete("job", short, namespace=two.namespace)
    _in_one_rack(two, other)


def test_deleted_while_waiting(two: Yard) -> None:
    """A Pod that is deleted while its gang waits is made again, and the gang starts whole."""
    two.occupy("a", "b")
    two.control_plane.objects.create(two.job(), user="alice")
    two.gated(2)
    gone = two.pods()[0]["metadata"]["name"]
    two.control_plane.objects.delete("pod", gone, namespace=two.namespace)

    def again() -> bool:
        return len(two.pods()) == 2 and gone not in [pod["metadata"]["name"] for pod in two.pods()]

    two.control_plane.wait_for("another Pod", again)
    two.gated(2)
    two.free("a")
    two.await_racks({"a": 2})


def test_foreign_gate(two: Yard) -> None:
    """The gang waits as long as somebody else's gate is there, which its Event names."""
    two.control_plane.objects.create(two.job(schedulingGates=[{"name": OTHER}]), user="alice")
    two.gated(2)
    assert two.event("Waiting", OTHER) == f"2 of its Pods wait behind other gates, too: {OTHER}."
    for pod in two.pods():
        assert {gate["name"] for gate in pod["spec"]["schedulingGates"]} == {GATE, OTHER}
        ungate(two, pod, OTHER)
    _in_one_rack(two)


def test_gate_removed_by_a_user(two: Yard) -> None:
    """A Pod that a user lets through runs where there is room; the others wait for room in its rack."""
    two.occupy("a", leaving=1)
    two.occupy("b")
    two.control_plane.objects.create(two.job(), user="alice")
    two.gated(2)
    ungate(two, two.pods()[0], GATE)
    assert two.event("Waiting", "room there").startswith("Others of its Pods run in ")
    assert two.racks() == {"a": 1}
    two.free("b")
    two.free("a")
    two.await_racks({"a": 2})


def test_relabelled_while_waiting(two: Yard) -> None:
    """Where two Nodes of different racks become one rack, the gang that waits for two starts there."""
    two.occupy("a", "b", leaving=1)
    two.control_plane.objects.create(two.job(), user="alice")
    two.gated(2)
    relabel(two, f"{two.name}-b-0", "a")
    two.await_racks({"a": 2})


def test_relabelled_while_running(two: Yard) -> None:
    """Where the rack of a gang loses a Node, a Pod that comes back there waits, and the Event says what was lost."""
    two.occupy("b")
    two.control_plane.objects.create(two.job(), user="alice")
    two.await_racks({"a": 2})
    moved = f"{two.name}-a-1"
    relabel(two, moved, "b")
    (pod,) = (pod for pod in two.pods() if pod["spec"]["nodeName"] == moved)
    two.control_plane.objects.delete("pod", pod["metadata"]["name"], namespace=two.namespace)
    assert "1 Pod cannot start: " in two.event("DomainLost", "delete the workload and create it again")


def relabel(two: Yard, node: str, rack: str) -> None:
    """Move a Node into another rack."""
    change = {"op": "replace", "path": "/metadata/labels/node.coreweave.cloud~1rack", "value": f"{rack}-{two.name}"}
    patch(two, f"/api/v1/nodes/{node}", change)
    two.nodes[node] = rack


def _in_one_rack(yard: Yard, app: str = "main", pods: int = 2) -> None:

    yard.control_plane.wait_until(
        f"{app} in one rack", lambda: yard.racks(app), lambda found: list(found.values()) == [pods]
    )


class Placers(NamedTuple):
    """Processes by their log files."""

    control_plane: ControlPlane
    running: Mapping[Path, subprocess.Popen[bytes]]

    def leader(self) -> subprocess.Popen[bytes]:
        """Wait until one of them leads, and return it."""

        def leading() -> list[Path]:
            found = [log for log, one in self.running.items() if one.poll() is None and jsonlog.events(log, "leading")]
            if not found:
                raise NotYet(str([log.read_text(encoding="utf-8")[-500:] for log in self.running]))
            return found

        return self.running[self.control_plane.wait_for("a placer to lead", leading)[0]]


@contextmanager
def placing(service: Service, number: int) -> Iterator[Placers]:
    """So many processes beside a service that places nothing itself, to the end of the block."""
    control_plane = service.control_plane
    with service.configured(place={"apart": True}), ExitStack() as stack:
        settings = yaml.safe_load(service.config.read_text(encoding="utf-8"))
        started: dict[Path, subprocess.Popen[bytes]] = {}
        for index in range(number):
            (health,) = free_ports(["health"]).values()
            config = service.directory / f"placer-{index}.yaml"
            config.write_text(yaml.safe_dump({**settings, "health": {"host": "127.0.0.1", "port": health}}))
            log = config.with_suffix(".jsonl")
            log.unlink(missing_ok=True)
            with log.open("ab") as written:
                process = subprocess.Popen([COMMAND, "place", "--config", config], stderr=written)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started[log] = process
            url = f"http://127.0.0.1:{health}/readyz"
            control_plane.wait_for("the placer to be ready", lambda url=url: answers(url, control_plane.ca_file))  # type: ignore[misc]
        yield Placers(control_plane, started)


HALF = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: half-of-a-gang}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  matchConditions:
  - {name: ours, expression: 'object.metadata.namespace == "NAMESPACE"'}
  - name: upper-half
    expression: 'int(object.metadata.labels["batch.kubernetes.io/job-completion-index"]) >= 32'
  - {name: opened, expression: 'has(oldObject.spec.schedulingGates) && !has(object.spec.schedulingGates)'}
  validations: [{expression: "false", message: not yet}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: half-of-a-gang}
spec: {policyName: half-of-a-gang, validationActions: [Deny]}
"""


def test_next_leader_finishes_what_was_half_opened(
    control_plane: ControlPlane, service: Service, namespace: str
) -> None:
    """The leader is killed when half of a gang of 64 is opened; the next one opens the rest into the same rack."""
    pods = 64
    with (
        placing(service, 2) as running,
        yards.standing(control_plane, namespace, {"a": 8, "b": 8}) as yard,
    ):
        half = HALF.replace("NAMESPACE", namespace)
        control_plane.objects.apply(half)
        try:
            _await_refusal(yard)
            control_plane.objects.create(yard.job(pods=pods, gpus=1), user="alice")

            def opened() -> bool:
                found = Counter("schedulingGates" in pod["spec"] for pod in yard.pods())
                if found != {True: pods // 2, False: pods // 2}:
                    raise NotYet(f"{found}")
                return sum(yard.racks().values()) == pods // 2

            control_plane.wait_for("half of the gang to be bound", opened)
            leader = running.leader()
            leader.kill()
            leader.wait()
        finally:
            control_plane.objects.delete_manifests(half)

        _in_one_rack(yard, pods=pods)
        assert running.leader() is not leader


def _await_refusal(yard: Yard) -> None:
    """Wait until the policy works, by a Pod that nobody schedules."""
    labels = {"batch.kubernetes.io/job-completion-index": "63"}
    pod = workloads.pod(yard.namespace, "canary", labels, schedulingGates=[{"name": OTHER}], **yard.on)
    yard.control_plane.objects.create(pod)
    path = f"/api/v1/namespaces/{yard.namespace}/pods/canary?dryRun=All"
    change = [{"op": "remove", "path": "/spec/schedulingGates"}]

    def refused() -> bool:
        with Caller(yard.control_plane) as caller:
            answer = caller.send("PATCH", path, change, content_type=JSON_PATCH)  # type: ignore[arg-type]
        return answer.code == 422 or "not yet" in str(answer.body)

    yard.control_plane.wait_for("the policy to work", refused)
    yard.control_plane.objects.delete("pod", "canary", namespace=yard.namespace)


def test_no_rack_is_given_twice(control_plane: ControlPlane, service: Service, namespace: str) -> None:
    """Of 50 gangs that come at once, with two placers and 50 racks that hold one each, every one has a rack."""
    gangs = 50
    racks = {f"r{number}": 2 for number in range(gangs)}
    with placing(service, 2), yards.standing(control_plane, namespace, racks) as yard:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda part: _create(yard, part), range(4)))

        def all_bound() -> Counter[str]:
            found = Counter({f"gang-{number}": 0 for number in range(gangs)})
            for pod in control_plane.get("pods", "-n", namespace)["items"]:
                found[pod["metadata"]["labels"]["app"]] += _is_bound(pod)
            if set(found.values()) != {2}:
                raise NotYet(str(Counter(found.values())))
            return found

        control_plane.wait_for("all gangs to run", all_bound)
        homes = [yard.racks(f"gang-{number}") for number in range(gangs)]
        assert [len(home) for home in homes] == [1] * gangs
        assert len({rack for home in homes for rack in home}) == gangs


def _create(yard: Yard, part: int) -> None:
    path = f"/apis/batch/v1/namespaces/{yard.namespace}/jobs"
    with Caller(yard.control_plane) as caller:
        for number in range(part, 50, 4):
            caller.make(path, yard.job(f"gang-{number}"), user="alice")
