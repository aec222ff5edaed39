"""Writes Events, by which people see on an object what the service has to say about it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from msgspec import Struct

from policies.engine.violation import shortened
from policies.kubernetes.name import SUBDOMAIN_LENGTH, is_dns_subdomain
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

CLUSTER_NAMESPACE = "default"
"""The namespace of Events about objects without one."""

Reason = Literal[
    "AdmittedUnchanged",
    "CreationRefused",
    "DomainLost",
    "MayWriteLabels",
    "OutsideDomain",
    "Placed",
    "PoliciesLoaded",
    "PoliciesRefused",
    "PolicySlow",
    "Stuck",
    "Waiting",
    "WouldBeRefused",
    "WritesReservedLabels",
]
"""The reasons of all Events; docs/reference/telemetry.md lists them."""

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
    """Writes Events to a cluster."""

    def __init__(self, api: ApiClient, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or Clock()

    async def write(self, about: Subject, reason: Reason, message: str, *, occasion: str, warning: bool = True) -> None:
        """Write an Event about an object, unless there is one for the same occasion. Raises ClusterError.

        occasion: what the name of the Event depends on, so that all replicas together write one.
        """
        now = self._clock.now()
        try:
            await fetch(self._api, creation(about, reason, message, now, occasion=occasion, warning=warning))
        except ApiError as error:
            if error.status != 409:
                raise

    def hour(self) -> str:
        """The hour, as an occasion for what is to be said once in an hour."""
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H")


def creation(
    about: Subject, reason: Reason, message: str, at: datetime, *, occasion: str, warning: bool = True
) -> Call:
    """The request that writes an Event; the API server answers 409 if there is one for the same occasion."""
    # Kubernetes allows no other namespace: pkg/apis/core/validation/events.go.
    namespace = about.namespace or CLUSTER_NAMESPACE
    digest = hashlib.sha256(f"{about.uid}\n{occasion}".encode()).hexdigest()[:16]
    now = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{_stem(about)}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": shortened(message, _LONGEST),
        "source": {"component": "cks-admission"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
    return Call("POST", path, body=body, seconds=_SECONDS)


def _stem(about: Subject) -> str:
    """What the name of an Event begins with. Some objects have names that no Event may have, such as `system:node`."""
    name = about.name[:_LONGEST_NAME]
    return name if is_dns_subdomain(name) else about.kind.lower()
