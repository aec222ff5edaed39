"""Watches the objects of one reference to parameters, and no others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.evaluation.parameters import ParametersKey, as_kept, label_selector
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import ServedKind
from webhook.cluster.api.objects import FollowedResource, WholeObject, key_of, whole
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

_SPECIAL = re.compile(r"([\\,=])")


class ParamWatch:
    """The objects of one reference to parameters."""

    def __init__(self, api: ApiClient, key: ParametersKey, served: ServedKind, clock: Clock) -> None:
        self._objects = Cache[WholeObject, tuple[str, str], Json](key_of, lambda item: as_kept(item.content, key.kind))
        resource = FollowedResource(str(key), whole, query=_query(key))
        self.reflector = Reflector(api, resource, served.path(key.namespace), self._objects, clock)
        self.task = asyncio.create_task(self.reflector.run(), name=f"parameters: {key}")
        self._right = _right(key, served)

    @property
    def problem(self) -> str | None:
        """Why the objects are not up to date, with a remedy if a right is missing; None if they are."""
        missing = self.reflector.status == 403
        return f"{self.reflector.problem}; {self._right}" if missing else self.reflector.problem

    def selected(self, key: ParametersKey) -> Sequence[Json]:
        """The objects in the key's namespace, sorted by name. The key must have this reference's name or selector."""
        objects = self._objects.by_key
        if key.name:
            return [objects[key.namespace, key.name]] if (key.namespace, key.name) in objects else []
        return [objects[place] for place in sorted(objects) if place[0] == key.namespace]


def _query(key: ParametersKey) -> tuple[tuple[str, str], ...]:
    if key.name:
        # Escaped as by fields.EscapeValue in k8s.io/apimachinery.
        return (("fieldSelector", "metadata.name=" + _SPECIAL.sub(r"\\\1", key.name)),)
    labels = label_selector(key.selector) if key.selector else ""
    return (("labelSelector", labels),) if labels else ()


def _right(key: ParametersKey, served: ServedKind) -> str:
    """The right that has to be granted."""
    group = key.kind.api_version.rpartition("/")[0]
    role = f"a Role in namespace {key.namespace}" if key.namespace else "a ClusterRole"
    resource = f"{served.resource} of {group}" if group else served.resource
    return f"{role} must allow the service's account to list and watch {resource}"
