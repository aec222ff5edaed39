"""Policies that kube-apiserver enforces, and that ask for rules for pod templates besides."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.admissionpolicy.document import Document
from policies.admissionpolicy.documents import Loaded, Part, parts, together

if TYPE_CHECKING:
    from webhook.cluster.watches.nativepolicies import NativePolicies


class Natives:
    """The cluster's own policies that ask for derived rules."""

    def __init__(self, policies: NativePolicies) -> None:
        self._policies = policies
        self._known: dict[tuple[str, str], tuple[Part, ...]] = {}

    def read(self) -> Native:
        """What there is now. A policy that cannot be used here is left out: kube-apiserver has its own word on it."""
        known, self._known = self._known, {}
        parts_read: list[Part] = []
        problems: list[str] = []
        version = hashlib.sha256()
        for name, documents in self._policies.known.items():
            group: list[Part] = []
            for value in documents:
                metadata = value["metadata"]
                # Annotations are no part of what the generation counts.
                version_ = metadata.get("uid"), metadata.get("generation"), metadata.get("annotations")
                key = f"{value['kind']} {metadata['name']}", repr(version_)
                version.update(repr(key).encode())
                self._known[key] = known.get(key) or parts(_document(key[0], value))
                group += self._known[key]
            if errors := together(group).errors:
                problems.append(f"no rules for pod templates of {name}: {'; '.join(error.text for error in errors)}")
            else:
                parts_read += group
        return Native(version.hexdigest(), together(parts_read), tuple(problems))

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


def _document(name: str, value: Any) -> Document:
    """An object of the cluster, which has no lines."""
    return Document(value=value, name=name, places=lambda _: (1, 1))
