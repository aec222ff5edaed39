"""Faults of look-ups: very many parameters of policies, and authorization checks that are slow or fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import yaml
from cluster.apicalls import Caller
from cluster.polling import NotYet, wait_for
from cluster.service import NAMESPACE
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named, status
from support.service.installation import kubeconfig

from faults import documents
from faults.calls import Background, calling, probing
from faults.documents import GUARD, Json, Review
from faults.process import Process
from faults.resources import connections
from faults.site import Site
from faults.table import Result

_TEAM = "default"
_MAPS = f"/api/v1/namespaces/{_TEAM}/configmaps"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cks-admission"
_MOST_CONNECTIONS = 40
_LEASE_SECONDS = 15.0
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_PATH = "/validate/policies"
_CHECK_SECONDS = 3.0  # that callers wait for a write with a check
_ASKS = "authorizer.serviceAccount('default', object.data.owner).group('').resource('pods').check('get').allowed()"


def parameters_150(site: Site) -> Result:
    """A policy has 150 bindings, each with a parameter of its own.

    One watch brings them all, the Lease is renewed, every parameter is in force, and so is one that changes, and the
    guard's p99 is under 1 s.
    """
    return _parameters(site, 150)


def parameters_1000(site: Site) -> Result:
    """A policy has 1,000 bindings, each with a parameter of its own.

    One watch brings them all, the Lease is renewed, every parameter is in force, and so is one that changes, and the
    guard's p99 is under 1 s.
    """
    return _parameters(site, 1000)


def _parameters(site: Site, count: int) -> Result:
    directory = site.directory()
    policies = directory / "policies.yaml"
    documents.write(policies, _bound(count))
    sections: Json = {"cluster": site.cluster(), "policies": {"directories": [str(policies)]}}
    with Caller(site.control_plane) as caller:
        caller.send("DELETE", _LEASE)  # a holder that was killed has it still
        for number in range(count):
            _write(caller, number, 100)
        with Process(directory, registration={"apply": True}, **sections) as process, Background() as background:
            began = time.monotonic()
            process.wait_until_ready()
            calls = background.enter(calling(process, GUARD, 50))
            wait_for("the Lease", lambda: _lease_age(caller) < _LEASE_SECONDS)
            wait_for("every parameter", lambda: all(_judges(process, number) for number in range(count)))
            known = time.monotonic() - began
            _write(caller, 7, 1000)
            changed = time.monotonic()
            wait_for("the changed parameter", lambda: not _judges(process, 7))
            healthy = time.monotonic() - changed
            opened, age = connections(process.pid, site.control_plane.server), _lease_age(caller)
            process.unregister()
        for number in range(count):
            caller.send("DELETE", f"{_MAPS}/limit-{number}")
    return Result(
        seen=f"all were in force {known:.1f} s after the start; {opened} connections to the API server; the Lease was "
        f"{age:.1f} s old; answers p99 {calls.p99 * 1e3:.0f} ms",
        lost=calls.summary,
        healthy=healthy,
        slow=calls.slow("guard"),
        promises={
            "few connections": opened <= _MOST_CONNECTIONS,
            "the Lease is renewed": age < _LEASE_SECONDS,
            "no call lost or misjudged": calls.flawless,
        },
    )


def slow_access_reviews(site: Site) -> Result:
    """The API server never answers SubjectAccessReviews, which policies ask for at thirty writes a second.

    Such a write is refused, since its policy fails closed, before its caller gives up after 3 s (p99); all others are
    answered as ever, p99 under 1 s.
    """
    return _access(site, lambda api: api.slow.add(_ACCESS))


def failing_access_reviews(site: Site) -> Result:
    """The API server answers every SubjectAccessReview with status 500, and policies ask for thirty a second.

    Such a write is refused, since its policy fails closed, within 3 s (p99); all others are answered as ever, p99 under
    1 s.
    """
    return _access(site, lambda api: api.fail(_ACCESS, 500, status(500, "etcd is gone"), times=1_000_000))


def _access(site: Site, fault: Callable[[FakeApi], None]) -> Result:
    directory = site.directory()
    policies = directory / "policies.yaml"
    documents.write(policies, documents.policy("asks", _ASKS, failurePolicy="Fail"))
    with Background() as cluster:
        api = cluster.enter(FakeApi())
        api.put(NAMESPACES, named("default", {}))
        api.put(NODES, named("n1", {}))
        api.groups[_ACCESS] = {"status": {"allowed": True}}
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig(api.url)), encoding="utf-8")
        sources = {"directories": [str(policies)], "native": False, "configMaps": False}
        settings: Json = {"cluster": {"kubeconfig": str(file)}, "policies": sources}
        with Process(directory, **settings) as process, Background() as background:
            process.wait_until_ready()
            wait_for("an allowance", lambda: process.ask(_asking("nobody", allowed=True))["allowed"])
            fault(api)
            guard = background.enter(calling(process, GUARD, 100))
            asking = [_asking(f"user-{number}", allowed=False) for number in range(5000)]
            asked = background.enter(calling(process, asking, 30, callers=100))
            alive = background.enter(probing(process))
            time.sleep(15)
            healthy = _recovered(api, process)
    return Result(
        seen=f"guard p99 {guard.p99 * 1e3:.0f} ms, /livez at most {alive.slowest * 1e3:.0f} ms; {len(asked.seconds):,} "
        f"writes with a check refused after at most {asked.slowest:.1f} s",
        lost=guard.summary,
        healthy=healthy,
        slow=(*guard.slow("guard"), *asked.slow("refusals", _CHECK_SECONDS)),
        promises={
            "no other call lost or misjudged": guard.flawless,
            "what needs a check is refused in time": bool(asked.seconds) and asked.flawless,
            "/livez answers": not alive.lost,
        },
    )


def _recovered(api: FakeApi, process: Process) -> float:
    """Let the API server answer again; the seconds until a write with a check passes."""
    api.slow.clear()
    api.failures.clear()
    api.groups[_ACCESS] = {"status": {"allowed": True}}
    began = time.monotonic()
    wait_for("an allowance", lambda: process.ask(_asking("after", allowed=True))["allowed"])
    return time.monotonic() - began


def _asking(user: str, *, allowed: bool) -> Review:
    """A review of which the policy asks for the rights of an account of its own."""
    return documents.review(
        documents.config_map({"owner": user}), f"{_PATH}?timeout={_CHECK_SECONDS:g}s", allowed=allowed
    )


def _bound(count: int) -> list[Json]:
    """A policy and as many bindings, each for ConfigMaps with a label of its own, and with a parameter of its own."""
    expression = "!has(object.data.size) || int(object.data.size) <= int(params.data.most)"
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    policy, binding = documents.policy("bound", expression, paramKind=kind, failurePolicy="Fail")
    bindings = []
    for number in range(count):
        matched = {"objectSelector": {"matchLabels": {"limit": str(number)}}}
        reference = {"name": f"limit-{number}", "namespace": _TEAM, "parameterNotFoundAction": "Deny"}
        spec = {**binding["spec"], "matchResources": matched, "paramRef": reference}
        bindings.append({**binding, "metadata": {"name": f"bound-{number}"}, "spec": spec})
    return [policy, *bindings]


def _write(caller: Caller, number: int, most: int) -> None:
    """Write a parameter."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"limit-{number}"},
        "data": {"most": str(most)},
    }
    path = f"{_MAPS}/limit-{number}?fieldManager=faults&force=true"
    answer = caller.send("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert answer.code in (200, 201), answer


def _judges(process: Process, number: int) -> bool:
    """Whether a binding refuses a ConfigMap that is larger than its parameter was at first."""
    obj = documents.config_map({"size": "500"}, _TEAM, {"limit": str(number)})
    answer = process.ask(documents.review(obj, _PATH, allowed=False))
    return answer["allowed"] is False and "No." in answer["status"]["message"]


def _lease_age(caller: Caller) -> float:
    """The seconds since the Lease was renewed. Raises NotYet if it is not there."""
    answer = caller.send("GET", _LEASE)
    if answer.code != 200:
        raise NotYet(str(answer.body))
    renewed = datetime.fromisoformat(answer.body["spec"]["renewTime"])
    return (datetime.now(UTC) - renewed).total_seconds()
