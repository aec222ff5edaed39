"""The cluster's facts for the rules, kept by watches: Namespaces, Nodes, and device claims where they are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct, field

from policies.facts import NAME_LABEL, FactUnavailable, Node, Taint, UnknownFact
from policies.requester import CONTROL_PLANE, CONTROL_PLANE_LABEL
from webhook.cluster.client import METADATA_ONLY, Api, ClusterError
from webhook.cluster.reflector import Item, Reflector

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
DEVICES = "/apis/resource.k8s.io"
# Versions whose shape is known here, the best first.
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
# How long an answer that was read directly stands in for the watch; it says the same within a second.
READ_LIFETIME = timedelta(seconds=5)


class _NodeSpec(Struct):
    taints: list[Taint] = []


class _Node(Item):
    spec: _NodeSpec = _NodeSpec()


class _Exactly(Struct):
    device_class: str = field(name="deviceClassName", default="")


class _DeviceRequest(Struct):
    device_class: str = field(name="deviceClassName", default="")  # v1beta1
    exactly: _Exactly | None = None
    first_available: list[_Exactly] = field(name="firstAvailable", default_factory=list)


class _Devices(Struct):
    requests: list[_DeviceRequest] = []


class _ClaimSpec(Struct):
    devices: _Devices = _Devices()


class _Claim(Item):
    spec: _ClaimSpec = _ClaimSpec()


class _ClaimTemplateSpec(Struct):
    spec: _ClaimSpec = _ClaimSpec()


class _ClaimTemplate(Item):
    spec: _ClaimTemplateSpec = _ClaimTemplateSpec()


class _DeviceClassSpec(Struct):
    extended: str = field(name="extendedResourceName", default="")


class _DeviceClass(Item):
    spec: _DeviceClassSpec = _DeviceClassSpec()


class _Version(Struct):
    version: str


class _Group(Struct):
    versions: list[_Version] = []


class ClusterFacts:
    """`policies.facts.Facts` over watches, and the direct reads that fill their gaps.

    watch_nodes: whether any rule asks for Nodes. now: the clock, aware, UTC.
    """

    def __init__(self, api: Api, *, watch_nodes: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.api = api
        self._now = now
        self._namespaces = Reflector(api, NAMESPACES, Item, metadata_only=True)
        self._nodes = Reflector(api, NODES, _Node) if watch_nodes else None
        self._claims: Reflector[_Claim] | None = None
        self._claim_templates: Reflector[_ClaimTemplate] | None = None
        self._device_classes: Reflector[_DeviceClass] | None = None
        self._read: dict[str, tuple[datetime, Mapping[str, str]]] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to watch. Raises ClusterError where the API server cannot be asked what it serves."""
        version = await self._device_version()
        if version:
            self._claims = Reflector(self.api, f"{DEVICES}/{version}/resourceclaims", _Claim)
            self._claim_templates = Reflector(self.api, f"{DEVICES}/{version}/resourceclaimtemplates", _ClaimTemplate)
            self._device_classes = Reflector(self.api, f"{DEVICES}/{version}/deviceclasses", _DeviceClass)
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors()]

    async def stop(self) -> None:
        """End the watches."""
        for task in (*self._tasks, *self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._reading.values(), return_exceptions=True)

    def unsynced(self) -> list[str]:
        """Why not all facts are at hand yet, a line for each resource."""
        return [
            f"{reflector.path} has not been listed yet" + (f": {reflector.problem}" if reflector.problem else "")
            for reflector in self._reflectors()
            if not reflector.synced
        ]

    def control_plane_namespaces(self) -> tuple[str, ...]:
        """The names of the Namespaces that belong to the control plane, sorted."""
        return tuple(
            sorted(
                name
                for (_, name), item in self._namespaces.objects.items()
                if (item.metadata.labels or {}).get(CONTROL_PLANE_LABEL) == CONTROL_PLANE
            )
        )

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace. Raises UnknownFact where neither the watch nor a recent read has brought it."""
        item = self._namespaces.objects.get(("", name))
        if item is not None:
            return item.metadata.labels or {}
        found = self._read.get(name)
        if found is None or self._now() - found[0] > READ_LIFETIME:
            raise UnknownFact(name)
        return found[1]

    def nodes(self) -> Sequence[Node]:
        """The Nodes, as the watch knows them."""
        if self._nodes is None:
            return ()
        return [
            Node(item.metadata.name, item.metadata.labels or {}, tuple(item.spec.taints))
            for item in self._nodes.objects.values()
        ]

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """Device classes of a claim or a claim template; none where it is not known or claims are not served."""
        if claim and self._claims is not None:
            found = self._claims.objects.get((namespace, claim))
            return _classes(found.spec) if found else frozenset()
        if template and self._claim_templates is not None:
            made_from = self._claim_templates.objects.get((namespace, template))
            return _classes(made_from.spec.spec) if made_from else frozenset()
        return frozenset()

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of device classes, by class."""
        if self._device_classes is None:
            return {}
        return {
            name: item.spec.extended for (_, name), item in self._device_classes.objects.items() if item.spec.extended
        }

    def today(self) -> date:
        """The date in UTC."""
        return self._now().date()

    async def read_namespace(self, name: str, seconds: float) -> None:
        """Read a Namespace's labels into the facts; those who want the same one share a request.

        Raises FactUnavailable where that does not succeed within some seconds.
        """
        task = self._reading.get(name)
        if task is None:
            task = self._reading[name] = asyncio.create_task(self._read_now(name))
            task.add_done_callback(lambda _: self._reading.pop(name, None))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(task)
        except TimeoutError:
            raise FactUnavailable(f"namespace {name} could not be read within {seconds:.1f} s") from None
        except ClusterError as error:
            raise FactUnavailable(f"namespace {name} could not be read: {error}") from error

    async def _read_now(self, name: str) -> None:
        try:
            body = await self.api.read(f"{NAMESPACES}/{name}", accept=METADATA_ONLY.format(""))
            labels: Mapping[str, str] = msgspec.json.decode(body, type=Item).metadata.labels or {}
        except ClusterError as error:
            if error.status != 404:
                raise
            labels = {NAME_LABEL: name}  # what is in no Namespace yet is in none of the control plane's
        now = self._now()
        self._read = {key: value for key, value in self._read.items() if now - value[0] <= READ_LIFETIME}
        self._read[name] = (now, labels)

    async def _device_version(self) -> str | None:
        """The version in which device claims are served, None where they are not."""
        try:
            group = msgspec.json.decode(await self.api.read(DEVICES), type=_Group)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise
        served = {version.version for version in group.versions}
        return next((version for version in DEVICE_VERSIONS if version in served), None)

    def _reflectors(self) -> list[Reflector[Any]]:
        found = (self._namespaces, self._nodes, self._claims, self._claim_templates, self._device_classes)
        return [reflector for reflector in found if reflector is not None]


def _classes(spec: _ClaimSpec) -> frozenset[str]:
    names = set()
    for request in spec.devices.requests:
        exact = [request.exactly] if request.exactly else []
        names |= {request.device_class, *(option.device_class for option in (*exact, *request.first_available))}
    return frozenset(names - {""})
