"""The facts of a cluster, which watches keep up to date, so that rules read them from memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date
from typing import Any, Generic, TypeVar

import msgspec

from policies.admissionpolicy.evaluation.inputs import ParametersKey
from policies.cel.library.authorizer import Check, CheckAnswer, answer_of, subject_access_review
from policies.engine.facts import NAME_LABEL, Facts, Namespace, NamespaceKey, Node, ReferencesKey
from policies.engine.interruption import FactUnavailable, Key, Missing
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.kubernetes.name import dns_label
from policies.topology.topology import Topology
from policies.topology.way import FlavorsKey, JobKey, SupportKey
from webhook.cluster.api.call import UNREADABLE, ApiClient, Call, Connection, fetch
from webhook.cluster.api.errors import ApiError, Clock, ClusterError
from webhook.cluster.api.objects import (
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    NamespaceObject,
    PriorityClassObject,
    WatchedNode,
    name_of,
    namespace_of,
    node_of,
)
from webhook.cluster.facts import scheduling
from webhook.cluster.facts.scheduling import Ask, SchedulingSupport
from webhook.cluster.facts.workloads import WORKLOADS, GroupKind, search
from webhook.cluster.watches.optional import VERSIONS, Devices, NodePools, Topologies
from webhook.cluster.watches.parameters import ClusterParameters
from webhook.cluster.watches.reflector import Cache, Following, Reflector, cancelled

K = TypeVar("K")
T = TypeVar("T")
REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# kube-apiserver keeps allowed answers of a webhook for 5 minutes and others for 30 s, but those of RBAC not at all. So
# the time is only as long as a burst of writes of one user: who loses or gets a right notices it here in 10 s.
REVIEW_SECONDS = 10.0
# An answer of usual size needs about 1 KB. As in kube-apiserver, users cannot fill the memory with long attributes.
MOST_KEPT = 4096
LONGEST_KEPT = 10_000
# Half of the connections for reads, so that slow answers leave room for the Lease and for Namespaces.
AT_ONCE = 50
# The longest time that the API server waits for a webhook; afterwards nobody needs the answer.
READ_SECONDS = 30.0


class _Review(msgspec.Struct):
    status: dict[str, Any]


_REVIEW = msgspec.json.Decoder(_Review)


class _Answers(Generic[K, T]):
    """Answers of the API server, which are kept for some seconds. Concurrent questions about a key are one request.

    seconds: how long one is kept.
    """

    def __init__(self, api: ApiClient, clock: Clock, seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._seconds = seconds
        self._kept: OrderedDict[K, tuple[float, T]] = OrderedDict()
        self._running: dict[K, asyncio.Task[T]] = {}

    def get(self, key: K) -> T | None:
        """The answer, if it was read recently."""
        until, answer = self._kept.get(key, (0.0, None))
        if answer is None or self._clock.monotonic() >= until:
            return None
        self._kept.move_to_end(key)
        return answer

    async def stop(self) -> None:
        """Cancel the current questions."""
        await cancelled(self._running.values())

    async def _ask(self, key: K) -> T:
        raise NotImplementedError

    async def _asked(self, key: K, seconds: float) -> asyncio.Task[T] | None:
        """The question when it has ended; None if it has not within these seconds."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._ask(key), name=type(self).__name__)

            def ended(task: asyncio.Task[T]) -> None:
                del self._running[key]
                if not task.cancelled():
                    task.exception()  # retrieve it, in case nobody waits any more

            task.add_done_callback(ended)
        # If one caller times out or is cancelled, the others still get the answer.
        done, _ = await asyncio.wait([task], timeout=seconds)
        return task if done else None

    def _keep(self, key: K, answer: T, since: float) -> None:
        """Keep an answer, and forget those that are old or were used least recently."""
        self._kept[key] = since + self._seconds, answer
        now = self._clock.monotonic()
        while len(self._kept) > MOST_KEPT or (self._kept and next(iter(self._kept.values()))[0] <= now):
            self._kept.popitem(last=False)


class AccessReviews(_Answers[Check, CheckAnswer]):
    """Answers authorization checks of CEL expressions by SubjectAccessReviews, and keeps the answers for some seconds.

    kube-apiserver keeps those of its webhook authorizer alike (k8s.io/apiserver's plugin/pkg/authorizer/webhook).
    Errors are not kept: expressions see them with `errored()`.
    """

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        super().__init__(api, clock, REVIEW_SECONDS)
        self._free = asyncio.Semaphore(AT_ONCE)

    async def review(self, check: Check, seconds: float) -> CheckAnswer:
        """The answer to a check; an errored one if there is none within the time limit."""
        if kept := self.get(check):
            return kept
        task = await self._asked(check, seconds)
        if task is None:
            return _late(seconds)
        return _errored("the service is shutting down") if task.cancelled() else task.result()

    async def _ask(self, check: Check) -> CheckAnswer:
        async with self._free:
            asked = self._clock.monotonic()  # before the question, so that no answer is kept for longer
            answer = await review(self._api, check, READ_SECONDS)
        if answer.error is None and len(msgspec.json.encode(subject_access_review(check))) <= LONGEST_KEPT:
            self._keep(check, answer, asked)
        return answer


