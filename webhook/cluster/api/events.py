"""Writes Events, by which people see on an object what the service has to say about it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Literal

import msgspec
import structlog
from msgspec import Struct

from policies.engine.violation import BLANKS, printable, shortened
from policies.kubernetes.name import SUBDOMAIN_LENGTH, dns_subdomain
from webhook.cluster.api.call import ApiClient, Call, fetch, resource_path
from webhook.cluster.api.errors import ApiError, Clock, ClusterError

CLUSTER_NAMESPACE = "default"
"""The namespace of Events about objects without one."""

Reason = Literal[
    "AdmittedUnchanged",
    "CreationRefused",
    "DomainLost",
    "OutsideDomain",
    "Placed",
    "PoliciesLoaded",
    "PoliciesRefused",
    "PolicySlow",
    "Stuck",
    "Waiting",
    "WouldBeRefused",
]
"""The reasons of all Events; docs/reference/telemetry.md lists them."""

RIGHT = "a ClusterRole must allow the account of this process to create events"

_LONGEST = 1024  # Kubernetes' limit for an Event's note
_LONGEST_NAME = SUBDOMAIN_LENGTH - 17  # leaves room for a dot and a digest
_SECONDS = 15.0


class Subject(Struct, frozen=True, rename="camel"):
    """The object of an Event. namespace: empty for an object without one, whose Events are in `default`."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Events:
    """Writes Events to a cluster. send: what sends a request, in place of the API's own way to do so."""

    def __init__(
        self, api: ApiClient, clock: Clock | None = None, send: Callable[[Call], Awaitable[bytes]] | None = None
    ) -> None:
        self._clock = clock or Clock()
        self._send = send or (lambda call: fetch(api, call))
        self._problem: int | None = None

    async def tell(self, about: Subject, reason: Reason, message: str, *, occasion: str, warning: bool = True) -> bool:
        """Write an Event, see `write`. Return whether nothing is left to do: it is there, or there is no place for it.

        A failure is logged once, until an Event is written or the API server answers otherwise.
        """
        try:
            await self.write(about, reason, message, occasion=occasion, warning=warning)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.leaving:
                return True
            if error.status != self._problem:
                name = f"{about.namespace}/{about.name}" if about.namespace else about.name
                log = structlog.get_logger()
                log.warning("could not write an Event", kind=about.kind, name=name, reason=error.lacking(RIGHT))
            self._problem = error.status
            return False
        self._problem = None
        return True

    async def write(self, about: Subject, reason: Reason, message: str, *, occasion: str, warning: bool = True) -> bool:
        """Write an Event about an object. Return whether there was none for the same occasion. Raises ClusterError.

        occasion: what the name of the Event depends on, so that all replicas together write one.
        """
        # Kubernetes allows no other namespace: pkg/apis/core/validation/events.go.
        namespace = about.namespace or CLUSTER_NAMESPACE
        digest = hashlib.sha256(f"{about.uid}\n{occasion}".encode()).hexdigest()[:16]
        # Some objects have names that no Event may have, such as `system:node`.
        name = about.name[:_LONGEST_NAME]
        stem = name if not dns_subdomain(name) else about.kind.lower()
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{stem}.{digest}", "namespace": namespace},
            "involvedObject": msgspec.to_builtins(about),
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": shortened(printable(message, BLANKS), _LONGEST),
            "source": {"component": "cks-admission"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        path = resource_path("v1", "events", namespace)
        try:
            await self._send(Call("POST", path, body=body, seconds=_SECONDS))
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    def hour(self) -> str:
        """The hour, as an occasion for what is to be said once in an hour."""
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H")
