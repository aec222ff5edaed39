"""Single reads of a cluster. A failure is a result, too: what could not be read, and the missing right."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from cryptography.x509 import Certificate, load_der_x509_certificate

from policies.engine.request import JsonObject, mapping
from webhook.cluster.api.call import UNREADABLE, Call, fetch, pages
from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError
from webhook.doctor.observation import Component, Read, Unread
from webhook.registration import outage

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


T = TypeVar("T")

SECONDS = 7.0
"""The time limit of a read."""

_PAGE = 500
_OBJECT = msgspec.json.Decoder(dict[str, Any])


async def tried(reading: Awaitable[T], right: str, seconds: float = SECONDS) -> Read[T]:
    """The result of a read, or why it failed. right: the required right, such as `list nodes`."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return Unread(f"no answer within {seconds:.0f} s")
    except ApiError as error:
        return Unread(str(error), right if error.status == 403 else "")
    except ClusterError as error:
        return Unread(str(error))


async def one(api: ApiClient, path: str) -> JsonObject | None:
    """The object at a path; None if there is none. Raises ClusterError."""
    try:
        return await send(api, Call("GET", path))
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def several(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[JsonObject]:
    """The objects of a list; empty if the kind does not exist. query: selectors. Raises ClusterError."""
    try:
        return await listed(api, path, query, accept)
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def listed(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[JsonObject]:
    """The objects of a list. Raises ClusterError; an ApiError with status 404 if the kind does not exist."""
    return [decoded(raw, path) async for page in pages(api, path, query, _PAGE, accept) for raw in page.items or ()]


async def send(api: ApiClient, call: Call) -> JsonObject:
    """The object in the answer to a call. Raises ClusterError."""
    return decoded(msgspec.Raw(await fetch(api, call)), call.path)


def decoded(raw: msgspec.Raw, path: str) -> JsonObject:
    """The decoded object. Raises ClusterError."""
    try:
        return _OBJECT.decode(raw)
    except UNREADABLE as error:
        raise ClusterError(f"the answer to GET {path} cannot be read: {error}") from error


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
        return _chain(writer.get_extra_info("ssl_object"))
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
        writer.transport.abort()  # a server that sends no close_notify would leave it open


def _chain(connection: Any) -> tuple[Certificate, ...]:
    # Public since Python 3.13; the object below has had it since 3.10.
    chain = connection._sslobj.get_unverified_chain()  # noqa: SLF001 - as above
    return tuple(
        load_der_x509_certificate(ssl.PEM_cert_to_DER_cert(certificate.public_bytes())) for certificate in chain
    )


_PLURALS = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
_PRIORITIES = ("system-node-critical", "system-cluster-critical")


async def components(api: ApiClient) -> list[Component]:
    """DaemonSets and Deployments in the Nodes' network or with a priority of the system. Raises ClusterError."""
    return [
        component(kind, workload)
        for kind, plural in _PLURALS.items()
        for workload in await several(api, f"/apis/apps/v1/{plural}")
        if _is_of_the_system(mapping(mapping(mapping(workload, "spec"), "template"), "spec"))
    ]


def component(kind: str, workload: JsonObject) -> Component:
    """A workload, with the request that creates one of its Pods."""
    metadata, template = mapping(workload, "metadata"), mapping(mapping(workload, "spec"), "template")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    pod = {**mapping(template, "metadata"), "name": name, "namespace": namespace}
    return Component(
        kind,
        namespace,
        name,
        outage.written("CREATE", ("", "pods"), outage.CONTROLLER, pod, mapping(template, "spec"), kind="Pod"),
    )


def _is_of_the_system(spec: JsonObject) -> bool:
    return bool(spec.get("hostNetwork")) or spec.get("priorityClassName") in _PRIORITIES