async def review(api: ApiClient, check: Check, seconds: float) -> CheckAnswer:
    """The API server's answer to a check; an errored one if there is no answer within the time limit."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": subject_access_review(check),
    }
    try:
        async with asyncio.timeout(seconds):
            return answer_of(_REVIEW.decode(await fetch(api, Call("POST", REVIEWS_PATH, body=body))).status)
    except TimeoutError:
        return _late(seconds)
    except ClusterError as error:
        return _errored(str(error))
    except UNREADABLE as error:
        return _errored(f"the answer to POST {REVIEWS_PATH} is not a SubjectAccessReview: {error}")


def _late(seconds: float) -> CheckAnswer:
    return _errored(f"the API server did not answer within {seconds:.1f} s")


def _errored(reason: str) -> CheckAnswer:
    return CheckAnswer(allowed=False, error=reason)


NAMESPACES_PATH = "/api/v1/namespaces"
# Long enough for the current evaluation and for concurrent ones; short enough in case the Namespace is created, changed
# or deleted before the watch shows it. What the watch knows takes precedence.
NAMESPACE_SECONDS = 5.0


class NamespaceReads(_Answers[str, Namespace]):
    """Reads Namespaces and keeps them for some seconds. One that does not exist has only its name and name label."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        super().__init__(api, clock, NAMESPACE_SECONDS)

    async def read(self, name: str, seconds: float) -> None:
        """Read a Namespace for `get`. Raises FactUnavailable."""
        task = await self._asked(name, seconds)
        what = f"namespace {name} could not be read"
        if task is None:
            raise FactUnavailable(f"{what}: the API server at {self._api.configuration.host} took over {seconds:.1f} s")
        if task.cancelled():
            raise FactUnavailable(f"{what}: the service is shutting down")
        if error := task.exception():
            raise FactUnavailable(f"{what}: {error}") from error

    async def _ask(self, name: str) -> Namespace:
        labels = {NAME_LABEL: name}
        namespace = Namespace(labels, msgspec.json.encode({"metadata": {"name": name, "labels": labels}}))
        if not dns_label(name):  # any other string is not the name of a Namespace, and must not become part of a path
            call = Call("GET", f"{NAMESPACES_PATH}/{name}", seconds=READ_SECONDS)
            try:
                namespace = namespace_of(NAMESPACES.decode(msgspec.Raw(await fetch(self._api, call))))
            except ApiError as error:
                if error.status != 404:
                    raise
            except UNREADABLE as error:
                raise ClusterError(f"the answer to GET {call.path} is not a Namespace: {error}") from error
        self._keep(name, namespace, self._clock.monotonic())
        return namespace


_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NO_CLASSES: frozenset[str] = frozenset()


class KnownFacts(Facts, frozen=True):
    """The current facts of a cluster: everything that was read or watched so far."""

    cluster: ClusterFacts

    def known(self, key: Key[Any]) -> Any:
        """What is in memory. All other keys are looked up for each review. Raises Missing."""
        if isinstance(key, NamespaceKey) and (
            namespace := self.cluster.namespaces.by_key.get(key.name) or self.cluster.reads.get(key.name)
        ):
            return namespace
        if isinstance(key, ParametersKey):
            return self.cluster.parameters.known(key)
        if isinstance(key, SupportKey):
            return self.cluster.support.current
        raise Missing(key)

    def nodes(self) -> Sequence[Node]:
        """The Nodes; none if they are not watched."""
        return self.cluster.nodes.values

    def nodes_to_come(self) -> Sequence[Mapping[str, str]]:
        """The labels that the pools of the cluster give their Nodes; none if they are not watched."""
        return self.cluster.pools.known

    def priorities(self) -> Mapping[str, int] | None:
        """The values of PriorityClasses by name; None before they are known, for there are always some."""
        classes = self.cluster.classes.values
        names = ((item.metadata.name, item.value) for item in classes)
        default = (("", item.value) for item in classes if item.global_default)
        return dict((*names, *default)) or None

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """The device classes that a claim, or a claim from a template, requests; none if it is unknown."""
        devices = self.cluster.devices
        claims = devices.claims if claim else devices.templates
        return claims.by_key.get((namespace, claim or template), _NO_CLASSES)

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of DeviceClasses, by class."""
        return self.cluster.devices.extended.by_key

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies that are objects of the cluster, if watched. The tuple is the same until one changes."""
        return self.cluster.topologies.known

    def today(self) -> date:
        """The date in UTC."""
        return self.cluster.clock.now().astimezone(UTC).date()


