"""Follows policies in the cluster: its own ones, and ConfigMaps with policies, on which problems are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from msgspec import Struct

from policies.engine.request import mapping
from policies.engine.violation import shortened
from webhook.cluster.api.call import Connection, fetch, merge, resource_path
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.api.events import Events, Reason, Subject
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.reflector import Cache, Following, Reflector
from webhook.registration.resources import ADMISSION, API_VERSION, POLICIES

DERIVE = "cks-admission.dev/derive"
"""The label or annotation with which a policy requests this; its value must be `true`."""

_HEAD = {"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy"}

Json = dict[str, Any]


class NativePolicies(Following):
    """Policies, whole if they request this, and their bindings. changed: set when any of them may have changed."""

    def __init__(self, api: Connection) -> None:
        clock = Clock()
        self.changed = asyncio.Event()
        self._policies = Cache[WholeObject, str, Json](name_of, lambda item: asking(item.content), self.changed.set)
        self._bindings = Cache[WholeObject, str, Json](name_of, lambda item: item.content, self.changed.set)
        right = (
            "a ClusterRole must allow the service's account to list and watch "
            f"{' and '.join(POLICIES.values())} in {ADMISSION}, or set policies.native to false"
        )
        self.parts = [
            Reflector(
                api,
                FollowedResource(plural, whole, cached=True),
                f"/apis/{API_VERSION}/{plural}",
                cache,
                clock,
                right=right,
            )
            for plural, cache in zip(POLICIES.values(), (self._policies, self._bindings), strict=True)
        ]
        self._events = Events(api, clock)
        self._reported: Mapping[str, str] = {}

    @property
    def known(self) -> Mapping[str, list[Json]]:
        """All policies by name, sorted: one that requests derived rules with its bindings behind it, others empty."""
        bindings = [binding for _, binding in sorted(self._bindings.by_key.items())]
        return joined(dict(sorted(self._policies.by_key.items())), bindings)

    async def report(self, refused: Mapping[str, str]) -> None:
        """Write an Event on each policy that cannot be used here, once for a reason. Failures are logged."""
        new = {name: reason for name, reason in refused.items() if self._reported.get(name) != reason}
        self._reported = refused
        for name, reason in new.items():
            metadata = self._policies.by_key.get(name, {}).get("metadata", {})
            about = Subject(API_VERSION, "ValidatingAdmissionPolicy", "", name, metadata.get("uid", ""))
            said = f"It is enforced for what it matches, but there are no rules for pod templates: {reason}"
            await self._events.tell(about, "PoliciesRefused", said, occasion=reason)

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons and remedies. A cluster without the kind has no policies."""
        return [reason for reflector in self.reflectors() for reason in reflector.unsynced()]


def asking(policy: Json) -> Json:
    """The policy with its type, which items of a list lack; nothing of one that does not request derived rules."""
    metadata = policy.get("metadata") or {}
    places = (metadata.get("annotations") or {}, metadata.get("labels") or {})
    return {**_HEAD, **policy} if any(place.get(DERIVE) == "true" for place in places) else {}


def joined(
    policies: Mapping[str, Json], bindings: Iterable[Json], head: Mapping[str, str] = _HEAD
) -> dict[str, list[Json]]:
    """The policies by name, each that is not empty with its bindings behind it. head: the type of the policies."""
    documents = {name: [policy] if policy else [] for name, policy in policies.items()}
    for binding in bindings:
        if of_policy := documents.get((binding.get("spec") or {}).get("policyName", "")):
            of_policy.append({**head, "kind": f"{head['kind']}Binding", **binding})
    return documents


SELECTOR = "cks-admission.dev/policies=true"
REFUSED = "cks-admission.dev/policies-refused"
"""The annotation with the reason why the policies of a ConfigMap are not in force as written."""

_LONGEST = 4096  # of the annotation; it could be longer, but nobody reads that much there
_SECONDS = 15.0


class PolicyMap(Struct, frozen=True):
    """One ConfigMap. refused: the value of its annotation."""

    name: str
    uid: str
    data: Mapping[str, str]
    refused: str


class PolicyMaps(Following):
    """The ConfigMaps of one Namespace with policies. changed: set when any of them may have changed."""

    def __init__(self, api: Connection, namespace: str, clock: Clock | None = None) -> None:
        self.changed = asyncio.Event()
        self.namespace = namespace
        self._api = api
        clock = clock or Clock()
        self._events = Events(api, clock)

        def kept(item: WholeObject) -> PolicyMap:
            about, data = item.content["metadata"], mapping(item.content, "data")
            refused = mapping(about, "annotations").get(REFUSED, "")
            return PolicyMap(item.metadata.name, about.get("uid", ""), data, refused)

        self._known = Cache[WholeObject, str, PolicyMap](name_of, kept, self.changed.set)
        query = (("labelSelector", SELECTOR),)
        resource = FollowedResource("configmaps with policies", whole, query=query, cached=True)
        right = f"a Role in namespace {namespace} must allow the service's account to list and watch configmaps"
        right += ", or set policies.configMaps to false"
        path = resource_path("v1", "configmaps", namespace)
        self.parts = [Reflector(api, resource, path, self._known, clock, right=right)]

    @property
    def known(self) -> Mapping[str, PolicyMap]:
        """The ConfigMaps by name."""
        return self._known.by_key

    async def report(self, name: str, reason: str) -> None:
        """Report in an annotation and an Event why a ConfigMap is refused. An empty reason withdraws the report.

        It does nothing if the annotation already has this reason. Failures are logged.
        """
        known = self.known.get(name)
        text = shortened(reason, _LONGEST)
        if known is None or known.refused == text:
            return
        try:
            path = resource_path("v1", "configmaps", self.namespace, name)
            body = {"metadata": {"annotations": {REFUSED: text or None}}}
            await fetch(self._api, merge(path, body, _SECONDS, "cks-admission"))
        except ClusterError as error:
            structlog.get_logger().warning("could not annotate the ConfigMap", config_map=name, reason=str(error))
            return
        await self._events.tell(
            self._subject(known),
            "PoliciesRefused" if reason else "PoliciesLoaded",
            reason or "The policies are in force.",
            occasion=f"{sorted(known.data.items())}\n{reason}",
            warning=bool(reason),
        )

    async def warn(self, file: str, reason: Reason, message: str) -> None:
        """Write an Event on the ConfigMap with a file, `name/key`, if there is one; at most one in an hour."""
        name, _, key = file.partition("/")
        known = self.known.get(name)
        if known is None or key not in known.data:
            return
        occasion = f"{self._events.hour()}\n{reason}\n{message}"
        await self._events.tell(self._subject(known), reason, message, occasion=occasion)

    def _subject(self, known: PolicyMap) -> Subject:
        return Subject("v1", "ConfigMap", self.namespace, known.name, known.uid)
