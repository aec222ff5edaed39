"""Watches the objects that references to parameters mean; one watch may serve several references."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.evaluation.parameters import ParametersKey, as_kept, label_selector
from policies.engine.match import EVERYTHING, common
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import ServedKind
from webhook.cluster.api.objects import FollowedResource, Metadata, Object, WholeObject, key_of, whole
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

# An object may have up to 1 MB, and of a page that is read here perhaps none is kept.
_PAGE = 100
# Each namespace and selector that a review asks for is one. They are forgotten with each change of an object.
_SELECTIONS = 4096
_SPECIAL = re.compile(r"([\\,=])")
_OBJECT = msgspec.json.Decoder(Object)


class ParamWatch:
    """The objects of some references to parameters of a kind, and no others.

    reach: what is asked of the API server, at least the references. keys: the references. noticed: called with this
    watch after a list has arrived, and after a failure.
    """

    def __init__(
        self,
        api: Connection,
        reach: ParametersKey,
        keys: frozenset[ParametersKey],
        served: ServedKind,
        clock: Clock,
        noticed: Callable[[ParamWatch], None],
    ) -> None:
        self.reach = reach
        self.keys = keys
        self._names = {(key.namespace, key.name) for key in keys if key.name}
        self._selectors = [(key.namespace, key.selector) for key in keys if not key.name and key.selector is not None]
        self._selections: dict[ParametersKey, Sequence[Json]] = {}
        self._objects = Cache[WholeObject, tuple[str, str], Json](key_of, self._kept, self._selections.clear)
        kind = str(ParametersKey(kind=reach.kind))
        # Objects of one name are few. How many and how large others are is not known, so they are read in pages.
        resource = FollowedResource(str(reach), self._read, _PAGE, _query(reach), cached=bool(reach.name), kind=kind)
        self.reflector = Reflector(
            api, resource, served.path(reach.namespace), self._objects, clock, noticed=lambda: noticed(self)
        )
        self.task = asyncio.create_task(self.reflector.run(), name=f"parameters: {reach}")
        self._right = _right(reach, served)

    @property
    def synced(self) -> bool:
        """Whether the first list has arrived."""
        return self.reflector.synced.is_set()

    @property
    def refused(self) -> bool:
        """Whether the service may not watch this."""
        return self.reflector.status == 403

    @property
    def problem(self) -> str | None:
        """Why the objects are not up to date, with a remedy if a right is missing; None if they are."""
        return f"{self.reflector.problem}; {self._right}" if self.refused else self.reflector.problem

    def selected(self, key: ParametersKey) -> Sequence[Json]:
        """The objects in the key's namespace, sorted by name. The key must have the name or selector of a reference."""
        objects = self._objects.by_key
        if key.name:
            return [objects[key.namespace, key.name]] if (key.namespace, key.name) in objects else []
        if key not in self._selections:
            if len(self._selections) >= _SELECTIONS:
                self._selections.clear()
            places = sorted(place for place in objects if place[0] == key.namespace)
            self._selections[key] = [objects[place] for place in places if _selects(key, objects[place])]
        return self._selections[key]

    def _read(self, raw: msgspec.Raw) -> WholeObject:
        """An object, without its content if no reference means it, so that a large kind costs no memory."""
        metadata = _OBJECT.decode(raw).metadata
        return whole(raw) if self._is_meant(metadata) else WholeObject(metadata, {})

    def _is_meant(self, metadata: Metadata) -> bool:
        name, namespace = metadata.name, metadata.namespace
        if (namespace, name) in self._names or ("", name) in self._names:
            return True
        labels = metadata.labels or {}
        return any(place in ("", namespace) and selector.matches(labels) for place, selector in self._selectors)

    def _kept(self, item: WholeObject) -> Json | None:
        return as_kept(item.content, self.reach.kind) if item.content else None


def reach_of(keys: Collection[ParametersKey]) -> ParametersKey:
    """What all references of a kind have in common: the narrowest key with all their objects."""
    first, *others = keys
    namespace = first.namespace if all(key.namespace == first.namespace for key in others) else ""
    if first.name and all(key.name == first.name for key in others):
        return ParametersKey(kind=first.kind, namespace=namespace, name=first.name)
    selector = common(EVERYTHING if key.name or key.selector is None else key.selector for key in keys)
    return ParametersKey(kind=first.kind, namespace=namespace, selector=selector)


def _selects(key: ParametersKey, item: Json) -> bool:
    return key.selector is not None and key.selector.matches(item["metadata"].get("labels") or {})


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
