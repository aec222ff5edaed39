"""Policies that kube-apiserver enforces, and that ask for rules for pod templates besides."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.admissionpolicy.document import Document
from policies.admissionpolicy.documents import Loaded, Part, parts, together
from policies.engine.request import JsonObject

if TYPE_CHECKING:
    from webhook.cluster.watches.nativepolicies import NativePolicies


Cache = Mapping[tuple[str, str], tuple[Part, ...]]
"""What objects hold, by their names and versions."""


class Natives:
    """The cluster's own policies that ask for derived rules."""

    def __init__(self, policies: NativePolicies) -> None:
        self._policies = policies
        self._cache: Cache = {}

    def read(self) -> Native:
        """What there is now."""
        native, self._cache = read(self._policies.known, self._cache)
        return native

    async def changes(self) -> AsyncIterator[None]:
        """Something was added, changed or deleted."""
        while True:
            await self._policies.changed.wait()
            self._policies.changed.clear()
            yield


class Native(NamedTuple):
    """The policies with their bindings, and what is wrong with others."""

    version: str = ""
    loaded: Loaded = Loaded()
    problems: tuple[str, ...] = ()


def read(policies: Mapping[str, Sequence[JsonObject]], cache: Cache) -> tuple[Native, Cache]:
    """What policies, each with its bindings, come to; and what to hand over as the cache next time.

    A policy that cannot be used here is left out: kube-apiserver has its own word on it.
    """
    usable: list[Part] = []
    problems: list[str] = []
    read_now: dict[tuple[str, str], tuple[Part, ...]] = {}
    version = hashlib.sha256()
    for name, documents in policies.items():
        group: list[Part] = []
        for value in documents:
            metadata = value["metadata"]
            # Annotations are no part of what the generation counts.
            object_version = metadata.get("uid"), metadata.get("generation"), metadata.get("annotations")
            key = f"{value['kind']} {metadata['name']}", repr(object_version)
            version.update(repr(key).encode())
            read_now[key] = cache.get(key) or parts(_document(key[0], value))
            group += read_now[key]
        if errors := together(group).errors:
            problems.append(f"no rules for pod templates of {name}: {'; '.join(error.text for error in errors)}")
        else:
            usable += group
    return Native(version.hexdigest(), together(usable), tuple(problems)), read_now


def _document(name: str, value: Any) -> Document:
    """An object of the cluster, which has no lines."""
    return Document(value=value, name=name, places=lambda _: (1, 1))
