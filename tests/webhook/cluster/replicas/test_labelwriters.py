"""The look for what can write labels past the guard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from prometheus_client import Metric
from structlog.testing import capture_logs
from support.api.fakeapi import FakeApi, status
from support.api.times import Times
from support.patience import until
from support.service.servers import leader

from webhook.cluster.api.client import Connection
from webhook.cluster.inspection.labelwriters import BINDINGS, DEFINITIONS, POLICIES
from webhook.cluster.replicas.checks import LabelWriters
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

_ROOT = "/apis/admissionregistration.k8s.io/v1"
_EVENTS = "/api/v1/namespaces/default/events"
_REMEDY = "cks-admission is not asked about this: remove it, or name it in labels.trusted if it is the cloud's."
_RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
_HOOK = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}}


def _policy(server: FakeApi, name: str, label: str = "coreweave.cloud/x", *, generation: int = 1) -> None:
    """Put a policy that adds a label."""
    expression = f'Object{{metadata: Object.metadata{{labels: {{"{label}": "y"}}}}}}'
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {"matchConstraints": {"resourceRules": _RULES}, "mutations": [mutation]}
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    server.put(f"{_ROOT}/{POLICIES}", {"metadata": metadata, "spec": spec})


def _binding(server: FakeApi, policy: str) -> None:
    server.put(f"{_ROOT}/{BINDINGS}", {"metadata": {"name": policy}, "spec": {"policyName": policy}})


def _definition(server: FakeApi, name: str, **conversion: Any) -> None:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    spec = {"versions": [{"name": "v1"}, {"name": "v2"}], "conversion": conversion}
    server.put(DEFINITIONS, {"metadata": metadata, "spec": spec})


def _install(server: FakeApi) -> None:
    kinds = {POLICIES: "MutatingAdmissionPolicy", BINDINGS: "MutatingAdmissionPolicyBinding"}
    server.install("admissionregistration.k8s.io", {"v1": kinds})
    server.install(
        "apiextensions.k8s.io", {"v1": {"customresourcedefinitions": "CustomResourceDefinition"}}, namespaced=False
    )


class _Look:
    """The look with its surroundings."""

    def __init__(self, api: Connection, times: Times, *, leading: bool = True, **labels: Any) -> None:
        self.metrics = Metrics()
        self.leading = leading
        self.settings = Settings.model_validate({"labels": labels})
        self.writers = LabelWriters(
            leader(api, lambda: self.settings, self.metrics, times.clock, leads=lambda: self.leading)
        )

    def counts(self) -> dict[tuple[str, str], float]:
        """The metric, by kind and verdict."""
        family: Metric = next(iter(self.metrics.label_writers.collect()))
        return {(one.labels["kind"], one.labels["verdict"]): one.value for one in family.samples}


def _told(server: FakeApi) -> list[tuple[str, str, str, str]]:
    """The namespace, the object, the reason and the message of each Event that was sent."""
    events = [json.loads(seen.body) for seen in server.seen if (seen.method, seen.path) == ("POST", _EVENTS)]
    return [
        (each["metadata"]["namespace"], each["involvedObject"]["name"], each["reason"], each["message"])
        for each in events
    ]


async def test_what_can_write_is_counted_logged_and_told(server: FakeApi, api: Connection, times: Times) -> None:
    """Bound policies and conversions count; those without a binding, with own labels or without a webhook do not."""
    _install(server)
    for name in ("bad", "unbound"):
        _policy(server, name)
    _policy(server, "own", "example.org/x")
    for name in ("bad", "own"):
        _binding(server, name)
    _definition(server, "a.example.org", **_HOOK)
    _definition(server, "b.example.org", strategy="None")
    look = _Look(api, times)

    with capture_logs() as logs:
        await look.writers.look()
        await look.writers.look()

    reserved = "its expressions name reserved labels: coreweave.cloud/x"
    possible = "its conversion webhook, ops/hook, may change the labels of its objects after admission"
    assert look.counts() == {
        ("MutatingAdmissionPolicy", "reserved"): 1,
        ("CustomResourceDefinition", "possible"): 1,
    }
    assert logs == [
        {
            "event": "labels can be written past the guard",
            "log_level": "warning",
            "writers": [
                f"MutatingAdmissionPolicy bad: {reserved}",
                f"CustomResourceDefinition a.example.org: {possible}",
            ],
            "more": 0,
        }
    ]
    assert _told(server) == [
        ("default", "bad", "WritesReservedLabels", f"I{reserved[1:]}. {_REMEDY}"),
        ("default", "a.example.org", "MayWriteLabels", f"I{possible[1:]}. {_REMEDY}"),
    ]


async def test_what_is_trusted_is_left_alone(server: FakeApi, api: Connection, times: Times) -> None:
    """Kinds and names in the settings are the cloud's own."""
    _install(server)
    for name in ("cks-a", "other"):
        _policy(server, name)
        _binding(server, name)
    _definition(server, "cks-a", **_HOOK)
    look = _Look(api, times, trusted=["MutatingAdmissionPolicy/cks-*"])

    await look.writers.look()

    assert [name for _, name, _, _ in _told(server)] == ["other", "cks-a"]


