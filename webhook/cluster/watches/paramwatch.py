"""The watch of one reference to parameters: no wider than the reference."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from policies.admissionpolicy.inputs import Json
from policies.admissionpolicy.params import as_kept
from policies.admissionpolicy.wanted import WantedParameters, label_selector
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import ServedKind
from webhook.cluster.api.objects import Resource, WholeObject, key_of, whole
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

_SPECIAL = re.compile(r"([\\,=])")


class ParamWatch:
    """The objects of one reference, by namespace and name."""

    def __init__(self, api: ApiClient, wanted: WantedParameters, served: ServedKind, clock: Clock) -> None:
        self.objects = Cache[WholeObject, tuple[str, str], Json](
            key_of, lambda item: as_kept(item.content, wanted.kind)
        )
        resource = Resource(str(wanted), whole, query=_query(wanted))
        self.reflector = Reflector(api, resource, served.path(wanted.namespace), self.objects, clock)
        self.task = asyncio.create_task(self.reflector.run(), name=f"parameters: {wanted}")
        self._right = _right(wanted, served)

    @property
    def problem(self) -> str | None:
        """Why it is not up to date, and what to do if a right is missing; None when it is."""
        missing = self.reflector.status == 403
        return f"{self.reflector.problem}; {self._right}" if missing else self.reflector.problem


def _query(wanted: WantedParameters) -> tuple[tuple[str, str], ...]:
    if wanted.name:
        # Escaped as fields.EscapeValue in k8s.io/apimachinery does.
        return (("fieldSelector", "metadata.name=" + _SPECIAL.sub(r"\\\1", wanted.name)),)
    labels = label_selector(wanted.selector) if wanted.selector else ""
    return (("labelSelector", labels),) if labels else ()


def _right(wanted: WantedParameters, served: ServedKind) -> str:
    """What has to be granted."""
    group = wanted.kind.api_version.rpartition("/")[0]
    role = f"a Role in namespace {wanted.namespace}" if wanted.namespace else "a ClusterRole"
    resource = f"{served.resource} of {group}" if group else served.resource
    return f"{role} must allow the service's account to list and watch {resource}"
