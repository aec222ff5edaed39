"""ConfigMaps with admission policies: followed by their label, and told what is wrong with them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct

from policies.kubernetes.name import SUBDOMAIN_LENGTH
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.objects import ConfigMapObject, FollowedResource, name_of
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import Followers

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

SELECTOR = "cks-admission.dev/policies=true"
REFUSED = "cks-admission.dev/policies-refused"
"""The annotation that says why the policies of a ConfigMap are not in force as they stand in it."""

# As much as Kubernetes lets an Event's note have; the annotation may say more, but nobody reads a page of it there.
_LONGEST_EVENT, _LONGEST_ANNOTATION = 1024, 4096
_LONGEST_NAME = SUBDOMAIN_LENGTH - 17  # with a dot and a digest it is a name still
_SECONDS = 15.0


class PolicyMap(Struct, frozen=True):
    """One ConfigMap. refused: what its annotation says."""

    name: str
    uid: str
    data: Mapping[str, str]
    refused: str


class PolicyMaps(Followers):
    """The ConfigMaps of one Namespace that hold policies. changed: set when any of them may be another one."""

    def __init__(self, api: ApiClient, namespace: str, clock: Clock | None = None) -> None:
        self.changed = asyncio.Event()
        self._api = api
        self._clock = clock or Clock()
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        self.namespace = namespace
        self._known = Cache[ConfigMapObject, str, PolicyMap](name_of, _policy_map, self.changed.set)
        resource = FollowedResource(
            "configmaps with policies",
            msgspec.json.Decoder(ConfigMapObject).decode,
            query=(("labelSelector", SELECTOR),),
        )
        self._reflector = Reflector(api, resource, f"{self._path}/configmaps", self._known, self._clock)
        self._reflectors = (self._reflector,)
        self._log = structlog.get_logger()

    @property
    def known(self) -> Mapping[str, PolicyMap]:
        """Those that there are, by name."""
        return self._known.by_key

    def unsynced(self) -> list[str]:
        """Why nothing is known yet, and what to do where a right is missing."""
        right = f"; a Role in namespace {self.namespace} must allow the service's account to list and watch configmaps"
        hint = f"{right}, or set policies.configMaps to false" if self._reflector.status == 403 else ""
        return [reason + hint for reason in self._reflector.unsynced()]

    async def report(self, name: str, reason: str) -> None:
        """Say in an annotation and an Event why a ConfigMap was refused; with no reason that all is well again.

        Nothing is done where the annotation says so already. What fails is logged.
        """
        known = self.known.get(name)
        text = _cut(reason, _LONGEST_ANNOTATION)
        if known is None or known.refused == text:
            return
        try:
            await self._annotate(name, text)
            await self._event(known, reason)
        except ClusterError as error:
            self._log.warning("a ConfigMap could not be told", config_map=name, reason=str(error))

    async def _annotate(self, name: str, text: str) -> None:
        await fetch(
            self._api,
            Call(
                "PATCH",
                f"{self._path}/configmaps/{quote(name, safe='')}",
                query=(("fieldManager", "cks-admission"),),
                content_type="application/merge-patch+json",
                body={"metadata": {"annotations": {REFUSED: text or None}}},
                seconds=_SECONDS,
            ),
        )

    async def _event(self, known: PolicyMap, reason: str) -> None:
        """One Event for all replicas: it is named after what it says."""
        said = hashlib.sha256(f"{known.uid}\n{sorted(known.data.items())}\n{reason}".encode()).hexdigest()[:16]
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{known.name[:_LONGEST_NAME]}.{said}", "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "namespace": self.namespace,
                "name": known.name,
                "uid": known.uid,
            },
            "type": "Warning" if reason else "Normal",
            "reason": "PoliciesRefused" if reason else "PoliciesLoaded",
            "message": _cut(reason or "The policies are in force as they stand here.", _LONGEST_EVENT),
            "source": {"component": "cks-admission"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await fetch(self._api, Call("POST", f"{self._path}/events", body=body, seconds=_SECONDS))
        except ApiError as error:
            if error.status != 409:
                raise


def _policy_map(item: ConfigMapObject) -> PolicyMap:
    annotations = item.metadata.annotations or {}
    return PolicyMap(item.metadata.name, item.metadata.uid, item.data or {}, annotations.get(REFUSED, ""))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
