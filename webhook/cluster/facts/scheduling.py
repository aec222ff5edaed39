"""Finds out whether the cluster places workloads by their topology constraints, by itself.

No API shows feature gates. With a gate off, the API server drops the field in silence, so the answer to a dry run tells
what it would keep. Whoever may create Jobs may run Pods with any account of the namespace, so replicas have no right
to: where `manage` runs apart, it asks, and writes the answer into the webhook configuration, which replicas may read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec
import structlog

from policies.engine.interruption import FactUnavailable
from policies.engine.request import JsonObject, mapping
from policies.topology import way
from policies.topology.objects import KUEUE
from policies.topology.way import ANNOTATION, GROUP, FlavorsKey, JobKey, Support
from policies.vocabulary import HOSTNAME
from webhook.cluster.api.call import UNREADABLE, ApiClient, Call, fetch, listed, merge, named, send
from webhook.cluster.api.discovery import versions
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.replicas.webhooks import path as registered_at
from webhook.cluster.watches.reflector import Following

SECONDS = 60.0
"""The time between questions: gates change when an API server starts again."""

READ_SECONDS = 10.0
_IN_1_36 = "v1alpha2"
_GATES = "GenericWorkload, TopologyAwareWorkloadScheduling and WorkloadWithJob"
_REMEDY = f"turn on the feature gates {_GATES} in kube-apiserver, kube-controller-manager and kube-scheduler"
_NAME = "cks-admission-probe"
_SUPPORT = msgspec.json.Decoder(Support)

Ask = Callable[[], Awaitable[Support]]


async def probed(api: ApiClient, namespace: str) -> Support:
    """What the API server keeps of constraints in objects that are not stored. Raises ClusterError.

    namespace: one in which the process may create Jobs and PodGroups.
    """
    served = await versions(api, GROUP)
    version = next((one for one in (_IN_1_36, "v1beta1", "v1alpha3") if one in served), "")
    if not version:
        return Support(reason=f"the API server serves no PodGroups of {GROUP}: {_REMEDY}, and serve the API")
    constraints = way.constraints(HOSTNAME)
    group = {"schedulingPolicy": {"gang": {"minCount": 1}}, "schedulingConstraints": constraints}
    kept = await _dry_run(api, f"{GROUP}/{version}", "PodGroup", namespace, group)
    if kept.get("schedulingConstraints") != constraints:
        return Support(reason=f"the API server drops the constraints of PodGroups: {_REMEDY}")
    if version == _IN_1_36:
        return Support("PodGroup")
    container = {"name": "probe", "image": "probe"}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"suspend": True, "template": pods, "scheduling": way.scheduling(HOSTNAME)}
    kept = await _dry_run(api, "batch/v1", "Job", namespace, job)
    if mapping(kept, "scheduling").get("schedulingConstraints") != constraints:
        return Support(reason=f"the API server drops spec.scheduling of Jobs: {_REMEDY}")
    return Support("Job")


async def published(api: ApiClient, name: str) -> Support:
    """What `manage` wrote into the webhook configuration with a name. Raises ClusterError."""
    found = await named(api, registered_at("MutatingWebhookConfiguration"), name)
    text = mapping(mapping(found or {}, "metadata"), "annotations").get(ANNOTATION)
    if not text:
        return Support(reason="manage has not found out yet")
    try:
        return _SUPPORT.decode(str(text))
    except UNREADABLE as error:
        raise ClusterError(f"the annotation {ANNOTATION} of {name} cannot be read: {error}") from error


async def publish(api: ApiClient, name: str, support: Support) -> None:
    """Write what was found out into the webhook configuration with a name. Raises ClusterError."""
    text = msgspec.json.encode(support).decode()
    body = {"metadata": {"annotations": {ANNOTATION: text}}}
    place = registered_at("MutatingWebhookConfiguration", name)
    await fetch(api, merge(place, body, READ_SECONDS))


async def job(api: ApiClient, key: JobKey, seconds: float) -> JsonObject | FactUnavailable:
    """A Job; empty if it is gone, or another one by now."""
    try:
        async with asyncio.timeout(seconds):
            found = await named(api, f"/apis/batch/v1/namespaces/{key.namespace}/jobs", key.name)
    except TimeoutError:
        return key.failure(f"the API server did not answer within {seconds:.1f} s")
    except ClusterError as error:
        return key.failure(str(error))
    return found if found and mapping(found, "metadata").get("uid") == key.uid else {}


async def flavors(api: ApiClient, key: FlavorsKey, seconds: float) -> frozenset[str] | FactUnavailable | None:
    """The topologies that Kueue's ResourceFlavors name; None if they cannot be read."""
    try:
        async with asyncio.timeout(seconds):
            version = next(iter(await versions(api, KUEUE)), "")
            items = await listed(api, f"/apis/{KUEUE}/{version}/resourceflavors") if version else []
    except (TimeoutError, ClusterError) as error:
        return key.failure(str(error))
    names = (mapping(item, "spec").get("topologyName") for item in items)
    return frozenset(str(name) for name in names if name)


class SchedulingSupport(Following):
    """Asks once a minute what the cluster supports, and logs when that changes. current: the last answer.

    ask: None if nobody needs to know. A failure is an answer, too: there is no support, with the reason.
    """

    name = "workload scheduling"

    def __init__(self, ask: Ask | None, clock: Clock) -> None:
        self.current = Support(reason="it is not known yet" if ask else "topology.workloadScheduling is off")
        self._ask = ask
        self._clock = clock
        self._log = structlog.get_logger()

    def problems(self) -> list[str]:
        """Why there is no support, although it is asked for."""
        return [f"{self.name}: {self.current.reason}"] if self._ask and self.current.reason else []

    async def run(self) -> NoReturn:
        """Ask until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(SECONDS)

    async def look(self) -> None:
        """Ask once."""
        if self._ask is None:
            return
        try:
            support = await self._ask()
        except ClusterError as error:
            support = Support(reason=str(error))
        if support != self.current:
            level = self._log.info if support.form else self._log.warning
            level("workload scheduling", constraints=support.form, reason=support.reason)
        self.current = support


async def _dry_run(api: ApiClient, version: str, kind: str, namespace: str, spec: JsonObject) -> JsonObject:
    """The spec that the API server would store. Raises ClusterError."""
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": _NAME, "namespace": namespace}, "spec": spec}
    place = f"/apis/{version}/namespaces/{namespace}/{kind.lower()}s"
    call = Call("POST", place, (("dryRun", "All"),), body=body, seconds=READ_SECONDS)
    return mapping(await send(api, call), "spec")