async def test_a_change_is_seen(server: FakeApi, api: Connection, times: Times) -> None:
    """A definition is read whole once for each generation; a policy that was mended counts no more."""
    _install(server)
    _policy(server, "bad")
    _binding(server, "bad")
    _definition(server, "a.example.org", **_HOOK)
    look = _Look(api, times)

    await look.writers.look()
    _policy(server, "bad", "example.org/x", generation=2)
    await look.writers.look()

    assert look.counts() == {("CustomResourceDefinition", "possible"): 1}
    assert [seen.path for seen in server.seen].count(f"{DEFINITIONS}/a.example.org") == 1
    assert {seen.headers["Accept"].split(";")[1] for seen in server.seen if seen.path == DEFINITIONS} == {
        "as=PartialObjectMetadataList"
    }


async def test_an_older_api_server(server: FakeApi, api: Connection, times: Times) -> None:
    """Policies are read in the version that is served; a cluster without the kind has none."""
    server.install("apiextensions.k8s.io", {"v1": {"customresourcedefinitions": "CustomResourceDefinition"}})
    look = _Look(api, times)
    await look.writers.look()
    kinds = {POLICIES: "MutatingAdmissionPolicy", BINDINGS: "MutatingAdmissionPolicyBinding"}
    server.install("admissionregistration.k8s.io", {"v1beta1": kinds})
    root = "/apis/admissionregistration.k8s.io/v1beta1"
    server.put(f"{root}/{BINDINGS}", {"metadata": {"name": "b"}, "spec": {"policyName": "old"}})
    spec = {"mutations": [{"jsonPatch": {"expression": "'coreweave.cloud/x'"}}]}
    server.put(f"{root}/{POLICIES}", {"metadata": {"name": "old", "uid": "1", "generation": 1}, "spec": spec})

    await look.writers.look()

    assert [(name, reason) for _, name, reason, _ in _told(server)] == [("old", "WritesReservedLabels")]


@asynccontextmanager
async def _running(look: _Look) -> AsyncIterator[None]:
    task = asyncio.create_task(look.writers.run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_missing_right_is_logged_once(server: FakeApi, api: Connection, times: Times) -> None:
    """Whoever may not list says so, and goes on."""
    _install(server)
    server.fail(DEFINITIONS, 403, status(403, "may not list"), times=9)
    times.patience = 2
    look = _Look(api, times)

    with capture_logs() as logs:
        async with _running(look):
            await until(lambda: times.patience < 0)

    (event,) = logs
    assert (event["event"], "may not list" in event["reason"]) == ("could not look for label writers", True)
