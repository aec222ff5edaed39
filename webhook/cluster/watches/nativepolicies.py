"""Follows the cluster's own ValidatingAdmissionPolicies: their names, and those that should also apply to templates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import Followers

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

DERIVE = "cks-admission.dev/derive"
"""The label or annotation with which a policy requests this; its value must be `true`."""

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES, _BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"

Json = dict[str, Any]


class NativePolicies(Followers):
    """Policies, whole if they request this, and their bindings. changed: set when any of them may have changed."""

    def __init__(self, api: Connection, clock: Clock | None = None) -> None:
        clock = clock or Clock()
        self.changed = asyncio.Event()
        self._policies = Cache[WholeObject, str, Json](name_of, _asking, self.changed.set)
        self._bindings = Cache[WholeObject, str, Json](name_of, _binding, self.changed.set)
        self._reflectors = (
            Reflector(api, _followed(_POLICIES), f"{_GROUP}/{_POLICIES}", self._policies, clock),
            Reflector(api, _followed(_BINDINGS), f"{_GROUP}/{_BINDINGS}", self._bindings, clock),
        )

    @property
    def known(self) -> Mapping[str, list[Json]]:
        """All policies by name, sorted: one that requests derived rules with its bindings behind it, others empty."""
        policies = {name: [policy] if policy else [] for name, policy in sorted(self._policies.by_key.items())}
        for _, binding in sorted(self._bindings.by_key.items()):
            if policy := policies.get(binding.get("spec", {}).get("policyName", "")):
                policy.append(binding)
        return policies

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons and remedies. A cluster without the kind has no policies."""
        hint = (
            "; a ClusterRole must allow the service's account to list and watch "
            f"{_POLICIES} and {_BINDINGS} in admissionregistration.k8s.io, or set policies.native to false"
        )
        return [
            reason + (hint if reflector.status == 403 else "")
            for reflector in self._reflectors
            if reflector.status != 404
            for reason in reflector.unsynced()
        ]


def _followed(plural: str) -> FollowedResource[WholeObject]:
    return FollowedResource(plural, whole, cached=True)


def _asking(item: WholeObject) -> Json:
    """The policy; nothing of one that does not request this."""
    metadata = item.content.get("metadata") or {}
    places = (metadata.get("annotations") or {}, metadata.get("labels") or {})
    asks = any(place.get(DERIVE) == "true" for place in places)
    return _named(item, "ValidatingAdmissionPolicy") if asks else {}


def _binding(item: WholeObject) -> Json:
    return _named(item, "ValidatingAdmissionPolicyBinding")


def _named(item: WholeObject, kind: str) -> Json:
    """The object with its apiVersion and kind, which the items of a list do not have."""
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **item.content}