class ClusterFacts(Following):
    """Follows a cluster, and reads what is missing in `known`.

    api: the connection, which the caller closes. watch_nodes: whether a rule needs Nodes, of which there are many.
    watch_topologies: whether a rule needs the cluster's topologies. watch_devices: whether a rule needs device claims.
    watch_priorities: whether PriorityClasses matter. watch_pools: whether a rule asks for Nodes that may be added.
    workloads: the kinds that may name a topology; to be replaced when they change. support: asks what the cluster does
    about topology constraints of workloads; None if nobody needs to know. parameters: the followed parameters of
    admission policies. known: the facts for rules.
    """

    def __init__(
        self,
        api: Connection,
        *,
        watch_nodes: bool,
        watch_topologies: bool = False,
        watch_devices: bool = True,
        watch_priorities: bool = False,
        watch_pools: bool = False,
        workloads: Iterable[GroupKind] = WORKLOADS,
        support: Ask | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.api = api
        self.workloads = tuple(workloads)
        self.clock = clock = clock or Clock()
        self.namespaces = Cache[NamespaceObject, str, Namespace](name_of, namespace_of)
        self.reads, self._access = NamespaceReads(api, clock), AccessReviews(api, clock)
        self.support = SchedulingSupport(support, clock)
        self.devices = Devices(api, clock)
        self.topologies = Topologies(api, VERSIONS if watch_topologies else {}, clock)
        self.pools = NodePools(api, clock, watch=watch_pools)
        self.parameters = ClusterParameters(api, clock)
        self.nodes = Cache[WatchedNode, str, Node](name_of, node_of)
        self.classes = Cache[PriorityClassObject, str, PriorityClassObject](name_of, lambda item: item)
        self.known: Facts = KnownFacts(self)
        parts: list[tuple[bool, Following]] = [
            (True, Reflector(api, NAMESPACES, NAMESPACES_PATH, self.namespaces, clock)),
            (watch_nodes, Reflector(api, NODES, "/api/v1/nodes", self.nodes, clock)),
            (watch_devices, self.devices),
            (True, self.topologies),
        ]
        self._awaited = [part for used, part in parts if used]
        # Rules do without these, so nothing waits for their first lists.
        parts += [
            (watch_priorities, Reflector(api, PRIORITY_CLASSES, _PRIORITY_CLASSES, self.classes, clock)),
            (True, self.pools),
            (support is not None, self.support),
        ]
        self.parts = [part for used, part in parts if used]

    async def stop(self) -> None:
        """Stop following. The facts stay available, but are not updated any more."""
        await super().stop()
        await self.reads.stop()
        await self._access.stop()
        await self.parameters.stop()

    def reflectors(self) -> list[Reflector[Any]]:
        """What is followed now."""
        return [*super().reflectors(), *self.parameters.reflectors()]

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons. Always empty after the first lists have arrived."""
        return [reason for part in self._awaited for reason in part.unsynced()]

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key that is missing in `known`. Raises FactUnavailable, and Missing if reading found nothing.

        A Namespace is read and cached for some seconds; one that does not exist has only its name and name label.
        Parameters are awaited. References contain the kinds that could not be searched in time. A check without an
        answer in time becomes an errored one.
        """

        async def namespace(key: NamespaceKey, seconds: float) -> Namespace:
            await self.reads.read(key.name, seconds)
            return self.known.look_up(key)

        readers: Mapping[type[Key[Any]], Callable[[Any, float], Awaitable[Any]]] = {
            NamespaceKey: namespace,
            ParametersKey: self.parameters.read,
            ReferencesKey: lambda key, seconds: search(self.api, self.workloads, key.topology, seconds),
            Check: self._access.review,
            FlavorsKey: lambda key, seconds: scheduling.flavors(self.api, key, seconds),
            JobKey: lambda key, seconds: scheduling.job(self.api, key, seconds),
        }
        value: T = await readers[type(key)](key, seconds)
        return value

    def control_plane_namespaces(self) -> tuple[str, ...]:
        """The names of the control-plane Namespaces, sorted."""
        known = self.namespaces.by_key.items()
        return tuple(sorted(name for name, one in known if one.labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE))
