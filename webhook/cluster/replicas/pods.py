"""Follows the Pods of the replicas, asks each which paths it answers, and looks at the certificates that they show.

A Pod tells this itself, because an annotation in the chart would be wrong for another image than the chart's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout
from cryptography.x509 import Certificate, load_der_x509_certificate
from msgspec import Struct
from yarl import URL

from webhook.cluster.api.call import Connection, resource_path
from webhook.cluster.api.errors import Clock, ClusterError, UnreachableError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.reflector import Cache, Following, Reflector
from webhook.http.health import PATHS
from webhook.registration.configurations import Announcement

# The names of the ports in the Pods' spec.
WEBHOOK, HEALTH = "webhook", "health"

_ANSWER_SECONDS = 3.0
_LOOK_SECONDS = 1.0
_AT_ONCE = 16
_PATHS = msgspec.json.Decoder(list[str])


async def certificates(host: str, port: int, name: str, seconds: float) -> tuple[Certificate, ...]:
    """The chain that a server presents for a name, leaf first. Raises UnreachableError."""
    # No verification is needed, because nothing is sent to the server. The caller judges the certificates.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except TimeoutError:
        raise UnreachableError(f"no answer within {seconds:.0f} s") from None
    except ssl.SSLError as error:
        raise UnreachableError(f"no TLS: {error.reason or error}") from error
    except ConnectionRefusedError as error:
        raise UnreachableError("the connection was refused") from error
    except (OSError, ValueError) as error:  # ValueError if the name is invalid
        raise UnreachableError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
    try:
        # Public since Python 3.13; the object below has had it since 3.10.
        chain = writer.get_extra_info("ssl_object")._sslobj.get_unverified_chain()  # noqa: SLF001 - as above
        return tuple(load_der_x509_certificate(ssl.PEM_cert_to_DER_cert(one.public_bytes())) for one in chain)
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
        writer.transport.abort()  # a server that sends no close_notify would leave it open


class ReplicaPod(Struct, frozen=True):
    """A Pod that answers reviews, or will, or does so for its last seconds.

    address: empty until it has one. ports: by name. instance: another one for each start of its container.
    """

    name: str
    address: str
    ports: Mapping[str, int]
    ready: bool
    instance: str


class ReplicaPods(Following):
    """The Pods with a label selector in a Namespace.

    server_name: the name for which they show certificates. noticed: called when any of them, or what it said, has
    changed.
    """

    def __init__(
        self,
        api: Connection,
        namespace: str,
        selector: str,
        server_name: str,
        noticed: Callable[[], None],
    ) -> None:
        self._noticed = noticed
        self._woken = asyncio.Event()
        self._server_name = server_name

        def notice() -> None:
            self._woken.set()
            noticed()

        self._pods = Cache[WholeObject, str, ReplicaPod](name_of, _pod, notice)
        resource = FollowedResource("pods of replicas", whole, query=(("labelSelector", selector),))
        path = resource_path("v1", "pods", namespace)
        right = f"a Role in namespace {namespace} must allow manage's account to list and watch pods"
        self.parts = [Reflector(api, resource, path, self._pods, Clock(), right=right)]
        self._paths: dict[str, frozenset[str]] = {}
        self._log = structlog.get_logger()

    @property
    def ready(self) -> bool:
        """Whether any replica is ready."""
        return any(pod.ready for pod in self._pods.values)

    def announcements(self) -> tuple[Announcement, ...] | None:
        """What each Pod answers, as far as it is known; None before the first list has arrived."""
        if self.unsynced():
            return None
        return tuple(
            Announcement(pod.name, ready=pod.ready, paths=self._paths.get(pod.instance)) for pod in self._pods.values
        )

    async def ask(self) -> NoReturn:
        """Ask the Pods that have not said yet what they answer, until cancelled."""
        free = asyncio.Semaphore(_AT_ONCE)
        async with ClientSession(timeout=ClientTimeout(total=_ANSWER_SECONDS)) as session:
            while True:
                self._woken.clear()
                known = {pod.instance for pod in self._pods.values}
                self._paths = {instance: paths for instance, paths in self._paths.items() if instance in known}
                silent = [pod for pod in self._pods.values if pod.address and pod.instance not in self._paths]
                await asyncio.gather(*(self._ask(session, free, pod) for pod in silent))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS if silent else None):
                        await self._woken.wait()

    async def handshakes(self) -> Sequence[Certificate | None]:
        """The leaf that each Pod with an address shows; None for one that shows none."""
        free = asyncio.Semaphore(_AT_ONCE)

        async def shown(pod: ReplicaPod) -> Certificate | None:
            async with free:
                try:
                    port = pod.ports.get(WEBHOOK, 0)
                    return (await certificates(pod.address, port, self._server_name, _ANSWER_SECONDS))[0]
                except ClusterError:
                    return None

        # A Pod without an address has not started: its volume will have the leaf that is stored now.
        return await asyncio.gather(*(shown(pod) for pod in self._pods.values if pod.address))

    async def _ask(self, session: ClientSession, free: asyncio.Semaphore, pod: ReplicaPod) -> None:
        url = URL.build(scheme="http", host=pod.address, port=pod.ports.get(HEALTH), path=PATHS)
        try:
            async with free, session.get(url) as answer:
                body = await answer.read()
                paths = frozenset(_PATHS.decode(body))
        except (ClientError, OSError, TimeoutError, ValueError) as error:
            self._log.debug("replica did not list its paths", pod=pod.name, reason=repr(error))
            return
        self._paths[pod.instance] = paths
        self._noticed()


def _pod(item: WholeObject) -> ReplicaPod | None:
    """What matters of a Pod; None if it has ended."""
    spec, status = item.content.get("spec") or {}, item.content.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    ports = {
        str(port.get("name")): int(port["containerPort"])
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
    }
    # One that is being deleted may get calls until its container is not ready.
    conditions = [(condition.get("type"), condition.get("status")) for condition in status.get("conditions") or ()]
    containers = status.get("containerStatuses") or ()
    starts = (f"{container.get('containerID')}/{container.get('restartCount')}" for container in containers)
    return ReplicaPod(
        item.metadata.name,
        str(status.get("podIP") or ""),
        ports,
        ready=("Ready", "True") in conditions,
        instance=" ".join((str(item.content["metadata"].get("uid")), *starts)),
    )
